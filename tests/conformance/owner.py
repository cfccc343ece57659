"""A shard owner's memory in small: it makes batches that fit what it has committed.

Nothing here is random: ids are counted, so that a failure shows the same bytes each time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from perdure_engine.ports.store import Batch, CommitStore, Fence, FenceState, RunStore, Store

NAMESPACE = bytes(15) + b"\x01"
QUEUE = 77
RUNNING = 1
COMPLETED = 2
PAUSED = 8
READY = 1
START_US = 1_800_000_000_000_000

_numbers = itertools.count(1_000)  # the default namespace has id 1


def new_id() -> bytes:
    return next(_numbers).to_bytes(16)


def no_keys(head: bytes) -> list[tuple[int, int]]:
    return []


def empty_batch(fences: Iterable[Fence] = ()) -> Batch:
    return Batch(
        batch_id=new_id(),
        fences=list(fences),
        current_runs=[],
        executions=[],
        history=[],
        inbox=[],
        tasks=[],
        timers=[],
        visibility=[],
        snapshots=[],
    )


def fence_of(state: FenceState) -> Fence:
    return Fence(state.shard_id, state.range_id, state.commit_seq, state.owner_id)


@dataclass
class Run:
    """What the owner remembers of a run. Versions count batches; 0 is not saved yet."""

    shard_id: int
    run_id: bytes = field(default_factory=new_id)
    workflow_id: str = ""
    next_event_id: int = 1
    version: int = 0
    current_version: int = 0
    task_id: int = 0
    start_us: int = START_US

    def __post_init__(self) -> None:
        self.workflow_id = self.workflow_id or f"order-{int.from_bytes(self.run_id)}"


def _next(version: int) -> int:
    """The sign trick: 1 for a new row, -v for a row now at v."""
    return -version or 1


class Owner:
    def __init__(self, store: CommitStore, fences: dict[int, Fence]) -> None:
        self.store = store
        self.fences = fences

    @classmethod
    async def take(cls, store: CommitStore, shard_ids: Sequence[int]) -> Owner:
        states = await store.read_fences(list(shard_ids))
        taken = await store.bump_fences([fence_of(state) for state in states], new_id())
        return cls(store, {state.shard_id: fence_of(state) for state in taken})

    def runs(self, number: int) -> list[Run]:
        """New runs, spread over the shards."""
        shard_ids = itertools.cycle(self.fences)
        return [Run(next(shard_ids)) for _ in range(number)]

    def fence(self, shard_id: int) -> Fence:
        """A copy: what the owner believes now."""
        known = self.fences[shard_id]
        return Fence(known.shard_id, known.range_id, known.commit_seq, known.owner_id)

    def batch(self, shard_ids: Iterable[int] = (), **rows: list[Any]) -> Batch:
        """A batch of these rows with the fences of their shards, and of `shard_ids`."""
        named = {row.shard_id for table in rows.values() for row in table} | set(shard_ids)
        batch = empty_batch(self.fence(shard_id) for shard_id in sorted(named))
        for table, rows_of_table in rows.items():
            setattr(batch, table, rows_of_table)
        return batch

    async def commit(self, batch: Batch) -> int:
        now_us = await self.store.commit(batch)
        for fence in batch.fences:
            self.fences[fence.shard_id].commit_seq += 1
        return now_us

    async def start(self, runs: list[Run]) -> None:
        await self.commit(self.start_batch(runs))
        for run in runs:
            run.next_event_id, run.version, run.current_version = 3, 1, run.current_version + 1

    async def step(self, runs: list[Run]) -> None:
        await self.commit(self.step_batch(runs))
        for run in runs:
            run.next_event_id += 3
            run.version += 1
            run.task_id += 1_000_000

    async def close(self, runs: list[Run]) -> None:
        await self.commit(self.close_batch(runs))
        for run in runs:
            run.next_event_id += 2
            run.version += 1
            run.current_version += 1

    def start_batch(self, runs: list[Run]) -> Batch:
        for run in runs:
            run.task_id = next(_numbers)
        return self.batch(
            current_runs=[current_row(run, RUNNING, _next(run.current_version)) for run in runs],
            executions=[head_row(run, RUNNING, 3, 1) for run in runs],
            history=[HistoryRow(run.shard_id, run.run_id, 1, 0, b"started") for run in runs],
            tasks=[task_row(run, run.task_id, READY, 1) for run in runs],
            visibility=[listed_row(run, RUNNING) for run in runs],
        )

    def step_batch(self, runs: list[Run]) -> Batch:
        """Each run: its task is gone, a new one is ready, three events more; a timer for the
        first.
        """
        return self.batch(
            executions=[
                head_row(run, RUNNING, run.next_event_id + 3, -run.version) for run in runs
            ],
            history=[
                HistoryRow(run.shard_id, run.run_id, run.next_event_id, 0, b"stepped")
                for run in runs
            ],
            tasks=[task_row(run, run.task_id, ROW_GONE, -1) for run in runs]
            + [task_row(run, run.task_id + 1_000_000, READY, 1) for run in runs],
            timers=[timer_row(run, START_US + run.next_event_id, run.task_id) for run in runs[:1]],
        )

    def close_batch(self, runs: list[Run]) -> Batch:
        return self.batch(
            current_runs=[current_row(run, COMPLETED, -run.current_version) for run in runs],
            executions=[
                head_row(run, COMPLETED, run.next_event_id + 2, -run.version) for run in runs
            ],
            history=[
                HistoryRow(run.shard_id, run.run_id, run.next_event_id, 0, b"completed")
                for run in runs
            ],
            tasks=[task_row(run, run.task_id, ROW_GONE, -1) for run in runs],
            visibility=[listed_row(run, COMPLETED) for run in runs],
        )


def current_row(run: Run, status: int, version: int) -> CurrentRunRow:
    return CurrentRunRow(run.shard_id, NAMESPACE, run.workflow_id, run.run_id, status, version)


def head_row(
    run: Run, status: int, next_event_id: int, version: int, inbox_done: int = 0
) -> ExecutionRow:
    return ExecutionRow(
        run.shard_id,
        run.run_id,
        NAMESPACE,
        run.workflow_id,
        status,
        next_event_id,
        inbox_done,
        b"head",
        version,
    )


def task_row(
    run: Run,
    task_id: int,
    state: int,
    version: int,
    *,
    queue_no: int = QUEUE,
    payload: bytes = b"t",
) -> TaskRow:
    return TaskRow(run.shard_id, queue_no, task_id, run.run_id, state, 1, 0, 3, payload, version)


def timer_row(
    run: Run, wake_us: int, timer_id: int, state: int = READY, version: int = 1
) -> TimerRow:
    return TimerRow(run.shard_id, wake_us, timer_id, run.run_id, 1, 5, state, wake_us, version)


def listed_row(run: Run, status: int, workflow_type: str = "Order") -> VisibilityRow:
    return VisibilityRow(
        run.shard_id,
        run.run_id,
        NAMESPACE,
        run.shard_id % 16,
        run.workflow_id,
        workflow_type,
        "orders",
        status,
        run.start_us,
        None if status == RUNNING else run.start_us + 9,
        run.next_event_id,
        100,
        b"memo",
        "{}",
    )


def snapshot_row(run: Run, part: int, event_id: int) -> SnapshotRow:
    return SnapshotRow(run.shard_id, run.run_id, part, event_id, b"fold %d" % event_id)


def inbox_row(run: Run, seq: int) -> InboxRow:
    return InboxRow(run.shard_id, run.run_id, seq, b"signal %d" % seq)


async def contents(store: Store, runs: Iterable[Run] = ()) -> list[object]:
    """Everything that a port shows of the shards and of these runs: equal before and after is
    unchanged.
    """
    shards = await store.list_shards()
    shard_ids = [shard.shard_id for shard in shards]
    found: list[object] = [await store.read_fences(shard_ids), shards]
    for shard_id in shard_ids:
        found.append(await store.load_tasks(shard_id, (0, 0), 10_000))
        found.append(await store.load_timers(shard_id, (0, 0), 2 * START_US, 10_000))
    for run in runs:
        found.append(await whole_run(store, run))
    found.append(await store.list_namespaces())
    return found


async def whole_run(store: RunStore, run: Run) -> list[object]:
    """The run as it is loaded, and its whole history whatever the snapshot says."""
    return [
        await store.load_run(run.shard_id, run.run_id, no_keys),
        await store.load_history(run.shard_id, run.run_id, 1, 10_000),
        await current_run(store, run),
    ]


async def current_run(store: RunStore, run: Run) -> CurrentRunRow | None:
    """The current run of the workflow id that `run` has or had."""
    rows = await store.load_current_runs([(run.shard_id, NAMESPACE, run.workflow_id)])
    assert len(rows) <= 1
    return rows[0] if rows else None
