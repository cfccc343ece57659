"""What a database must be before the engine starts on it."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.store.sql.connection import Session
from perdure_engine.store.sql.errors import ConfigError

POSTGRES_VERSION_MIN: Final = 150_000
COCKROACH_VERSION_MIN: Final = (24, 3)

ISOLATION: Final[LiteralString] = "show transaction_isolation"
VERSION: Final[LiteralString] = "select version() as version"

# .pg: settings and catalogue that CockroachDB has in other forms or not at all.
POSTGRES: Final[LiteralString] = """\
select current_setting('server_version_num')::int4 as version, d.datcollate::text as collation,
  current_setting('server_encoding') as encoding, current_setting('fsync') as fsync,
  current_setting('synchronous_commit') as synchronous_commit,
  current_setting('full_page_writes') as full_page_writes
from pg_database as d where d.datname = current_database()"""

STATEMENTS: Final[dict[str, LiteralString]] = {
    "checks.isolation": ISOLATION,
    "checks.version": VERSION,
}
STATEMENTS_POSTGRES: Final[dict[str, LiteralString]] = {"checks.postgres": POSTGRES}

# Byte order, by the names that systems give it. Keys are compared as text: another collation would
# sort them differently here and in memory, and cannot use an index for a prefix.
_BYTE_ORDER: Final = frozenset({"C", "C.UTF-8", "C.UTF8", "C.utf8", "POSIX"})


async def check(session: Session) -> list[str]:
    """Return what the operator should be warned of. Raises ConfigError when the engine must not
    start.
    """
    rows = await session.fetch(ISOLATION)
    if rows[0][0] != "serializable":
        raise ConfigError(f"sessions run at {rows[0][0]}; fences hold at serializable only")
    cockroach = session.parameter_status("crdb_version")
    if cockroach is not None:
        _check_cockroach(cockroach)
        return []
    return await _check_postgres(session)


async def describe(session: Session) -> str:
    """The product and its version, without the compiler's."""
    cockroach = session.parameter_status("crdb_version")
    if cockroach is not None:
        return cockroach.split(" (", 1)[0]
    rows = await session.fetch(VERSION)
    return " ".join(str(rows[0][0]).split()[:2])


def _check_cockroach(version: str) -> None:
    """`version` is like "CockroachDB CCL v25.2.1 (x86_64-linux-gnu, …)"."""
    number = version.split(" v", 1)[-1].split(" ", 1)[0]
    major, minor = number.split(".")[:2]
    if (int(major), int(minor)) < COCKROACH_VERSION_MIN:
        raise ConfigError(f"CockroachDB {number} is too old; 24.3 is the oldest that will do")


async def _check_postgres(session: Session) -> list[str]:
    rows = await session.fetch(POSTGRES)
    version, collation, encoding, fsync, synchronous_commit, full_page_writes = rows[0]
    if version < POSTGRES_VERSION_MIN:
        raise ConfigError(
            f"PostgreSQL {version // 10_000} is too old; 15 is the oldest that will do"
        )
    if collation not in _BYTE_ORDER:
        raise ConfigError(f"the database collates by {collation!r}; create it with LC_COLLATE 'C'")
    if encoding != "UTF8":
        raise ConfigError(f"the database is encoded in {encoding}; create it with ENCODING 'UTF8'")
    settings = {
        "fsync": fsync,
        "synchronous_commit": synchronous_commit,
        "full_page_writes": full_page_writes,
    }
    return [
        f"{name} is off: what was acknowledged may be lost when the machine stops"
        for name, value in settings.items()
        if value == "off"
    ]
