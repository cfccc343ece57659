"""The guard: a row that is not as the owner's memory has it stops the batch, and nothing is
written.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.conformance.owner import (
    RUNNING,
    Owner,
    Run,
    contents,
    current_row,
    current_run,
    timer_row,
)

from perdure_engine.ports.store import BatchRefused, GuardFailed, Store


async def refused(
    store: Store, owner: Owner, runs: list[Run], change: Callable[[Run], None]
) -> None:
    """Step eight runs, one of which is remembered wrongly."""
    change(runs[5])
    before = await contents(store, runs)

    with pytest.raises(GuardFailed):
        await owner.commit(owner.step_batch(runs))

    assert await contents(store, runs) == before


@pytest.fixture
async def runs(owner: Owner) -> list[Run]:
    runs = owner.runs(8)
    await owner.start(runs)
    return runs


async def test_a_stale_version_of_a_head(store: Store, owner: Owner, runs: list[Run]) -> None:
    await owner.step(runs[:1])

    await refused(store, owner, runs, lambda run: setattr(run, "version", 2))


async def test_a_head_that_is_gone_is_not_resurrected(
    store: Store, owner: Owner, runs: list[Run]
) -> None:
    await refused(store, owner, runs, lambda run: setattr(run, "run_id", bytes(15) + b"\xff"))


async def test_a_task_that_is_gone_is_not_resurrected(
    store: Store, owner: Owner, runs: list[Run]
) -> None:
    await refused(store, owner, runs, lambda run: setattr(run, "task_id", 7_000_000_000))


async def test_a_timer_that_is_gone_is_not_resurrected(
    store: Store, owner: Owner, runs: list[Run]
) -> None:
    before = await contents(store, runs)

    with pytest.raises(GuardFailed):
        await owner.commit(owner.batch(timers=[timer_row(runs[0], 5, 6, state=9, version=-1)]))

    assert await contents(store, runs) == before


async def test_invariant_09_a_second_open_run_of_a_workflow_id(
    store: Store, owner: Owner, runs: list[Run]
) -> None:
    """Two mistakes: believing that there is none, and believing in a version before."""
    for believed in (0, 5):
        second = Run(runs[0].shard_id, workflow_id=runs[0].workflow_id, current_version=believed)
        before = await contents(store, [*runs, second])

        with pytest.raises(GuardFailed):
            await owner.commit(owner.start_batch([second]))

        assert await contents(store, [*runs, second]) == before


async def test_invariant_09_a_new_run_after_the_last_one_closed(
    store: Store, owner: Owner, runs: list[Run]
) -> None:
    await owner.close(runs[:1])
    again = Run(runs[0].shard_id, workflow_id=runs[0].workflow_id, current_version=2)

    await owner.start([again])

    assert await current_run(store, again) == current_row(again, RUNNING, 3)


async def test_an_event_id_that_exists(store: Store, owner: Owner, runs: list[Run]) -> None:
    batch = owner.step_batch(runs)
    batch.history[5] = batch.history[5]._replace(first_event_id=1)
    before = await contents(store, runs)

    with pytest.raises(BatchRefused) as error:
        await owner.commit(batch)

    assert error.value.sqlstate == "23505"
    assert await contents(store, runs) == before


async def test_a_new_row_that_exists_and_an_update_whose_row_is_gone_do_not_cancel_out(
    store: Store, owner: Owner, runs: list[Run]
) -> None:
    """What a guard that counts rows and sums versions, with 0 for a new row, would let through."""
    batch = owner.step_batch(runs[:2])
    first, second = batch.executions
    batch.executions = [
        first._replace(version=1),
        second._replace(run_id=bytes(15) + b"\xff", version=-1),
    ]

    with pytest.raises(GuardFailed):
        await owner.commit(batch)
