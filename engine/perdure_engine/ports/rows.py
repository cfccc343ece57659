"""Rows as they travel between `history` and `store`, in the column order of their tables.

Ids of namespaces, runs and owners are 16 bytes; instants are int µs since the epoch.

`version` carries design §3's sign trick: 1 is a new row, -v an update of the row now stored at v (it becomes
v + 1). What a store returns from a read holds the stored version, which is always at least 1.
"""

from __future__ import annotations

from typing import NamedTuple


class CurrentRunRow(NamedTuple):
    """One open run per workflow id: `status` is `core.state.Status`."""

    shard_id: int
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    status: int
    version: int


class ExecutionRow(NamedTuple):
    """Head of a run. `head` is the codec's form of `core.state.Head`, under 2 KB for the common run."""

    shard_id: int
    run_id: bytes
    namespace_id: bytes
    workflow_id: str
    status: int
    next_event_id: int
    inbox_done: int
    head: bytes
    version: int


class HistoryRow(NamedTuple):
    """A batch of events from `first_event_id` on; parts 0, 1, … of one batch joined give its bytes."""

    shard_id: int
    run_id: bytes
    first_event_id: int
    part: int
    payload: bytes


class InboxRow(NamedTuple):
    """A buffered event. Dead once the head row's `inbox_done` has reached `seq`."""

    shard_id: int
    run_id: bytes
    seq: int
    payload: bytes


class TaskRow(NamedTuple):
    """A ready, started or backing-off task; `state` is `core.tasks.TaskState`."""

    shard_id: int
    queue_no: int
    task_id: int
    run_id: bytes
    state: int
    attempt: int
    start_no: int
    priority: int
    payload: bytes
    version: int


class TimerRow(NamedTuple):
    """`due_us` is the nominal time; `wake_us` the key, never before it. `kind` is `core.tasks.TimerKind`.

    `reference` is the event id (user timers, activities) the timer stands for, 0 for the run's own.
    """

    shard_id: int
    wake_us: int
    timer_id: int
    run_id: bytes
    kind: int
    reference: int
    state: int
    due_us: int
    version: int


class VisibilityRow(NamedTuple):
    """What lists and counts read. `attrs` is JSON text, `close_us` is None while the run is open."""

    shard_id: int
    run_id: bytes
    namespace_id: bytes
    bucket: int
    workflow_id: str
    workflow_type: str
    task_queue: str
    status: int
    start_us: int
    close_us: int | None
    history_events: int
    history_bytes: int
    memo: bytes
    attrs: str


class SnapshotRow(NamedTuple):
    """The fold of events 1..event_id: a shortcut, never the truth. All parts of one snapshot name the same event."""

    shard_id: int
    run_id: bytes
    part: int
    event_id: int
    payload: bytes


ROW_GONE = 9
"""`state` of a task or timer row whose reason is over; the sweep deletes it."""
