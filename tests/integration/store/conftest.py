from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig


@pytest.fixture
async def store(database_dsn: str) -> AsyncIterator[SqlStore]:
    store = SqlStore(SqlStoreConfig(database_dsn))
    await store.open()
    yield store
    await store.close()
