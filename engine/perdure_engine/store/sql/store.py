"""The store on CockroachDB or PostgreSQL, put together from its parts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from perdure_engine.store.sql import checks
from perdure_engine.store.sql.access import Access
from perdure_engine.store.sql.auditing import SqlAudit
from perdure_engine.store.sql.batching import SqlBatches
from perdure_engine.store.sql.commits import SqlCommits
from perdure_engine.store.sql.connection import Connect, Session, connect
from perdure_engine.store.sql.installation import (
    SqlDeployments,
    SqlMembership,
    SqlNamespaces,
    SqlQueueLimits,
)
from perdure_engine.store.sql.jobs import SqlJobRetention, SqlJobs
from perdure_engine.store.sql.lists import SqlLists
from perdure_engine.store.sql.pool import SessionPool
from perdure_engine.store.sql.runs import SqlRuns
from perdure_engine.store.sql.scheduling import SqlSchedules

_log = logging.getLogger(__name__)

# The server gives up first; what is left is the time for its answer to arrive.
_ANSWER_S: Final = 5.0


class SqlStoreConfig(msgspec.Struct, frozen=True):
    """`dsn` is libpq's: a URI or key=value words."""

    dsn: str
    writers: int = 2  # more only make the groups smaller (FLOOR.md, "What matters" 3)
    readers: int = 4
    statement_timeout_ms: int = 10_000


class SqlStore(
    SqlCommits,
    SqlRuns,
    SqlLists,
    SqlNamespaces,
    SqlMembership,
    SqlAudit,
    SqlBatches,
    SqlDeployments,
    SqlJobs,
    SqlJobRetention,
    SqlSchedules,
    SqlQueueLimits,
):
    """ports.store.Store on SQL.

    `wrap` is given each new session and returns the one to use: the fault-injecting session of the
    tests. `warnings` is filled by `open`: what the operator should know of this database.
    """

    def __init__(
        self, config: SqlStoreConfig, wrap: Callable[[Session], Session] | None = None
    ) -> None:
        self._config = config
        self._wrap = wrap
        self._writers = SessionPool(self._connect_as(read_only=False), config.writers)
        self._readers = SessionPool(self._connect_as(read_only=True), config.readers)
        self._access = Access(
            self._writers,
            self._readers,
            config.statement_timeout_ms / 1000 + _ANSWER_S,
            lists_max=max(1, config.readers // 2),
        )
        self.warnings: list[str] = []

    async def open(self) -> None:
        self.warnings = await self._access.read_with(checks.check)
        for warning in self.warnings:
            _log.warning("%s", warning)

    async def close(self) -> None:
        self._writers.close()
        self._readers.close()

    async def describe(self) -> str:
        return await self._access.read_with(checks.describe)

    def _connect_as(self, *, read_only: bool) -> Connect:
        async def connect_one() -> Session:
            session: Session = await connect(
                self._config.dsn,
                read_only=read_only,
                statement_timeout_ms=self._config.statement_timeout_ms,
            )
            return session if self._wrap is None else self._wrap(session)

        return connect_one
