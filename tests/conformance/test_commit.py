"""A batch is saved whole: all its tables, all its shards, one step of each fence."""

from __future__ import annotations

import pytest
from tests.conformance.owner import (
    COMPLETED,
    PAUSED,
    QUEUE,
    RUNNING,
    Owner,
    Run,
    contents,
    current_row,
    current_run,
    empty_batch,
    head_row,
    inbox_row,
    listed_row,
    no_keys,
    snapshot_row,
    timer_row,
    whole_run,
)

from perdure_engine.ports.rows import ROW_GONE, HistoryRow
from perdure_engine.ports.store import BatchRefused, Store


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("number", [1, 64])
async def test_runs_start_step_and_close(store: Store, shards: int, number: int) -> None:
    owner = await Owner.take(store, range(1, shards + 1))
    runs = owner.runs(number)

    await owner.start(runs)
    await owner.step(runs)
    await owner.step(runs)
    await owner.close(runs)

    states = await store.read_fences(list(owner.fences))
    touched = min(shards, number)
    assert [state.commit_seq for state in states[:touched]] == [5] * touched
    for run in runs:
        record = await store.load_run(run.shard_id, run.run_id, no_keys)
        assert record is not None
        assert record.execution == head_row(run, COMPLETED, 11, version=4)
        assert record.current == current_row(run, COMPLETED, version=2)
        assert [row.first_event_id for row in record.history] == [1, 3, 6, 9]


async def test_an_empty_batch_is_a_step_of_the_fence(store: Store, owner: Owner) -> None:
    batch = owner.batch([2, 3])

    await owner.commit(batch)

    before, changed, also, after = await store.read_fences([1, 2, 3, 4])
    assert [state.commit_seq for state in (before, changed, also, after)] == [1, 2, 2, 1]
    assert changed.batch_id == also.batch_id == batch.batch_id
    assert before.batch_id == after.batch_id == bytes(16)


async def test_the_time_of_a_commit_never_goes_back(owner: Owner) -> None:
    first = await owner.commit(owner.batch([1]))
    second = await owner.commit(owner.batch([1]))

    assert first < second


async def test_the_callers_fences_are_left_alone(store: Store, owner: Owner) -> None:
    batch = owner.batch([1])

    await store.commit(batch)

    assert batch.fences == [owner.fence(1)]


async def test_snapshots_and_buffered_events_travel_with_their_run(
    store: Store, owner: Owner
) -> None:
    (run,) = owner.runs(1)
    await owner.start([run])
    batch = owner.step_batch([run])
    batch.snapshots = [snapshot_row(run, 0, 2), snapshot_row(run, 1, 2)]
    batch.inbox = [inbox_row(run, 1), inbox_row(run, 2)]

    await owner.commit(batch)

    record = await store.load_run(run.shard_id, run.run_id, no_keys)
    assert record is not None
    assert record.snapshot == batch.snapshots
    assert record.inbox == batch.inbox


@pytest.mark.parametrize("closing_first", [True, False])
async def test_continue_as_new_is_one_batch(
    store: Store, owner: Owner, closing_first: bool
) -> None:
    """Invariant 12's half of the store: no instant without, or with two, open runs."""
    (old,) = owner.runs(1)
    await owner.start([old])
    new = Run(old.shard_id, workflow_id=old.workflow_id)
    heads = [head_row(old, 6, 5, -1), head_row(new, RUNNING, 3, 1)]

    await owner.commit(
        owner.batch(
            executions=heads if closing_first else heads[::-1],
            history=[
                HistoryRow(old.shard_id, old.run_id, 3, 0, b"continued"),
                HistoryRow(new.shard_id, new.run_id, 1, 0, b"started"),
            ],
            current_runs=[current_row(new, RUNNING, -1)],
            visibility=[listed_row(old, 6), listed_row(new, RUNNING)],
        )
    )

    assert await current_run(store, old) == current_row(new, RUNNING, 2)


async def test_a_task_that_becomes_ready_again_gets_a_new_row(store: Store, owner: Owner) -> None:
    (run,) = owner.runs(1)
    await owner.start([run])

    await owner.step([run])

    old, new = await store.load_queue_tasks(run.shard_id, QUEUE, 0, 10)
    assert (old.state, old.version) == (ROW_GONE, 2)
    assert (new.state, new.version) == (1, 1)


async def test_invariant_05_a_refused_batch_writes_nothing_of_any_table(
    store: Store, owner: Owner
) -> None:
    """The last row of the last table is bad; the rows of all shards and tables before it vanish."""
    runs = owner.runs(8)
    await owner.start(runs)
    before = await contents(store, runs)
    batch = owner.step_batch(runs)
    batch.inbox = [inbox_row(run, 1) for run in runs]
    batch.snapshots = [*(snapshot_row(run, 0, 2) for run in runs), snapshot_row(runs[0], -1, 2)]

    with pytest.raises(BatchRefused) as refused:
        await owner.commit(batch)

    assert refused.value.sqlstate == "23514"
    assert await contents(store, runs) == before
    await owner.step(runs)


@pytest.mark.parametrize(
    ("table", "sqlstate"),
    [
        ("current_runs", "21000"),
        ("executions", "21000"),
        ("tasks", "21000"),
        ("visibility", "21000"),
        ("history", "23505"),
    ],
)
async def test_a_key_twice_in_a_batch_is_refused(
    store: Store, owner: Owner, table: str, sqlstate: str
) -> None:
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    rows = getattr(batch, table)
    rows.append(rows[0])
    before = await contents(store, [run])

    with pytest.raises(BatchRefused) as refused:
        await owner.commit(batch)

    assert refused.value.sqlstate == sqlstate
    assert await contents(store, [run]) == before


async def test_a_value_that_the_database_refuses_names_its_class(
    store: Store, owner: Owner
) -> None:
    bad = Run(1, workflow_id="zero\0in it")
    lone = Run(1, workflow_id="lone \ud800 surrogate")
    queer = Run(1)
    not_json = owner.start_batch([queer])
    not_json.visibility = [listed_row(queer, RUNNING)._replace(attrs="fence lost")]

    for batch, sqlstate in (
        (owner.start_batch([bad]), "22021"),
        (owner.start_batch([lone]), "22021"),
        (not_json, "22P02"),
    ):
        with pytest.raises(BatchRefused) as refused:
            await owner.commit(batch)
        assert refused.value.sqlstate == sqlstate

    await owner.commit(owner.batch([1]))


@pytest.mark.parametrize("row", ["status", "version", "close_time", "wake"])
async def test_invariants_are_constraints_too(store: Store, owner: Owner, row: str) -> None:
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    if row == "status":
        batch.executions = [batch.executions[0]._replace(status=0)]
    elif row == "version":
        batch.tasks = [batch.tasks[0]._replace(version=0)]
    elif row == "close_time":
        batch.visibility = [batch.visibility[0]._replace(status=COMPLETED)]
    else:
        batch.timers = [timer_row(run, 1_000_000, 1)._replace(due_us=2_000_000)]

    with pytest.raises(BatchRefused) as refused:
        await owner.commit(batch)

    assert refused.value.sqlstate == "23514"
    assert (await whole_run(store, run))[0] is None


async def test_a_run_that_is_paused_is_listed_so_while_it_is_open(
    store: Store, owner: Owner
) -> None:
    """Lists only: heads and current runs say whether a run is open, and it is."""
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    batch.visibility = [batch.visibility[0]._replace(status=PAUSED, close_us=run.start_us)]
    with pytest.raises(BatchRefused) as closed:
        await owner.commit(batch)
    assert closed.value.sqlstate == "23514"

    batch.visibility = [batch.visibility[0]._replace(status=PAUSED, close_us=None)]
    batch.executions = [batch.executions[0]._replace(status=PAUSED)]
    with pytest.raises(BatchRefused):
        await owner.commit(batch)
    batch.executions = [batch.executions[0]._replace(status=RUNNING)]
    await owner.commit(batch)


async def test_a_batch_without_fences_and_rows_is_harmless(store: Store) -> None:
    assert await store.commit(empty_batch()) > 0
