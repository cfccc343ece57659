"""`upgrade` and `status`.

Alembic and SQLAlchemy are imported only when there is something to migrate: they cost a start
several tenths of a second, and most starts find the schema as it should be.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

import psycopg
from psycopg import crdb

from perdure_migrations.errors import MigrationError, ShardCountFixed
from perdure_migrations.lock import migration_lock

HEAD = "0012"
CONNECT_TIMEOUT_S = 10
NUMBER_OF_SHARDS_MAX = 65_536  # shard numbers stay far inside int4, and a take-over reads them all


@dataclass(frozen=True)
class MigrationStatus:
    """Revisions as text; `current` is None and `number_of_shards` 0 before the first migration."""

    current: str | None
    head: str
    number_of_shards: int


def upgrade(dsn: str, *, number_of_shards: int = 4) -> None:
    """Bring the database to HEAD. Calling it again changes nothing.

    The number of shards is fixed by the first call: ShardCountFixed when a later one asks for
    another. A database whose schema is newer than HEAD is left alone, so that the version before
    can start again during a rolling upgrade.

    Raises MigrationError and psycopg.Error; after either the call may be repeated.
    """
    if not 1 <= number_of_shards <= NUMBER_OF_SHARDS_MAX:
        raise MigrationError(f"number_of_shards must be 1 to {NUMBER_OF_SHARDS_MAX}")
    with _connect(dsn) as connection:
        if _needs_migration(connection):
            with migration_lock(connection):
                if _needs_migration(connection):
                    _run_alembic(dsn, connection, number_of_shards)
        installed = _count_shards(connection)
    if installed != number_of_shards:
        raise ShardCountFixed(installed, number_of_shards)


def status(dsn: str) -> MigrationStatus:
    """What the database has. Reads only."""
    with _connect(dsn) as connection:
        return MigrationStatus(_current(connection), HEAD, _count_shards(connection))


def _connect(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(
        dsn,
        autocommit=True,
        connect_timeout=CONNECT_TIMEOUT_S,
        cursor_factory=psycopg.RawCursor,
    )


def is_cockroachdb(connection: psycopg.Connection[Any]) -> bool:
    return connection.pgconn.parameter_status(b"crdb_version") is not None


def _needs_migration(connection: psycopg.Connection[Any]) -> bool:
    current = _current(connection)
    return current is None or current < HEAD  # revisions are numbers of four digits


def _current(connection: psycopg.Connection[Any]) -> str | None:
    try:
        row = connection.execute("select version_num from alembic_version").fetchone()
    except psycopg.errors.UndefinedTable:
        return None
    return None if row is None else str(row[0])


def _count_shards(connection: psycopg.Connection[Any]) -> int:
    try:
        row = connection.execute("select count(*) from shard_fence").fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    assert row is not None
    return int(row[0])


def _run_alembic(dsn: str, connection: psycopg.Connection[Any], number_of_shards: int) -> None:
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import NullPool, create_engine

    # The driver's own connect takes the dsn as it is: SQLAlchemy's URLs cannot say all of it.
    cockroachdb = is_cockroachdb(connection)
    connect = crdb.connect if cockroachdb else psycopg.connect
    engine = create_engine(
        "cockroachdb+psycopg://" if cockroachdb else "postgresql+psycopg://",
        creator=lambda: connect(dsn, connect_timeout=CONNECT_TIMEOUT_S),
        isolation_level="AUTOCOMMIT",
        poolclass=NullPool,
    )
    with (
        resources.as_file(resources.files("perdure_migrations")) as folder,
        engine.connect() as bound,
    ):
        config = Config()
        config.set_main_option("script_location", str(folder))
        config.attributes["connection"] = bound
        config.attributes["number_of_shards"] = number_of_shards
        command.upgrade(config, HEAD)
