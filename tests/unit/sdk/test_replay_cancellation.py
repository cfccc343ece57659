"""Cancelling: the run, an activity, a part of the code."""

import asyncio
from datetime import timedelta

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import activity, workflow
from perdure.errors import ActivityError, ApplicationError, CancelledError
from perdure.workflow import ActivityCancellationType as Type

LIMIT = timedelta(seconds=10)


@activity.defn
async def work() -> str:
    return "done"


@workflow.defn
class Patient:
    """Waits for an activity, and cleans up when it is cancelled."""

    @workflow.run
    async def run(self, how: Type) -> str:
        try:
            return await workflow.execute_activity(
                work, start_to_close_timeout=LIMIT, cancellation_type=how
            )
        except ActivityError as error:
            return "cancelled" if isinstance(error.cause, CancelledError) else "failed"


def test_a_cancelled_run_that_cleans_up_ends_as_cancelled() -> None:
    @workflow.defn
    class Tidy:
        @workflow.run
        async def run(self) -> None:
            try:
                await workflow.sleep(60)
            finally:
                await workflow.execute_activity(work, start_to_close_timeout=LIMIT)

    run = PocketEngine(Tidy)
    run.task()
    run.cancel("enough")
    assert names(run.task()) == ["CancelTimer 1", "ScheduleActivity 1 work"]
    run.complete("1", "ok")
    assert names(run.task()) == ["CancelWorkflow"]
    assert names(run.replay()) == ["CancelWorkflow"]


def test_a_run_may_refuse_to_be_cancelled() -> None:
    @workflow.defn
    class Stubborn:
        @workflow.run
        async def run(self) -> str | None:
            try:
                await workflow.sleep(60)
            except asyncio.CancelledError:
                return workflow.cancellation_reason()
            return "slept"

    run = PocketEngine(Stubborn)
    run.task()
    run.cancel("enough")
    assert names(run.task()) == ["CancelTimer 1", "CompleteWorkflow enough"]


def test_a_run_cancelled_with_its_start_still_takes_its_first_step() -> None:
    @workflow.defn
    class Early:
        @workflow.run
        async def run(self) -> None:
            steps.append("begun")
            await workflow.sleep(60)

    steps: list[str] = []
    run = PocketEngine(Early)
    run.cancel()

    assert names(run.task()) == ["CancelWorkflow"]  # the timer was never sent
    assert steps == ["begun"]


def test_cancelled_error_without_a_request_is_a_failure() -> None:
    @workflow.defn
    class Suicidal:
        @workflow.run
        async def run(self) -> None:
            raise asyncio.CancelledError

    (name,) = names(PocketEngine(Suicidal).task())
    assert name.startswith("FailWorkflow")


@pytest.mark.parametrize(
    ("how", "commands"),
    [
        (Type.TRY_CANCEL, ["RequestCancelActivity 5", "CompleteWorkflow cancelled"]),
        (Type.WAIT_CANCELLATION_COMPLETED, ["RequestCancelActivity 5"]),
        (Type.ABANDON, ["CompleteWorkflow cancelled"]),
    ],
)
def test_what_cancelling_the_run_does_to_its_activity(how: Type, commands: list[str]) -> None:
    run = PocketEngine(Patient, how)
    run.task()
    run.cancel()

    assert names(run.task()) == commands
    assert names(run.replay()) == commands


def test_waiting_for_the_cancellation_takes_what_the_activity_comes_to() -> None:
    for outcome, expected in (("cancelled", "cancelled"), ("completed", "late result")):
        run = PocketEngine(Patient, Type.WAIT_CANCELLATION_COMPLETED)
        run.task()
        run.cancel()
        run.task()
        if outcome == "cancelled":
            run.cancel_activity("1")
        else:
            run.complete("1", "late result")
        assert names(run.task()) == [f"CompleteWorkflow {expected}"]
        assert names(run.replay()) == [f"CompleteWorkflow {expected}"]


@workflow.defn
class Changeable:
    """Cancels its activity by its handle, on a signal, and lives on."""

    def __init__(self) -> None:
        self.stop = False

    @workflow.signal
    def halt(self) -> None:
        self.stop = True

    @workflow.run
    async def run(self) -> str:
        handle = workflow.start_activity(work, start_to_close_timeout=LIMIT)
        await workflow.wait_condition(lambda: self.stop)
        assert handle.cancel()
        assert not handle.cancel()
        try:
            await handle
        except ActivityError as error:
            await workflow.sleep(1)
            return type(error.cause).__name__
        return "done"


@pytest.mark.parametrize("outcome", ["completes", "fails", "is cancelled"])
def test_what_an_activity_comes_to_after_its_cancellation_is_not_looked_at(outcome: str) -> None:
    run = PocketEngine(Changeable)
    run.task()
    run.signal("halt")
    assert names(run.task()) == ["RequestCancelActivity 5", "StartTimer 1 1000"]
    if outcome == "completes":
        run.complete("1", {"not": "even decoded"})
    elif outcome == "fails":
        run.fail("1", ApplicationError("late"))
    else:
        run.cancel_activity("1")
    run.fire("1")

    assert names(run.task()) == ["CompleteWorkflow CancelledError"]
    assert names(run.replay()) == ["CompleteWorkflow CancelledError"]


def test_an_activity_cancelled_before_it_was_sent_leaves_no_command() -> None:
    run = PocketEngine(Changeable)
    run.signal("halt")
    assert names(run.task()) == ["StartTimer 1 1000"]
    run.fire("1")
    assert names(run.task()) == ["CompleteWorkflow CancelledError"]
    assert names(run.replay()) == ["CompleteWorkflow CancelledError"]


def test_a_shielded_activity_lives_on() -> None:
    @workflow.defn
    class Shielding:
        @workflow.run
        async def run(self) -> str:
            handle = workflow.start_activity(work, start_to_close_timeout=LIMIT)
            try:
                return await asyncio.shield(handle)
            except asyncio.CancelledError:
                return "after all: " + await handle

    run = PocketEngine(Shielding)
    run.task()
    run.cancel()
    assert run.task() == []
    run.complete("1", "done")
    assert names(run.task()) == ["CompleteWorkflow after all: done"]


def test_a_time_limit_around_an_activity_ends_as_timeout_error() -> None:
    @workflow.defn
    class Limited:
        @workflow.run
        async def run(self) -> str:
            try:
                async with asyncio.timeout(5):
                    return await workflow.execute_activity(work, start_to_close_timeout=LIMIT)
            except TimeoutError:
                return "took too long"

    run = PocketEngine(Limited)
    assert names(run.task()) == ["StartTimer 1 5000", "ScheduleActivity 1 work"]
    run.fire("1")

    live = names(run.task())
    assert live == ["RequestCancelActivity 6", "CompleteWorkflow took too long"]
    assert names(run.replay()) == live


def test_a_task_group_cancels_its_activities_in_the_order_in_which_they_began() -> None:
    @workflow.defn
    class Group:
        async def one(self) -> None:
            await workflow.execute_activity(work, start_to_close_timeout=LIMIT)

        @workflow.run
        async def run(self) -> str:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(40):
                        group.create_task(self.one())
            except ExceptionGroup as failed:
                return f"{len(failed.exceptions)} failed"
            return "all done"

    run = PocketEngine(Group)
    run.task()
    run.fail("20", ApplicationError("broken"))

    live = names(run.task())
    order = [int(name.split()[1]) for name in live if name.startswith("Request")]
    assert len(order) == 39
    assert order == sorted(order)
    assert live[-1] == "CompleteWorkflow 1 failed"
    assert names(run.replay()) == live


def test_gather_passes_a_cancellation_on() -> None:
    @workflow.defn
    class Gathering:
        @workflow.run
        async def run(self) -> None:
            await asyncio.gather(
                workflow.execute_activity(work, start_to_close_timeout=LIMIT),
                workflow.sleep(60),
            )

    run = PocketEngine(Gathering)
    run.task()
    run.cancel()
    live = names(run.task())
    assert live == ["RequestCancelActivity 5", "CancelTimer 1", "CancelWorkflow"]
    assert names(run.replay()) == live


def test_the_code_may_cancel_what_gather_has_gathered() -> None:
    """As Temporal: what it gathered hears of the code's doing, not of asyncio's."""

    @workflow.defn
    class Gathering:
        @workflow.run
        async def run(self) -> list[str]:
            heard: list[str] = []

            async def part() -> None:
                try:
                    await workflow.execute_activity(work, start_to_close_timeout=LIMIT)
                except ActivityError as error:
                    heard.append(type(error.cause).__name__)

            parts = asyncio.gather(part(), part(), return_exceptions=True)
            await workflow.sleep(1)
            parts.cancel()
            await workflow.wait_condition(lambda: len(heard) == 2)
            return heard

    run = PocketEngine(Gathering)
    run.task()
    run.fire("1")
    assert names(run.task())[-1] == "CompleteWorkflow ['CancelledError', 'CancelledError']"
    assert names(run.replay())[-1].startswith("CompleteWorkflow")
