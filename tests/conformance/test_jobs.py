"""Rows of jobs and schedules in the batch statement: all of it or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs import (
    CANCELLED,
    FAILED,
    NO_JOB,
    PENDING,
    POISONED,
    SUSPENDED,
    batch_row,
    ended_row,
    job_contents,
    job_row,
    jobs_of,
    key_row,
    schedule_row,
    slot_row,
    stored,
)
from tests.conformance.owner import (
    NAMESPACE,
    QUEUE,
    START_US,
    Owner,
    Run,
    current_run,
    new_id,
    timer_row,
)

from perdure_engine.ports.store import BatchRefused, FenceLost, GuardFailed, Store


def mixed(version: int = 1, shard_id: int = 1) -> dict[str, list[Any]]:
    """A row of each table of jobs and schedules, as new ones or as updates of these."""
    job = job_row(shard_id, job_id=b"job of mixed ids", task_id=5, version=version)
    return {
        "job_runs": [job],
        "job_keys": [key_row("report", job.job_id, version, shard_id)],
        "job_batches": [batch_row("nightly", shard_id, version=version)],
        "schedules": [schedule_row("daily", shard_id, version=version)],
        "schedule_slots": [slot_row("daily", START_US, shard_id, version=version)],
    }


# ---- written


async def test_a_job_is_made_and_ends(store: Store, owner: Owner) -> None:
    """What an update leaves as it is stays, whatever the update says of it."""
    names = {
        "queue": "mail",
        "user_id": "anna",
        "schedule_id": "daily",
        "concurrency_key": "c",
        "batch_id": "b",
    }
    made = [job_row(shard, task_id=9, **names) for shard in (1, 2, 3)]
    await owner.commit(owner.batch(job_runs=made))
    assert await jobs_of(store, made) == made
    updates = [ended_row(row, attempt=2, priority=1, scheduled_us=START_US + 7) for row in made]

    await owner.commit(owner.batch(job_runs=updates))

    assert await jobs_of(store, made) == [
        stored(row, update) for row, update in zip(made, updates, strict=True)
    ]


async def test_new_jobs_and_updates_travel_together(store: Store, owner: Owner) -> None:
    """In any order, of several shards: each finds its own columns again."""
    before = [job_row(shard, user_id=f"u{shard}", spec=b"%d" % shard) for shard in (1, 2, 3, 4)]
    await owner.commit(owner.batch(job_runs=before))
    new = [job_row(shard, task_name=f"task {shard}", spec=b"new %d" % shard) for shard in (4, 2, 1)]
    updates = [ended_row(row, result=b"%d" % row.shard_id) for row in before]
    rows = [new[0], updates[3], updates[0], new[1], updates[1], new[2], updates[2]]

    await owner.commit(owner.batch(job_runs=rows))

    assert await jobs_of(store, new) == new
    assert await jobs_of(store, before) == [
        stored(row, update) for row, update in zip(before, updates, strict=True)
    ]


async def test_a_job_that_did_not_end_yet_is_updated_too(store: Store, owner: Owner) -> None:
    row = job_row()
    await owner.commit(owner.batch(job_runs=[row]))
    ready = row._replace(task_id=1 << 24, state=b"ready", version=-1)
    await owner.commit(owner.batch(job_runs=[ready]))
    suspended = ready._replace(task_id=0, status=SUSPENDED, attempt=7, version=-2)
    await owner.commit(owner.batch(job_runs=[suspended]))

    assert await jobs_of(store, [row]) == [suspended._replace(version=3)]


async def test_a_job_that_goes_to_another_pool_has_another_queue_number(
    store: Store, owner: Owner
) -> None:
    """Its ready row is read there, and nowhere else; a new job in the same batch keeps its own."""
    row, other = job_row(task_id=4), job_row(task_id=5, queue_no=QUEUE + 1)
    await owner.commit(owner.batch(job_runs=[row]))
    poisoned = row._replace(queue_no=QUEUE + 7, task_id=9, status=POISONED, version=-1)
    await owner.commit(owner.batch(job_runs=[poisoned, other]))

    stored_row = poisoned._replace(version=2)
    assert await jobs_of(store, [row, other]) == [stored_row, other]
    assert await store.load_ready_jobs(1, QUEUE, 0, 9) == []
    assert await store.load_ready_jobs(1, QUEUE + 7, 0, 9) == [stored_row]


async def test_all_tables_in_one_batch_with_a_workflows_rows(store: Store, owner: Owner) -> None:
    run = Run(2)
    started = owner.start_batch([run])
    timer = timer_row(Run(1), START_US, 77)

    await owner.commit(
        owner.batch(
            **mixed(),
            current_runs=started.current_runs,
            executions=started.executions,
            history=started.history,
            tasks=started.tasks,
            visibility=started.visibility,
            timers=[timer],
        )
    )

    rows = mixed()
    assert await jobs_of(store, rows["job_runs"]) == rows["job_runs"]
    assert await store.load_job_keys([(1, NAMESPACE, 1, "report")]) == rows["job_keys"]
    assert await store.load_job_batch(1, NAMESPACE, "nightly") == rows["job_batches"][0]
    assert await store.load_schedule(1, NAMESPACE, "daily") == rows["schedules"][0]
    slots = await store.list_slots(1, NAMESPACE, "daily", (), 0, 0, None, 9)
    assert slots == rows["schedule_slots"]
    assert await store.load_timers(1, (0, 0), 2 * START_US, 9) == [timer]
    assert await current_run(store, run) is not None


async def test_jobs_with_timers_and_keys_alone(store: Store, owner: Owner) -> None:
    """The form of the hot path."""
    job = job_row(user_id="anna")
    timer = timer_row(Run(1), START_US, 77)._replace(run_id=job.job_id, kind=20)
    key = key_row("report", job.job_id)

    await owner.commit(owner.batch(job_runs=[job], timers=[timer], job_keys=[key]))

    assert await jobs_of(store, [job]) == [job]
    assert await store.load_timers(1, (0, 0), 2 * START_US, 9) == [timer]
    assert await store.load_job_keys([(1, NAMESPACE, 1, "report")]) == [key]


@pytest.mark.parametrize("table", list(mixed()))
async def test_each_table_alone_and_updated(store: Store, owner: Owner, table: str) -> None:
    before = await job_contents(store)
    await owner.commit(owner.batch(**{table: mixed()[table]}))
    made = await job_contents(store)
    await owner.commit(owner.batch(**{table: mixed(-1)[table]}))
    changed = await job_contents(store)

    assert before[1:] != made[1:] != changed[1:]
    for version in (1, -1, -3):
        with pytest.raises(GuardFailed):
            await owner.commit(owner.batch(**{table: mixed(version)[table]}))
    assert await job_contents(store) == changed


async def test_what_changes_of_keys_batches_schedules_and_slots(store: Store, owner: Owner) -> None:
    await owner.commit(owner.batch(**mixed()))
    key = key_row("report", new_id(), -1)._replace(until_us=START_US + 5)
    batch = batch_row("nightly", total=9, open=0, sealed=True, state=b"done", version=-1)
    schedule = schedule_row("daily")._replace(
        user_id="anna",
        paused=True,
        next_us=None,
        created_us=START_US + 1,
        spec=b"other",
        state=b"other state",
        conflict_token=2,
        version=-1,
    )
    slot = slot_row(
        "daily", START_US, outcome=8, acted_us=START_US + 9, target_id="t", detail="d", version=-1
    )

    await owner.commit(
        owner.batch(
            job_keys=[key], job_batches=[batch], schedules=[schedule], schedule_slots=[slot]
        )
    )

    assert await store.load_job_keys([(1, NAMESPACE, 1, "report")]) == [key._replace(version=2)]
    assert await store.load_job_batch(1, NAMESPACE, "nightly") == batch._replace(version=2)
    assert await store.load_schedule(1, NAMESPACE, "daily") == schedule._replace(version=2)
    slots = await store.list_slots(1, NAMESPACE, "daily", (), 0, 0, None, 9)
    assert slots == [slot._replace(version=2)]


async def test_an_update_without_the_spec_of_a_schedule_leaves_it(
    store: Store, owner: Owner
) -> None:
    await owner.commit(owner.batch(schedules=[schedule_row("daily")]))
    update = schedule_row("daily", spec=b"", state=b"fired", version=-1)

    await owner.commit(owner.batch(schedules=[update]))

    assert await store.load_schedule(1, NAMESPACE, "daily") == update._replace(
        spec=b"spec", version=2
    )


# ---- nothing written


@pytest.mark.parametrize("mistake", ["a new row that exists", "a stale version", "a row gone"])
@pytest.mark.parametrize("table", list(mixed()))
async def test_invariants_01_and_57_one_row_that_differs_stops_all(
    store: Store, owner: Owner, table: str, mistake: str
) -> None:
    """The other tables' rows of the batch are right, and are not written either."""
    await owner.commit(owner.batch(**mixed()))
    await owner.commit(owner.batch(**mixed(-1)))
    rows = mixed(-2)
    if mistake == "a row gone":
        shard = mixed(-2, shard_id=2)
        rows[table] += shard[table]
    else:
        version = 1 if mistake == "a new row that exists" else -1
        rows[table] = mixed(version)[table]
    before = await job_contents(store)

    with pytest.raises(GuardFailed):
        await owner.commit(owner.batch(**rows))

    assert await job_contents(store) == before
    await owner.commit(owner.batch(**mixed(-2)))


@pytest.mark.parametrize("table", list(mixed()))
async def test_invariant_25_no_row_of_a_shard_without_its_fence(
    store: Store, owner: Owner, table: str
) -> None:
    """Lost to another owner, or not among the statement's fences at all."""
    before = await job_contents(store)
    batch = owner.batch(**mixed(), current_runs=[], timers=[timer_row(Run(2), START_US, 1)])
    setattr(batch, table, mixed(shard_id=3)[table])
    with pytest.raises(GuardFailed):
        await store.commit(batch)
    assert await job_contents(store) == before

    lost = owner.batch(**mixed(), timers=[timer_row(Run(2), START_US, 1)])
    await Owner.take(store, [1])
    after = await job_contents(store)
    with pytest.raises(FenceLost):
        await store.commit(lost)
    assert await job_contents(store) == after


async def test_a_job_twice_in_one_batch(store: Store, owner: Owner) -> None:
    job = job_row()
    with pytest.raises(BatchRefused):
        await owner.commit(owner.batch(job_runs=[job, job]))
    assert await jobs_of(store, [job]) == []


@pytest.mark.parametrize(
    "columns",
    [
        {"status": 0},
        {"status": 10},
        {"status": POISONED, "closed_us": START_US},
        {"status": FAILED, "closed_us": None},
        {"status": PENDING, "closed_us": START_US},
        {"status": CANCELLED, "task_id": 5},
        {"status": CANCELLED, "task_id": -5},
        {"bucket": 16},
        {"attempt": -1},
        {"start_no": -1},
        {"version": 0},
    ],
    ids=str,
)
async def test_what_is_never_true_of_a_job_is_refused(
    store: Store, owner: Owner, columns: dict[str, Any]
) -> None:
    with pytest.raises(BatchRefused) as refused:
        await owner.commit(owner.batch(job_runs=[job_row(**columns)]))
    assert refused.value.sqlstate == "23514"


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("job_keys", key_row("", NO_JOB)),
        ("job_keys", key_row("k", NO_JOB)._replace(kind=0)),
        ("job_keys", key_row("k", NO_JOB, 0)),
        ("job_batches", batch_row("")),
        ("job_batches", batch_row("b", open=6)),
        ("job_batches", batch_row("b", open=-1)),
        ("schedules", schedule_row("")),
        ("schedules", schedule_row("s", conflict_token=0)),
        ("schedule_slots", slot_row("s", 0, origin=4)),
        ("schedule_slots", slot_row("s", 0, outcome=0)),
        ("schedule_slots", slot_row("s", 0, outcome=9)),
    ],
    ids=str,
)
async def test_what_is_never_true_of_the_others_is_refused(
    store: Store, owner: Owner, table: str, row: Any
) -> None:
    with pytest.raises(BatchRefused) as refused:
        await owner.commit(owner.batch(**{table: [row]}))
    assert refused.value.sqlstate == "23514"


@pytest.mark.parametrize("text", ["a zero \0", "half a pair \ud800"], ids=ascii)
@pytest.mark.parametrize(
    "column", ["task_name", "queue", "user_id", "schedule_id", "concurrency_key", "batch_id"]
)
async def test_b01_a_text_that_no_database_holds(
    store: Store, owner: Owner, column: str, text: str
) -> None:
    texts: dict[str, Any] = {column: text}
    row = job_row()._replace(**texts)
    with pytest.raises(BatchRefused):
        await owner.commit(owner.batch(job_runs=[row]))
