"""Invariants of everything saved, checked at quiescence (reliability.md, "scrubber")."""

from __future__ import annotations

from perdure_engine.core import events as ev
from perdure_engine.core.events import Event
from perdure_engine.core.status import Status
from perdure_engine.history.loading import decode_history, restore
from perdure_engine.ports.rows import ROW_GONE
from perdure_engine.ports.store import RunRecord
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.memory.store import MemoryStore

CLOSING = (
    ev.WorkflowExecutionCompleted,
    ev.WorkflowExecutionFailed,
    ev.WorkflowExecutionTimedOut,
    ev.WorkflowExecutionCanceled,
    ev.WorkflowExecutionTerminated,
    ev.WorkflowExecutionContinuedAsNew,
)


async def scrub(store: MemoryStore, shards: int) -> dict[bytes, list[Event]]:
    """Check every run of the database. Returns the histories by run id. Raises AssertionError."""
    codec = MsgpackCodec()
    histories: dict[bytes, list[Event]] = {}
    open_ids: set[tuple[bytes, str]] = set()
    for shard_id in range(1, shards + 1):
        for run_id in sorted(row.run_id for row in store.tables.executions.in_order(shard_id)):
            record = await store.load_run(shard_id, run_id, codec.task_keys_of_head)
            assert record is not None
            page = await store.load_history(shard_id, run_id, 1, 1_000_000)
            history = decode_history(page.rows, codec)
            check_history(history)
            await check_rows(store, record, codec)
            if record.execution.status == Status.RUNNING:
                key = (record.execution.namespace_id, record.execution.workflow_id)
                assert key not in open_ids, "invariant 9: two open runs of one workflow id"
                open_ids.add(key)
            histories[run_id] = history
    return histories


def check_history(history: list[Event]) -> None:
    ids = [event.event_id for event in history]
    assert ids == list(range(1, len(ids) + 1)), "invariant 1: event ids are 1..n"
    assert isinstance(history[0], ev.WorkflowExecutionStarted), "invariant 3: Started is first"
    closing = [event.event_id for event in history if isinstance(event, CLOSING)]
    assert closing in ([], [len(history)]), "invariant 3: one terminal event, and it is last"
    times = [event.time_us for event in history]
    assert times == sorted(times), "invariant 7: time never decreases"
    requests = [e.request_id for e in history if isinstance(e, ev.WorkflowExecutionSignaled)]
    assert len(requests) == len(set(requests)), "invariant 41: a signal is recorded once"
    outcomes = [e.scheduled_event_id for e in history if isinstance(e, ev.ActivityTaskCompleted)]
    assert len(outcomes) == len(set(outcomes)), "invariant 30: an outcome is applied once"
    started: int | None = None
    for event in history:
        if started is not None:
            assert isinstance(
                event, ev.WorkflowTaskCompleted | ev.WorkflowTaskFailed | ev.WorkflowTaskTimedOut
            ), "invariant 18: nothing stands between Started and its outcome"
            started = None
        elif isinstance(event, ev.WorkflowTaskStarted):
            started = event.event_id


async def check_rows(store: MemoryStore, record: RunRecord, codec: MsgpackCodec) -> None:
    state, _, _ = restore(
        record, codec
    )  # invariant 4: the state is a fold of history, inbox and rows
    if not state.open:
        pending = state.tasks or state.timer_rows or state.buffered
        assert not pending, "invariant 6: nothing stays pending"
        return
    row = record.execution
    timers = await store.load_timers(row.shard_id, (0, 0), 1 << 62, 1_000_000)
    keys = {(timer.wake_us, timer.timer_id) for timer in timers if timer.state != ROW_GONE}
    for timer in state.timer_rows.values():
        assert (timer.wake_us, timer.timer_id) in keys, "invariant 13: a timer has its row"
    for timer_id, timer in state.folded.timers.items():
        buffered = any(
            isinstance(e, ev.TimerFired) and e.timer_id == timer_id for e in state.buffered
        )
        has_row = any(t.reference == timer.started_event_id for t in state.timer_rows.values())
        assert buffered or has_row, "invariant 13: a pending timer has a row or has fired"
    for scheduled_id in state.folded.activities:
        buffered = any(getattr(e, "scheduled_event_id", 0) == scheduled_id for e in state.buffered)
        assert buffered or scheduled_id in state.tasks, (
            "invariant 13: a pending activity has a row or has ended"
        )
