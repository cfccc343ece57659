"""Activities in workflow code: commands out, outcomes in, live and replayed alike."""

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names, value_of

from perdure import activity, workflow
from perdure._failure_info import ActivityInfo, ApplicationInfo
from perdure._replay.messages import FailWorkflow, ScheduleActivity
from perdure.common import Priority, RetryPolicy
from perdure.errors import ActivityError, ApplicationError

LIMIT = timedelta(seconds=10)


@dataclass
class Receipt:
    number: int


@activity.defn
async def charge(amount: int) -> Receipt:
    return Receipt(amount)


@activity.defn(name="post")
def send(to: str, subject: str = "hello") -> str:
    return f"{to}: {subject}"


class Mail:
    @activity.defn
    async def deliver(self, to: str) -> str:
        return to


@workflow.defn
class Charging:
    @workflow.run
    async def run(self, amount: int) -> int:
        receipt = await workflow.execute_activity(charge, amount, start_to_close_timeout=LIMIT)
        return receipt.number + 1


def test_an_activity_is_scheduled_and_its_result_decoded_by_its_hint() -> None:
    run = PocketEngine(Charging, 7)

    (command,) = run.task()
    assert isinstance(command, ScheduleActivity)
    assert (command.activity_id, command.activity_type) == ("1", "charge")
    assert value_of(command.input) == 7
    assert command.start_to_close_timeout_ms == 10_000

    run.complete("1", Receipt(41))
    assert names(run.task()) == ["CompleteWorkflow 42"]
    assert names(run.replay()) == ["CompleteWorkflow 42"]


def test_a_failed_activity_raises_activity_error_with_its_cause() -> None:
    @workflow.defn
    class Catching:
        @workflow.run
        async def run(self) -> str:
            try:
                await workflow.execute_activity(charge, 1, start_to_close_timeout=LIMIT)
            except ActivityError as error:
                cause = cast("ApplicationError", error.cause)
                return f"{error.activity_type}: {cause.type}: {cause.message}"
            return "not reached"

    run = PocketEngine(Catching)
    run.task()
    run.fail("1", ApplicationError("no money", type="Poor"))

    assert names(run.task()) == ["CompleteWorkflow charge: Poor: no money"]
    assert names(run.replay()) == ["CompleteWorkflow charge: Poor: no money"]


def test_an_activity_error_that_nobody_catches_fails_the_run_with_its_causes() -> None:
    run = PocketEngine(Charging, 1)
    run.task()
    run.fail("1", ApplicationError("no money", 5, type="Poor"))

    (command,) = run.task()

    assert isinstance(command, FailWorkflow)
    assert isinstance(command.failure.info, ActivityInfo)
    assert command.failure.cause is not None
    assert isinstance(command.failure.cause.info, ApplicationInfo)
    assert command.failure.cause.info.type == "Poor"
    assert value_of(command.failure.cause.info.details) == 5


def test_every_option_travels() -> None:
    policy = RetryPolicy(maximum_attempts=3)

    @workflow.defn
    class Detailed:
        @workflow.run
        async def run(self) -> None:
            await workflow.execute_activity(
                send,
                "bob",
                task_queue="mail",
                schedule_to_close_timeout=timedelta(minutes=1),
                schedule_to_start_timeout=timedelta(seconds=5),
                start_to_close_timeout=timedelta(microseconds=1),
                heartbeat_timeout=timedelta(milliseconds=1500),
                retry_policy=policy,
                activity_id="mine",
                priority=Priority(priority_key=2),
            )

    (command,) = PocketEngine(Detailed).task()

    assert isinstance(command, ScheduleActivity)
    assert (command.activity_id, command.activity_type) == ("mine", "post")
    assert command.task_queue == "mail"
    assert command.schedule_to_close_timeout_ms == 60_000
    assert command.schedule_to_start_timeout_ms == 5_000
    assert command.start_to_close_timeout_ms == 1  # rounded up: 0 would be none at all
    assert command.heartbeat_timeout_ms == 1_500
    assert command.retry_policy is policy
    assert command.priority == 2


def call_by_name() -> Awaitable[Receipt]:
    return workflow.execute_activity("charge", 5, result_type=Receipt, start_to_close_timeout=LIMIT)


def call_with_args() -> Awaitable[Any]:
    return workflow.execute_activity(send, args=["bob", "hi"], start_to_close_timeout=LIMIT)


def call_method() -> Awaitable[str]:
    return workflow.execute_activity_method(Mail.deliver, "bob", start_to_close_timeout=LIMIT)


def call_bound_method() -> Awaitable[str]:
    return workflow.execute_activity(Mail().deliver, "bob", start_to_close_timeout=LIMIT)


@pytest.mark.parametrize(
    ("call", "name", "arguments", "result"),
    [
        (call_by_name, "charge", [5], Receipt(9)),
        (call_with_args, "post", ["bob", "hi"], "sent"),
        (call_method, "deliver", ["bob"], "sent"),
        (call_bound_method, "deliver", ["bob"], "sent"),
    ],
)
def test_each_way_of_calling(call: Any, name: str, arguments: list[Any], result: Any) -> None:
    seen: list[Any] = []

    @workflow.defn
    class Calling:
        @workflow.run
        async def run(self) -> None:
            seen.append(await call())

    run = PocketEngine(Calling)
    (command,) = run.task()
    assert isinstance(command, ScheduleActivity)
    assert command.activity_type == name
    assert [value_of([one]) for one in command.input] == arguments

    run.complete("1", result)
    run.task()
    assert seen == [result]


@workflow.defn
class Careless:
    @workflow.run
    async def run(self, what: str) -> str:
        try:
            if what == "no timeout":
                await workflow.execute_activity(charge, 1)
            elif what == "negative":
                await workflow.execute_activity(charge, 1, start_to_close_timeout=-LIMIT)
            else:
                await workflow.execute_activity(len, "x", start_to_close_timeout=LIMIT)
        except (ValueError, TypeError) as error:
            return str(error)
        return ""


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("no timeout", "start_to_close_timeout or schedule_to_close_timeout"),
        ("negative", "must not be negative"),
        ("undecorated", "decorate it with @activity.defn"),
    ],
)
def test_what_cannot_be_called_is_refused_in_the_callers_line(what: str, said: str) -> None:
    (name,) = names(PocketEngine(Careless, what).task())

    assert name.startswith("CompleteWorkflow ")
    assert said in name


def test_started_activities_run_side_by_side_and_finish_in_any_order() -> None:
    @workflow.defn
    class FanOut:
        @workflow.run
        async def run(self) -> list[str]:
            handles = [
                workflow.start_activity(send, name, start_to_close_timeout=LIMIT) for name in "abc"
            ]
            return [await handle for handle in reversed(handles)]

    run = PocketEngine(FanOut)
    assert names(run.task()) == [f"ScheduleActivity {n} post" for n in "123"]
    run.complete("2", "B")
    assert run.task() == []
    run.complete("1", "A")
    run.complete("3", "C")

    assert names(run.task()) == ["CompleteWorkflow ['C', 'B', 'A']"]
    assert names(run.replay()) == ["CompleteWorkflow ['C', 'B', 'A']"]


def test_a_result_that_does_not_decode_fails_the_task_and_not_the_run() -> None:
    run = PocketEngine(Charging, 1)
    run.task()
    run.complete("1", {"nonsense": True})

    failure = run.failed_task()

    assert failure.cause.name == "PAYLOAD_DECODE"
    assert "Receipt" in failure.failure.message
    assert "event 6, the result of activity 'charge': " in failure.failure.message
