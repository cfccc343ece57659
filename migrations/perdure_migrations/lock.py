"""A row as the lock: compare-and-set with an expiry by the database's clock, put off as long as the holder lives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from perdure_migrations.errors import MigrationLocked

# Short enough that a killed migration blocks the next start for no more than a coffee's sip. A step may take longer,
# an index of many rows: the lock is renewed meanwhile.
LOCK_S = 30
RENEW_EVERY_S = LOCK_S / 3
# Waits of 0.2 s: more than a holder that was killed can keep the lock.
TRIES_MAX = 5 * 2 * LOCK_S

CREATE = """
create table if not exists migration_lock (
  lock_id int2 not null,
  owner_id uuid not null,
  expires_at timestamptz not null,
  constraint migration_lock_pk primary key (lock_id),
  constraint migration_lock_one check (lock_id = 1)
)
"""
TAKE = """
insert into migration_lock as t (lock_id, owner_id, expires_at)
values (1, gen_random_uuid(), clock_timestamp() + $1::int8 * interval '1 second')
on conflict (lock_id) do update set owner_id = excluded.owner_id, expires_at = excluded.expires_at
where t.expires_at < clock_timestamp()
returning t.owner_id
"""
RENEW = """
insert into migration_lock as t (lock_id, owner_id, expires_at)
values (1, $1::uuid, clock_timestamp() + $2::int8 * interval '1 second')
on conflict (lock_id) do update set expires_at = excluded.expires_at
where t.owner_id = excluded.owner_id
"""
RELEASE = "delete from migration_lock where lock_id = 1 and owner_id = $1::uuid"
# The database sleeps, so that no clock of this process is needed.
WAIT = "select pg_sleep(0.2)"

STATEMENTS = {"create": CREATE, "take": TAKE, "renew": RENEW, "release": RELEASE, "wait": WAIT}


@contextmanager
def migration_lock(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Hold the lock for the block. Raises MigrationLocked when somebody else keeps it.

    Until the end of the block a thread renews it, on this connection.
    """
    owner_id = _take(connection)
    over = threading.Event()
    keeper = threading.Thread(target=_keep, args=(connection, owner_id, over), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()
        if not connection.closed:
            connection.execute(RELEASE, (owner_id,))


def _keep(connection: psycopg.Connection[Any], owner_id: object, over: threading.Event) -> None:
    while not over.wait(RENEW_EVERY_S):
        try:
            connection.execute(RENEW, (owner_id, LOCK_S))
        except psycopg.Error:
            if connection.closed:
                return  # it expires; the steps say themselves what is wrong


def _take(connection: psycopg.Connection[Any]) -> object:
    for _ in range(TRIES_MAX):
        try:
            connection.execute(CREATE)
            row = connection.execute(TAKE, (LOCK_S,)).fetchone()
        except (
            # PostgreSQL's "if not exists" does not hold against a concurrent creation: which of
            # the table, its type and their catalogue rows is met first depends on the moment.
            psycopg.errors.UniqueViolation,
            psycopg.errors.DuplicateTable,
            psycopg.errors.DuplicateObject,
            psycopg.errors.SerializationFailure,
        ):
            row = None
        if row is not None:
            return row[0]
        connection.execute(WAIT)
    raise MigrationLocked("another migration holds the row in migration_lock")
