"""map and parallel: what they start, when they end, and when the workflow asks to be woken."""

from __future__ import annotations

import asyncio
import gc
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import activity, workflow
from perdure._replay.messages import TaskSuccess, WakeRule
from perdure.errors import ApplicationError
from perdure.workflow import FanOutError, FanOutRule

LIMIT = timedelta(seconds=10)


@activity.defn
async def double(number: int) -> int:
    return number * 2


@workflow.defn
class Doubles:
    @workflow.run
    async def run(self, numbers: list[int], concurrency: int | None, rule: dict[str, Any]) -> Any:
        found = await workflow.map(
            double,
            numbers,
            concurrency=concurrency,
            rule=FanOutRule(**rule),
            start_to_close_timeout=LIMIT,
        )
        return [found.values, sorted(found.errors), found.unfinished]


@workflow.defn
class Mixed:
    @workflow.run
    async def run(self) -> Any:
        found = await workflow.parallel(
            [
                lambda: workflow.start_activity(double, 1, start_to_close_timeout=LIMIT),
                lambda: workflow.start_activity("other", start_to_close_timeout=LIMIT),
            ]
        )
        return found.values


@workflow.defn
class Tells:
    """Says with what a map failed."""

    @workflow.run
    async def run(self) -> Any:
        try:
            await workflow.map(double, [1, 2, 3], start_to_close_timeout=LIMIT)
        except FanOutError as error:
            cause = type(error.__cause__).__name__
            return [cause, error.message, error.results.values, error.results.unfinished]


@workflow.defn
class Shares:
    """Two maps at the same time."""

    @workflow.run
    async def run(self) -> None:
        async def half(numbers: list[int]) -> None:
            await workflow.map(double, numbers, start_to_close_timeout=LIMIT)

        await asyncio.gather(half([1, 2]), half([3]))


@workflow.defn
class Families:
    """Children and an activity side by side, failures of which may be tolerated."""

    @workflow.run
    async def run(self, rule: dict[str, Any]) -> Any:
        found = await workflow.parallel(
            [
                lambda: workflow.execute_child_workflow("Child", id="a"),
                lambda: workflow.execute_child_workflow("Child", id="b"),
                lambda: workflow.start_activity(double, 1, start_to_close_timeout=LIMIT),
            ],
            rule=FanOutRule(**rule),
        )
        errors = {index: type(one).__name__ for index, one in sorted(found.errors.items())}
        return [found.values, errors, found.unfinished]


def begin(
    numbers: list[int], concurrency: int | None = None, **rule: Any
) -> tuple[PocketEngine, TaskSuccess]:
    run = PocketEngine(Doubles, numbers, concurrency, rule)
    return run, succeed(run)


def succeed(run: PocketEngine) -> TaskSuccess:
    outcome = run.run_task()
    assert isinstance(outcome, TaskSuccess), outcome
    return outcome


def rule(*ids: int, **numbers: int) -> WakeRule:
    return WakeRule(activity_ids=[str(number) for number in ids], **numbers)


def test_all_start_at_once_and_the_results_come_in_their_order() -> None:
    run, first = begin([5, 6, 7])

    assert names(first.commands) == [f"ScheduleActivity {number} double" for number in (1, 2, 3)]
    assert first.wake_rules == (rule(1, 2, 3, failed=1),)
    for activity_id, value in (("3", 14), ("1", 10), ("2", 12)):
        run.complete(activity_id, value)
    last = succeed(run)
    assert names(last.commands) == ["CompleteWorkflow [[10, 12, 14], [], []]"]
    assert last.wake_rules == ()
    assert names(run.replay()) == names(last.commands)


def test_nothing_to_do_is_done() -> None:
    _, first = begin([])
    assert names(first.commands) == ["CompleteWorkflow [[], [], []]"]


def test_a_window_is_filled_when_half_of_it_is_free() -> None:
    run, first = begin([1, 2, 3, 4, 5, 6], 4)
    assert first.wake_rules == (rule(1, 2, 3, 4, ended=2, failed=1),)
    run.complete("2", 4)
    run.complete("4", 8)
    second = succeed(run)
    assert names(second.commands) == [f"ScheduleActivity {number} double" for number in (5, 6)]
    assert second.wake_rules == (rule(1, 3, 5, 6, failed=1),)


def test_a_signal_between_changes_nothing_and_the_rule_is_said_again() -> None:
    run, _ = begin([1, 2])
    run.complete("1", 2)
    run.signal("hello")
    second = succeed(run)
    assert names(second.commands) == []
    assert second.wake_rules == (rule(2, failed=1),)


def test_the_first_failure_ends_it_and_cancels_the_rest() -> None:
    run = PocketEngine(Tells)
    succeed(run)
    run.complete("1", 2)
    run.fail("3", ApplicationError("no ink"))
    last = succeed(run)
    assert names(last.commands) == [
        "RequestCancelActivity 6",
        "CompleteWorkflow ['ActivityError', '1 of 3 failed, 0 are tolerated; the first: "
        "no ink', [2], [1]]",
    ]
    assert names(run.replay()) == names(last.commands)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"tolerated_failures": 1}, {"failed": 2}),
        ({"tolerated_failure_share": 0.5}, {"failed": 3}),
        ({"tolerated_failures": 3, "tolerated_failure_share": 0.25}, {"failed": 2}),
        ({"minimum_successful": 3}, {"completed": 3, "failed": 2}),
        ({"first_completed": True}, {"ended": 1, "failed": 5}),
    ],
)
def test_what_wakes_the_workflow(chosen: dict[str, Any], said: dict[str, int]) -> None:
    _, first = begin([1, 2, 3, 4], **chosen)
    assert first.wake_rules == (rule(1, 2, 3, 4, **said),)


def test_failures_that_are_tolerated() -> None:
    run, _ = begin([1, 2, 3], tolerated_failures=1)
    run.fail("2", ApplicationError("no"))
    assert succeed(run).wake_rules == (rule(1, 3, failed=1),)
    run.complete("1", 2)
    run.complete("3", 6)
    assert names(succeed(run).commands) == ["CompleteWorkflow [[2, 6], [1], []]"]


def test_enough_successes_end_it() -> None:
    run, _ = begin([1, 2, 3], minimum_successful=1)
    run.complete("2", 4)
    commands = names(succeed(run).commands)
    assert commands[-1] == "CompleteWorkflow [[4], [], [0, 2]]"
    assert sum(name.startswith("RequestCancelActivity") for name in commands) == 2


def test_successes_that_cannot_be_reached_any_more_fail_it() -> None:
    run, _ = begin([1, 2, 3], minimum_successful=2)
    run.fail("1", ApplicationError("no"))
    assert succeed(run).wake_rules == (rule(2, 3, completed=2, failed=1),)
    run.fail("2", ApplicationError("no"))
    assert names(succeed(run).commands)[-1].startswith("FailWorkflow")


def test_the_first_that_ends_counts_whatever_it_came_to() -> None:
    run, _ = begin([1, 2], first_completed=True)
    run.fail("2", ApplicationError("no"))
    assert names(succeed(run).commands)[-1] == "CompleteWorkflow [[], [1], [0]]"


def test_a_cancelled_workflow_cancels_what_runs() -> None:
    run, _ = begin([1, 2])
    run.cancel()
    last = names(succeed(run).commands)
    assert sum(name.startswith("RequestCancelActivity") for name in last) == 2
    assert last[-1].startswith("CancelWorkflow")


def test_activities_of_different_kinds() -> None:
    run = PocketEngine(Mixed)
    assert succeed(run).wake_rules == (rule(1, 2, failed=1),)
    run.complete("1", 2)
    run.complete("2", "two")
    assert names(succeed(run).commands) == ["CompleteWorkflow [2, 'two']"]


def test_two_at_the_same_time_have_a_rule_each() -> None:
    run = PocketEngine(Shares)
    assert succeed(run).wake_rules == (rule(1, 2, failed=1), rule(3, failed=1))


@pytest.mark.parametrize(
    "numbers",
    [
        {"tolerated_failures": -1},
        {"tolerated_failure_share": 1.5},
        {"minimum_successful": 0},
        {"minimum_successful": 1, "first_completed": True},
        {"tolerated_failures": 1, "minimum_successful": 1},
    ],
)
def test_a_rule_that_contradicts_itself_is_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        FanOutRule(**numbers)


@pytest.mark.parametrize(("concurrency", "chosen"), [(0, {}), (None, {"minimum_successful": 3})])
def test_what_can_never_work_is_refused(concurrency: int | None, chosen: dict[str, Any]) -> None:
    run = PocketEngine(Doubles, [1, 2], concurrency, chosen)
    assert names(succeed(run).commands)[-1].startswith("FailWorkflow")


def test_children_side_by_side_with_activities() -> None:
    run = PocketEngine(Families, {"tolerated_failures": 2})
    first = succeed(run)
    assert sorted(names(first.commands)) == [
        "ScheduleActivity 1 double", "StartChildWorkflow a Child", "StartChildWorkflow b Child"
    ]  # fmt: skip
    assert first.wake_rules == ()  # no outcome of a child is kept back
    run.child_started("a")
    run.child_id_taken("b")
    run.complete("1", 2)
    assert succeed(run).commands == []
    run.child_failed("a", ApplicationError("no"))
    last = names(succeed(run).commands)
    assert last == [
        "CompleteWorkflow [[2], {'0': 'ChildWorkflowError', '1': 'WorkflowAlreadyStartedError'}, []]"
    ]
    assert names(run.replay()) == last


def test_children_that_still_run_when_it_is_decided_are_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = PocketEngine(Families, {"first_completed": True})
    succeed(run)
    run.child_started("a")
    run.child_started("b")
    assert succeed(run).commands == []
    run.child_completed("b", 4)
    last = names(succeed(run).commands)
    assert last[:-1] == ["RequestCancelExternalWorkflow a", "RequestCancelActivity 5"]
    assert last[-1] == "CompleteWorkflow [[4], {}, [0, 2]]"
    assert names(run.replay()) == last
    run.instance.evict()
    gc.collect()
    assert caplog.records == []


def test_what_a_cancelled_child_comes_to_is_nobodys_business(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @workflow.defn
    class LivesOn:
        @workflow.run
        async def run(self) -> str:
            await workflow.parallel(
                [
                    lambda: workflow.execute_child_workflow("Child", id="a"),
                    lambda: workflow.execute_child_workflow("Child", id="b"),
                ],
                rule=FanOutRule(first_completed=True),
            )
            await workflow.sleep(1)
            return "done"

    run = PocketEngine(LivesOn)
    succeed(run)
    run.child_started("a")
    run.child_started("b")
    succeed(run)
    run.child_completed("a")
    assert names(succeed(run).commands)[0] == "RequestCancelExternalWorkflow b"
    run.child_canceled("b")
    succeed(run)
    gc.collect()
    run.fire("1")
    assert names(succeed(run).commands) == ["CompleteWorkflow done"]
    assert caplog.records == []
