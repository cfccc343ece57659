"""What the tests of whole nodes share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from perdure_engine.server.embedded import EmbeddedPostgres
from perdure_migrations import upgrade

MANY_SHARDS = 32  # enough that the ring gives some to every node

_numbers = itertools.count(1)


@pytest.fixture
def empty_dsn(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    """The conninfo of a database without a schema."""
    name = f"empty_{next(_numbers)}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def many_shards_dsn(empty_dsn: str) -> str:
    """The conninfo of a new database with MANY_SHARDS shards."""
    upgrade(empty_dsn, number_of_shards=MANY_SHARDS)
    return empty_dsn
