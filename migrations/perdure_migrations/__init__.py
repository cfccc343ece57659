"""The schema and its history: Alembic revisions as package data, and the two calls that others
need.

Theory of operation. A revision is a tuple of steps; a step is one idempotent statement in
autocommit, so that a migration that was killed anywhere is finished by calling it again, and so
that CockroachDB (where DDL is a job, and commits what came before it) needs no rule of its own.
Steps for one product only are marked so. Two migrations at once are kept apart by a row with an
expiry, not by an advisory lock, which CockroachDB does not have; should the row expire under a slow
step, idempotence still holds.

Rejected: a transaction per revision (PostgreSQL only), and sharing the engine's own connection code
(migrations must run with any version of the engine).
"""

from perdure_migrations.errors import MigrationError, MigrationLocked, ShardCountFixed
from perdure_migrations.runner import HEAD, MigrationStatus, status, upgrade

__all__ = [
    "HEAD",
    "MigrationError",
    "MigrationLocked",
    "MigrationStatus",
    "ShardCountFixed",
    "status",
    "upgrade",
]
