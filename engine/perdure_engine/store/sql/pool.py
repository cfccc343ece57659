"""A small set of sessions: opened when needed, kept while usable, replaced when broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure_engine.ports.store import StoreUnavailable
from perdure_engine.store.sql.connection import Connect, Session
from perdure_engine.store.sql.errors import FAILURES, read_error


class SessionPool:
    """At most `size` sessions in use at once; those who come later wait in order.

    Rejected: psycopg_pool. Its own tasks, checks and timeouts are more than a handful of sessions
    needs, and a broken session must be replaced before its next statement, not beside it.
    """

    def __init__(self, connect: Connect, size: int) -> None:
        self._connect = connect
        self._turns = asyncio.Semaphore(size)
        self._idle: list[Session] = []
        self._closed = False

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A usable session for the block. Raises StoreUnavailable when none can be opened."""
        async with self._turns:
            session = await self._take()
            try:
                yield session
            finally:
                if session.usable and not self._closed:
                    self._idle.append(session)
                else:
                    session.discard()

    async def _take(self) -> Session:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        while self._idle:
            session = self._idle.pop()
            if session.usable:
                return session
            session.discard()
        try:
            return await self._connect()
        except FAILURES as error:
            raise read_error(error) from error

    def close(self) -> None:
        """Close what is idle; sessions in use are closed as they come back."""
        self._closed = True
        while self._idle:
            self._idle.pop().discard()
