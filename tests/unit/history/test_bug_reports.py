"""Faults that other engines had, by their number in cases/bug_reports.md: what the history room makes of them."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.history.room import FINISH, Node, Room, in_room, pass_time, timer

from perdure_engine.core import events as ev
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import IdConflictPolicy
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TimerKind
from perdure_engine.history.quarantine import QUARANTINE_S
from perdure_engine.ports.rows import TimerRow
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable
from perdure_engine.store.memory import Moment

# ---- 12


def replace(node: Node, request_id: bytes) -> Any:
    return node.start(
        "w", request_id=request_id, id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING
    )


async def until_answered(node: Node, room: Room) -> bytes:
    """A start as a client makes it: sent again with the same request id until it has an answer."""
    request_id = room.ids.new_id()
    for _ in range(20):
        try:
            run_id: bytes = (await replace(node, request_id)).run_id
        except Rejected as refusal:
            if not refusal.retry_after_ms and refusal.code is not Code.UNAVAILABLE:
                raise  # a permanent error
            await pass_time(0.1)
        else:
            return run_id
    raise AssertionError("no answer in 20 tries")


@in_room()
async def test_case_12_fifty_starts_that_terminate_each_other_and_lost_replies(room: Room) -> None:
    """Invariants 9, 10 and 11: one open run, and each answered run was there."""
    node = await room.node(1)
    for number in range(10):
        moment = Moment.AFTER if number % 2 else Moment.BEFORE
        node.faults.fail_next("commit", OutcomeUnknown("reply lost"), moment)

    begun = await asyncio.gather(*(until_answered(node, room) for _ in range(50)))

    assert len(set(begun)) == 50
    ends = [(await room.history(run_id))[-1] for run_id in begun]
    ended = [isinstance(end, ev.WorkflowExecutionTerminated) for end in ends]
    assert ended.count(False) == 1
    newest = (await node.describe("w")).info
    assert newest.run_id == begun[ended.index(False)]
    assert newest.status is Status.RUNNING


# ---- 43


@in_room()
async def test_case_43_timer_rows_of_nothing_that_is_there_stop_nobody(room: Room) -> None:
    """Invariants 21 and 23 for the timers beside them; and the mark does not wait for such rows."""
    node = await room.node(1)
    worker = room.worker()
    closed = await node.start("closed")
    await node.complete(await node.workflow_task(worker), [FINISH])
    sleeping = await node.start("sleeping")
    await node.complete(await node.workflow_task(worker), [timer(5)])
    [real] = room.timers()

    def row(run_id: bytes, timer_id: int, **options: Any) -> TimerRow:
        soon_us = room.now_us + 2_000_000
        fields = {"kind": int(TimerKind.USER), "reference": 5, "state": 1, "version": 1, **options}
        return TimerRow(
            shard_id=1, wake_us=soon_us, timer_id=timer_id, run_id=run_id, due_us=soon_us, **fields
        )

    for odd in (
        row(closed.run_id, 11),
        row(bytes(16), 12),
        row(sleeping.run_id, 13, reference=77),
        row(sleeping.run_id, 14, reference=real.reference),  # another timer's number
        row(sleeping.run_id, 15, kind=99),
        row(sleeping.run_id, 16, version=-3),
    ):
        room.tables.timers.put(odd)
    await node.stop()
    other = await room.node(1)

    await pass_time(4)
    before = (await room.names(sleeping.run_id)).count("TimerFired")
    await pass_time(3)

    assert before == 0, "the odd rows are not its timer"
    assert (await room.names(sleeping.run_id)).count("TimerFired") == 1
    assert (await room.names(closed.run_id)).count("TimerFired") == 0
    assert (await other.start("after")).started
    assert other.alarms == ["unknown_timer_kind"]
    assert other.shard().timers.lag_us() == 0
    await pass_time(120)
    assert other.shard().timers.next_mark_us() > real.wake_us


@in_room()
async def test_a_timer_whose_run_cannot_be_loaded_now_fires_later(room: Room) -> None:
    """Invariants 13 and 23: neither a database that is away nor a run that does not read back costs a timer."""
    node = await room.node(1)
    sleeping = await node.start("sleeping")
    await node.complete(await node.workflow_task(room.worker()), [timer(5)])
    await node.stop()
    other = await room.node(1)
    for _ in range(200):
        other.faults.fail_next("load_run", StoreUnavailable("away"))

    await pass_time(10)
    assert "TimerFired" not in await room.names(sleeping.run_id)
    other.shard().quarantined.add(sleeping.run_id, "as if it did not read back")
    await pass_time(3)
    other.faults.forget("load_run")
    await pass_time(60)
    assert "TimerFired" not in await room.names(sleeping.run_id)
    await pass_time(QUARANTINE_S)

    assert (await room.names(sleeping.run_id)).count("TimerFired") == 1
    assert other.shard().timers.lag_us() == 0
