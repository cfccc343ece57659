"""The activity's side: decorator, context, cancellation, heartbeats."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import activity
from perdure._definitions import ActivityDefinition, activity_definition
from perdure.common import Priority
from perdure.converter import PayloadConverter
from perdure.errors import CancelledError, PayloadDecodeError

CONVERTER = PayloadConverter()


@activity.defn
async def charge(amount: int, currency: str = "EUR") -> str:
    return f"{amount} {currency}"


@activity.defn(name="send mail")
def send(*to: str) -> None: ...


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @activity.defn
    def open(self, day: int) -> str:
        return f"{self.name} {day}"


@activity.defn
class Caller:
    async def __call__(self, number: int) -> int:
        return number + 1


def test_decorated_functions_can_still_be_called() -> None:
    assert asyncio.run(charge(5)) == "5 EUR"
    assert Shop("a").open(1) == "a 1"
    assert asyncio.run(Caller()(1)) == 2


@pytest.mark.parametrize(
    ("function", "name", "is_async", "hints", "result", "arity"),
    [
        (charge, "charge", True, (int, str), str, (1, 2)),
        (send, "send mail", False, (), type(None), (0, None)),
        (Shop("a").open, "open", False, (int,), str, (1, 1)),
        (Caller(), "Caller", True, (int,), int, (1, 1)),
    ],
)
def test_definitions(
    function: Any, name: str, is_async: bool, hints: Any, result: Any, arity: Any
) -> None:
    definition = activity_definition(function)

    assert definition.name == name == ActivityDefinition.attached_to(function).name
    assert definition.is_async is is_async
    assert definition.signature.hints == hints
    assert definition.signature.result is result
    assert definition.signature.arity == arity


def test_arguments_are_decoded_and_the_function_called_as_registered() -> None:
    definition = activity_definition(Shop("a").open)
    args = definition.signature.decode(CONVERTER.to_payloads([3]), CONVERTER)

    assert definition.function(*args) == "a 3"
    with pytest.raises(PayloadDecodeError, match=r"Shop\.open cannot take 2 argument"):
        definition.signature.decode(CONVERTER.to_payloads([3, 4]), CONVERTER)


def keyword_only(*, name: str) -> None: ...


async def generator() -> Any:
    yield 1


@pytest.mark.parametrize("function", [keyword_only, generator, print, 3, type("Bare", (), {})])
def test_what_cannot_be_an_activity(function: Any) -> None:
    with pytest.raises(TypeError):
        activity.defn(function)


@pytest.mark.parametrize(("function", "said"), [(print, "decorate it"), (Caller, "an object of")])
def test_what_cannot_be_registered(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        activity_definition(function)


def test_names_of_the_engine_are_refused() -> None:
    with pytest.raises(TypeError, match="engine's own"):
        activity.defn(name="__mine")(keyword_only_default)


def keyword_only_default(*, name: str = "x") -> None: ...


def test_a_hint_that_does_not_resolve_is_named() -> None:
    @activity.defn
    def odd(value: "Unknown") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(PayloadDecodeError, match="odd cannot be resolved"):
        _ = activity_definition(odd).signature.hints


# --- the context ----------------------------------------------------------------------------------


def make_info() -> activity.Info:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    return activity.Info(
        activity_id="1",
        activity_type="charge",
        attempt=2,
        heartbeat_details=[1],
        heartbeat_timeout=None,
        idempotency_key="key",
        is_local=False,
        namespace="default",
        priority=Priority(),
        retry_policy=None,
        schedule_to_close_timeout=None,
        scheduled_time=when,
        start_to_close_timeout=timedelta(seconds=1),
        started_time=when,
        task_queue="q",
        task_token=b"t",
        workflow_id="w",
        workflow_namespace="default",
        workflow_run_id="r",
        workflow_type="W",
        headers={},
    )


class Attempt:
    def __init__(self) -> None:
        self.beats: list[tuple[Any, ...]] = []
        self.context = activity._Context(
            info=make_info, payload_converter=CONVERTER, send_heartbeat=self.beats.append
        )

    def run(self, function: Callable[[], Any]) -> Any:
        def inside() -> Any:
            activity._enter(self.context)
            return function()

        return contextvars.copy_context().run(inside)


def test_the_context_is_that_of_the_attempt() -> None:
    attempt = Attempt()

    assert attempt.run(lambda: activity.info().idempotency_key) == "key"
    assert attempt.run(lambda: activity.info() is activity.info())
    assert attempt.run(activity.in_activity)
    assert attempt.run(activity.payload_converter) is CONVERTER
    assert not activity.in_activity()


@pytest.mark.parametrize(
    "function",
    [activity.info, activity.heartbeat, activity.is_cancelled, activity.raise_if_cancelled],
)
def test_outside_there_is_none(function: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="not in an activity"):
        function()


def test_heartbeats_reach_the_worker() -> None:
    attempt = Attempt()
    attempt.run(lambda: activity.heartbeat(1, "x"))

    assert attempt.beats == [(1, "x")]


def test_cancellation_is_seen_by_who_asks() -> None:
    attempt = Attempt()
    attempt.run(activity.raise_if_cancelled)
    assert not attempt.run(activity.is_cancelled)
    assert not attempt.run(lambda: activity.wait_for_cancelled_sync(timedelta(0)))

    attempt.context.request_cancel()

    assert attempt.run(activity.is_cancelled)
    assert attempt.run(activity.wait_for_cancelled_sync)
    with pytest.raises(CancelledError):
        attempt.run(activity.raise_if_cancelled)


def test_cancellation_wakes_who_waits_in_a_thread() -> None:
    attempt = Attempt()
    waiting = threading.Event()
    woken: list[bool] = []

    def work() -> None:
        waiting.set()
        woken.append(activity.wait_for_cancelled_sync(60))

    thread = threading.Thread(target=attempt.run, args=(work,))
    thread.start()
    waiting.wait()
    attempt.context.request_cancel()
    thread.join()
    assert woken == [True]


def test_the_shutdown_of_the_worker_is_seen_too() -> None:
    attempt = Attempt()
    assert not attempt.run(activity.is_worker_shutdown)
    assert not attempt.run(lambda: activity.wait_for_worker_shutdown_sync(0))
    attempt.context.begin_shutdown()
    assert attempt.run(activity.is_worker_shutdown)


def test_the_logger_says_which_attempt_speaks(caplog: pytest.LogCaptureFixture) -> None:
    Attempt().run(lambda: activity.logger.warning("hello"))
    activity.logger.warning("outside")

    assert caplog.messages[0].startswith("hello ({'activity_id': '1'")
    assert caplog.records[0].perdure_activity["attempt"] == 2  # type: ignore[attr-defined]
    assert caplog.messages[1] == "outside"
