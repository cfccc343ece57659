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
from psycopg.conninfo import conninfo_to_dict

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
    def __init__(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self._connection = connection
        self._cursor = connection.cursor(binary=True)

    @property
    def usable(self) -> bool:
        pgconn = self._connection.pgconn
        if (
            pgconn.status != pq.ConnStatus.OK
            or pgconn.transaction_status != pq.TransactionStatus.IDLE
        ):
            return False
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
        cursor = self._cursor
        await cursor.execute(text, values, prepare=None if prepare else False)
        return await cursor.fetchall() if cursor.description else []

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
        self._connection.pgconn.finish()


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
