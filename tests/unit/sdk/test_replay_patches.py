"""`patched` and `deprecate_patch`: new code on old histories, old code on new ones."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import activity, workflow
from perdure._replay.messages import TaskFailure, TaskSuccess

LIMIT = timedelta(seconds=10)


@activity.defn
async def old() -> None: ...


@activity.defn
async def new() -> None: ...


async def do(what: Callable[[], Any]) -> None:
    await workflow.execute_activity(what, start_to_close_timeout=LIMIT)


@workflow.defn(name="Flow")
class Before:
    @workflow.run
    async def run(self) -> None:
        await do(old)
        await workflow.sleep(1)


@workflow.defn(name="Flow")
class Patched:
    @workflow.run
    async def run(self) -> None:
        await do(new if workflow.patched("p") else old)
        await workflow.sleep(1)


@workflow.defn(name="Flow")
class Deprecated:
    @workflow.run
    async def run(self) -> None:
        workflow.deprecate_patch("p")
        await do(new)
        await workflow.sleep(1)


@workflow.defn(name="Flow")
class After:
    @workflow.run
    async def run(self) -> None:
        await do(new)
        await workflow.sleep(1)


def history_by(cls: type) -> PocketEngine:
    """To the end."""
    run = PocketEngine(cls)
    run.task()
    run.complete("1")
    run.task()
    run.fire("1")
    assert names(run.task())[-1] == "CompleteWorkflow None"
    return run


GOES = {
    Before: "ScheduleActivity 1 old",
    Patched: "ScheduleActivity 1 new",
    Deprecated: "ScheduleActivity 1 new",
    After: "ScheduleActivity 1 new",
}


@pytest.mark.parametrize("cls", list(GOES))
def test_the_first_time_goes_the_new_way_and_says_so(cls: type) -> None:
    marker = ["RecordMarker patch p"] if cls in (Patched, Deprecated) else []

    assert names(PocketEngine(cls).task()) == [*marker, GOES[cls]]


# The rows of Temporal's table: whose history, whose code, does it fit?
@pytest.mark.parametrize(
    ("wrote", "reads", "fits"),
    [
        (Before, Before, True),
        (Before, Patched, True),
        (Before, Deprecated, False),
        (Before, After, False),
        (Patched, Before, False),
        (Patched, Patched, True),
        (Patched, Deprecated, True),
        (Patched, After, False),
        (Deprecated, Before, False),
        (Deprecated, Patched, True),
        (Deprecated, Deprecated, True),
        (Deprecated, After, True),
        (After, Patched, False),
        (After, Deprecated, True),
        (After, After, True),
    ],
)
def test_which_code_fits_which_history(wrote: type, reads: type, fits: bool) -> None:
    outcome = history_by(wrote).replay_all(reads)

    assert isinstance(outcome, TaskSuccess) is fits
    if isinstance(outcome, TaskFailure):
        assert outcome.cause.name == "NON_DETERMINISM"


def test_a_marker_without_its_call_is_named() -> None:
    outcome = history_by(Patched).replay_all(After)

    assert isinstance(outcome, TaskFailure)
    assert (
        "history event 5 is MarkerRecorded(marker_name='patch', marker_id='p'), but the "
        "workflow's code did ScheduleActivity(activity_id='1', activity_type='new') at "
    ) in outcome.failure.message


def test_a_call_without_its_marker_is_named() -> None:
    """Only where the marker is that of another patch: a missing one means the old way."""
    run = history_by(Patched)

    @workflow.defn(name="Flow")
    class Renamed:
        @workflow.run
        async def run(self) -> None:
            assert not workflow.patched("q")
            await do(new)
            await workflow.sleep(1)

    outcome = run.replay_all(Renamed)

    assert isinstance(outcome, TaskFailure)
    assert "MarkerRecorded(marker_name='patch', marker_id='p')" in outcome.failure.message


@workflow.defn(name="Loop")
class LoopBefore:
    @workflow.run
    async def run(self) -> None:
        for _ in range(3):
            await do(old)


@workflow.defn(name="Loop")
class LoopPatched:
    @workflow.run
    async def run(self) -> None:
        for _ in range(3):
            await do(new if workflow.patched("p") else old)


def test_a_run_that_went_the_old_way_once_goes_it_to_its_end() -> None:
    """The answer is the same for the whole run, as Temporal's SDK has it."""
    run = PocketEngine(LoopBefore)
    run.task()
    run.complete("1")
    run.begin_task()

    assert names(run.replay(LoopPatched)) == ["ScheduleActivity 2 old"]


def test_a_run_that_comes_to_the_patch_later_goes_the_new_way() -> None:
    @workflow.defn(name="Loop")
    class Late:
        @workflow.run
        async def run(self) -> None:
            await do(old)
            await do(new if workflow.patched("p") else old)

    run = PocketEngine(LoopBefore)
    run.task()
    run.complete("1")
    run.begin_task()

    assert names(run.replay(Late)) == ["RecordMarker patch p", "ScheduleActivity 2 new"]


def test_one_marker_for_each_patch_however_often_it_is_asked() -> None:
    run = PocketEngine(LoopPatched)
    assert names(run.task()) == ["RecordMarker patch p", "ScheduleActivity 1 new"]
    run.complete("1")
    assert names(run.task()) == ["ScheduleActivity 2 new"]
    run.complete("2")
    run.task()
    assert names(run.replay()) == ["ScheduleActivity 3 new"]


def test_a_marker_of_a_later_task_is_not_looked_at() -> None:
    """The stretch of the history at hand was written without the patch, whatever came after."""
    run = PocketEngine(Patched)

    @workflow.defn(name="Flow")
    class AsksFirst:
        @workflow.run
        async def run(self) -> str:
            await workflow.sleep(1)
            return str(workflow.patched("p"))

    run = PocketEngine(AsksFirst)
    run.task()
    run.fire("1")
    run.task()

    @workflow.defn(name="Flow")
    class AsksEarlier:
        @workflow.run
        async def run(self) -> str:
            early = workflow.patched("p")
            await workflow.sleep(1)
            return str(early)

    outcome = run.replay_all(AsksEarlier)
    assert isinstance(outcome, TaskFailure)
    assert "MarkerRecorded(marker_name='patch', marker_id='p')" in outcome.failure.message


def test_a_query_may_not_ask() -> None:
    @workflow.defn
    class Asking:
        @workflow.run
        async def run(self) -> None:
            await workflow.wait_condition(lambda: False)

        @workflow.query
        def ask(self) -> bool:
            return workflow.patched("p")

    run = PocketEngine(Asking)
    run.task()

    failure = run.query("ask").failure
    assert failure is not None
    assert "must not change the workflow" in failure.message
