"""Which of a shard's ready tasks matching knows of: credit per queue, and paging from saved rows.

One queue with a million rows and no workers costs the others nothing: at most `credit` of its tasks are in memory,
and a cursor says where the rest begins.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from perdure_engine.ports.matching import TaskOffer
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

CREDIT = 1_000  # offers of one queue that are in memory
PAGE = 500
SOON_S = 0.5


class ReadyRow(Protocol):
    """A row whose key in its queue is its age."""

    @property
    def task_id(self) -> int: ...

    @property
    def queue_no(self) -> int: ...


R = TypeVar("R", bound=ReadyRow)


class Book(msgspec.Struct, eq=False):
    offered: dict[int, TaskOffer] = {}
    more: bool = False  # saved rows past the cursor are not offered
    cursor: int = 0  # task id of the last row known
    loading: bool = False
    missed: bool = False  # a task was not admitted while a page was being read
    beyond: int = 0  # ready ones that are left to paging: how long the backlog is, without asking the database


class Offering(ABC, Generic[R]):
    """One kind of ready tasks of a shard: what their rows are, a subclass says."""

    __slots__ = ("_books", "_held_back", "_paged", "_shard", "_soon", "_tasks", "_timer")

    credit = CREDIT

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._books: dict[int, Book] = {}
        self._held_back = False
        self._paged = False  # rows are read, or may be: some of them may be of tasks that were started meanwhile
        self._soon = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def _read_page(self, queue_no: int, after_task_id: int) -> Sequence[R]:
        """The queue's next rows, at most PAGE; fewer: there are no more."""

    @abstractmethod
    def _offer_of_row(self, row: R) -> TaskOffer | None:
        """None: it is not ready, or does not read back."""

    @abstractmethod
    def _version_for(self, offer: TaskOffer) -> str:
        """Whose polls get it now."""

    # ---- what is offered

    def forget(self, offer: TaskOffer) -> None:
        self._forget(offer.queue_no, offer.task_id)

    def offered(self) -> Iterator[TaskOffer]:
        """What matching was offered and nobody has taken."""
        for book in self._books.values():
            yield from book.offered.values()

    @property
    def books(self) -> Mapping[int, Book]:
        """By queue number."""
        return self._books

    def waiting(self, queue_no: int, book: Book) -> int:
        """How many of the queue's tasks are ready and not handed out, in memory and beyond."""
        return len(book.offered) + max(0, book.beyond)

    def _book(self, queue_no: int) -> Book:
        book = self._books.get(queue_no)
        if book is None:
            book = self._books[queue_no] = Book(offered={})
        return book

    def _book_with_room(self, queue_no: int, task_id: int) -> Book | None:
        """The queue's book, if it takes one more. None: the task is left to paging."""
        book = self._book(queue_no)
        if book.more or len(book.offered) >= self.credit:
            self._leave_to_paging(book, task_id)
            return None
        return book

    def _leave_to_paging(self, book: Book, task_id: int) -> None:
        """No room for it now: the pages start before it, wherever the cursor had come to."""
        book.more = book.missed = self._paged = True
        book.cursor = min(book.cursor, task_id - 1)
        if task_id not in book.offered:
            book.beyond += 1

    def _put(self, book: Book, offer: TaskOffer) -> None:
        book.offered[offer.task_id] = offer
        if not book.more:  # else the cursor may have been lowered for rows before this one
            book.cursor = max(book.cursor, offer.task_id)
        if self._timer is None:
            self._watch()

    def _forget(self, queue_no: int, task_id: int) -> None:
        book = self._books.get(queue_no)
        if book is None:
            return
        if book.offered.pop(task_id, None) is None:
            self._gone_unread(book, task_id)
        if book.more:
            self._next_page(queue_no, book)

    def _gone_unread(self, book: Book, task_id: int) -> None:
        """It is over. Did it lie where pages have not come to yet?"""
        if book.more and task_id > book.cursor:
            book.beyond -= 1

    # ---- paging

    def refill(self, queue_no: int) -> None:
        """Matching has room: what it refused is offered again, then the next page is read."""
        book = self._books.get(queue_no)
        if book is None or self._shard.closed or self._held_back:
            return
        if book.offered:
            self._shard.rooms.matching.offer(list(book.offered.values()))
        self._next_page(queue_no, book)

    def _next_page(self, queue_no: int, book: Book) -> None:
        if not book.more or book.loading or len(book.offered) >= self.credit // 2:
            return
        book.loading = True
        book.missed = False
        task = asyncio.get_running_loop().create_task(self._load_page(queue_no, book))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load_page(self, queue_no: int, book: Book) -> None:
        """The next page of saved rows. New tasks of the queue come after it: the key is their age."""
        asked = book.cursor
        try:
            rows = await self._read_page(queue_no, book.cursor)
        except StoreError:
            return  # asked for again by the next tick
        finally:
            book.loading = False
        offers: list[TaskOffer] = []
        # something before this page has been left to paging meanwhile
        lowered = book.cursor < asked
        for row in rows:
            if not lowered:
                book.cursor = max(book.cursor, row.task_id)
            if row.task_id not in book.offered:
                offer = self._offer_of_row(row)
                if offer is not None:
                    offers.append(offer)
        book.beyond -= len(offers)
        if len(rows) < PAGE and not book.missed:
            book.more = False
            book.beyond = 0  # whatever it was thought to be
        for offer in offers:
            book.offered[offer.task_id] = offer
        self._watch()
        if offers and not self._held_back:
            self._shard.rooms.matching.offer(offers)
        self._next_page(queue_no, book)

    # ---- take-over

    def found(self, row: R) -> None:
        """A ready row of before the take-over, in key order."""
        self._paged = True
        book = self._books.get(row.queue_no)
        if book is not None and row.task_id in book.offered:
            return
        book = self._book_with_room(row.queue_no, row.task_id)
        offer = self._offer_of_row(row) if book is not None else None
        if book is not None and offer is not None:
            self._put(book, offer)

    def is_full(self, queue_no: int) -> bool:
        """Whether further rows of the queue are left to paging."""
        return self._book(queue_no).more

    def hold_back(self, seconds: float) -> None:
        """Ready rows of before may be running, their start unsaved: give their workers time to claim them."""
        self._held_back = True
        asyncio.get_running_loop().call_later(seconds, self.let_go)

    def let_go(self) -> None:
        self._held_back = False
        if not self._shard.closed:
            self.offer_all()

    def offer_all(self) -> None:
        """Offer everything again: doubled harmlessly, because the shard decides the start."""
        for queue_no, book in self._books.items():
            if book.offered and not self._held_back:
                self._shard.rooms.matching.offer(list(book.offered.values()))
            self._next_page(queue_no, book)

    def reroute(self) -> bool:
        """Versions get other runs from now on: what nobody has taken goes to whoever gets it now. Whether there is
        any such."""
        moved = False
        for book in self._books.values():
            for task_id, offer in book.offered.items():
                version = self._version_for(offer)
                if version != offer.version:
                    book.offered[task_id] = msgspec.structs.replace(
                        offer, version=version, sticky_worker_id=b""
                    )
                    moved = True
        return moved

    # ---- again and again

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def offer_soon(self) -> None:
        """An offer met a moment of doubt about the lease, and is forgotten: do not let it wait for the next tick."""
        if not self._soon and not self._shard.closed:
            self._soon = True
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(SOON_S, self._tick)

    def _watch(self) -> None:
        if self._timer is None and not self._shard.closed:
            after = self._shard.rooms.config.offer_again_after_s
            self._timer = asyncio.get_running_loop().call_later(after, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._soon = False
        self.offer_all()
        # queue names come from callers: empty books are dropped
        self._books = {no: book for no, book in self._books.items() if not self._is_empty(no, book)}
        if self._books:
            self._watch()

    def _is_empty(self, queue_no: int, book: Book) -> bool:
        return not (book.offered or book.more)
