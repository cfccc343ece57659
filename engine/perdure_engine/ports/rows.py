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


class JobRunRow(NamedTuple):
    """A job run: its only row. `status` is `core.jobs.model.JobStatus`; `task_id` 0: no worker may have it now;
    below 0: its time has come, and it waits for a place of its concurrency key.

    An update (version below 0) leaves what never changes as it is, whatever the row says: namespace, bucket, names,
    ids, keys, `created_us`, `spec`. Optional texts are '' when there is none. `queue_no` goes by queue and pool.
    """

    shard_id: int
    job_id: bytes
    namespace_id: bytes
    bucket: int
    task_name: str
    queue: str
    queue_no: int
    user_id: str
    schedule_id: str
    concurrency_key: str
    batch_id: str
    status: int
    attempt: int
    priority: int
    created_us: int
    scheduled_us: int
    closed_us: int | None
    task_id: int
    start_no: int
    spec: bytes
    state: bytes
    result: bytes
    version: int


class JobKeyRow(NamedTuple):
    """Who holds a unique key. `until_us` None: as long as its scope says. The row goes with the job that it names."""

    shard_id: int
    namespace_id: bytes
    kind: int
    key: str
    job_id: bytes
    until_us: int | None
    version: int


class JobBatchRow(NamedTuple):
    """How far a batch of jobs is. `open` counts those that have not ended."""

    shard_id: int
    namespace_id: bytes
    batch_id: str
    total: int
    open: int
    sealed: bool
    state: bytes
    version: int


class ScheduleRow(NamedTuple):
    """A schedule. `next_us` None: no slot is planned. `gone`: it was deleted, and the sweep deletes its row; until
    then an update can make it anew. `spec` b"" in an update: as it is stored."""

    shard_id: int
    namespace_id: bytes
    schedule_id: str
    user_id: str
    paused: bool
    next_us: int | None
    created_us: int
    spec: bytes
    state: bytes
    conflict_token: int
    version: int
    gone: bool = False


class ScheduleSlotRow(NamedTuple):
    """What a schedule did at one of its times. `origin` is `core.schedules.model.SlotOrigin`, `outcome` its
    SlotOutcome."""

    shard_id: int
    namespace_id: bytes
    schedule_id: str
    nominal_us: int
    origin: int
    outcome: int
    acted_us: int
    target_id: str
    detail: str
    version: int


ROW_GONE = 9
"""`state` of a task or timer row whose reason is over; the sweep deletes it."""
