"""`MemoryStore`: ports.store.Store over dicts. Nothing here waits, so each call is one instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from perdure_engine.core.audit import AuditRow
from perdure_engine.ports.filters import Group, Order
from perdure_engine.ports.jobs import QueueLimitRow
from perdure_engine.ports.rows import (
    CurrentRunRow,
    HistoryRow,
    SnapshotRow,
    TaskRow,
    TimerRow,
    VisibilityRow,
)
from perdure_engine.ports.store import (
    RUNS_LOOKED_AT,
    Batch,
    BatchRefused,
    ClosedPage,
    ClosedRun,
    DeploymentRow,
    Fence,
    FenceLost,
    FenceState,
    HistoryPage,
    JobRemoval,
    NamespaceRow,
    NodeRow,
    PageKey,
    Removal,
    RunPage,
    RunRecord,
    ShardRow,
    Sweep,
    TaskKeysOfHead,
    TokenKeyRow,
    VisibilityFilter,
)
from perdure_engine.store.memory.audit import MemoryAudit, insert_audit
from perdure_engine.store.memory.batch import (
    apply_batch,
    apply_job_removal,
    apply_removal,
    apply_sweep,
)
from perdure_engine.store.memory.batches import MemoryBatches
from perdure_engine.store.memory.checks import UNIQUE_VIOLATION
from perdure_engine.store.memory.faults import Faults, Moment
from perdure_engine.store.memory.filters import listed
from perdure_engine.store.memory.jobs import MemoryJobRetention, MemoryJobs
from perdure_engine.store.memory.scheduling import MemorySchedules
from perdure_engine.store.memory.tables import Tables

_NEVER_US = 253_402_214_400_000_000  # 9999-12-31: when an open run closes, for the order


def _key_of(row: VisibilityRow) -> PageKey:
    return row.start_us, row.run_id, row.close_us or 0


def _page_key(row: VisibilityRow, by_close: bool) -> tuple[int, int, bytes]:
    close_us = _NEVER_US if row.close_us is None else row.close_us
    return close_us if by_close else 0, row.start_us, row.run_id


class MemoryCommits:
    """`CommitStore` in memory."""

    tables: Tables
    faults: Faults
    clock: Callable[[], int]

    async def commit(self, batch: Batch) -> int:
        await self.faults.meet("commit", Moment.BEFORE)
        apply_batch(self.tables, batch)
        now_us = self.clock()
        await self.faults.meet("commit", Moment.AFTER)
        return now_us

    async def sweep(self, sweep: Sweep) -> int:
        await self.faults.meet("sweep", Moment.BEFORE)
        apply_sweep(self.tables, sweep)
        now_us = self.clock()
        await self.faults.meet("sweep", Moment.AFTER)
        return now_us

    async def remove_runs(self, removal: Removal) -> int:
        await self.faults.meet("remove_runs", Moment.BEFORE)
        apply_removal(self.tables, removal)
        now_us = self.clock()
        await self.faults.meet("remove_runs", Moment.AFTER)
        return now_us

    async def remove_jobs(self, removal: JobRemoval) -> int:
        await self.faults.meet("remove_jobs", Moment.BEFORE)
        apply_job_removal(self.tables, removal)
        now_us = self.clock()
        await self.faults.meet("remove_jobs", Moment.AFTER)
        return now_us

    async def bump_fences(self, fences: list[Fence], new_owner_id: bytes) -> list[FenceState]:
        await self.faults.meet("bump_fences", Moment.BEFORE)
        bumped = []
        for fence in sorted(fences, key=lambda fence: fence.shard_id):
            state = self.tables.fences.get(fence.shard_id)
            if state is None or (state.range_id, state.owner_id) != (
                fence.range_id,
                fence.owner_id,
            ):
                continue
            state = FenceState(
                state.shard_id, state.range_id + 1, state.commit_seq, new_owner_id, state.batch_id
            )
            self.tables.fences[fence.shard_id] = state
            bumped.append(state)
        await self.faults.meet("bump_fences", Moment.AFTER)
        return bumped

    async def read_fences(self, shard_ids: list[int]) -> list[FenceState]:
        await self.faults.meet("read_fences", Moment.BEFORE)
        fences = self.tables.fences
        return [fences[shard_id] for shard_id in sorted(set(shard_ids)) if shard_id in fences]


class MemoryRuns:
    """`RunStore` in memory."""

    tables: Tables
    faults: Faults

    async def load_run(
        self, shard_id: int, run_id: bytes, task_keys_of_head: TaskKeysOfHead
    ) -> RunRecord | None:
        await self.faults.meet("load_run", Moment.BEFORE)
        tables = self.tables
        head = tables.executions.get(shard_id, run_id)
        if head is None:
            return None
        snapshot = self._snapshot(shard_id, run_id)
        snapshot_event_id = snapshot[0].event_id if snapshot else 0
        run = (shard_id, run_id)
        keys = sorted(set(task_keys_of_head(head.head)))
        found = [tables.tasks.get(shard_id, key) for key in keys]
        return RunRecord(
            execution=head,
            current=tables.current_runs.get(shard_id, (head.namespace_id, head.workflow_id)),
            snapshot=snapshot,
            history=[
                row
                for row in tables.history.in_order(run)
                if row.first_event_id > snapshot_event_id
            ],
            inbox=[row for row in tables.inbox.in_order(run) if row.seq > head.inbox_done],
            tasks=[task for task in found if task is not None],
        )

    async def load_current_runs(self, keys: list[tuple[int, bytes, str]]) -> list[CurrentRunRow]:
        await self.faults.meet("load_current_runs", Moment.BEFORE)
        table = self.tables.current_runs
        found = [table.get(shard_id, (namespace, id_)) for shard_id, namespace, id_ in keys]
        return [row for row in found if row is not None]

    async def load_tasks(self, shard_id: int, after: tuple[int, int], limit: int) -> list[TaskRow]:
        await self.faults.meet("load_tasks", Moment.BEFORE)
        rows = self.tables.tasks.in_order(shard_id)
        return [row for row in rows if (row.queue_no, row.task_id) > after][:limit]

    async def load_queue_tasks(
        self, shard_id: int, queue_no: int, after_task_id: int, limit: int
    ) -> list[TaskRow]:
        await self.faults.meet("load_queue_tasks", Moment.BEFORE)
        rows = self.tables.tasks.in_order(shard_id)
        return [row for row in rows if row.queue_no == queue_no and row.task_id > after_task_id][
            :limit
        ]

    async def load_timers(
        self, shard_id: int, after: tuple[int, int], to_wake_us: int, limit: int
    ) -> list[TimerRow]:
        await self.faults.meet("load_timers", Moment.BEFORE)
        rows = self.tables.timers.in_order(shard_id)
        return [
            row for row in rows if (row.wake_us, row.timer_id) > after and row.wake_us < to_wake_us
        ][:limit]

    async def load_history(
        self, shard_id: int, run_id: bytes, from_event_id: int, limit: int
    ) -> HistoryPage:
        await self.faults.meet("load_history", Moment.BEFORE)
        rows = self.tables.history.in_order((shard_id, run_id))
        firsts = sorted({row.first_event_id for row in rows})
        begin = max((first for first in firsts if first <= from_event_id), default=1)
        wanted = [first for first in firsts if first >= begin]
        page = set(wanted[:limit])
        return HistoryPage(
            rows=[row for row in rows if row.first_event_id in page], more=len(wanted) > limit
        )

    async def load_closed_runs(self, shard_id: int, after_run_id: bytes, limit: int) -> ClosedPage:
        await self.faults.meet("load_closed_runs", Moment.BEFORE)
        rows = [
            row for row in self.tables.visibility.in_order(shard_id) if row.run_id > after_run_id
        ]
        page = rows[:limit]
        closed = [
            ClosedRun(
                row.run_id, row.namespace_id, row.workflow_id, row.close_us, row.history_bytes
            )
            for row in page
            if row.close_us is not None
        ]
        return ClosedPage(closed, page[-1].run_id if len(page) == limit else None)

    async def load_listed_runs(self, shard_id: int, run_ids: list[bytes]) -> list[VisibilityRow]:
        await self.faults.meet("load_listed_runs", Moment.BEFORE)
        rows = self.tables.visibility.in_order(shard_id)
        return [row for row in rows if row.run_id in run_ids]

    async def load_histories(self, shard_id: int, run_ids: list[bytes]) -> list[HistoryRow]:
        await self.faults.meet("load_histories", Moment.BEFORE)
        return [
            row for run_id in run_ids for row in self.tables.history.in_order((shard_id, run_id))
        ]

    def _snapshot(self, shard_id: int, run_id: bytes) -> list[SnapshotRow]:
        """Without the parts that a longer one before it may have left behind."""
        rows = self.tables.snapshots.in_order((shard_id, run_id))
        return [row for row in rows if row.event_id == rows[0].event_id]


class MemoryLists:
    """`VisibilityStore` in memory."""

    tables: Tables
    faults: Faults

    async def list_runs(
        self,
        where: VisibilityFilter,
        before: PageKey | None,
        limit: int,
        order: Order = Order.START_DESC,
        look: int = RUNS_LOOKED_AT,
    ) -> RunPage:
        """By start time in one scan, of the namespace's runs in their time, for every filter."""
        await self.faults.meet("list_runs", Moment.BEFORE)
        descending = order in (Order.START_DESC, Order.CLOSE_DESC)
        by_close = order in (Order.CLOSE_DESC, Order.CLOSE_ASC)
        of_time = where
        if not by_close:
            of_time = VisibilityFilter(
                where.namespace_id, start_min_us=where.start_min_us, start_max_us=where.start_max_us
            )
        rows = sorted(
            self._matching(of_time), key=lambda row: _page_key(row, by_close), reverse=descending
        )
        if before is not None:
            close_us = before[2] if len(before) == 3 else 0
            seen = ((close_us or _NEVER_US) if by_close else 0, before[0], before[1])
            rows = [
                row
                for row in rows
                if (
                    _page_key(row, by_close) < seen
                    if descending
                    else _page_key(row, by_close) > seen
                )
            ]
        look = len(rows) if by_close else max(look, limit)
        found = [row for row in rows[:look] if listed(where, row)]
        last = None
        if len(found) > limit:
            found = found[:limit]
            last = found[-1]
        elif len(rows) > look:
            last = rows[look - 1]
        return RunPage(found, None if last is None else _key_of(last))

    async def count_runs(self, where: VisibilityFilter) -> int:
        await self.faults.meet("count_runs", Moment.BEFORE)
        return sum(1 for _ in self._matching(where))

    async def count_groups(
        self, where: VisibilityFilter, group: Group
    ) -> list[tuple[int | str, int]]:
        await self.faults.meet("count_groups", Moment.BEFORE)
        found: list[int | str] = [
            row.status if group is Group.STATUS else row.workflow_type
            for row in self._matching(where)
        ]
        return sorted(Counter(found).items(), key=lambda one: str(one[0]))

    def _matching(self, where: VisibilityFilter) -> Iterator[VisibilityRow]:
        return (row for row in self.tables.visibility.all() if listed(where, row))


class MemoryNamespaces:
    """`NamespaceStore` in memory."""

    tables: Tables
    faults: Faults

    async def list_namespaces(self) -> list[NamespaceRow]:
        await self.faults.meet("list_namespaces", Moment.BEFORE)
        return sorted(self.tables.namespaces.values(), key=lambda row: row.name)

    async def create_namespace(self, row: NamespaceRow, audited: AuditRow | None = None) -> bool:
        await self.faults.meet("create_namespace", Moment.BEFORE)
        if any(row.name == other.name for other in self.tables.namespaces.values()):
            return False
        if row.namespace_id in self.tables.namespaces:
            raise BatchRefused(UNIQUE_VIOLATION, "the namespace's id exists")
        insert_audit(self.tables, audited)
        self.tables.namespaces[row.namespace_id] = row
        await self.faults.meet("create_namespace", Moment.AFTER)
        return True

    async def update_namespace(self, row: NamespaceRow, audited: AuditRow | None = None) -> bool:
        await self.faults.meet("update_namespace", Moment.BEFORE)
        stored = self.tables.namespaces.get(row.namespace_id)
        if stored is None or stored.conflict_token != row.conflict_token:
            return False
        insert_audit(self.tables, audited)
        self.tables.namespaces[row.namespace_id] = msgspec.structs.replace(
            row, conflict_token=row.conflict_token + 1
        )
        await self.faults.meet("update_namespace", Moment.AFTER)
        return True


class MemoryDeployments:
    """`DeploymentStore` in memory."""

    tables: Tables
    faults: Faults

    async def list_deployments(self) -> list[DeploymentRow]:
        await self.faults.meet("list_deployments", Moment.BEFORE)
        return list(self.tables.deployments.values())

    async def put_deployment(self, row: DeploymentRow, audited: AuditRow | None = None) -> bool:
        await self.faults.meet("put_deployment", Moment.BEFORE)
        key = (row.namespace_id, row.name)
        stored = self.tables.deployments.get(key)
        if (stored.conflict_token if stored is not None else 0) != row.conflict_token:
            return False
        insert_audit(self.tables, audited)
        token = row.conflict_token + 1
        self.tables.deployments[key] = msgspec.structs.replace(row, conflict_token=token)
        await self.faults.meet("put_deployment", Moment.AFTER)
        return True


class MemoryQueueLimits:
    """`QueueLimitStore` in memory."""

    tables: Tables
    faults: Faults

    async def list_queue_limits(self) -> list[QueueLimitRow]:
        await self.faults.meet("list_queue_limits", Moment.BEFORE)
        return list(self.tables.queue_limits.values())

    async def put_queue_limit(self, row: QueueLimitRow, audited: AuditRow | None = None) -> bool:
        await self.faults.meet("put_queue_limit", Moment.BEFORE)
        key = (row.namespace_id, row.queue)
        stored = self.tables.queue_limits.get(key)
        if (stored.conflict_token if stored is not None else 0) != row.conflict_token:
            return False
        insert_audit(self.tables, audited)
        token = row.conflict_token + 1
        self.tables.queue_limits[key] = msgspec.structs.replace(row, conflict_token=token)
        await self.faults.meet("put_queue_limit", Moment.AFTER)
        return True


class MemoryMembership:
    """`MembershipStore` in memory."""

    tables: Tables
    faults: Faults
    clock: Callable[[], int]

    async def renew_node(
        self, node_id: bytes, address: str, region: str, roles: str, incarnation: int, lease_ms: int
    ) -> int:
        await self.faults.meet("renew_node", Moment.BEFORE)
        stored = self.tables.nodes.get(node_id)
        if stored is not None and stored.incarnation > incarnation:
            raise FenceLost("a later incarnation of this node is alive")
        now_us = self.clock()
        self.tables.nodes[node_id] = NodeRow(
            node_id,
            address,
            region,
            roles,
            incarnation,
            lease_end_us=now_us + lease_ms * 1_000,
            alive=True,
        )
        await self.faults.meet("renew_node", Moment.AFTER)
        return now_us

    async def release_node(self, node_id: bytes) -> None:
        await self.faults.meet("release_node", Moment.BEFORE)
        self.tables.nodes.pop(node_id, None)

    async def list_nodes(self) -> list[NodeRow]:
        await self.faults.meet("list_nodes", Moment.BEFORE)
        now_us = self.clock()
        return [
            NodeRow(
                node.node_id,
                node.address,
                node.region,
                node.roles,
                node.incarnation,
                node.lease_end_us,
                alive=node.lease_end_us > now_us,
            )
            for _, node in sorted(self.tables.nodes.items())
        ]

    async def list_shards(self) -> list[ShardRow]:
        await self.faults.meet("list_shards", Moment.BEFORE)
        return [self.tables.shards[shard_id] for shard_id in sorted(self.tables.fences)]

    async def put_shard(self, shard_id: int, node_id: bytes, address: str) -> None:
        await self.faults.meet("put_shard", Moment.BEFORE)
        stored = self.tables.shards.get(shard_id)
        mark_us = 0 if stored is None else stored.timer_mark_us
        self.tables.shards[shard_id] = ShardRow(shard_id, node_id, address, mark_us)

    async def list_token_keys(self) -> list[TokenKeyRow]:
        await self.faults.meet("list_token_keys", Moment.BEFORE)
        return [row for _, row in sorted(self.tables.token_keys.items())]

    async def put_token_key(self, key_id: int, secret: bytes) -> bool:
        await self.faults.meet("put_token_key", Moment.BEFORE)
        if key_id in self.tables.token_keys:
            return False
        self.tables.token_keys[key_id] = TokenKeyRow(key_id, secret, self.clock())
        await self.faults.meet("put_token_key", Moment.AFTER)
        return True


class MemoryStore(
    MemoryCommits,
    MemoryRuns,
    MemoryLists,
    MemoryNamespaces,
    MemoryMembership,
    MemoryAudit,
    MemoryBatches,
    MemoryDeployments,
    MemoryJobs,
    MemoryJobRetention,
    MemorySchedules,
    MemoryQueueLimits,
):
    """ports.store.Store over dicts.

    `clock` returns the database's time in µs. `faults` makes calls fail or wait. Several engine
    nodes of one simulation share one store; `close` therefore keeps the rows.
    """

    def __init__(self, clock: Callable[[], int], number_of_shards: int = 4) -> None:
        self.clock = clock
        self.faults = Faults()
        self.tables = Tables(number_of_shards)

    async def open(self) -> None:
        await self.faults.meet("open", Moment.BEFORE)

    async def close(self) -> None:
        pass

    async def describe(self) -> str:
        return "memory"
