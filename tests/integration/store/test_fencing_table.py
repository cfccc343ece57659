"""Both sides of a take-over must be SERIALIZABLE: a table of what holds, and of what does not.

An old owner has decided on what it read, has written and not yet committed. A new owner takes the
shard and loads. Safe is: either the old commit fails, or the load has seen it. With plain reads of
the fence row (what a naïve fence would do) everything hangs on the isolation level of both; the
store's own sessions are checked for theirs at start-up, and its statements write the fence row,
which holds at any level.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import psycopg
import pytest
from tests.conformance.owner import Owner, new_id, no_keys

from perdure_engine.ports.store import FenceLost
from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig

Connection = psycopg.Connection[Any]

SERIALIZABLE = psycopg.IsolationLevel.SERIALIZABLE
READ_COMMITTED = psycopg.IsolationLevel.READ_COMMITTED


class Case(NamedTuple):
    old: psycopg.IsolationLevel
    new: psycopg.IsolationLevel
    order: str  # of b(ump), l(oad), c(ommit of the old owner)
    load: str
    safe: bool


# The load of the new owner: the run by its key, or all runs of the shard.
POINT = "select version from executions where shard_id = 1 and run_id = %(run)s"
SCAN = "select version from executions where shard_id = 1"

TABLE = [
    *(Case(SERIALIZABLE, SERIALIZABLE, "blc", load, safe=True) for load in (POINT, SCAN)),
    *(Case(SERIALIZABLE, READ_COMMITTED, "blc", load, safe=False) for load in (POINT, SCAN)),
    *(Case(READ_COMMITTED, SERIALIZABLE, "blc", load, safe=False) for load in (POINT, SCAN)),
    Case(SERIALIZABLE, SERIALIZABLE, "bcl", POINT, safe=True),
    Case(SERIALIZABLE, SERIALIZABLE, "cbl", POINT, safe=True),
]


@pytest.fixture
def connections(database_dsn: str) -> Iterator[tuple[Connection, Connection]]:
    with ExitStack() as stack:
        old, new = (
            stack.enter_context(psycopg.connect(database_dsn, autocommit=False)) for _ in range(2)
        )
        yield old, new


@pytest.mark.parametrize("read_only", [False, True], ids=["", "read only"])
@pytest.mark.parametrize("case", TABLE)
def test_fencing_by_a_plain_read(
    connections: tuple[Connection, Connection], case: Case, read_only: bool
) -> None:
    old, new = connections
    run = new_id().hex()
    _make_run(new, run)
    old.isolation_level, new.isolation_level = case.old, case.new

    def bump() -> None:
        new.execute("update shard_fence set range_id = range_id + 1 where shard_id = 1")
        new.commit()

    def load() -> None:
        new.read_only = read_only
        versions.extend(row[0] for row in new.execute(case.load, {"run": run}).fetchall())
        new.commit()

    def commit() -> None:
        try:
            old.commit()
            committed.append(True)
        except psycopg.errors.SerializationFailure:
            committed.append(False)

    versions: list[int] = []
    committed: list[bool] = []
    old.execute("select range_id from shard_fence where shard_id = 1")
    old.execute("update executions set version = 2 where shard_id = 1 and version = 1")
    for step in case.order:
        {"b": bump, "l": load, "c": commit}[step]()

    seen = versions == [2]
    assert (seen or committed == [False]) == case.safe


@pytest.mark.parametrize("level", ["serializable", "read committed"])
async def test_the_stores_fence_is_written_and_holds_at_any_level(
    database_dsn: str, level: str
) -> None:
    """Its sessions are SERIALIZABLE; the load must be too, and what it can miss is then refused."""
    store = SqlStore(SqlStoreConfig(database_dsn))
    owner = await Owner.take(store, [1])
    (run,) = owner.runs(1)
    late = owner.start_batch([run])
    successor = await Owner.take(store, [1])
    loaded = await store.load_run(1, run.run_id, no_keys)

    async with store._writers.session() as session:
        await session.fetch(
            "select set_config('default_transaction_isolation', $1::text, false)", (level,)
        )
    with pytest.raises(FenceLost):
        await store.commit(late)

    assert loaded is None
    await successor.start([run])
    await store.close()


def _make_run(connection: Connection, run: str) -> None:
    connection.execute(
        "insert into executions values (1, %(run)s, %(run)s, 'w', 1, 3, 0, '', 1)", {"run": run}
    )
    connection.commit()
