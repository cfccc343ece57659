"""When leases are judged: again and again, as long as a book holds something, the books of many shards in one round.

With a timer for each book, a process with 512 shards under load spent 3 % of its time on timers that found nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from perdure_engine.history.rooms import Rooms

ROUNDS = 8  # of a process, a part of its shards each: none keeps the loop for long


class Judged(Protocol):
    """A book, as its round sees it."""

    def judge_again(self, last_judged_at: float) -> bool:
        """Whether it still holds something. `last_judged_at`: when its round was last, or has begun (monotonic)."""
        ...


class Round:
    """The books of a part of the shards."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._books: dict[Judged, None] = {}
        self._last_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def join(self, book: Judged) -> None:
        self._books[book] = None
        if self._timer is None:
            self._wait()

    def leave(self, book: Judged) -> None:
        self._books.pop(book, None)
        if not self._books and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._last_at = self._rooms.clock.monotonic()
        every = self._rooms.config.judge_every_s
        self._timer = asyncio.get_running_loop().call_later(every, self._judge)

    def _judge(self) -> None:
        self._timer = None
        for book in list(self._books):
            try:
                holds = book.judge_again(self._last_at)
            except Exception as error:  # a bug: one book's trouble must not cost the others theirs
                self._rooms.alarm("judging_failed", error=error)
                continue
            if not holds:
                self._books.pop(book, None)
        if self._books:
            self._wait()
