"""PostgreSQL for tests: one server per session, one migrated template, one clone per test.

The engine is imported inside the fixtures: every test session reads this module, also one of the
SDK's tests alone, which needs neither the engine nor a database driver.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from perdure_engine.server.embedded import EmbeddedPostgres

TEMPLATE = "perdure_template"

# A database has 350 files. ext4 does not use the inode of a file again for a minute or more after
# its removal and searches past all of them at each creation: after some hundred tests a clone takes
# 270 ms of CPU on it, and 7 ms in memory.
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 2 * 1024**3
SCRATCH_PREFIX = "perdure-test-"

# Not syncing: what is lost when the machine stops is no loss here. 2 GB of log would fill memory.
SETTINGS = {"fsync": "off", "max_wal_size": "256MB"}

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def scratch_dir() -> Iterator[Path]:
    """A folder for the data of servers: in memory when there is room for it."""
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN
    if in_memory:
        _remove_abandoned()
    path = Path(
        tempfile.mkdtemp(
            prefix=f"{SCRATCH_PREFIX}{os.getpid()}-", dir=MEMORY if in_memory else None
        )
    )
    yield path
    shutil.rmtree(path)


def _remove_abandoned() -> None:
    """Memory is not given back by itself when a test session is killed."""
    for path in MEMORY.glob(f"{SCRATCH_PREFIX}*"):
        pid = path.name.removeprefix(SCRATCH_PREFIX).partition("-")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(scratch_dir: Path) -> Iterator[EmbeddedPostgres]:
    """A running server. A test that kills one, or counts on fsync, starts its own."""
    from perdure_engine.server.embedded import EmbeddedPostgres

    with EmbeddedPostgres(scratch_dir / "session", settings=SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def template_database(postgres_server: EmbeddedPostgres) -> str:
    """The name of a database with the newest schema. A connection to it would stop the cloning."""
    from perdure_migrations import upgrade

    upgrade(postgres_server.create_database(TEMPLATE))
    return TEMPLATE


@pytest.fixture
def database_dsn(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[str]:
    """The conninfo of a database of the test's own, with the newest schema and nothing in it."""
    name = f"test_{next(_numbers)}"
    yield postgres_server.create_database(name, template_database)
    postgres_server.drop_database(name)
