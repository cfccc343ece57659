"""Local activities: what the worker is asked, in which order the code hears, and that a replay repeats it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import CONVERTER, PocketEngine, names

from perdure import activity, workflow
from perdure._failures import exception_to_failure
from perdure._replay.messages import (
    LocalActivityOutcome,
    LocalWork,
    Query,
    TaskFailure,
    TaskSuccess,
)
from perdure.common import RetryPolicy
from perdure.errors import ActivityError, CancelledError, RetryState
from perdure.workflow import ActivityCancellationType as Type

LIMIT = timedelta(seconds=10)


@activity.defn
async def look_up(key: str) -> str:
    return key


def begin(key: str, **options: Any) -> workflow.ActivityHandle[str]:
    return workflow.start_local_activity(look_up, key, start_to_close_timeout=LIMIT, **options)


@workflow.defn
class Sequential:
    @workflow.run
    async def run(self) -> str:
        first = await begin("a")
        await workflow.sleep(1)
        return first + await begin("b")


def work_of(outcome: TaskSuccess | TaskFailure) -> LocalWork:
    assert isinstance(outcome, TaskSuccess), outcome.failure
    assert outcome.local is not None
    return outcome.local


def started(outcome: TaskSuccess | TaskFailure) -> list[str]:
    return [f"{task.activity_id} {task.activity_type}" for task in work_of(outcome).start]


def test_the_task_stays_open_until_nothing_local_is_waited_for() -> None:
    run = PocketEngine(Sequential)
    outcome = run.run_task()
    assert started(outcome) == ["1 look_up"]
    assert work_of(outcome).waits
    assert isinstance(outcome, TaskSuccess)
    assert outcome.commands == []

    done = run.local("1", "A")

    assert names(done.commands) == ["RecordMarker local_activity 1", "StartTimer 1 1000"]
    assert not work_of(done).waits
    run.fire("1")
    assert started(run.run_task()) == ["2 look_up"]
    assert names(run.local("2", "B").commands) == [
        "RecordMarker local_activity 2",
        "CompleteWorkflow AB",
    ]


def test_a_replay_takes_the_results_from_the_markers() -> None:
    run = PocketEngine(Sequential)
    run.run_task()
    run.local("1", "A")
    run.fire("1")
    run.run_task()
    run.local("2", "B")

    assert isinstance(run.replay_all(), TaskSuccess)


def test_a_worker_that_takes_over_runs_what_has_no_marker() -> None:
    run = PocketEngine(Sequential)
    run.run_task()
    run.local("1", "A")
    run.fire("1")
    run.begin_task()

    assert started(run.replay_outcome()) == ["2 look_up"]


@workflow.defn
class Racing:
    @workflow.run
    async def run(self) -> list[str]:
        order: list[str] = []

        async def one(key: str) -> None:
            order.append(await begin(key))
            await workflow.sleep(1)

        await asyncio.gather(one("a"), one("b"), one("c"))
        return order


@pytest.mark.parametrize("order", [["1", "2", "3"], ["3", "1", "2"], ["2", "3", "1"]])
def test_the_order_of_the_outcomes_is_that_of_the_markers(order: list[str]) -> None:
    run = PocketEngine(Racing)
    run.run_task()
    done = [run.local(one, one.upper()) for one in order][-1]
    expected = [
        text
        for number, one in enumerate(order, start=1)
        for text in (f"RecordMarker local_activity {one}", f"StartTimer {number} 1000")
    ]
    assert names(done.commands) == expected
    for number in ("1", "2", "3"):
        run.fire(number)

    assert names(run.task()) == [f"CompleteWorkflow {order}"]
    assert names(run.replay()) == [f"CompleteWorkflow {order}"]


def test_a_task_that_yields_leaves_them_running() -> None:
    run = PocketEngine(Racing)
    run.run_task()
    run.local("2", "B")

    assert names(run.yield_task()) == ["RecordMarker local_activity 2", "StartTimer 1 1000"]
    run.early_local("3", "C")  # before the next task is there
    run.fire("1")
    outcome = run.run_task()

    assert started(outcome) == []  # the worker has it already
    done = run.local("1", "A")
    assert names(done.commands) == [
        "RecordMarker local_activity 3",
        "StartTimer 2 1000",
        "RecordMarker local_activity 1",
        "StartTimer 3 1000",
    ]
    run.fire("2")
    run.fire("3")
    assert names(run.task()) == ["CompleteWorkflow ['B', 'C', 'A']"]
    assert names(run.replay()) == ["CompleteWorkflow ['B', 'C', 'A']"]


def test_signals_are_heard_between_yields_in_the_order_of_the_history() -> None:
    @workflow.defn
    class Listening:
        def __init__(self) -> None:
            self.heard: list[str] = []

        @workflow.signal
        def say(self, word: str) -> None:
            self.heard.append(word)

        @workflow.run
        async def run(self) -> list[str]:
            self.heard.append(await begin("a"))
            return self.heard

    run = PocketEngine(Listening)
    run.run_task()
    run.yield_task()
    run.signal("say", "signal")
    run.early_local("1", "local")

    assert names(run.task())[-1] == "CompleteWorkflow ['signal', 'local']"
    assert isinstance(run.replay_all(), TaskSuccess)


def failure(error: Exception) -> Any:
    return exception_to_failure(error, CONVERTER)


@workflow.defn
class Catching:
    @workflow.run
    async def run(self) -> str:
        try:
            return await begin("a", retry_policy=RetryPolicy(maximum_attempts=2))
        except ActivityError as error:
            return f"{error.retry_state} {error.activity_type} {error.cause}"


def test_a_failure_is_an_activity_error_with_its_cause() -> None:
    run = PocketEngine(Catching)
    run.run_task()
    done = run.local(
        "1",
        failure=failure(ValueError("no")),
        attempt=2,
        retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
    )
    expected = ["RecordMarker local_activity 1", "CompleteWorkflow 4 look_up ValueError: no"]

    assert names(done.commands) == expected
    assert isinstance(run.replay_all(), TaskSuccess)


def test_a_long_back_off_is_a_timer_and_then_the_next_attempt() -> None:
    run = PocketEngine(Catching)
    run.run_task()
    done = run.local("1", failure=failure(ValueError("no")), backoff_ms=60_000)
    assert names(done.commands) == ["RecordMarker local_activity 1", "StartTimer 1 60000"]
    run.fire("1")

    (task,) = work_of(run.run_task()).start
    assert (task.activity_id, task.attempt) == ("1", 2)
    assert names(run.local("1", "late", attempt=2).commands) == [
        "RecordMarker local_activity 1",
        "CompleteWorkflow late",
    ]
    assert isinstance(run.replay_all(), TaskSuccess)


@workflow.defn
class Cancelling:
    def __init__(self) -> None:
        self.enough = False

    @workflow.signal
    def stop(self) -> None:
        self.enough = True

    @workflow.run
    async def run(self, how: int) -> str:
        handle = begin("a", cancellation_type=Type(how))
        await workflow.wait_condition(lambda: self.enough)
        handle.cancel()
        try:
            return await handle
        except ActivityError as error:
            return "cancelled" if isinstance(error.cause, CancelledError) else "failed"


@pytest.mark.parametrize("how", [Type.TRY_CANCEL, Type.ABANDON])
def test_a_cancelled_one_ends_at_once_and_writes_no_marker(how: Type) -> None:
    run = PocketEngine(Cancelling, int(how))
    run.run_task()
    run.yield_task()
    run.signal("stop")
    outcome = run.run_task()

    assert isinstance(outcome, TaskSuccess)
    assert names(outcome.commands) == ["CompleteWorkflow cancelled"]
    assert work_of(outcome).cancel == (["1"] if how is Type.TRY_CANCEL else [])
    assert isinstance(run.replay_all(), TaskSuccess)


def test_one_that_is_waited_for_is_asked_to_stop_and_tells_what_it_did() -> None:
    run = PocketEngine(Cancelling, int(Type.WAIT_CANCELLATION_COMPLETED))
    run.run_task()
    run.yield_task()
    run.signal("stop")
    outcome = run.run_task()
    assert work_of(outcome) == LocalWork(start=[], cancel=["1"], waits=True)

    done = run.local("1", failure=failure(CancelledError()))

    assert names(done.commands)[-1] == "CompleteWorkflow cancelled"
    assert isinstance(run.replay_all(), TaskSuccess)


def test_a_take_over_asks_a_cancelled_one_to_stop_without_running_it() -> None:
    run = PocketEngine(Cancelling, int(Type.WAIT_CANCELLATION_COMPLETED))
    run.run_task()
    run.yield_task()
    run.signal("stop")
    run.begin_task()

    assert work_of(run.replay_outcome()) == LocalWork(start=[], cancel=["1"], waits=True)


def test_cancelling_while_it_backs_off_cancels_the_timer() -> None:
    run = PocketEngine(Cancelling, int(Type.TRY_CANCEL))
    run.run_task()
    run.local("1", failure=failure(ValueError("no")), backoff_ms=60_000)
    run.signal("stop")

    assert names(run.task()) == ["CancelTimer 1", "CompleteWorkflow cancelled"]
    assert isinstance(run.replay_all(), TaskSuccess)


def test_a_marker_that_the_code_did_not_ask_for_is_named() -> None:
    @workflow.defn(name="Sequential")
    class Other:
        @workflow.run
        async def run(self) -> str:
            await workflow.sleep(1)
            return ""

    run = PocketEngine(Sequential)
    run.run_task()
    run.local("1", "A")

    outcome = run.replay_all(Other)
    assert isinstance(outcome, TaskFailure)
    assert outcome.cause.name == "NON_DETERMINISM"
    assert (
        "is MarkerRecorded(marker_name='local_activity', marker_id='1')" in outcome.failure.message
    )


def test_a_result_that_the_code_cannot_read_fails_the_task() -> None:
    run = PocketEngine(Sequential)
    run.run_task()
    run.begin_task()
    outcome = run.instance.resolve_local(
        LocalActivityOutcome(
            activity_id="1", attempt=1, result=CONVERTER.to_payloads([{"not": "a text"}])
        )
    )

    assert isinstance(outcome, TaskFailure)
    assert outcome.cause.name == "PAYLOAD_DECODE"


def test_what_makes_no_sense_is_refused() -> None:
    @workflow.defn
    class Odd:
        @workflow.run
        async def run(self, what: str) -> None:
            if what == "limit":
                workflow.start_local_activity(look_up, "a")
            begin("a", activity_id="mine")
            begin("b", activity_id="mine")

    assert names(PocketEngine(Odd, "limit").task()) == [
        "FailWorkflow local activity 'look_up': give start_to_close_timeout or "
        "schedule_to_close_timeout"
    ]
    assert names(PocketEngine(Odd, "twice").task()) == [
        "FailWorkflow a local activity with the id 'mine' is open"
    ]


def test_a_query_is_answered_when_the_task_ends_or_yields() -> None:
    @workflow.defn
    class Asked(Sequential):
        @workflow.run
        async def run(self) -> str:
            return await begin("a")

        @workflow.query
        def state(self) -> str:
            return "open"

    run = PocketEngine(Asked)
    run.queries = [Query(query_token=b"q", query_type="state", args=[], header={})]
    outcome = run.run_task()
    assert isinstance(outcome, TaskSuccess)
    assert outcome.query_results == []

    yielded = run.instance.yield_task()
    assert [one.query_token for one in yielded.query_results] == [b"q"]
