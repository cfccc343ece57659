"""How the parts of the store reach the database: one statement written, or rows read, with the
errors of ports.store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, LiteralString, TypeVar

from perdure_engine.ports.store import Conflict, OutcomeUnknown, StoreUnavailable
from perdure_engine.store.sql.connection import Row, Session
from perdure_engine.store.sql.errors import FAILURES, is_conflict, read_error, write_error
from perdure_engine.store.sql.pool import SessionPool

T = TypeVar("T")

# A conflict of a read or of a small write goes away when asked again; more than this many in a row
# is an overload, and the caller should hear of it.
TRIES_MAX: Final = 20


class Access:
    """Writers are apart from readers, so that no list or load ever holds up a commit.

    `timeout_s` is a little longer than the server's own statement timeout: a server that answers
    decides. At most `lists_max` of the readers are with what people ask for at a time.
    """

    def __init__(
        self, writers: SessionPool, readers: SessionPool, timeout_s: float, lists_max: int
    ) -> None:
        self._writers = writers
        self._readers = readers
        self._lists = asyncio.Semaphore(lists_max)
        self._timeout_s = timeout_s

    async def write(
        self, text: LiteralString, values: Sequence[object], *, prepare: bool = True
    ) -> list[Row]:
        """Execute one statement in autocommit. Raises StoreUnavailable when it was never sent, and
        what `write_error` makes of its failure.
        """
        async with self._writers.session() as session:
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await session.fetch(text, values, prepare=prepare)
            except FAILURES as error:
                translated = write_error(error)
                if isinstance(translated, OutcomeUnknown):
                    session.discard()
                raise translated from error

    async def write_repeatedly(self, text: LiteralString, values: Sequence[object]) -> list[Row]:
        """The same, again on Conflict. For statements that belong to no batch."""
        for _ in range(TRIES_MAX - 1):
            try:
                return await self.write(text, values)
            except Conflict:
                pass
        return await self.write(text, values)

    async def read(
        self, text: LiteralString, values: Sequence[object] = (), *, prepare: bool = True
    ) -> list[Row]:
        """One SELECT: a READ ONLY SERIALIZABLE transaction by the reader's session settings.

        `prepare`: not for a text that was composed and may never come again.
        """
        return await self.read_with(lambda session: session.fetch(text, values, prepare=prepare))

    async def read_list(
        self, text: LiteralString, values: Sequence[object], *, prepare: bool
    ) -> list[Row]:
        """A read that may take long. It leaves readers to the loads of runs, which must not wait for it.

        Raises ReadTooLong when the database gives it up.
        """
        async with self._lists:
            return await self.read(text, values, prepare=prepare)

    async def read_with(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Run `work` on a reader session, again on a conflict. Raises StoreUnavailable."""
        for _ in range(TRIES_MAX):
            async with self._readers.session() as session:
                try:
                    async with asyncio.timeout(self._timeout_s):
                        return await work(session)
                except FAILURES as error:
                    if not is_conflict(error):
                        session.discard()
                        raise read_error(error) from error
        raise StoreUnavailable(f"a read met {TRIES_MAX} conflicts in a row")
