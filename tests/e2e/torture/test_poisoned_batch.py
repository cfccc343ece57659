"""One intent that makes any statement with it fail: its neighbours are saved, it alone is told."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.chaos.callers import Nodes
from tests.chaos.faulty_node import Refusing, node_with
from tests.chaos.load import Load
from tests.chaos.scrub import Scrubber, open_store

from perdure._wire.calls import Target, describe_workflow
from perdure.errors import RPCError, RPCStatusCode

NEIGHBOURS = 63
WITHIN_S = 1.0
SQLSTATES = ("22021", "23514", "22003")  # text, check, number


@asynccontextmanager
async def load_on(dsn: str, refusing: Refusing) -> AsyncIterator[Load]:
    async with node_with(dsn, refusing.wrap) as node:
        nodes = await Nodes.connect([node.address], lambda workflow_id: 0)
        try:
            yield Load(nodes, "nobody-polls", seed=1)
        finally:
            await nodes.close()


def ids_with_one_marked() -> list[str]:
    """The culprit stands in the middle: both halves of the batch have something to lose."""
    ids = [f"neighbour-{number}" for number in range(NEIGHBOURS)]
    ids.insert(NEIGHBOURS // 2, "culprit")
    return ids


async def outcomes_of(calls: dict[str, asyncio.Task[None]]) -> dict[str, BaseException | None]:
    await asyncio.wait(calls.values())
    return {name: task.exception() for name, task in calls.items()}


def assert_only_the_culprit_failed(outcomes: dict[str, BaseException | None]) -> None:
    error = outcomes.pop("culprit")
    assert isinstance(error, RPCError)
    assert error.status is RPCStatusCode.INTERNAL
    assert re.search(r"internal error [0-9a-f]{32}", str(error)), "it has an id for the log"
    assert "injected" not in str(error), "what the database said is for the log, not the caller"
    assert {name for name, one in outcomes.items() if one is not None} == set()


@pytest.mark.parametrize("sqlstate", SQLSTATES)
async def test_a_start_that_the_database_refuses_harms_no_neighbour(
    database_dsn: str, sqlstate: str
) -> None:
    """Design §3, "when the database does not answer"; invariants 5 and 66."""
    refusing = Refusing("culprit")
    async with load_on(database_dsn, refusing) as load:
        refusing.sqlstate = sqlstate
        began_s = time.perf_counter()
        calls = {
            name: asyncio.ensure_future(load.start(name, "Recorded", 0, [0]))
            for name in ids_with_one_marked()
        }
        outcomes = await outcomes_of(calls)
        took_s = time.perf_counter() - began_s
        refusing.sqlstate = ""

    assert_only_the_culprit_failed(outcomes)
    assert took_s < WITHIN_S
    assert refusing.refused > 1
    async with open_store(database_dsn) as store:
        scrubber = Scrubber(store, 4)
        saved = {run.workflow_id async for run in scrubber.scrub()}
    assert scrubber.problems == []
    assert saved == set(ids_with_one_marked()) - {"culprit"}


async def test_a_signal_that_the_database_refuses_harms_no_neighbour(database_dsn: str) -> None:
    """The same for runs that are there: they are evicted, reloaded and decided again."""
    refusing = Refusing("culprit")
    async with load_on(database_dsn, refusing) as load:
        names = ids_with_one_marked()
        await asyncio.gather(*(load.start(name, "Collecting", 0, [0, 3]) for name in names))
        refusing.sqlstate = "23514"
        began_s = time.perf_counter()
        outcomes = await outcomes_of(
            {name: asyncio.ensure_future(load.signal(name, 1)) for name in names}
        )
        took_s = time.perf_counter() - began_s
        refusing.sqlstate = ""
        assert_only_the_culprit_failed(outcomes)
        assert took_s < WITHIN_S
        # one failure is no quarantine: the culprit's run goes on once the database takes it
        await load.signal("culprit", 1)
        described = await load.nodes.call(
            "culprit", describe_workflow(Target("default", "culprit", ""), lambda one: one)
        )
        assert described.history_length == 3


async def test_a_run_that_is_refused_three_times_is_quarantined_alone(database_dsn: str) -> None:
    refusing = Refusing("culprit")
    async with load_on(database_dsn, refusing) as load:
        await load.start("culprit", "Collecting", 0, [0, 3])
        await load.start("neighbour", "Collecting", 0, [0, 3])
        refusing.sqlstate = "23514"
        for _ in range(3):
            with pytest.raises(RPCError) as refused:
                await load.signal("culprit", 1)
            assert refused.value.status is RPCStatusCode.INTERNAL
        refusing.sqlstate = ""
        with pytest.raises(RPCError) as quarantined:
            await load.signal("culprit", 1)
        await load.signal("neighbour", 1)

    assert quarantined.value.status is RPCStatusCode.DATA_LOSS
    assert quarantined.value.reason == "RUN_QUARANTINED"
