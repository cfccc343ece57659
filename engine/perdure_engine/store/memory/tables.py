"""Rows in dicts, in groups that are read together, by the keys that the SQL tables have."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, TypeVar

from perdure_engine.core.audit import AuditRow, Head
from perdure_engine.ports.batches import BatchRow, PartRow
from perdure_engine.ports.jobs import QueueLimitRow
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
from perdure_engine.ports.store import (
    NO_NODE,
    DeploymentRow,
    FenceState,
    NamespaceRow,
    NodeRow,
    ShardRow,
    TokenKeyRow,
)

R = TypeVar("R")


class Table(Generic[R]):
    """`group` and `key` together are the primary key; a group is what one read wants in key
    order.
    """

    def __init__(self, group: Callable[[R], Any], key: Callable[[R], Any]) -> None:
        self.group_of = group
        self.key_of = key
        self._groups: dict[Any, dict[Any, R]] = {}

    def primary_key(self, row: R) -> tuple[Any, Any]:
        return self.group_of(row), self.key_of(row)

    def get(self, group: Any, key: Any) -> R | None:
        return self._groups.get(group, {}).get(key)

    def put(self, row: R) -> None:
        self._groups.setdefault(self.group_of(row), {})[self.key_of(row)] = row

    def delete(self, row: R) -> None:
        group = self.group_of(row)
        rows = self._groups[group]
        del rows[self.key_of(row)]
        if not rows:
            del self._groups[group]

    def in_order(self, group: Any) -> list[R]:
        rows = self._groups.get(group, {})
        return [rows[key] for key in sorted(rows)]

    def all(self) -> list[R]:
        return [row for rows in self._groups.values() for row in rows.values()]


_shard = attrgetter("shard_id")
_run = attrgetter("shard_id", "run_id")


class Tables:
    def __init__(self, number_of_shards: int) -> None:
        self.current_runs = Table[CurrentRunRow](_shard, attrgetter("namespace_id", "workflow_id"))
        self.executions = Table[ExecutionRow](_shard, attrgetter("run_id"))
        self.history = Table[HistoryRow](_run, attrgetter("first_event_id", "part"))
        self.snapshots = Table[SnapshotRow](_run, attrgetter("part"))
        self.inbox = Table[InboxRow](_run, attrgetter("seq"))
        self.tasks = Table[TaskRow](_shard, attrgetter("queue_no", "task_id"))
        self.timers = Table[TimerRow](_shard, attrgetter("wake_us", "timer_id"))
        self.visibility = Table[VisibilityRow](_shard, attrgetter("run_id"))
        self.audit = Table[AuditRow](_shard, attrgetter("seq"))
        self.audit_begins: dict[int, Head] = {}
        self.batch_operations: dict[tuple[bytes, str], BatchRow] = {}
        self.batch_parts = Table[PartRow](_shard, attrgetter("namespace_id", "job_id"))
        self.job_runs = Table[JobRunRow](_shard, attrgetter("job_id"))
        self.job_keys = Table[JobKeyRow](_shard, attrgetter("namespace_id", "kind", "key"))
        self.job_batches = Table[JobBatchRow](_shard, attrgetter("namespace_id", "batch_id"))
        self.schedules = Table[ScheduleRow](_shard, attrgetter("namespace_id", "schedule_id"))
        self.schedule_slots = Table[ScheduleSlotRow](
            _shard, attrgetter("namespace_id", "schedule_id", "nominal_us", "origin")
        )
        self.queue_limits: dict[tuple[bytes, str], QueueLimitRow] = {}
        self.namespaces: dict[bytes, NamespaceRow] = {}
        self.deployments: dict[tuple[bytes, str], DeploymentRow] = {}
        self.nodes: dict[bytes, NodeRow] = {}
        self.token_keys: dict[int, TokenKeyRow] = {}
        self.fences: dict[int, FenceState] = {}
        self.shards: dict[int, ShardRow] = {}
        self._install(number_of_shards)

    def _install(self, number_of_shards: int) -> None:
        """What migrations make of a new database."""
        default = NamespaceRow(
            namespace_id=bytes(15) + b"\x01",
            name="default",
            description="",
            retention_ms=604_800_000,
            conflict_token=1,
        )
        self.namespaces[default.namespace_id] = default
        for shard_id in range(1, number_of_shards + 1):
            self.fences[shard_id] = FenceState(
                shard_id=shard_id, range_id=0, commit_seq=1, owner_id=bytes(16), batch_id=bytes(16)
            )
            self.shards[shard_id] = ShardRow(
                shard_id=shard_id, node_id=NO_NODE, address="", timer_mark_us=0
            )
