"""A real CockroachDB, named by PERDURE_TEST_COCKROACH_DSN; without it this folder is skipped.

The dsn is libpq's, of a user who may create databases. One database is made for the session and
dropped at its end. Until these tests have run on a server, Perdure is written for CockroachDB, not
tested on it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

import perdure_migrations
from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig

VARIABLE = "PERDURE_TEST_COCKROACH_DSN"
DATABASE = "perdure_smoke"
NUMBER_OF_SHARDS = 64


@pytest.fixture(scope="session")
def cockroach_dsn() -> Iterator[str]:
    """A migrated database."""
    admin_dsn = os.environ.get(VARIABLE)
    if not admin_dsn:
        pytest.skip(f"{VARIABLE} is not set")
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute(f"drop database if exists {DATABASE} cascade".encode())
        admin.execute(f"create database {DATABASE}".encode())
        dsn = psycopg.conninfo.make_conninfo(admin_dsn, dbname=DATABASE)
        perdure_migrations.upgrade(dsn, number_of_shards=NUMBER_OF_SHARDS)
        yield dsn
        admin.execute(f"drop database {DATABASE} cascade".encode())


@pytest.fixture
async def store(cockroach_dsn: str) -> AsyncIterator[SqlStore]:
    store = SqlStore(SqlStoreConfig(cockroach_dsn))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def store_without_full_scans(cockroach_dsn: str) -> AsyncIterator[SqlStore]:
    """The server itself refuses a statement that would read a whole table."""
    dsn = psycopg.conninfo.make_conninfo(cockroach_dsn, options="-c disallow_full_table_scans=on")
    store = SqlStore(SqlStoreConfig(dsn))
    yield store
    await store.close()
