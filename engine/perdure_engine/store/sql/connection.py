"""A connection to the database, as small as the store needs it.

`Session` is the seam of the fault-injecting connection in the tests: everything above it sees
psycopg's errors and rows, whether they came from a server or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Final, LiteralString, Protocol, TypeVar

import psycopg
from psycopg import pq, waiting
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq.abc import PGresult

from perdure_engine.store.sql import parameters

T = TypeVar("T")
Row = tuple[Any, ...]
Statement = tuple[LiteralString, Sequence[object]]

_CONNECTION_DEFAULTS: Final[dict[str, str | int]] = {
    "application_name": "perdure",
    "connect_timeout": 5,
    # A peer that vanished without a word is noticed in 25 s when idle, in 15 s with data unsent.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}

# One round trip. A custom plan costs 200-300 µs a statement, so generic ones are forced. No session
# of ours may hold a snapshot for long: it would keep the old versions of the fence rows.
SET_UP: Final[LiteralString] = """\
select set_config('default_transaction_isolation', 'serializable', false),
  set_config('default_transaction_read_only', $1::text, false),
  set_config('plan_cache_mode', 'force_generic_plan', false),
  set_config('statement_timeout', $2::text, false),
  set_config('idle_in_transaction_session_timeout', '30s', false)"""

STATEMENTS: Final[dict[str, LiteralString]] = {"connection.set_up": SET_UP}

# psycopg wakes up this often to look for signals; asyncio does that for us.
_NEVER_S: Final = 3600.0

_FAILED: Final = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)


class Session(Protocol):
    """One connection in autocommit. Used by one task at a time.

    Raises psycopg.Error, OSError; a session whose statement was cancelled is not usable any more.
    """

    @property
    def usable(self) -> bool:
        """Open, as far as can be known without asking the server, and in no transaction."""
        ...

    def parameter_status(self, name: str) -> str | None:
        """What the server said of itself when the connection was opened."""
        ...

    async def fetch(
        self, text: LiteralString, values: Sequence[object] = (), *, prepare: bool = True
    ) -> list[Row]: ...

    async def fetch_together(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Send them all, then read the answers: one round trip."""
        ...

    def discard(self) -> None:
        """Close at once. Calling it twice is fine."""
        ...


class Connect(Protocol):
    """Opens a session; raises psycopg.Error or OSError."""

    def __call__(self) -> Awaitable[Session]: ...


class _Connection(psycopg.AsyncConnection[Row]):
    async def wait(
        self,
        gen: PQGen[T],
        interval: float = _NEVER_S,
        timeout: float | None = None,  # noqa: ASYNC109  # psycopg's signature
    ) -> T:
        """As psycopg's, but a cancelled statement costs the connection, at once.

        psycopg would ask the server to cancel and wait up to ten seconds for it to obey. A
        statement half sent, or whose answer nobody read, must never meet the next user of the
        connection.
        """
        try:
            return await waiting.wait_async(gen, self.pgconn.socket, interval=interval)
        except asyncio.CancelledError:
            self.pgconn.finish()
            raise


class PsycopgSession:
    """Single statements go through libpq itself (psycopg.pq): a cursor's own bookkeeping was half of
    what a statement cost the engine. What psycopg does well it does: opening, adapting, pipelines.
    """

    def __init__(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._adapt = Transformer.from_context(connection)
        # by text and parameter types; the texts are a closed set
        self._prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._names = 0  # grows also when a prepare fails: nobody knows what the server has then
        self._just_answered = False

    @property
    def usable(self) -> bool:
        pgconn = self._pgconn
        if (
            pgconn.status != pq.ConnStatus.OK
            or pgconn.transaction_status != pq.TransactionStatus.IDLE
        ):
            return False
        if self._just_answered:  # nothing to read between an answer and its session's way back
            self._just_answered = False
            return True
        try:
            # Notices a server that closed the connection while it was idle: the first call may read
            # its last words, the second the end. Nothing to read costs a microsecond.
            pgconn.consume_input()
            pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return pgconn.status == pq.ConnStatus.OK

    def parameter_status(self, name: str) -> str | None:
        return self._connection.info.parameter_status(name)

    async def fetch(
        self, text: LiteralString, values: Sequence[object] = (), *, prepare: bool = True
    ) -> list[Row]:
        try:
            result = await self._execute(text, values, prepare=prepare)
        except asyncio.CancelledError:
            # As in `_Connection.wait`: nobody may meet the rest of this statement.
            self.discard()
            raise
        self._just_answered = True
        if result.status != pq.ExecStatus.TUPLES_OK:
            return []
        self._adapt.set_pgresult(result)
        return self._adapt.load_rows(0, result.ntuples, tuple)

    async def _execute(
        self, text: LiteralString, values: Sequence[object], *, prepare: bool
    ) -> PGresult:
        adapt, pgconn = self._adapt, self._pgconn
        packed = adapt.dump_sequence(values, [PyFormat.AUTO] * len(values))
        types = adapt.types or ()
        if not prepare:
            pgconn.send_query_params(text.encode(), packed, types, adapt.formats, pq.Format.BINARY)
            return await self._result()
        name = self._prepared.get((text, types))
        if name is None:
            self._names += 1
            name = b"perdure_%d" % self._names
            pgconn.send_prepare(name, text.encode(), types)
            await self._result()
            self._prepared[text, types] = name
        pgconn.send_query_prepared(name, packed, adapt.formats, pq.Format.BINARY)
        return await self._result()

    async def _result(self) -> PGresult:
        """The result of the one statement that was sent. Raises the server's error as psycopg does."""
        pgconn = self._pgconn
        while pgconn.flush():
            await self._ready(to_write=True)
            pgconn.consume_input()
        last: PGresult | None = None
        while True:
            while pgconn.is_busy():
                await self._ready(to_write=False)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                break
            last = result
        if last is None:
            raise psycopg.OperationalError("the server gave no answer")
        if last.status in _FAILED:
            raise psycopg.errors.error_from_result(last)
        return last

    async def _ready(self, *, to_write: bool) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        socket = self._pgconn.socket
        loop.add_reader(socket, _set, ready)
        if to_write:
            loop.add_writer(socket, _set, ready)
        try:
            await ready
        finally:
            loop.remove_reader(socket)
            if to_write:
                loop.remove_writer(socket)

    async def fetch_together(self, statements: Sequence[Statement]) -> list[list[Row]]:
        cursors = [self._connection.cursor(binary=True) for _ in statements]
        try:
            async with self._connection.pipeline():
                for cursor, (text, values) in zip(cursors, statements, strict=True):
                    await cursor.execute(text, values)
            return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]
        except BaseException:
            # After an abort inside a pipeline psycopg's list of prepared statements may be wrong.
            self.discard()
            raise

    def discard(self) -> None:
        self._pgconn.finish()


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def connect(dsn: str, *, read_only: bool, statement_timeout_ms: int) -> PsycopgSession:
    """Open a session with the settings that the store stands on. The dsn's own words come first."""
    connection = await _Connection.connect(
        autocommit=True,
        cursor_factory=psycopg.AsyncRawCursor,
        prepare_threshold=0,
        **{**_CONNECTION_DEFAULTS, **conninfo_to_dict(dsn)},  # type: ignore[arg-type]  # libpq's
    )
    parameters.register(connection)
    session = PsycopgSession(connection)
    try:
        await session.fetch(
            SET_UP, ("on" if read_only else "off", f"{statement_timeout_ms}ms"), prepare=False
        )
    except BaseException:
        session.discard()
        raise
    return session
