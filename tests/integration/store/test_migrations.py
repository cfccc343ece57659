"""Migrations: repeatable, one at a time, and the number of shards is for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib import resources

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from tests.waiting import wait_until

import perdure_migrations
from perdure_engine.server.embedded import EmbeddedPostgres
from perdure_migrations import MigrationError, MigrationLocked, ShardCountFixed, lock, runner
from perdure_migrations.versions import v0001_tables

BUILDING = """
select 1 from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
  and query like '%create index%job_runs%' and wait_event_type = 'Lock'
"""


@pytest.fixture
def dsn(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    """A database with nothing in it."""
    name = "unmigrated"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


def shards(dsn: str) -> list[tuple[int, int, int]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "select shard_id, range_id, commit_seq from shard_fence order by shard_id"
        ).fetchall()


def test_an_empty_database_is_migrated(dsn: str) -> None:
    before = perdure_migrations.status(dsn)
    perdure_migrations.upgrade(dsn, number_of_shards=3)

    assert before == perdure_migrations.MigrationStatus(None, perdure_migrations.HEAD, 0)
    assert perdure_migrations.status(dsn) == perdure_migrations.MigrationStatus(
        perdure_migrations.HEAD, perdure_migrations.HEAD, 3
    )
    assert shards(dsn) == [(1, 0, 1), (2, 0, 1), (3, 0, 1)]


def test_again_changes_nothing(dsn: str) -> None:
    perdure_migrations.upgrade(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("update shard_fence set range_id = 7, commit_seq = 9")

    perdure_migrations.upgrade(dsn)

    assert shards(dsn) == [(n, 7, 9) for n in (1, 2, 3, 4)]


def test_another_number_of_shards_is_refused(dsn: str) -> None:
    perdure_migrations.upgrade(dsn, number_of_shards=4)

    with pytest.raises(ShardCountFixed) as refused:
        perdure_migrations.upgrade(dsn, number_of_shards=8)

    assert (refused.value.installed, refused.value.asked) == (4, 8)
    assert len(shards(dsn)) == 4


@pytest.mark.parametrize("number", [0, -1, 1_000_000])
def test_a_number_of_shards_that_cannot_be(dsn: str, number: int) -> None:
    with pytest.raises(MigrationError):
        perdure_migrations.upgrade(dsn, number_of_shards=number)


def test_the_head_is_the_last_revision() -> None:
    """The runner names it itself, so that most starts need not import Alembic."""
    config = Config()
    with resources.as_file(resources.files("perdure_migrations")) as folder:
        config.set_main_option("script_location", str(folder))
        assert ScriptDirectory.from_config(config).get_heads() == [perdure_migrations.HEAD]


@pytest.mark.parametrize("done", [0, 1, 7, len(v0001_tables.STEPS)])
def test_a_migration_that_was_killed_is_finished_by_the_next(dsn: str, done: int) -> None:
    """After any step: what is there is left alone, and the revision is recorded at its end only."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for step in v0001_tables.STEPS[:done]:
            if step.only is None:
                connection.execute(step.sql.encode())

    perdure_migrations.upgrade(dsn)

    assert perdure_migrations.status(dsn).current == perdure_migrations.HEAD


def test_a_revision_that_was_done_and_not_recorded_is_done_again(dsn: str) -> None:
    """Killed behind its last step. Views that are there, with others upon them, are no obstacle."""
    perdure_migrations.upgrade(dsn)
    before = f"{int(perdure_migrations.HEAD) - 1:04}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("update alembic_version set version_num = %s", (before,))

    perdure_migrations.upgrade(dsn)

    assert perdure_migrations.status(dsn).current == perdure_migrations.HEAD


def test_an_index_of_a_table_in_use_is_built_beside_those_who_write(dsn: str) -> None:
    """Of a build that was killed there is an index left that nobody reads: it is built anew."""
    perdure_migrations.upgrade(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "update pg_index set indisvalid = false where indexrelid = 'job_runs_dead'::regclass"
        )
        connection.execute("drop index job_runs_listed")
        connection.execute("update alembic_version set version_num = '0010'")
    with psycopg.connect(dsn) as writer:
        writer.execute("delete from job_runs")  # its transaction goes on, and is waited for
        migration = threading.Thread(target=perdure_migrations.upgrade, args=(dsn,), daemon=True)
        migration.start()
        with psycopg.connect(dsn, autocommit=True) as other:
            wait_until(lambda: other.execute(BUILDING).fetchone(), 20, "the build has begun")
            other.execute("set lock_timeout = '10s'")
            other.execute("delete from job_runs")
    migration.join(20)

    with psycopg.connect(dsn) as connection:
        built = connection.execute(
            "select indexrelid::regclass::text from pg_index where indisvalid"
            " and indexrelid in (to_regclass('job_runs_dead'), to_regclass('job_runs_listed'))"
        ).fetchall()
    assert len(built) == 2


def test_several_at_once_come_to_the_same_end(dsn: str) -> None:
    failures: list[BaseException] = []

    def migrate() -> None:
        try:
            perdure_migrations.upgrade(dsn)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(shards(dsn)) == 4


def test_the_lock_is_waited_for_and_then_refused(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "TRIES_MAX", 2)
    with (
        runner._connect(dsn) as connection,
        lock.migration_lock(connection),
        pytest.raises(MigrationLocked),
    ):
        perdure_migrations.upgrade(dsn)

    perdure_migrations.upgrade(dsn)


def test_the_lock_is_kept_while_a_step_takes_longer_than_it_lasts(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "RENEW_EVERY_S", 0.01)
    expires = "select expires_at from migration_lock"
    with (
        runner._connect(dsn) as connection,
        lock.migration_lock(connection),
        psycopg.connect(dsn, autocommit=True) as other,
    ):
        taken = other.execute(expires).fetchone()
        wait_until(lambda: other.execute(expires).fetchone() > taken, 20, "it is renewed")


def test_the_lock_of_a_killed_migration_expires(dsn: str) -> None:
    with runner._connect(dsn) as connection:
        connection.execute(lock.CREATE)
        connection.execute(lock.TAKE, (0,))

        with lock.migration_lock(connection):
            pass


def test_a_schema_that_is_newer_is_left_alone(dsn: str) -> None:
    perdure_migrations.upgrade(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("update alembic_version set version_num = '9999'")

    perdure_migrations.upgrade(dsn)

    assert perdure_migrations.status(dsn).current == "9999"


def test_rows_that_change_keep_room_on_their_pages(database_dsn: str) -> None:
    with psycopg.connect(database_dsn) as connection:
        rows = connection.execute(
            "select relname, reloptions from pg_class"
            " where reloptions is not null and relnamespace = 'public'::regnamespace"
        ).fetchall()

    assert dict(rows) == {
        "shard_fence": ["fillfactor=10"],
        "executions": ["fillfactor=50"],
        "visibility": ["fillfactor=90"],
        "visibility_attributes": ["fastupdate=off"],
        "schedules": ["fillfactor=50"],
    }
