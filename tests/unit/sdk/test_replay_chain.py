"""Runs that follow each other, as their code sees it: continue-as-new, and what an earlier run left."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import CONVERTER, PocketEngine, payloads, value_of

from perdure import workflow
from perdure._failures import exception_to_failure
from perdure._replay.messages import ContinueAsNew, FailWorkflow, TaskSuccess
from perdure.common import RetryPolicy
from perdure.errors import ApplicationError, NondeterminismError


@workflow.defn
class Counting:
    @workflow.run
    async def run(self, count: int) -> int:
        if count < 3:
            workflow.continue_as_new(count + 1)
        return count


@workflow.defn(name="elsewhere")
class Other:
    @workflow.run
    async def run(self, name: str, count: int) -> None: ...


def last(run: PocketEngine) -> ContinueAsNew:
    command = run.task()[-1]
    assert isinstance(command, ContinueAsNew), command
    return command


def test_a_workflow_continues_as_new() -> None:
    run = PocketEngine(Counting, 1)
    command = last(run)

    assert value_of(command.input) == 2
    assert (command.workflow_type, command.task_queue, command.memo) == ("", "", {})
    assert (command.run_timeout_ms, command.task_timeout_ms, command.retry_policy) == (0, 0, None)
    assert run.instance.is_closed
    assert isinstance(run.replay_all(), TaskSuccess)


@workflow.defn
class Collecting:
    """Continues as new after a timer, with what it was sent up to then."""

    def __init__(self) -> None:
        self.items: list[str] = []

    @workflow.run
    async def run(self) -> None:
        await workflow.sleep(1)
        workflow.continue_as_new(self.items)

    @workflow.signal
    def put(self, item: str) -> None:
        self.items.append(item)

    @workflow.update
    async def add(self, item: str) -> int:
        self.items.append(item)
        return len(self.items)


def test_what_was_sent_behind_the_outcome_that_ends_a_run_goes_along() -> None:
    run = PocketEngine(Collecting)
    run.task()
    run.fire("1")
    run.signal("put", "a signal")
    run.update("u-1", "add", "an update")

    command = last(run)
    assert value_of(command.input) == ["a signal", "an update"]
    assert value_of(run.outcomes["u-1"].result) == 2
    assert isinstance(run.replay_all(), TaskSuccess)


def test_what_is_given_is_different_in_the_next_run() -> None:
    policy = RetryPolicy(maximum_attempts=3)

    @workflow.defn
    class Moving:
        @workflow.run
        async def run(self) -> None:
            workflow.continue_as_new(
                "a",
                2,
                workflow=Other.run,
                task_queue="others",
                run_timeout=timedelta(seconds=9),
                task_timeout=timedelta(seconds=3),
                retry_policy=policy,
                memo={"step": 4},
            )

    command = last(PocketEngine(Moving))
    assert (command.workflow_type, command.task_queue) == ("elsewhere", "others")
    assert [CONVERTER.from_payload(one) for one in command.input] == ["a", 2]
    assert (command.run_timeout_ms, command.task_timeout_ms) == (9_000, 3_000)
    assert command.retry_policy == policy
    assert CONVERTER.from_payload(command.memo["step"]) == 4


@pytest.mark.parametrize("how", ["by name", "args", "both"])
def test_the_other_ways_to_give_arguments(how: str) -> None:
    @workflow.defn
    class Listing:
        @workflow.run
        async def run(self) -> None:
            if how == "by name":
                workflow.continue_as_new(args=[1, 2], workflow="by name")
            if how == "args":
                workflow.continue_as_new(args=["a", 2], workflow=Other.run)
            workflow.continue_as_new(1, args=[2])

    run = PocketEngine(Listing)
    if how == "both":
        failure = run.task()[-1]
        assert type(failure).__name__ == "FailWorkflow"
        return
    command = last(run)
    assert command.workflow_type == ("by name" if how == "by name" else "elsewhere")
    assert len(command.input) == 2


def test_a_timeout_must_be_positive() -> None:
    @workflow.defn
    class Hasty:
        @workflow.run
        async def run(self) -> None:
            workflow.continue_as_new(run_timeout=timedelta(0))

    [command] = PocketEngine(Hasty).task()
    assert isinstance(command, FailWorkflow)
    assert "must be positive" in command.failure.message


def test_a_signal_handler_may_continue_as_new() -> None:
    @workflow.defn
    class Waiting:
        @workflow.run
        async def run(self) -> None:
            await asyncio.Event().wait()

        @workflow.signal
        async def renew(self) -> None:
            workflow.continue_as_new()

    run = PocketEngine(Waiting)
    run.task()
    run.signal("renew")
    assert last(run).input == []
    assert isinstance(run.replay_all(), TaskSuccess)


def test_no_except_of_the_codes_stops_it() -> None:
    @workflow.defn
    class Careful:
        @workflow.run
        async def run(self) -> None:
            try:
                raise ValueError("bad")
            except ValueError:
                try:
                    workflow.continue_as_new()
                except Exception:
                    raise AssertionError("was caught") from None

    last(PocketEngine(Careful))


def test_a_query_cannot_continue_as_new() -> None:
    @workflow.defn
    class Asked:
        @workflow.run
        async def run(self) -> None:
            await asyncio.Event().wait()

        @workflow.query
        def state(self) -> str:
            workflow.continue_as_new()

    run = PocketEngine(Asked)
    run.task()
    result = run.query("state")
    assert result.failure is not None
    assert "must not change the workflow" in result.failure.message
    assert not run.instance.is_closed


def test_other_code_that_does_not_continue_is_found_out() -> None:
    @workflow.defn(name="Counting")
    class Staying:
        @workflow.run
        async def run(self, count: int) -> int:
            return count

    run = PocketEngine(Counting, 1)
    run.task()
    outcome = run.replay_all(Staying)
    assert not isinstance(outcome, TaskSuccess)
    assert outcome.cause.name == "NON_DETERMINISM"
    assert outcome.failure.info is not None
    assert NondeterminismError.__name__ in str(outcome.failure.info)
    assert "WorkflowExecutionContinuedAsNew" in outcome.failure.message


# ---- what an earlier run left


@workflow.defn
class Remembering:
    @workflow.run
    async def run(self) -> list[Any]:
        failure = workflow.get_last_failure()
        return [
            workflow.info().continued_run_id,
            workflow.info().cron_schedule,
            workflow.info().attempt,
            workflow.has_last_completion_result(),
            workflow.get_last_completion_result(int),
            None if failure is None else [type(failure).__name__, str(failure)],
        ]


def remembered(**started: Any) -> Any:
    [command] = PocketEngine(Remembering, started=started).task()
    return value_of(command.result)  # type: ignore[attr-defined]


def test_the_first_run_remembers_nothing() -> None:
    assert remembered() == [None, None, 1, False, None, None]


def test_what_the_run_before_left_is_there() -> None:
    failure = exception_to_failure(ApplicationError("no stock", type="Empty"), CONVERTER)

    assert remembered(
        continued_from_run_id="before",
        cron_schedule="@daily",
        last_failure=failure,
        last_completion_result=payloads(7),
    ) == ["before", "@daily", 1, True, 7, ["ApplicationError", "Empty: no stock"]]


def test_a_result_that_was_none_is_one_all_the_same() -> None:
    assert remembered(last_completion_result=payloads(None))[3:5] == [True, None]
