"""Local activities on the worker: attempts, retries and time limits, without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from perdure import activity
from perdure._definitions import activity_definition
from perdure._failure_info import ApplicationInfo, CanceledInfo, TimeoutInfo
from perdure._replay.messages import LocalActivityOutcome, LocalActivityTask
from perdure._worker.local_activities import LocalActivities, Origin
from perdure._worker.local_retries import RESULT_BYTES_MAX, Deadlines, next_backoff_ms
from perdure.common import RetryPolicy
from perdure.converter import DataConverter
from perdure.errors import ApplicationError, CancelledError, RetryState, TimeoutError, TimeoutType

CONVERTER = DataConverter.default.payload_converter
ORIGIN = Origin("w-1", "r-1", "Order")
NOW_US = 1_700_000_000_000_000
TASK = LocalActivityTask(
    activity_id="1",
    activity_type="work",
    input=[],
    schedule_to_close_timeout_ms=0,
    schedule_to_start_timeout_ms=0,
    start_to_close_timeout_ms=10_000,
    retry_policy=None,
    local_retry_threshold_ms=10_000,
    attempt=1,
    scheduled_time_us=NOW_US,
)


def task(**changes: Any) -> LocalActivityTask:
    return msgspec.structs.replace(TASK, **changes)


@asynccontextmanager
async def room(
    function: Callable[..., Any], *, at_once_max: int = 10
) -> AsyncIterator[LocalActivities]:
    definition = activity_definition(activity.defn(name="work")(function))
    with ThreadPoolExecutor(4) as executor:
        local = LocalActivities(
            {"work": definition},
            namespace="default",
            task_queue="q",
            converter=CONVERTER,
            executor=executor,
            at_once_max=at_once_max,
            now_us=lambda: NOW_US,
        )
        yield local
        local.give_up()
        await local.wait_ended()


async def outcome_of(local: LocalActivities, wanted: LocalActivityTask) -> LocalActivityOutcome:
    done: asyncio.Future[LocalActivityOutcome] = asyncio.get_running_loop().create_future()
    local.start(ORIGIN, wanted, done.set_result)
    async with asyncio.timeout(10):
        return await done


def kind_of(outcome: LocalActivityOutcome) -> Any:
    assert outcome.failure is not None
    return outcome.failure.info


async def test_short_back_offs_are_waited_for_and_counted() -> None:
    attempts: list[int] = []

    async def work() -> str:
        attempts.append(activity.info().attempt)
        if len(attempts) < 3:
            raise ValueError("not yet")
        return "done"

    policy = RetryPolicy(initial_interval=timedelta(milliseconds=1))
    async with room(work) as local:
        outcome = await outcome_of(local, task(retry_policy=policy))

    assert attempts == [1, 2, 3]
    assert (outcome.attempt, outcome.failure) == (3, None)
    assert CONVERTER.from_payloads(outcome.result) == ["done"]


async def test_a_long_back_off_is_left_to_the_workflow() -> None:
    async def work() -> None:
        raise ValueError("not yet")

    policy = RetryPolicy(initial_interval=timedelta(seconds=5))
    async with room(work) as local:
        outcome = await outcome_of(
            local, task(retry_policy=policy, local_retry_threshold_ms=4_999, attempt=2)
        )

    assert (outcome.attempt, outcome.backoff_ms, outcome.retry_state) == (2, 10_000, None)
    assert kind_of(outcome).type == "ValueError"


async def test_an_activity_that_is_not_there_says_which_are() -> None:
    policy = RetryPolicy(maximum_attempts=1)
    async with room(lambda: None) as local:
        outcome = await outcome_of(local, task(activity_type="other", retry_policy=policy))

    assert outcome.retry_state is RetryState.MAXIMUM_ATTEMPTS_REACHED
    assert outcome.failure is not None
    assert "'other' is not registered here; known: work" in outcome.failure.message


async def test_a_result_that_no_engine_would_take_fails_the_activity_for_good() -> None:
    """It would fail the workflow task otherwise, and the next one would run the activity again."""

    async def work() -> bytes:
        return bytes(RESULT_BYTES_MAX + 1)

    async with room(work) as local:
        outcome = await outcome_of(local, TASK)

    assert outcome.result == []
    assert kind_of(outcome) == ApplicationInfo(type="ResultRefusedError", non_retryable=True)
    assert outcome.retry_state is RetryState.NON_RETRYABLE_FAILURE


async def test_a_thread_hears_of_its_cancellation_and_tells_what_it_did() -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        assert activity.wait_for_cancelled_sync(10)
        raise CancelledError("cleaned up", "a detail")

    done: asyncio.Future[LocalActivityOutcome] = loop.create_future()
    async with room(work) as local:
        one = local.start(ORIGIN, TASK, done.set_result)
        await begun.wait()
        one.cancel()
        outcome = await done

    assert kind_of(outcome) == CanceledInfo(details=CONVERTER.to_payloads(["a detail"]))
    assert outcome.retry_state is RetryState.CANCEL_REQUESTED


async def test_one_that_finishes_although_it_was_asked_to_stop_has_finished() -> None:
    begun = asyncio.Event()

    async def work() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished"
        return ""

    done: asyncio.Future[LocalActivityOutcome] = asyncio.get_running_loop().create_future()
    async with room(work) as local:
        one = local.start(ORIGIN, TASK, done.set_result)
        await begun.wait()
        one.cancel()
        outcome = await done

    assert CONVERTER.from_payloads(outcome.result) == ["finished"]


async def test_nothing_is_told_of_one_that_was_dropped() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    told: list[LocalActivityOutcome] = []
    async with room(work) as local:
        one = local.start(ORIGIN, TASK, told.append)
        await begun.wait()
        one.drop()
        await local.wait_ended()

    assert told == []


async def test_one_that_finds_no_place_in_time_is_not_begun() -> None:
    begun: list[str] = []
    go_on = asyncio.Event()

    async def work(name: str) -> None:
        begun.append(name)
        await go_on.wait()

    async with room(work, at_once_max=1) as local:
        first: asyncio.Future[LocalActivityOutcome] = asyncio.get_running_loop().create_future()
        local.start(ORIGIN, task(input=CONVERTER.to_payloads(["first"])), first.set_result)
        second = await outcome_of(
            local,
            task(
                activity_id="2",
                input=CONVERTER.to_payloads(["second"]),
                schedule_to_start_timeout_ms=5,
            ),
        )
        go_on.set()
        assert (await first).failure is None

    assert begun == ["first"]
    assert kind_of(second) == TimeoutInfo(timeout_type=TimeoutType.SCHEDULE_TO_START)
    assert second.retry_state is RetryState.TIMEOUT


async def test_the_places_of_what_has_ended_are_free_again() -> None:
    async def work() -> None:
        raise ApplicationError("no", non_retryable=True)

    async with room(work, at_once_max=1) as local:
        for _ in range(3):
            assert (await outcome_of(local, TASK)).failure is not None


# ---- when it is tried again


def verdict(error: BaseException, attempt: int = 1, **changes: Any) -> int | RetryState:
    wanted = task(**changes)
    return next_backoff_ms(wanted, attempt, error, Deadlines(wanted, lambda: NOW_US))


POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    maximum_attempts=4,
    maximum_interval=timedelta(seconds=3),
    non_retryable_error_types=["KeyError"],
)


@pytest.mark.parametrize(
    ("error", "changes", "expected"),
    [
        (ValueError(), {}, 1_000),
        (ValueError(), {"attempt": 3}, 4_000),
        (ValueError(), {"attempt": 3, "retry_policy": POLICY}, 3_000),
        (ValueError(), {"attempt": 2_000}, 100_000),
        (
            ValueError(),
            {"attempt": 4, "retry_policy": POLICY},
            RetryState.MAXIMUM_ATTEMPTS_REACHED,
        ),
        (KeyError(), {"retry_policy": POLICY}, RetryState.NON_RETRYABLE_FAILURE),
        (
            ApplicationError("", type="KeyError"),
            {"retry_policy": POLICY},
            RetryState.NON_RETRYABLE_FAILURE,
        ),
        (ApplicationError("", non_retryable=True), {}, RetryState.NON_RETRYABLE_FAILURE),
        (ApplicationError("", next_retry_delay=timedelta(seconds=7)), {}, 7_000),
        (CancelledError(), {}, RetryState.NON_RETRYABLE_FAILURE),
        (TimeoutError("", type=TimeoutType.START_TO_CLOSE), {}, 1_000),
        (TimeoutError("", type=TimeoutType.SCHEDULE_TO_CLOSE), {}, RetryState.TIMEOUT),
        (ValueError(), {"schedule_to_close_timeout_ms": 1_000}, RetryState.TIMEOUT),
        (ValueError(), {"schedule_to_close_timeout_ms": 1_001}, 1_000),
    ],
)
def test_when_it_is_tried_again(
    error: BaseException, changes: dict[str, Any], expected: int | RetryState
) -> None:
    assert verdict(error, **changes) == expected
