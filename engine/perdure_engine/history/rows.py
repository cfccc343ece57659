"""From a draft to rows: what a batch writes of one run (design §3-4)."""

from __future__ import annotations

from perdure_engine.core import audit, limits, search_attributes
from perdure_engine.core.describe import run_info
from perdure_engine.core.draft import Draft
from perdure_engine.core.events import Event
from perdure_engine.core.replies import RunInfo
from perdure_engine.core.state import RunState, head_of
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskRecord, TimerRecord
from perdure_engine.history.run import CurrentRun
from perdure_engine.ports.codec import Codec
from perdure_engine.ports.rows import (
    ROW_GONE,
    CurrentRunRow,
    ExecutionRow,
    HistoryRow,
    InboxRow,
    SnapshotRow,
    TaskRow,
    TimerRow,
    VisibilityRow,
)
from perdure_engine.ports.store import Batch

BUCKETS = 16  # of the visibility index, so that it has no hot end


def version_to_send(stored: int) -> int:
    """The sign trick of design §3: 1 for a new row, -v for an update of the row now at v."""
    return -stored or 1


def add_run(batch: Batch, shard_id: int, draft: Draft, codec: Codec) -> None:
    """Append all rows of one run's draft, and bring the state's own figures up to date."""
    state = draft.state
    if draft.events:
        _add_history(batch, shard_id, draft, codec)
    for seq, event in draft.inbox:
        if state.waits_in_inbox(seq, event):
            batch.inbox.append(InboxRow(shard_id, state.run_id, seq, codec.encode_buffered(event)))
    _add_tasks(batch, shard_id, draft, codec)
    _add_timers(batch, shard_id, draft)
    if draft.is_new or draft.listed or not state.open:
        batch.visibility.append(_visibility(shard_id, state))
    _add_snapshot(batch, shard_id, state, codec)
    folded = state.folded
    started = folded.started
    batch.executions.append(
        ExecutionRow(
            shard_id,
            started.run_id,
            started.namespace_id,
            started.workflow_id,
            # The head row says only how a run has ended: one that is paused is open.
            Status.RUNNING if folded.status is Status.PAUSED else folded.status,
            folded.next_event_id,
            state.inbox_done,
            codec.encode_head(head_of(state)),
            version_to_send(state.version),
        )
    )


def add_current(batch: Batch, shard_id: int, key: tuple[bytes, str], current: CurrentRun) -> None:
    namespace_id, workflow_id = key
    batch.current_runs.append(
        CurrentRunRow(
            shard_id,
            namespace_id,
            workflow_id,
            current.run_id,
            current.status,
            version_to_send(current.version),
        )
    )


def add_audit(batch: Batch, head: audit.Head, entries: list[audit.Entry]) -> audit.Head:
    """Append the entries to the chain that `head` ends; where it ends then."""
    for entry in entries:
        row, head = audit.append(head, entry)
        batch.audit.append(row)
    return head


def saved(draft: Draft) -> None:
    """The batch is committed: the records learn their stored versions."""
    state = draft.state
    state.version += 1
    for record in dict.fromkeys(draft.tasks):
        record.version += 1
    for record in draft.gone_tasks:
        record.version += 1
    for timer in draft.timers:
        timer.version = 1


def _add_history(batch: Batch, shard_id: int, draft: Draft, codec: Codec) -> None:
    state = draft.state
    events = draft.events
    most = limits.HISTORY_BATCH_EVENTS_MAX
    while len(events) > most:
        _add_history_batch(batch, shard_id, state, events[:most], codec)
        events = events[most:]
    _add_history_batch(batch, shard_id, state, events, codec)


def _add_history_batch(
    batch: Batch, shard_id: int, state: RunState, events: list[Event], codec: Codec
) -> None:
    payload = codec.encode_events(events)
    state.history_bytes += len(payload)
    first = events[0].event_id
    size = limits.HISTORY_PART_BYTES_MAX
    if len(payload) <= size:
        batch.history.append(HistoryRow(shard_id, state.run_id, first, 0, payload))
        return
    for part, offset in enumerate(range(0, len(payload), size)):
        batch.history.append(
            HistoryRow(shard_id, state.run_id, first, part, payload[offset : offset + size])
        )


def _add_tasks(batch: Batch, shard_id: int, draft: Draft, codec: Codec) -> None:
    namespace_id = draft.state.folded.started.namespace_id
    run_id = draft.state.run_id
    for record in dict.fromkeys(draft.tasks):
        if record.state != ROW_GONE:
            payload = codec.encode_task(record, namespace_id)
            batch.tasks.append(_task_row(shard_id, run_id, record, payload))
    for record in draft.gone_tasks:
        if record.version:
            batch.tasks.append(_task_row(shard_id, run_id, record, b""))


def _task_row(shard_id: int, run_id: bytes, record: TaskRecord, payload: bytes) -> TaskRow:
    return TaskRow(
        shard_id,
        record.queue_no,
        record.task_id,
        run_id,
        record.state,
        record.attempt,
        record.start_no,
        record.priority,
        payload,
        version_to_send(record.version),
    )


def _add_timers(batch: Batch, shard_id: int, draft: Draft) -> None:
    run_id = draft.state.run_id
    for timer in draft.timers:
        add_timer(batch, shard_id, run_id, timer)
    for timer in draft.gone_timers:
        add_gone_timer(batch, shard_id, run_id, timer)


def add_timer(batch: Batch, shard_id: int, run_id: bytes, timer: TimerRecord) -> None:
    """A new one, unless it was dropped in the batch that made it. `run_id`: or a job's id."""
    if not timer.gone:
        batch.timers.append(_timer_row(shard_id, run_id, timer, 1, 1))


def add_gone_timer(batch: Batch, shard_id: int, run_id: bytes, timer: TimerRecord) -> None:
    if timer.version:
        batch.timers.append(_timer_row(shard_id, run_id, timer, ROW_GONE, -timer.version))


def _timer_row(
    shard_id: int, run_id: bytes, timer: TimerRecord, state: int, version: int
) -> TimerRow:
    return TimerRow(
        shard_id,
        timer.wake_us,
        timer.timer_id,
        run_id,
        timer.kind,
        timer.reference,
        state,
        timer.due_us,
        version,
    )


def _visibility(shard_id: int, state: RunState) -> VisibilityRow:
    info = run_info(state)
    return VisibilityRow(
        shard_id,
        info.run_id,
        state.folded.started.namespace_id,
        shard_id % BUCKETS,
        info.workflow_id,
        info.workflow_type,
        info.task_queue,
        info.status,
        info.start_us,
        info.close_us or None,
        info.history_events,
        state.history_bytes,
        info.memo,
        _attrs(info) if info.stuck or info.search_attributes or info.versioning else "{}",
    )


def _attrs(info: RunInfo) -> str:
    reason = info.stuck_reason if info.stuck else None
    attributes = info.search_attributes
    if info.versioning is not None:
        attributes += search_attributes.of_versioning(info.versioning)
    return search_attributes.to_json(attributes, reason)


def _add_snapshot(batch: Batch, shard_id: int, state: RunState, codec: Codec) -> None:
    """Every SNAPSHOT_EVENTS events, of an open run, so that a reload folds little."""
    last = state.folded.next_event_id - 1
    if not state.open or last - state.snapshot_event_id < limits.SNAPSHOT_EVENTS:
        return
    payload = codec.encode_snapshot(state.folded)
    if len(payload) > limits.SNAPSHOT_BYTES_MAX:
        return
    size = limits.HISTORY_PART_BYTES_MAX
    for part, offset in enumerate(range(0, len(payload), size)):
        batch.snapshots.append(
            SnapshotRow(shard_id, state.run_id, part, last, payload[offset : offset + size])
        )
    state.snapshot_event_id = last
