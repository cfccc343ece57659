"""One connection of the HTTP server, with an end to a caller's patience game (reliability §4, B43).

uvicorn waits for ever for the headers of a request that has begun: a caller who sends one byte a minute holds a
connection for a month. Here they have a time.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = (
    10.0  # from a connection's opening, or a request's first byte, to the end of its headers
)


class Connection(H11Protocol):
    """Closed without a word when the headers of a request have not come in `HEADERS_S`."""

    _too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_watching()

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._stop_watching()
        elif self._too_late is None:
            self._too_late = self.loop.call_later(HEADERS_S, self._close)

    def _stop_watching(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None

    def _close(self) -> None:
        self._too_late = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()
