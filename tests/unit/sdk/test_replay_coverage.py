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
from perdure._replay.machines import completion as completion_machine
from perdure._replay.machines import local_activity as local_machine
from perdure._replay.machines import moves as moves_module
from perdure._replay.machines import timer as timer_machine
from perdure.errors import CancelledError
from perdure.workflow import ActivityCancellationType as Type

LIMIT = timedelta(seconds=10)
CANCELED = exception_to_failure(CancelledError(), CONVERTER)
FAILED = exception_to_failure(ValueError("no"), CONVERTER)
MODULES = (activity_machine, completion_machine, timer_machine, local_machine)


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
    terminated = PocketEngine(Everything)
    terminated.task()
    terminated.close("WorkflowExecutionTerminated")
    terminated.replay_all()

    every = {(type(state), state, move) for module in MODULES for state, move in module.MOVES}
    assert moves == every
