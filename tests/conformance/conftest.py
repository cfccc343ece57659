"""One suite, both stores: whatever is proved here holds for the oracle and for the SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.conformance.owner import Owner

from perdure_engine.ports.store import Store
from perdure_engine.store.memory import MemoryStore
from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig

SHARDS = (1, 2, 3, 4)


class SteppingClock:
    """Each look at the clock is one µs later: no two rows get the same time by chance."""

    def __init__(self) -> None:
        self.now_us = 1_800_000_000_000_000

    def __call__(self) -> int:
        self.now_us += 1
        return self.now_us


@pytest.fixture(params=["memory", "sql"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An open store over a new database of four shards that nobody owns."""
    made: MemoryStore | SqlStore
    if request.param == "memory":
        made = MemoryStore(SteppingClock())
    else:
        made = SqlStore(SqlStoreConfig(request.getfixturevalue("database_dsn")))
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def owner(store: Store) -> Owner:
    """Somebody who has taken all shards."""
    return await Owner.take(store, SHARDS)
