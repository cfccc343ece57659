"""Invariants 25 and 27: what the fence lets through, and what it stops.

In each case of a refusal nothing at all is written, of any shard of the statement.
"""

from __future__ import annotations

import pytest
from tests.conformance.owner import (
    Owner,
    Run,
    contents,
    fence_of,
    head_row,
    inbox_row,
    listed_row,
    new_id,
    snapshot_row,
)

from perdure_engine.ports.rows import HistoryRow
from perdure_engine.ports.store import Fence, FenceLost, GuardFailed, Store


async def test_invariant_25_one_fence_of_four_lost(store: Store, owner: Owner) -> None:
    runs = owner.runs(8)
    await owner.start(runs)
    await Owner.take(store, [3])
    before = await contents(store, runs)

    with pytest.raises(FenceLost):
        await owner.commit(owner.step_batch(runs))

    assert await contents(store, runs) == before


async def test_invariant_25_a_lost_fence_is_told_before_an_event_id_that_exists(
    store: Store, owner: Owner
) -> None:
    """The new owner has gone on with the run: the old one must hear of the fence, not of a
    clash.
    """
    runs = owner.runs(8)
    await owner.start(runs)
    successor = await Owner.take(store, [3])
    taken = next(run for run in runs if run.shard_id == 3)
    late = owner.step_batch(runs)
    await successor.commit(successor.step_batch([taken]))
    before = await contents(store, runs)

    with pytest.raises(FenceLost):
        await owner.commit(late)

    assert await contents(store, runs) == before


@pytest.mark.parametrize("wrong", ["range_id", "commit_seq", "owner_id"])
async def test_invariant_25_each_column_of_the_fence_counts(
    store: Store, owner: Owner, wrong: str
) -> None:
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    fence = batch.fences[0]
    if wrong == "owner_id":
        fence.owner_id = new_id()
    else:
        setattr(fence, wrong, getattr(fence, wrong) + 1)
    before = await contents(store, [run])

    with pytest.raises(FenceLost):
        await store.commit(batch)

    assert await contents(store, [run]) == before


async def test_invariant_25_a_missing_fence_row_is_noticed_and_not_made(
    store: Store, owner: Owner
) -> None:
    before = await contents(store)
    batch = owner.batch([1])
    batch.fences.append(Fence(99, 1, 1, new_id()))

    with pytest.raises(FenceLost):
        await store.commit(batch)

    assert await contents(store) == before
    assert await store.read_fences([99]) == []


async def test_invariant_25_no_row_of_a_shard_without_its_fence_is_written(
    store: Store, owner: Owner
) -> None:
    """Each kind of table: those with versions, the plain inserts, and the two that have neither."""
    here, elsewhere = owner.runs(2)
    foreign = {
        "executions": head_row(elsewhere, 1, 3, 1),
        "history": HistoryRow(elsewhere.shard_id, elsewhere.run_id, 1, 0, b"started"),
        "inbox": inbox_row(elsewhere, 1),
        "visibility": listed_row(elsewhere, 1),
        "snapshots": snapshot_row(elsewhere, 0, 1),
    }
    before = await contents(store, [here, elsewhere])

    for table, row in foreign.items():
        batch = owner.start_batch([here])
        getattr(batch, table).append(row)
        with pytest.raises(GuardFailed):
            await store.commit(batch)

    assert await contents(store, [here, elsewhere]) == before


async def test_invariant_25_a_paused_owner_that_wakes_cannot_commit(
    store: Store, owner: Owner
) -> None:
    (run,) = owner.runs(1)
    await owner.start([run])
    successor = await Owner.take(store, [run.shard_id])
    await successor.step([run])
    run.version, run.next_event_id = 1, 3

    for late in (owner.step_batch([run]), owner.batch([run.shard_id])):
        with pytest.raises(FenceLost):
            await owner.commit(late)


async def test_invariant_25_the_same_statement_twice_is_saved_once(
    store: Store, owner: Owner
) -> None:
    """A statement that a network delivered late, after its own success."""
    batch = owner.start_batch(owner.runs(4))
    await store.commit(batch)

    with pytest.raises(FenceLost):
        await store.commit(batch)


async def test_invariant_27_the_range_grows_with_each_taking(store: Store) -> None:
    ranges = []
    for _ in range(3):
        taken = await Owner.take(store, [1, 2])
        ranges.append([taken.fences[1].range_id, taken.fences[2].range_id])

    assert ranges == [[1, 1], [2, 2], [3, 3]]


async def test_bump_tells_that_the_batch_landed(store: Store, owner: Owner) -> None:
    batch = owner.start_batch(owner.runs(2))
    await store.commit(batch)
    me = new_id()

    bumped = await store.bump_fences(batch.fences, me)

    assert [state.batch_id for state in bumped] == [batch.batch_id] * 2
    assert [(state.range_id, state.commit_seq, state.owner_id) for state in bumped] == [
        (2, 2, me)
    ] * 2


async def test_bump_tells_that_the_batch_did_not_land_and_keeps_it_out(
    store: Store, owner: Owner
) -> None:
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])

    (bumped,) = await store.bump_fences(batch.fences, new_id())
    with pytest.raises(FenceLost):
        await store.commit(batch)

    assert bumped.batch_id != batch.batch_id
    assert await store.load_run(run.shard_id, run.run_id, lambda head: []) is None


async def test_bump_of_a_shard_that_another_took_changes_nothing(
    store: Store, owner: Owner
) -> None:
    mine = [owner.fence(1), owner.fence(2)]
    await Owner.take(store, [2])
    (theirs,) = await store.read_fences([2])

    bumped = await store.bump_fences(mine, new_id())

    assert [state.shard_id for state in bumped] == [1]
    assert await store.read_fences([2]) == [theirs]


@pytest.mark.parametrize("wrong", ["range_id", "owner_id"])
async def test_bump_compares_range_and_owner(store: Store, owner: Owner, wrong: str) -> None:
    """The sequence it does not: whether the batch landed is what a bump is to find out."""
    fence = owner.fence(1)
    if wrong == "range_id":
        fence.range_id += 1
    else:
        fence.owner_id = new_id()
    before = await store.read_fences([1])

    assert await store.bump_fences([fence], new_id()) == []

    assert await store.read_fences([1]) == before
    fence = owner.fence(1)
    fence.commit_seq += 1
    assert len(await store.bump_fences([fence], new_id())) == 1


async def test_bump_of_a_missing_fence_row_makes_none(store: Store, owner: Owner) -> None:
    fences = [owner.fence(1), Fence(99, 1, 1, new_id())]

    bumped = await store.bump_fences(fences, new_id())

    assert [state.shard_id for state in bumped] == [1]
    assert await store.read_fences([1, 99]) == bumped


async def test_of_two_who_take_a_shard_at_once_one_gets_it(store: Store) -> None:
    states = await store.read_fences([1])

    first = await store.bump_fences([fence_of(states[0])], new_id())
    second = await store.bump_fences([fence_of(states[0])], new_id())

    assert len(first) == 1
    assert second == []


async def test_an_owner_goes_on_after_a_bump_of_its_own(store: Store, owner: Owner) -> None:
    (run,) = owner.runs(1)
    await owner.start([run])
    (state,) = await store.bump_fences([owner.fence(run.shard_id)], new_id())
    again = Owner(store, {run.shard_id: fence_of(state)})

    await again.step([run])


async def test_nothing_to_bump_is_nothing(store: Store) -> None:
    assert await store.bump_fences([], new_id()) == []
    assert await store.read_fences([]) == []


async def test_fences_may_be_given_in_any_order(store: Store, owner: Owner) -> None:
    runs = [Run(3), Run(1), Run(2)]
    batch = owner.start_batch(runs)
    batch.fences.reverse()

    assert await store.commit(batch) > 0
