"""A removal deletes closed runs whole, under the fence, and never an open one."""

from __future__ import annotations

import pytest
from tests.conformance.owner import (
    COMPLETED,
    NAMESPACE,
    RUNNING,
    Owner,
    Run,
    contents,
    inbox_row,
    listed_row,
    new_id,
    no_keys,
    snapshot_row,
)

from perdure_engine.ports.store import FenceLost, GuardFailed, Removal, Store, VisibilityFilter

SHARD = 2


def a_removal(owner: Owner, *runs: Run) -> Removal:
    return Removal(
        batch_id=new_id(),
        fence=owner.fence(SHARD),
        run_ids=[run.run_id for run in runs],
        workflows=[(NAMESPACE, run.workflow_id) for run in runs],
    )


async def closed(owner: Owner, number: int) -> list[Run]:
    runs = [Run(SHARD) for _ in range(number)]
    await owner.start(runs)
    await owner.close(runs)
    return runs


async def test_a_closed_run_goes_with_all_that_is_its(store: Store, owner: Owner) -> None:
    gone, stays = await closed(owner, 2)
    extra = {
        "inbox": [inbox_row(run, 1) for run in (gone, stays)],
        "snapshots": [snapshot_row(run, 0, 2) for run in (gone, stays)],
    }
    await owner.commit(owner.batch(**extra))
    removal = a_removal(owner, gone)

    assert await store.remove_runs(removal) > 0

    (state,) = await store.read_fences([SHARD])
    assert state.batch_id == removal.batch_id
    assert state.commit_seq == removal.fence.commit_seq + 1
    assert await store.load_run(SHARD, gone.run_id, no_keys) is None
    assert not (await store.load_history(SHARD, gone.run_id, 1, 9)).rows
    left = await store.load_run(SHARD, stays.run_id, no_keys)
    assert left is not None
    assert left.inbox
    assert left.snapshot
    keys = [(SHARD, NAMESPACE, run.workflow_id) for run in (gone, stays)]
    assert [row.run_id for row in await store.load_current_runs(keys)] == [stays.run_id]
    listed = (await store.list_runs(VisibilityFilter(NAMESPACE), None, 9)).rows
    assert [row.run_id for row in listed] == [stays.run_id]


async def test_the_current_row_of_a_later_run_stays(store: Store, owner: Owner) -> None:
    (first,) = await closed(owner, 1)
    second = Run(SHARD, workflow_id=first.workflow_id, current_version=first.current_version)
    await owner.start([second])

    await store.remove_runs(a_removal(owner, first))

    (current,) = await store.load_current_runs([(SHARD, NAMESPACE, first.workflow_id)])
    assert (current.run_id, current.status) == (second.run_id, RUNNING)


async def test_invariant_14_an_open_run_is_never_removed(store: Store, owner: Owner) -> None:
    (ended,) = await closed(owner, 1)
    running = Run(SHARD)
    await owner.start([running])
    before = await contents(store, [ended, running])

    with pytest.raises(GuardFailed):
        await store.remove_runs(a_removal(owner, ended, running))

    assert await contents(store, [ended, running]) == before
    assert await store.load_run(SHARD, ended.run_id, no_keys) is not None


async def test_nothing_is_removed_without_the_fence(store: Store, owner: Owner) -> None:
    (ended,) = await closed(owner, 1)
    removal = a_removal(owner, ended)
    removal.fence.commit_seq -= 1
    with pytest.raises(FenceLost):
        await store.remove_runs(removal)
    assert await store.load_run(SHARD, ended.run_id, no_keys) is not None


async def test_a_run_that_is_gone_is_no_error(store: Store, owner: Owner) -> None:
    (ended,) = await closed(owner, 1)
    await store.remove_runs(a_removal(owner, ended))
    owner.fences[SHARD].commit_seq += 1
    await store.remove_runs(a_removal(owner, ended, Run(SHARD)))


async def test_closed_runs_are_read_in_pages_of_rows(store: Store, owner: Owner) -> None:
    runs = [Run(SHARD) for _ in range(5)]
    states = (RUNNING, COMPLETED, RUNNING, RUNNING, COMPLETED)
    rows = [listed_row(run, state) for run, state in zip(runs, states, strict=True)]
    elsewhere = listed_row(Run(1), COMPLETED)
    await owner.commit(owner.batch(visibility=[*rows, elsewhere]))

    found, after, pages = [], bytes(16), 0
    while after is not None:
        page = await store.load_closed_runs(SHARD, after, 2)
        found += page.runs
        after, pages = page.last_run_id, pages + 1

    assert pages == 3
    assert [run.run_id for run in found] == [runs[1].run_id, runs[4].run_id]
    assert (found[0].namespace_id, found[0].workflow_id) == (NAMESPACE, runs[1].workflow_id)
    assert found[0].close_us == rows[1].close_us
    assert found[0].history_bytes == rows[1].history_bytes
