"""The store's door. Two rooms stand behind it: `store.sql` and `store.memory`; one conformance suite holds both.

Every method may raise `StoreUnavailable`: the database did not answer a read, or a write was certainly not sent.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from perdure_engine.core.audit import AuditRow
from perdure_engine.core.deployments import Deployment
from perdure_engine.ports.filters import Expression, Group, Order
from perdure_engine.ports.jobs import JobRetentionStore, JobStore, QueueLimitStore, ScheduleStore
from perdure_engine.ports.rows import (
    CurrentRunRow,
    ExecutionRow,
    HistoryRow,
    InboxRow,
    JobBatchRow,
    JobKeyRow,
    JobRunRow,
    ScheduleRow,
    ScheduleSlotRow,
    SnapshotRow,
    TaskRow,
    TimerRow,
    VisibilityRow,
)


class StoreError(Exception):
    """
    StoreError
    ├── StoreUnavailable    certainly nothing was written; try again later
    ├── Conflict            40001 or 40P01 on a live connection: nothing was written; the same again is right
    ├── FenceLost           some shard is no longer ours: nothing was written
    ├── GuardFailed         memory and database differ: nothing was written
    ├── BatchRefused        a definite error of class 22/23/42/53/54: nothing was written, some row is to blame
    └── OutcomeUnknown      the statement may or may not have landed: bump the fences to find out
    """


class StoreUnavailable(StoreError):
    pass


class ReadTooLong(StoreUnavailable):
    """The database gave the read up after its time: asked again it would do so again."""


class Conflict(StoreError):
    pass


class FenceLost(StoreError):
    pass


class GuardFailed(StoreError):
    pass


class BatchRefused(StoreError):
    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(f"{sqlstate}: {message}")
        self.sqlstate = sqlstate


class OutcomeUnknown(StoreError):
    pass


class Fence(msgspec.Struct):
    """What the owner believes the shard's fence row to be. `commit_seq` is the last committed one."""

    shard_id: int
    range_id: int
    commit_seq: int
    owner_id: bytes


class FenceState(msgspec.Struct, frozen=True):
    """A fence row as stored."""

    shard_id: int
    range_id: int
    commit_seq: int
    owner_id: bytes
    batch_id: bytes


class Batch(msgspec.Struct):
    """The decided work of one or more shards, saved by one statement: all of it or nothing.

    A key appears once in a list. A batch without rows is an empty fence step: it proves ownership.
    """

    batch_id: bytes
    fences: list[Fence]
    current_runs: list[CurrentRunRow]
    executions: list[ExecutionRow]
    history: list[HistoryRow]
    inbox: list[InboxRow]
    tasks: list[TaskRow]
    timers: list[TimerRow]
    visibility: list[VisibilityRow]
    snapshots: list[SnapshotRow]
    audit: list[AuditRow] = []
    job_runs: list[JobRunRow] = []
    job_keys: list[JobKeyRow] = []
    job_batches: list[JobBatchRow] = []
    schedules: list[ScheduleRow] = []
    schedule_slots: list[ScheduleSlotRow] = []


class Sweep(msgspec.Struct):
    """Rows of one shard that are dead, deleted under its fence (which advances as in a commit).

    A task id is unique in its shard, whatever the queue. Ranges are half open. `GuardFailed` when a row
    that is not gone would have been deleted.
    """

    batch_id: bytes
    fence: Fence
    task_keys: list[tuple[int, int]]  # (queue_no, task_id), at most 1,000
    task_ranges: list[tuple[int, int, int]]  # (queue_no, from task_id, to task_id), at most 16
    timer_keys: list[tuple[int, int]]  # (wake_us, timer_id), at most 1,000
    timer_range: (
        tuple[int, int] | None
    )  # (from wake_us, to wake_us); its end becomes the saved mark
    inbox_keys: list[tuple[bytes, int]]  # (run_id, seq), at most 1,000
    schedules: list[tuple[bytes, str]] = []  # (namespace_id, schedule_id), at most 1,000


class Removal(msgspec.Struct):
    """Closed runs of one shard, deleted with everything that is theirs under its fence (which advances
    as in a commit). A run that is not there any more is no error.

    A workflow id's current row goes with the run that it names, and stays when it names another.
    `GuardFailed` when one of the runs is open.
    """

    batch_id: bytes
    fence: Fence
    run_ids: list[bytes]
    workflows: list[tuple[bytes, str]]  # namespace id and workflow id of each run
    audit: list[AuditRow] = []  # for those that somebody asked to delete


class JobRemoval(msgspec.Struct):
    """What is over its time of one shard's jobs and schedules, deleted by exact key under its fence (which advances
    as in a commit). What is not there any more is no error.

    A key goes when it names that job, and stays when it names another.
    `GuardFailed` when a job run is open, a batch has open jobs or is not sealed, or a slot is still to act.
    """

    batch_id: bytes
    fence: Fence
    job_ids: list[bytes]
    keys: list[tuple[bytes, int, str, bytes]] = []  # (namespace_id, kind, key, job_id)
    batches: list[tuple[bytes, str]] = []  # (namespace_id, batch_id)
    # (namespace_id, schedule_id, nominal_us, origin)
    slots: list[tuple[bytes, str, int, int]] = []


class ClosedRun(msgspec.Struct, frozen=True):
    """What retention needs to know of a run that has closed."""

    run_id: bytes
    namespace_id: bytes
    workflow_id: str
    close_us: int
    history_bytes: int


class ClosedPage(msgspec.Struct, frozen=True):
    """The closed runs among some rows that follow each other, and where the next page begins."""

    runs: list[ClosedRun]
    last_run_id: bytes | None  # None: there are no further rows


class RunRecord(msgspec.Struct):
    """Everything saved of one run, read in one READ ONLY SERIALIZABLE transaction.

    `history` starts after the snapshot's event when there is a snapshot, and is in event order.
    `inbox` holds the live rows (seq > inbox_done) in order.
    """

    execution: ExecutionRow
    current: CurrentRunRow | None
    snapshot: list[SnapshotRow]
    history: list[HistoryRow]
    inbox: list[InboxRow]
    tasks: list[TaskRow]


class HistoryPage(msgspec.Struct):
    rows: list[HistoryRow]
    more: bool


class VisibilityFilter(msgspec.Struct, frozen=True):
    """All conditions hold together; empty or 0 means "any". Times in µs: from inclusive, to exclusive."""

    namespace_id: bytes
    statuses: tuple[int, ...] = ()
    workflow_type: str = ""
    workflow_id_prefix: str = ""
    start_min_us: int = 0
    start_max_us: int = 0
    expression: Expression | None = None


PageKey = tuple[int, bytes] | tuple[int, bytes, int]
"""The last row of a page: start, run id and, of a list by close time, its close (0: open)."""

RUNS_LOOKED_AT = 512
"""In each of the sixteen scans of a list, while it looks for what no index knows: some milliseconds of the database."""


class RunPage(msgspec.Struct, frozen=True):
    """Some runs of a list, and the place up to which all were looked at; None: there are no further."""

    rows: list[VisibilityRow]
    end: PageKey | None


class NamespaceRow(msgspec.Struct, frozen=True):
    namespace_id: bytes
    name: str
    description: str
    retention_ms: int
    conflict_token: int
    archive: bool = True  # what is over its retention goes to the archive, if there is one


class DeploymentRow(msgspec.Struct, frozen=True):
    namespace_id: bytes
    name: str
    conflict_token: int  # 0: not saved yet
    deployment: Deployment


class NodeRow(msgspec.Struct, frozen=True):
    """`alive` is judged by the database's clock in the statement that read it."""

    node_id: bytes
    address: str
    region: str
    roles: str
    incarnation: int
    lease_end_us: int
    alive: bool


class ShardRow(msgspec.Struct, frozen=True):
    """Who serves a shard. `node_id` of zeros: released, anybody may take it. `timer_mark_us`: no timer row
    that is not gone lies before it."""

    shard_id: int
    node_id: bytes
    address: str
    timer_mark_us: int


class TokenKeyRow(msgspec.Struct, frozen=True):
    key_id: int
    secret: bytes
    created_us: int


NO_NODE = bytes(16)


class CommitStore(Protocol):
    """What the writer needs."""

    async def commit(self, batch: Batch) -> int:
        """Save the batch in one autocommit statement; return database time (µs), a lower bound at receipt.

        Raises Conflict, FenceLost, GuardFailed, BatchRefused, OutcomeUnknown. On success each fence's stored
        commit_seq is the given one + 1; the caller's Fence objects are not changed.
        """
        ...

    async def sweep(self, sweep: Sweep) -> int:
        """Delete dead rows under the fence; return database time (µs). Raises as `commit`."""
        ...

    async def remove_runs(self, removal: Removal) -> int:
        """Delete closed runs under the fence; return database time (µs). Raises as `commit`."""
        ...

    async def remove_jobs(self, removal: JobRemoval) -> int:
        """Delete what is over its time under the fence; return database time (µs). Raises as `commit`."""
        ...

    async def bump_fences(self, fences: list[Fence], new_owner_id: bytes) -> list[FenceState]:
        """Take the shards: range_id + 1, owner := new, where range and owner are as given.

        Repeats by itself on Conflict. Returns the rows it changed (with the batch_id of the last commit that
        landed); a shard that is missing from the answer is lost. Raises OutcomeUnknown.
        """
        ...

    async def read_fences(self, shard_ids: list[int]) -> list[FenceState]: ...


class RunStore(Protocol):
    """What a shard reads. A read begins after everything committed before the call."""

    async def load_run(
        self, shard_id: int, run_id: bytes, task_keys_of_head: TaskKeysOfHead
    ) -> RunRecord | None:
        """Read one run. `task_keys_of_head` tells from the head's bytes which task rows belong to it."""
        ...

    async def load_current_runs(self, keys: list[tuple[int, bytes, str]]) -> list[CurrentRunRow]:
        """The rows that exist of the given (shard_id, namespace_id, workflow_id), in any order.

        Every start of an id that is not in memory needs one, so many go in one statement.
        """
        ...

    async def load_tasks(self, shard_id: int, after: tuple[int, int], limit: int) -> list[TaskRow]:
        """Task rows of all states past (queue_no, task_id), in key order."""
        ...

    async def load_queue_tasks(
        self, shard_id: int, queue_no: int, after_task_id: int, limit: int
    ) -> list[TaskRow]:
        """Task rows of one queue past a task id, in key order, all states."""
        ...

    async def load_timers(
        self, shard_id: int, after: tuple[int, int], to_wake_us: int, limit: int
    ) -> list[TimerRow]:
        """Timer rows past (wake_us, timer_id) and with wake_us < to_wake_us, in key order, all states."""
        ...

    async def load_history(
        self, shard_id: int, run_id: bytes, from_event_id: int, limit: int
    ) -> HistoryPage:
        """History rows whose batch starts at or after `from_event_id`, or the one that contains it, in order.

        `limit` counts batches; a batch is never cut between its parts.
        """
        ...


class RetentionStore(Protocol):
    """What retention reads."""

    async def list_namespaces(self) -> list[NamespaceRow]: ...

    async def load_closed_runs(self, shard_id: int, after_run_id: bytes, limit: int) -> ClosedPage:
        """Look at up to `limit` runs of the shard past a run id, in the order of their ids."""
        ...

    async def load_listed_runs(self, shard_id: int, run_ids: list[bytes]) -> list[VisibilityRow]:
        """The rows that exist, in any order."""
        ...

    async def load_histories(self, shard_id: int, run_ids: list[bytes]) -> list[HistoryRow]:
        """All of them, run by run in any order, each run's rows in order. The caller knows that they are small."""
        ...


class TaskKeysOfHead(Protocol):
    def __call__(self, head: bytes) -> list[tuple[int, int]]: ...


class VisibilityStore(Protocol):
    async def list_runs(
        self,
        where: VisibilityFilter,
        before: PageKey | None,
        limit: int,
        order: Order = Order.START_DESC,
        look: int = RUNS_LOOKED_AT,
    ) -> RunPage:
        """In `order`, strictly past `before`. By start time it may have fewer runs than `limit`, and none, though more
        follow: when it has looked at `look` runs (of some scans each) for what no index knows."""
        ...

    async def count_runs(self, where: VisibilityFilter) -> int: ...

    async def count_groups(
        self, where: VisibilityFilter, group: Group
    ) -> list[tuple[int | str, int]]:
        """How many runs have each status (its number) or type, in order; none that no run has."""
        ...


class NamespaceStore(Protocol):
    """A change and its row in the audit log (`audited`) are saved together or not at all. BatchRefused 23505
    when the row's place in its chain is taken.
    """

    async def list_namespaces(self) -> list[NamespaceRow]: ...

    async def create_namespace(self, row: NamespaceRow, audited: AuditRow | None = None) -> bool:
        """False when the name exists already."""
        ...

    async def update_namespace(self, row: NamespaceRow, audited: AuditRow | None = None) -> bool:
        """Replace where conflict_token is row.conflict_token; it grows by one. False: another came first."""
        ...


class DeploymentStore(Protocol):
    async def list_deployments(self) -> list[DeploymentRow]:
        """Of all namespaces, in any order."""
        ...

    async def put_deployment(self, row: DeploymentRow, audited: AuditRow | None = None) -> bool:
        """Make it (token 0), or replace where conflict_token is row.conflict_token; it grows by one.

        The change and its row in the audit log are saved together or not at all. False: another came first. Raises
        BatchRefused 23505 when the row's place in its chain is taken.
        """
        ...


class MembershipStore(Protocol):
    async def renew_node(
        self, node_id: bytes, address: str, region: str, roles: str, incarnation: int, lease_ms: int
    ) -> int:
        """Extend the node's lease by the database's clock; return database time (µs)."""
        ...

    async def release_node(self, node_id: bytes) -> None: ...

    async def list_nodes(self) -> list[NodeRow]: ...

    async def list_shards(self) -> list[ShardRow]:
        """One row per fence row, whether somebody ever served the shard or not."""
        ...

    async def put_shard(self, shard_id: int, node_id: bytes, address: str) -> None:
        """Record who serves the shard (after the fence says so), or NO_NODE for a release."""
        ...

    async def list_token_keys(self) -> list[TokenKeyRow]: ...

    async def put_token_key(self, key_id: int, secret: bytes) -> bool:
        """False when the key id exists already (another node was first)."""
        ...


class Store(
    CommitStore,
    RunStore,
    VisibilityStore,
    NamespaceStore,
    MembershipStore,
    RetentionStore,
    DeploymentStore,
    JobStore,
    ScheduleStore,
    JobRetentionStore,
    QueueLimitStore,
    Protocol,
):
    """All of it, as the composition root builds it."""

    async def open(self) -> None:
        """Connect and check isolation, durability, version, collation. Raises StoreUnavailable or ConfigError."""
        ...

    async def close(self) -> None: ...

    async def describe(self) -> str:
        """The database's product and version, for people."""
        ...
