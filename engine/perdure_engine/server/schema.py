"""The schema of the database: made, brought up to date, looked at."""

from __future__ import annotations

import psycopg

import perdure_migrations
from perdure_engine.server import dsn
from perdure_engine.server.config import Config
from perdure_engine.server.errors import ConfigError, StartError

# Fixed for ever by the first migration. A shard costs next to nothing, and shards are what is spread
# over processes: enough for a few hundred of them.
SHARDS_DEFAULT = 512
SHARDS_DEFAULT_DEV = 4  # all in one process: more would only make the groups smaller


def migrate(
    config: Config, shards_default: int = SHARDS_DEFAULT
) -> perdure_migrations.MigrationStatus:
    """Bring the database to this version's schema; a newer schema is left alone.

    Raises ConfigError when another number of shards was asked for than it has, StartError when the
    database cannot be migrated.
    """
    url = require_url(config)
    try:
        installed = perdure_migrations.status(url).number_of_shards
        wanted = config.database.number_of_shards or installed or shards_default
        perdure_migrations.upgrade(url, number_of_shards=wanted)
        return perdure_migrations.status(url)
    except perdure_migrations.ShardCountFixed as error:
        raise ConfigError(str(error)) from error
    except perdure_migrations.MigrationError as error:
        raise StartError(str(error)) from error
    except psycopg.Error as error:
        raise _unanswered(url, error) from error


def status(config: Config) -> perdure_migrations.MigrationStatus:
    """Raises ConfigError, StartError."""
    url = require_url(config)
    try:
        return perdure_migrations.status(url)
    except psycopg.Error as error:
        raise _unanswered(url, error) from error


def check(config: Config) -> None:
    """Raises StartError unless this version can run on the schema: its own, or a newer one.

    The engine does not migrate by itself: of several nodes that are replaced one after the other,
    the first would decide for all.
    """
    found = status(config)
    if found.current is None:
        raise StartError("the database is empty: run `perdure db migrate` first")
    if not is_current(found):
        raise StartError(
            f"the database has schema {found.current}, this version needs {found.head}: "
            "run `perdure db migrate` first"
        )


def is_current(found: perdure_migrations.MigrationStatus) -> bool:
    return found.current is not None and found.current >= found.head  # numbers of four digits


def require_url(config: Config) -> str:
    if not config.database.url:
        raise ConfigError(
            "no database is named: set PERDURE_DATABASE_URL or database.url in a file"
        )
    return config.database.url


def _unanswered(url: str, error: psycopg.Error) -> StartError:
    words = dsn.scrubbed(str(error)).strip()
    return StartError(f"the database does not answer ({dsn.redacted(url)}): {words}")
