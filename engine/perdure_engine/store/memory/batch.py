"""A batch and a sweep as the SQL statements do them: all or nothing, the same errors in the same
order.

The order is that of the statement's CTEs as PostgreSQL runs them: texts when they arrive, then the
fences, then table by table, each refused (a constraint) before it is counted (the guard). Whatever
is refused has left no trace: rows are staged first and stored last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from perdure_engine.ports.rows import (
    ROW_GONE,
    InboxRow,
    JobRunRow,
    ScheduleRow,
    TaskRow,
    TimerRow,
    VisibilityRow,
)
from perdure_engine.ports.store import (
    Batch,
    BatchRefused,
    Fence,
    FenceLost,
    GuardFailed,
    JobRemoval,
    Removal,
    Sweep,
)
from perdure_engine.store.memory.checks import (
    CARDINALITY_VIOLATION,
    CHECK_VIOLATION,
    CONSTRAINTS,
    UNIQUE_VIOLATION,
    as_jsonb,
    check_texts,
)
from perdure_engine.store.memory.tables import Table, Tables

STATUS_OPEN = 1
OUTCOMES_TO_ACT = (1, 7)  # core.schedules.model.SlotOutcome: FIRING, BUFFERED

R = TypeVar("R")


def apply_batch(tables: Tables, batch: Batch) -> None:
    check_texts(batch)
    shards = _held(tables, batch.fences)
    stages = [
        _versioned(tables.executions, "executions", batch.executions, shards, _same_run),
        _inserted(tables.history, "history", batch.history, shards),
        _inserted(tables.inbox, "inbox", batch.inbox, shards),
        _versioned(tables.tasks, "tasks", batch.tasks, shards, _same_task),
        _versioned(tables.timers, "timers", batch.timers, shards, _same_timer),
        _versioned(tables.current_runs, "current_runs", batch.current_runs, shards, None),
        _replaced(
            tables.visibility, "visibility", map(_listed, batch.visibility), shards, _same_listing
        ),
        _replaced(tables.snapshots, "snapshots", batch.snapshots, shards, None),
        _inserted(tables.audit, "audit", batch.audit, shards),
        _versioned(tables.job_runs, "job_runs", batch.job_runs, shards, None, _changed_job),
        _versioned(tables.job_keys, "job_keys", batch.job_keys, shards, None),
        _versioned(tables.job_batches, "job_batches", batch.job_batches, shards, None),
        _versioned(tables.schedules, "schedules", batch.schedules, shards, None, _changed_schedule),
        _versioned(tables.schedule_slots, "schedule_slots", batch.schedule_slots, shards, None),
    ]
    staged: list[tuple[Table[Any], list[Any]]] = [stage() for stage in stages]
    for table, rows in staged:
        for row in rows:
            table.put(row)
    _advance(tables, batch.fences, batch.batch_id)


def apply_sweep(tables: Tables, sweep: Sweep) -> None:
    shard_id = sweep.fence.shard_id
    _held(tables, [sweep.fence])
    tasks = _named_tasks(tables, sweep)
    timers = _named_timers(tables, sweep)
    inbox = _named_inbox(tables, sweep)
    if any(task.state != ROW_GONE for task in tasks):
        raise GuardFailed("a task that is not gone")
    if any(timer.state != ROW_GONE for timer in timers):
        raise GuardFailed("a timer that is not gone")
    for row in inbox:
        head = tables.executions.get(shard_id, row.run_id)
        if head is not None and head.inbox_done < row.seq:
            raise GuardFailed("a buffered event that its run has not consumed")
    schedules = _rows(tables.schedules, shard_id, sweep.schedules)
    if any(not schedule.gone for schedule in schedules):
        raise GuardFailed("a schedule that is not gone")
    _delete(tables.tasks, tasks)
    _delete(tables.timers, timers)
    _delete(tables.inbox, inbox)
    _delete(tables.schedules, schedules)
    if sweep.timer_range is not None:
        shard = tables.shards[shard_id]
        mark_us = max(shard.timer_mark_us, sweep.timer_range[1])
        tables.shards[shard_id] = type(shard)(
            shard_id, shard.node_id, shard.address, timer_mark_us=mark_us
        )
    _advance(tables, [sweep.fence], sweep.batch_id)


def apply_removal(tables: Tables, removal: Removal) -> None:
    shard_id = removal.fence.shard_id
    _held(tables, [removal.fence])
    run_ids = set(removal.run_ids)
    heads = [head for run_id in run_ids if (head := tables.executions.get(shard_id, run_id))]
    if any(head.status == STATUS_OPEN for head in heads):
        raise GuardFailed("a run that is open")
    _, audited = _inserted(tables.audit, "audit", removal.audit, {shard_id})()
    for entry in audited:
        tables.audit.put(entry)
    for head in heads:
        tables.executions.delete(head)
    _remove_rows(tables, shard_id, run_ids)
    for run_id, workflow in zip(removal.run_ids, removal.workflows, strict=True):
        current = tables.current_runs.get(shard_id, workflow)
        if current is not None and current.run_id == run_id:
            tables.current_runs.delete(current)
    _advance(tables, [removal.fence], removal.batch_id)


def apply_job_removal(tables: Tables, removal: JobRemoval) -> None:
    shard_id = removal.fence.shard_id
    _held(tables, [removal.fence])
    jobs = _rows(tables.job_runs, shard_id, removal.job_ids)
    if any(job.closed_us is None for job in jobs):
        raise GuardFailed("a job run that is open")
    batches = _rows(tables.job_batches, shard_id, removal.batches)
    if any(batch.open or not batch.sealed for batch in batches):
        raise GuardFailed("a batch of jobs that has not ended")
    slots = _rows(tables.schedule_slots, shard_id, removal.slots)
    if any(slot.outcome in OUTCOMES_TO_ACT for slot in slots):
        raise GuardFailed("a slot that has not acted yet")
    keys = _rows(tables.job_keys, shard_id, [key[:3] for key in removal.keys])
    named = set(removal.keys)
    _delete(tables.job_runs, jobs)
    _delete(
        tables.job_keys,
        [key for key in keys if (key.namespace_id, key.kind, key.key, key.job_id) in named],
    )
    _delete(tables.job_batches, batches)
    _delete(tables.schedule_slots, slots)
    _advance(tables, [removal.fence], removal.batch_id)


def _rows(table: Table[R], shard_id: int, keys: Iterable[Any]) -> list[R]:
    """Those that are there, each once."""
    found = [table.get(shard_id, key) for key in dict.fromkeys(keys)]
    return [row for row in found if row is not None]


def _delete(table: Table[R], rows: list[R]) -> None:
    for row in rows:
        table.delete(row)


def _remove_rows(tables: Tables, shard_id: int, run_ids: set[bytes]) -> None:
    of_many_rows: tuple[Table[Any], ...] = (tables.history, tables.inbox, tables.snapshots)
    for table in of_many_rows:
        for run_id in run_ids:
            for row in table.in_order((shard_id, run_id)):
                table.delete(row)
    for run_id in run_ids:
        if listed := tables.visibility.get(shard_id, run_id):
            tables.visibility.delete(listed)


def _held(tables: Tables, fences: list[Fence]) -> set[int]:
    """The shards of the statement, all of which are ours."""
    shards: set[int] = set()
    lost = []
    for fence in sorted(fences, key=lambda fence: fence.shard_id):
        state = tables.fences.get(fence.shard_id)
        if state is None or (state.range_id, state.commit_seq, state.owner_id) != (
            fence.range_id,
            fence.commit_seq,
            fence.owner_id,
        ):
            lost.append(fence.shard_id)
        elif fence.shard_id in shards:
            raise BatchRefused(CARDINALITY_VIOLATION, "a shard twice in one statement")
        else:
            shards.add(fence.shard_id)
    if lost:
        raise FenceLost(f"fence lost: {lost}; held: {sorted(shards)}")
    return shards


def _advance(tables: Tables, fences: Iterable[Fence], batch_id: bytes) -> None:
    for fence in fences:
        state = tables.fences[fence.shard_id]
        tables.fences[fence.shard_id] = type(state)(
            state.shard_id, state.range_id, state.commit_seq + 1, state.owner_id, batch_id
        )


Stage = Callable[[], tuple[Table[Any], list[Any]]]
Same = Callable[[Any, Any], bool]
Changed = Callable[[Any, Any], Any]


def _versioned(
    table: Table[Any],
    name: str,
    rows: list[Any],
    shards: set[int],
    same: Same | None,
    changed: Changed | None = None,
) -> Stage:
    """`changed`: what becomes of a stored row by an update, when not all of it is in the update."""

    def stage() -> tuple[Table[Any], list[Any]]:
        written: dict[Any, Any] = {}
        complete = True
        for row in _of_shards(name, rows, shards):
            key = table.primary_key(row)
            if key in written:
                raise BatchRefused(CARDINALITY_VIOLATION, f"a key of {name} twice in one batch")
            stored = table.get(*key)
            if stored is None:
                written[key] = row
                complete = complete and row.version > 0
            elif stored.version == -row.version:
                _require_same(name, same, stored, row)
                after = changed(stored, row) if changed is not None else row
                written[key] = after._replace(version=stored.version + 1)
            else:
                complete = False
        if not complete or len(written) != len(rows):
            raise GuardFailed(f"a row of {name} is not as the owner's memory has it")
        return table, list(written.values())

    return stage


def _inserted(table: Table[Any], name: str, rows: list[Any], shards: set[int]) -> Stage:
    def stage() -> tuple[Table[Any], list[Any]]:
        written: dict[Any, Any] = {}
        for row in _of_shards(name, rows, shards):
            key = table.primary_key(row)
            if key in written or table.get(*key) is not None:
                raise BatchRefused(UNIQUE_VIOLATION, f"a key of {name} exists")
            written[key] = row
        if len(written) != len(rows):
            raise GuardFailed(f"a row of {name} belongs to a shard without a fence")
        return table, list(written.values())

    return stage


def _replaced(
    table: Table[Any], name: str, rows: Iterable[Any], shards: set[int], same: Same | None
) -> Stage:
    def stage() -> tuple[Table[Any], list[Any]]:
        written: dict[Any, Any] = {}
        given = list(rows)
        for row in _of_shards(name, given, shards):
            key = table.primary_key(row)
            if key in written:
                raise BatchRefused(CARDINALITY_VIOLATION, f"a key of {name} twice in one batch")
            stored = table.get(*key)
            if stored is not None:
                _require_same(name, same, stored, row)
            written[key] = row
        if len(written) != len(given):
            raise GuardFailed(f"a row of {name} belongs to a shard without a fence")
        return table, list(written.values())

    return stage


def _of_shards(name: str, rows: Iterable[Any], shards: set[int]) -> Iterable[Any]:
    for row in rows:
        if row.shard_id in shards:
            if not CONSTRAINTS[name](row):
                raise BatchRefused(CHECK_VIOLATION, f"a row of {name} violates a check")
            yield row


def _require_same(name: str, same: Same | None, stored: Any, row: Any) -> None:
    """An update that changes what the SQL leaves alone is an error of its maker, and shows only
    here.
    """
    assert same is None or same(stored, row), f"{name}: {stored} must not become {row}"


def _same_run(stored: Any, row: Any) -> bool:
    return (stored.namespace_id, stored.workflow_id) == (row.namespace_id, row.workflow_id)


def _same_task(stored: TaskRow, row: TaskRow) -> bool:
    return stored.run_id == row.run_id


def _same_timer(stored: TimerRow, row: TimerRow) -> bool:
    return stored._replace(state=0, version=0) == row._replace(state=0, version=0)


def _same_listing(stored: VisibilityRow, row: VisibilityRow) -> bool:
    return (
        stored._replace(
            status=row.status,
            close_us=row.close_us,
            history_events=row.history_events,
            history_bytes=row.history_bytes,
            memo=row.memo,
            attrs=row.attrs,
        )
        == row
    )


def _changed_job(stored: JobRunRow, row: JobRunRow) -> JobRunRow:
    return stored._replace(
        queue_no=row.queue_no,
        status=row.status,
        attempt=row.attempt,
        priority=row.priority,
        scheduled_us=row.scheduled_us,
        closed_us=row.closed_us,
        task_id=row.task_id,
        start_no=row.start_no,
        state=row.state,
        result=row.result,
    )


def _changed_schedule(stored: ScheduleRow, row: ScheduleRow) -> ScheduleRow:
    return row if row.spec else row._replace(spec=stored.spec)


def _listed(row: VisibilityRow) -> VisibilityRow:
    return row._replace(attrs=as_jsonb(row.attrs))


def _named_tasks(tables: Tables, sweep: Sweep) -> list[TaskRow]:
    keys = set(sweep.task_keys)
    return [
        row
        for row in tables.tasks.in_order(sweep.fence.shard_id)
        if (row.queue_no, row.task_id) in keys
        or any(
            row.queue_no == queue_no and first <= row.task_id < end
            for queue_no, first, end in sweep.task_ranges
        )
    ]


def _named_timers(tables: Tables, sweep: Sweep) -> list[TimerRow]:
    keys = set(sweep.timer_keys)
    first_us, end_us = sweep.timer_range or (0, 0)
    return [
        row
        for row in tables.timers.in_order(sweep.fence.shard_id)
        if (row.wake_us, row.timer_id) in keys or first_us <= row.wake_us < end_us
    ]


def _named_inbox(tables: Tables, sweep: Sweep) -> list[InboxRow]:
    shard_id = sweep.fence.shard_id
    found = [tables.inbox.get((shard_id, run_id), seq) for run_id, seq in set(sweep.inbox_keys)]
    return [row for row in found if row is not None]
