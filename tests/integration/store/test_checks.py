"""What a database must be, and what the operator is warned of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

import psycopg
import pytest

from perdure_engine.server.embedded import EmbeddedPostgres
from perdure_engine.store.sql import checks
from perdure_engine.store.sql.connection import Row, Statement
from perdure_engine.store.sql.errors import ConfigError
from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig

GOOD = (180_000, "C", "UTF8", "on", "on", "on")


class Answering:
    """A session of a server that says what the test wants it to say."""

    usable = True

    def __init__(
        self, *, isolation: str = "serializable", row: Row = GOOD, cockroach: str | None = None
    ) -> None:
        self._answers = {checks.ISOLATION: (isolation,), checks.POSTGRES: row}
        self._cockroach = cockroach

    def parameter_status(self, name: str) -> str | None:
        return self._cockroach if name == "crdb_version" else None

    async def fetch(
        self, text: LiteralString, values: Sequence[object] = (), *, prepare: bool = True
    ) -> list[Row]:
        return [self._answers[text]]

    async def fetch_together(self, statements: Sequence[Statement]) -> list[list[Row]]:
        raise NotImplementedError

    def discard(self) -> None:
        pass


async def test_a_good_database_passes_without_a_word() -> None:
    assert await checks.check(Answering()) == []
    cockroach = "CockroachDB CCL v25.2.10 (x86_64-pc-linux-gnu, built 2026/01/01)"
    assert await checks.check(Answering(cockroach=cockroach)) == []
    assert await checks.describe(Answering(cockroach=cockroach)) == "CockroachDB CCL v25.2.10"


@pytest.mark.parametrize(
    ("session", "word"),
    [
        (Answering(isolation="read committed"), "serializable"),
        (Answering(row=(140_010, *GOOD[1:])), "PostgreSQL 14"),
        (Answering(row=(180_000, "en_US.UTF-8", *GOOD[2:])), "LC_COLLATE"),
        (Answering(row=(180_000, "C", "LATIN1", *GOOD[3:])), "UTF8"),
        (Answering(cockroach="CockroachDB CCL v24.1.3 (x86_64)"), "24.3"),
    ],
)
async def test_a_database_that_will_not_do(session: Answering, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        await checks.check(session)


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
async def test_what_may_lose_acknowledged_work_is_a_warning(setting: str) -> None:
    names = ("version", "collation", "encoding", "fsync", "synchronous_commit", "full_page_writes")
    row = tuple(
        "off" if name == setting else value for name, value in zip(names, GOOD, strict=True)
    )

    (warning,) = await checks.check(Answering(row=row))

    assert setting in warning


async def test_a_real_database_of_another_encoding(postgres_server: EmbeddedPostgres) -> None:
    dsn = postgres_server.create_database("plain")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create database latin encoding 'latin1' template template0")
    store = SqlStore(SqlStoreConfig(psycopg.conninfo.make_conninfo(dsn, dbname="latin")))

    with pytest.raises(ConfigError, match="LATIN1"):
        await store.open()

    await store.close()


async def test_sessions_are_serializable_whatever_the_database_says(database_dsn: str) -> None:
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        connection.execute(
            "do $$ begin execute format('alter database %I set default_transaction_isolation"
            " = ''read committed''', current_database()); end $$"
        )
    store = SqlStore(SqlStoreConfig(database_dsn))

    await store.open()

    assert (await store.describe()).startswith("PostgreSQL ")
    assert [warning.split()[0] for warning in store.warnings] == [
        "fsync"
    ]  # as the tests' server is
    await store.close()


async def test_readers_cannot_write(database_dsn: str) -> None:
    store = SqlStore(SqlStoreConfig(database_dsn))
    async with store._readers.session() as session:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await session.fetch("delete from nodes")
    await store.close()
