"""Random work on both stores: the same answers, the same rows. The memory store is the oracle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.jobs import OPEN, job_contents
from tests.conformance.owner import NAMESPACE, Run, contents, empty_batch

from perdure_engine.ports.rows import (
    ROW_GONE,
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
    Batch,
    Fence,
    FenceState,
    JobRemoval,
    Store,
    StoreError,
    Sweep,
)
from perdure_engine.store.memory import MemoryStore
from perdure_engine.store.memory.tables import Table
from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig

TABLES = (
    *("current_runs", "executions", "history", "inbox", "tasks", "timers", "visibility"),
    *("snapshots", "shards", "nodes", "token_keys"),
    *("job_runs", "job_keys", "job_batches", "schedules", "schedule_slots"),
)
SHARDS = (1, 2)
RUNS = [Run(shard, bytes([n]) * 16, f"w{n % 2}") for shard in SHARDS for n in (1, 2)]
# What never changes of a row is a function of its key, as it is in the engine.
QUEUE = 1

run = st.sampled_from(RUNS)
version = st.sampled_from([1, 1, -1, -1, -2])
number = st.integers(1, 3)
state = st.sampled_from([1, 2, ROW_GONE])
id_ = st.integers(0, 255).map(lambda n: bytes([n]) * 16)


def _few(rows: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    return st.lists(rows, max_size=3)


def _joined(groups: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[list[object]]:
    return st.lists(groups, max_size=2).map(lambda some: [row for group in some for row in group])


current_run_rows = st.builds(
    lambda run, status, version: CurrentRunRow(
        run.shard_id, NAMESPACE, run.workflow_id, run.run_id, status, version
    ),
    run,
    st.integers(1, 2),
    version,
)
execution_rows = st.builds(
    lambda run, status, next_event_id, inbox_done, version: ExecutionRow(
        run.shard_id,
        run.run_id,
        NAMESPACE,
        run.workflow_id,
        status,
        next_event_id,
        inbox_done,
        b"head",
        version,
    ),
    run,
    st.integers(0, 2),  # 0 violates a check
    st.integers(2, 9),
    st.integers(0, 2),
    version,
)
# A batch of events, and a snapshot, has the parts 0, 1, … and never less.
history_batches = st.builds(
    lambda run, first, parts: [
        HistoryRow(run.shard_id, run.run_id, first, part, b"e") for part in range(parts)
    ],
    run,
    st.integers(1, 5),
    st.integers(1, 2),
)
snapshots = st.builds(
    lambda run, event_id, parts: [
        SnapshotRow(run.shard_id, run.run_id, part, event_id, b"s") for part in range(parts)
    ],
    run,
    st.integers(1, 2),
    number,
)
inbox_rows = st.builds(lambda run, seq: InboxRow(run.shard_id, run.run_id, seq, b"i"), run, number)
task_rows = st.builds(
    lambda run, task_id, state, attempt, version: TaskRow(
        *(run.shard_id, QUEUE, task_id, RUNS[0].run_id),
        *(state, attempt, task_id, attempt, b"t" * attempt, version),
    ),
    run,
    number,
    state,
    number,
    version,
)
timer_rows = st.builds(
    lambda run, wake, timer_id, state, version: TimerRow(
        *(run.shard_id, wake, timer_id, RUNS[0].run_id, 1, 5, state, wake - wake % 2, version),
    ),
    run,
    number,
    number,
    state,
    version,
)
visibility_rows = st.builds(
    lambda run, closed, events: VisibilityRow(
        *(run.shard_id, run.run_id, NAMESPACE, run.shard_id, run.workflow_id, "T", "q"),
        *(2 if closed else 1, run.run_id[0], 99 if closed else None, events, events, b"m", "{}"),
    ),
    run,
    st.booleans(),
    number,
)
shard = st.sampled_from(SHARDS)
# It carries its shard: no other shard's job has it.
some_id = st.builds(lambda shard, n: bytes([shard, n]) * 8, shard, st.integers(1, 2))
status = st.integers(1, 9)
# An update may say anything of what it leaves as it is; of a new job that is a function of nothing.
job_run_rows = st.builds(
    lambda job_id, name, status, ready, time_us, payload, version: JobRunRow(
        *(job_id[0], job_id, NAMESPACE, job_id[0], name, name, len(name), name, name, name, name),
        *(status, 1, 3, time_us, time_us, None if status in OPEN else time_us + 1),
        # a completed job that is ready, or waits for its key, violates a check
        *(time_us * ready if status in (*OPEN, 4) else 0, 0, payload, payload, payload, version),
    ),
    some_id,
    st.sampled_from(["", "a", "b"]),
    status,
    st.sampled_from([-1, 0, 0, 1]),
    number,
    st.binary(max_size=2),
    version,
)
job_key_rows = st.builds(
    lambda shard, key, job_id, until_us, version: JobKeyRow(
        shard, NAMESPACE, 1, key, job_id, until_us, version
    ),
    shard,
    st.sampled_from(["k", "l"]),
    some_id,
    st.none() | number,
    version,
)
job_batch_rows = st.builds(
    lambda shard, total, open, sealed, version: JobBatchRow(
        shard, NAMESPACE, "b", total, open, sealed, b"s", version
    ),
    shard,
    number,
    number,  # more open ones than there are violates a check
    st.booleans(),
    version,
)
schedule_rows = st.builds(
    lambda shard, schedule_id, spec, paused, next_us, gone, version: ScheduleRow(
        *(shard, NAMESPACE, schedule_id, schedule_id, paused, next_us),
        *(1, spec, b"state", 1, version, gone),
    ),
    shard,
    st.sampled_from(["s", "t"]),
    st.sampled_from([b"", b"spec", b"other"]),  # none in an update: as it is stored
    st.booleans(),
    st.none() | number,
    st.booleans(),
    version,
)
slot_rows = st.builds(
    lambda shard, nominal_us, origin, outcome, version: ScheduleSlotRow(
        shard, NAMESPACE, "s", nominal_us, origin, outcome, 5, "t", "d", version
    ),
    shard,
    number,
    st.integers(1, 4),  # 4 violates a check
    status,
    version,
)


class Commit(NamedTuple):
    """`lie`: the column of the first fence that is wrong, if any. `fences`: shards beyond the
    rows'.
    """

    batch_id: bytes
    fences: frozenset[int]
    only_these: bool  # rows of other shards then have no fence
    lie: str | None
    rows: dict[str, list[object]]
    knows: bool  # the rows have the versions that fit what is stored


class SweepRows(NamedTuple):
    batch_id: bytes
    shard_id: int
    lie: str | None
    task_keys: list[tuple[int, int]]
    task_ranges: list[tuple[int, int, int]]
    timer_keys: list[tuple[int, int]]
    timer_range: tuple[int, int] | None
    inbox_keys: list[tuple[bytes, int]]
    schedules: list[tuple[bytes, str]]


class Removed(NamedTuple):
    batch_id: bytes
    shard_id: int
    lie: str | None
    job_ids: list[bytes]
    keys: list[tuple[bytes, int, str, bytes]]
    batches: list[tuple[bytes, str]]
    slots: list[tuple[bytes, str, int, int]]


class Bump(NamedTuple):
    shards: frozenset[int]
    lie: str | None
    owner_id: bytes


lie = st.sampled_from([None, None, None, None, "range_id", "commit_seq", "owner_id"])
shards = st.frozensets(st.sampled_from(SHARDS), max_size=2)

commits = st.builds(
    Commit,
    id_,
    shards,
    st.sampled_from([False, False, False, True]),
    lie,
    st.fixed_dictionaries(
        {},
        optional={
            "current_runs": _few(current_run_rows),
            "executions": _few(execution_rows),
            "history": _joined(history_batches),
            "inbox": _few(inbox_rows),
            "tasks": _few(task_rows),
            "timers": _few(timer_rows),
            "visibility": _few(visibility_rows),
            "snapshots": _joined(snapshots),
        },
    ),
    st.just(False),
)


def _unique(rows: st.SearchStrategy[Any], *columns: str) -> st.SearchStrategy[list[object]]:
    """A key twice in a batch is refused, and nothing comes of it."""
    key = attrgetter("shard_id", *columns)
    return st.lists(rows, min_size=1, max_size=3, unique_by=key)


seldom_a_lie = st.sampled_from([*[None] * 12, "range_id", "commit_seq", "owner_id"])
of_jobs = {
    "job_runs": _unique(job_run_rows, "job_id"),
    "job_keys": _unique(job_key_rows, "key"),
    "job_batches": _unique(job_batch_rows),
    "schedules": _unique(schedule_rows, "schedule_id"),
    "schedule_slots": _unique(slot_rows, "nominal_us", "origin"),
    "timers": _unique(timer_rows, "wake_us", "timer_id"),
    "executions": _unique(execution_rows, "run_id"),
}


@st.composite
def job_commits(draw: st.DrawFn) -> Commit:
    """Of one table mostly: with many rows one of them is wrong nearly always."""
    few = st.sampled_from([("job_runs",), *((table,) for table in of_jobs)])
    many = st.frozensets(st.sampled_from(list(of_jobs)), max_size=3)
    tables = draw(few | few | many)
    only_these = draw(st.sampled_from([False] * 7 + [True]))
    rows = {table: draw(of_jobs[table]) for table in tables}
    knows = draw(st.sampled_from([True, True, True, False]))
    return Commit(draw(id_), draw(shards), only_these, draw(seldom_a_lie), rows, knows)


removals = st.builds(
    Removed,
    id_,
    shard,
    seldom_a_lie,
    st.lists(some_id, max_size=2),
    st.lists(
        st.tuples(st.just(NAMESPACE), st.just(1), st.sampled_from(["k", "l"]), some_id),
        max_size=1,
    ),
    st.lists(st.just((NAMESPACE, "b")), max_size=1),
    st.lists(st.tuples(st.just(NAMESPACE), st.just("s"), number, number), max_size=2),
)
sweeps = st.builds(
    SweepRows,
    id_,
    st.sampled_from(SHARDS),
    lie,
    st.lists(st.tuples(st.just(QUEUE), number), max_size=2),
    st.lists(st.tuples(st.just(QUEUE), number, st.integers(1, 4)), max_size=1),
    st.lists(st.tuples(number, number), max_size=2),
    st.none() | st.tuples(number, st.integers(1, 4)),
    st.lists(st.tuples(run.map(lambda run: run.run_id), number), max_size=2),
    st.lists(st.tuples(st.just(NAMESPACE), st.sampled_from(["s", "t"])), max_size=1),
)
bumps = st.builds(Bump, shards, lie, id_)


Operation = Commit | SweepRows | Removed | Bump


async def apply(store: Store, operation: Operation) -> str:
    """Do it, and say what came of it."""
    states = {fence.shard_id: fence for fence in await store.read_fences(list(SHARDS))}
    try:
        match operation:
            case Commit():
                await store.commit(_batch(operation, states))
            case SweepRows():
                await store.sweep(
                    Sweep(
                        operation.batch_id,
                        _fence(states[operation.shard_id], operation.lie),
                        *operation[3:],
                    )
                )
            case Removed():
                fence = _fence(states[operation.shard_id], operation.lie)
                removal = JobRemoval(operation.batch_id, fence, *operation[3:])
                await store.remove_jobs(removal)
            case Bump():
                fences = [
                    _fence(states[shard], operation.lie) for shard in sorted(operation.shards)
                ]
                return repr(await store.bump_fences(fences, operation.owner_id))
    except StoreError as error:
        return type(error).__name__
    return "done"


def as_stored(memory: MemoryStore, operation: Operation) -> Operation:
    if not isinstance(operation, Commit) or not operation.knows:
        return operation

    def known(name: str, row: Any) -> Any:
        table: Table[Any] = getattr(memory.tables, name)
        stored = table.get(*table.primary_key(row))
        return row._replace(version=1 if stored is None else -stored.version)

    rows = {name: [known(name, row) for row in rows] for name, rows in operation.rows.items()}
    return operation._replace(rows=rows)


def _batch(operation: Commit, states: dict[int, FenceState]) -> Batch:
    of_rows = {row.shard_id for rows in operation.rows.values() for row in rows}  # type: ignore[attr-defined]  # all rows have it
    named = set(operation.fences) if operation.only_these else of_rows | operation.fences
    batch = empty_batch(
        _fence(states[shard], operation.lie if shard == min(named) else None) for shard in named
    )
    batch.batch_id = operation.batch_id
    for table, rows in operation.rows.items():
        setattr(batch, table, rows)
    return batch


def _fence(state: FenceState, lie: str | None) -> Fence:
    fence = Fence(state.shard_id, state.range_id, state.commit_seq, state.owner_id)
    if lie == "owner_id":
        fence.owner_id = b"liar" * 4
    elif lie is not None:
        setattr(fence, lie, getattr(fence, lie) + 1)
    return fence


class Pair:
    """Both stores, and the loop that the SQL one lives in."""

    def __init__(self, dsn: str, runner: asyncio.Runner) -> None:
        self.runner = runner
        self._admin = psycopg.connect(dsn, autocommit=True)
        self.sql = SqlStore(SqlStoreConfig(dsn, readers=1, writers=1))

    def renewed(self) -> tuple[MemoryStore, SqlStore]:
        """Both as after migration. DELETE: a TRUNCATE makes new files, which is slow."""
        for table in TABLES:
            self._admin.execute(f"delete from {table}".encode())
        self._admin.execute(
            "update shard_fence set range_id = 0, commit_seq = 1,"
            " owner_id = '00000000-0000-0000-0000-000000000000',"
            " batch_id = '00000000-0000-0000-0000-000000000000'"
        )
        return MemoryStore(lambda: 0), self.sql

    def close(self) -> None:
        self.runner.run(self.sql.close())
        self._admin.close()


@pytest.fixture
def pair(database_dsn: str) -> Iterator[Pair]:
    with asyncio.Runner() as runner:
        pair = Pair(database_dsn, runner)
        yield pair
        pair.close()


# The fixture is not made anew for each example: `renewed` does that.
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def agree(pair: Pair, operations: list[Operation]) -> None:
    memory, sql = pair.renewed()

    async def both() -> None:
        for drawn in operations:
            operation = as_stored(memory, drawn)
            assert await apply(sql, operation) == await apply(memory, operation), operation
        assert await contents(sql, RUNS) == await contents(memory, RUNS)
        assert await job_contents(sql) == await job_contents(memory)

    pair.runner.run(both())


@settings(deadline=None, max_examples=150, suppress_health_check=SLOW)
@given(operations=st.lists(commits | commits | commits | sweeps | bumps, max_size=10))
def test_random_work_has_the_same_outcome_on_both(pair: Pair, operations: list[Operation]) -> None:
    agree(pair, operations)


@settings(deadline=None, max_examples=150, suppress_health_check=SLOW)
@given(
    operations=st.lists(
        job_commits() | job_commits() | job_commits() | removals | sweeps, min_size=5, max_size=15
    )
)
def test_random_work_on_jobs_has_the_same_outcome_on_both(
    pair: Pair, operations: list[Operation]
) -> None:
    agree(pair, operations)
