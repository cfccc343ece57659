"""Real runs take the machines through every move that their tables allow."""

import asyncio
from datetime import timedelta
from enum import IntEnum
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import CONVERTER, PocketEngine

from perdure import activity, workflow
from perdure._failures import exception_to_failure
from perdure._replay.machines import activity as activity_machine
from perdure._replay.machines import child as child_machine
from perdure._replay.machines import completion as completion_machine
from perdure._replay.machines import external_cancel as cancel_machine
from perdure._replay.machines import external_signal as signal_machine
from perdure._replay.machines import local_activity as local_machine
from perdure._replay.machines import moves as moves_module
from perdure._replay.machines import timer as timer_machine
from perdure.errors import CancelledError
from perdure.workflow import ActivityCancellationType as Type
from perdure.workflow import ChildWorkflowCancellationType as ChildType

LIMIT = timedelta(seconds=10)
CANCELED = exception_to_failure(CancelledError(), CONVERTER)
FAILED = exception_to_failure(ValueError("no"), CONVERTER)
MODULES = (
    activity_machine, completion_machine, timer_machine, local_machine,
    child_machine, cancel_machine, signal_machine,
)  # fmt: skip


@activity.defn
async def work() -> None: ...


@workflow.defn
class Everything:
    def __init__(self) -> None:
        self.gone_on = asyncio.Event()

    @workflow.signal
    def go_on(self) -> None:
        self.gone_on.set()

    @workflow.run
    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        handles = [
            workflow.start_activity(work, start_to_close_timeout=LIMIT, cancellation_type=how)
            for how in (Type.TRY_CANCEL, Type.TRY_CANCEL, Type.ABANDON, Type.TRY_CANCEL)
        ]
        handles[3].cancel()  # never sent
        loop.call_later(1, print).cancel()  # never sent
        timer = loop.call_later(60, print)
        await workflow.sleep(1)
        timer.cancel()
        handles[1].cancel()
        handles[2].cancel()
        await handles[0]
        await self.gone_on.wait()


@workflow.defn
class EverythingLocal:
    """Each is cancelled in another state; one tries again, one is waited for before it is given."""

    def __init__(self) -> None:
        self.stopped = False

    @workflow.signal
    def stop(self) -> None:
        self.stopped = True

    @workflow.run
    async def run(self) -> None:
        def begin(how: Type = Type.TRY_CANCEL) -> workflow.ActivityHandle[None]:
            return workflow.start_local_activity(
                work, start_to_close_timeout=LIMIT, cancellation_type=how
            )

        begin().cancel()  # 1: never given
        begin(Type.WAIT_CANCELLATION_COMPLETED).cancel()  # 2
        running, waited, resting = begin(), begin(Type.WAIT_CANCELLATION_COMPLETED), begin()
        handles = [begin(), running, waited, resting]
        await workflow.wait_condition(lambda: self.stopped)
        for handle in handles[1:]:
            handle.cancel()
        await handles[0]
        await asyncio.Event().wait()


@workflow.defn
class EveryChild:
    """One child after the other: cancelled in each state, in each way."""

    @workflow.run
    async def run(self) -> None:
        waits = [
            asyncio.create_task(
                workflow.execute_child_workflow("Child", id=f"c{number}", cancellation_type=how)
            )
            for number, how in enumerate([ChildType.ABANDON] * 4 + [ChildType.TRY_CANCEL] * 4)
        ]
        unheard = [asyncio.create_task(self.begin(f"u{number}")) for number in range(3)]
        handle = workflow.get_external_workflow_handle("o")
        never_sent = [
            asyncio.create_task(handle.signal("no")),
            asyncio.create_task(workflow.execute_child_workflow("Child", id="no")),
        ]
        await asyncio.sleep(0)  # noqa: TID251 - to let them begin
        for task in never_sent:
            task.cancel()
        await handle.signal("hello")
        for task in [*waits[:3], *waits[4:7]]:
            task.cancel()
        await handle.cancel()
        for task in [waits[3], waits[7]]:
            task.cancel()
        await asyncio.wait([*waits, *unheard, *never_sent])

    async def begin(self, id: str) -> None:
        await workflow.execute_child_workflow("Child", id=id)


def every_child() -> None:
    """0 to 3 are abandoned, 4 to 7 asked to stop: in each half three before they have started, of which one
    starts, one finds its id taken, one is taken back; and one after it has started."""
    run = PocketEngine(EveryChild)
    run.task()
    for child in ("c3", "c7", "u0"):
        run.child_started(child)
    run.signal_delivered("o")
    run.task()
    for child in ("c0", "c4"):
        run.child_started(child)
    for child in ("c1", "c5", "u1"):
        run.child_id_taken(child)
    for child in ("c2", "c6", "u2"):
        run.child_canceled(child)
    run.cancel_delivered("o")
    run.task()
    for child in ("c0", "c3", "c4", "c7", "u0"):
        run.child_completed(child)
    for child in ("c4", "c5", "c6", "c7"):
        run.cancel_delivered(child)
    run.task()
    run.replay_all()


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> set[tuple[type, IntEnum, IntEnum]]:
    taken: set[tuple[type, IntEnum, IntEnum]] = set()
    real = moves_module.next_state

    def recording(table: Any, state: Any, move: Any, machine: Any) -> Any:
        after = real(table, state, move, machine)
        taken.add((type(state), state, move))
        return after

    for module in MODULES:
        monkeypatch.setattr(module, "next_state", recording)
    return taken


def test_every_move_is_taken(moves: set[tuple[type, IntEnum, IntEnum]]) -> None:
    run = PocketEngine(Everything)
    run.task()
    run.fire("3")
    run.task()
    run.complete("1")
    run.cancel_activity("2")
    run.complete("3")
    run.task()
    run.signal("go_on")
    run.task()
    run.replay_all()
    local = PocketEngine(EverythingLocal)
    local.run_task()
    local.local("2", failure=CANCELED)
    local.local("6", failure=FAILED, backoff_ms=1_000)
    local.local("5", failure=FAILED, backoff_ms=5_000)
    local.yield_task()
    local.fire("1")
    local.signal("stop")
    local.run_task()
    local.local("4", failure=CANCELED)
    local.local("6", attempt=2)
    local.replay_all()
    every_child()
    terminated = PocketEngine(Everything)
    terminated.task()
    terminated.close("WorkflowExecutionTerminated")
    terminated.replay_all()

    every = {(type(state), state, move) for module in MODULES for state, move in module.MOVES}
    assert moves == every
