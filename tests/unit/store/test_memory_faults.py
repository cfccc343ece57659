"""The faults and the clock of the memory store: what a simulation leans on."""

from __future__ import annotations

import asyncio

import pytest
from tests.conformance.owner import Owner, new_id, no_keys

from perdure_engine.ports.store import Conflict, FenceLost, OutcomeUnknown, StoreUnavailable
from perdure_engine.store.memory import MemoryStore, Moment


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: 7)


async def test_a_commit_that_fails_before_its_effect(store: MemoryStore) -> None:
    owner = await Owner.take(store, [1])
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    store.faults.fail_next("commit", Conflict())

    with pytest.raises(Conflict):
        await store.commit(batch)
    assert await store.load_run(1, run.run_id, no_keys) is None

    assert await store.commit(batch) == 7


async def test_a_commit_that_fails_after_its_effect(store: MemoryStore) -> None:
    owner = await Owner.take(store, [1])
    (run,) = owner.runs(1)
    batch = owner.start_batch([run])
    store.faults.fail_next("commit", OutcomeUnknown(), Moment.AFTER)

    with pytest.raises(OutcomeUnknown):
        await store.commit(batch)

    (state,) = await store.bump_fences(batch.fences, new_id())
    assert state.batch_id == batch.batch_id


async def test_faults_are_used_up_in_order_one_for_each_call(store: MemoryStore) -> None:
    store.faults.fail_next("list_nodes", StoreUnavailable("first"))
    store.faults.fail_next("list_nodes", StoreUnavailable("second"))

    for word in ("first", "second"):
        with pytest.raises(StoreUnavailable, match=word):
            await store.list_nodes()
    assert await store.list_nodes() == []


async def test_a_call_that_is_held_up_meets_what_happened_meanwhile(store: MemoryStore) -> None:
    """A statement under way for long: the bump overtakes it, and it finds its fence lost."""
    owner = await Owner.take(store, [1])
    batch = owner.batch([1])
    go_on = asyncio.Event()

    async def pause(operation: str, moment: Moment) -> None:
        if operation == "commit" and moment is Moment.BEFORE:
            await go_on.wait()

    store.faults.pause = pause
    late = asyncio.ensure_future(store.commit(batch))
    await store.bump_fences(batch.fences, new_id())
    go_on.set()

    with pytest.raises(FenceLost):
        await late


async def test_an_update_that_changes_what_sql_would_not_is_its_makers_error(
    store: MemoryStore,
) -> None:
    owner = await Owner.take(store, [1])
    (run,) = owner.runs(1)
    await owner.start([run])
    batch = owner.step_batch([run])
    batch.executions = [batch.executions[0]._replace(workflow_id="another")]

    with pytest.raises(AssertionError):
        await store.commit(batch)
