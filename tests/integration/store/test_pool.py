"""The set of sessions, on a real server: what becomes of it when callers are cancelled at any instant."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from random import Random  # with a seed

import psycopg
from psycopg.conninfo import make_conninfo

from perdure_engine.store.sql.connection import connect
from perdure_engine.store.sql.pool import SessionPool

SIZE = 4
CALLERS = 20
ROUNDS = 60


async def call(pool: SessionPool, statement: int) -> None:
    async with pool.session() as session:
        await session.fetch("select $1::int", (statement,))
        await session.fetch("select pg_sleep(0.002)")


async def test_bug_report_63_callers_that_are_cancelled_cost_the_pool_nothing(
    database_dsn: str,
) -> None:
    """Twenty callers on four sessions, cancelled in the middle of whatever they do, sixty times over: all four can be
    used at once after that, everybody is served, and no transaction is open."""
    random = Random(63)
    dsn = make_conninfo(database_dsn, application_name="pool63")
    pool = SessionPool(partial(connect, dsn, read_only=True, statement_timeout_ms=5_000), SIZE)
    for number in range(ROUNDS):
        calls = [asyncio.ensure_future(call(pool, number)) for _ in range(CALLERS)]
        for _ in range(random.randrange(12)):
            await asyncio.wait(calls, timeout=0.001)
        for one in random.sample(calls, CALLERS // 2):
            one.cancel()
        await asyncio.wait(calls)
        failed = [one for one in calls if not one.cancelled() and one.exception()]
        assert not failed

    async with asyncio.timeout(10), contextlib.AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(pool.session()) for _ in range(SIZE)]
        assert await asyncio.gather(*[one.fetch("select 1") for one in sessions]) == [[(1,)]] * SIZE
    with psycopg.connect(database_dsn) as other:
        states = other.execute(
            "select state from pg_stat_activity where application_name = 'pool63'"
        ).fetchall()
    assert len(states) <= SIZE
    assert {state for (state,) in states} == {"idle"}
    pool.close()
