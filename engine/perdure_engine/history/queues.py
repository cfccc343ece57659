"""Which ready tasks of a shard matching knows of: credit per queue, and paging from saved rows.

One queue with a million rows and no workers costs the others nothing: at most CREDIT of its tasks are in memory,
and a cursor says where the rest begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from perdure_engine.core.draft import Draft
from perdure_engine.core.state import version_ran_on
from perdure_engine.core.tasks import TaskKind, TaskRecord, TaskState
from perdure_engine.history.run import Run
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.matching import TaskOffer
from perdure_engine.ports.rows import TaskRow
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

CREDIT = 1_000  # offers of one queue that are in memory
PAGE = 500
SOON_S = 0.5


class Book(msgspec.Struct, eq=False):
    offered: dict[int, TaskOffer] = {}
    more: bool = False  # saved rows past the cursor are not offered
    cursor: int = 0  # task id of the last row known
    loading: bool = False
    missed: bool = False  # a task was not admitted while a page was being read


class QueueBooks:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._books: dict[int, Book] = {}
        self._held_back = False
        self._soon = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- after a commit

    def publish(self, run: Run, draft: Draft) -> None:
        for record in draft.gone_tasks:
            self._forget(record.queue_no, record.task_id)
        if not draft.tasks:
            return
        offers = [
            offer
            for record in dict.fromkeys(draft.tasks)
            if record.state is TaskState.READY
            and record.handout is None
            and (offer := self._admit(run, record)) is not None
        ]
        if offers:
            self._shard.rooms.matching.offer(offers)

    def offer(self, run: Run, record: TaskRecord, *, at_once: bool = True) -> None:
        """Offer one ready task again, for which credit does not matter: at once, or soon."""
        book = self._books.setdefault(record.queue_no, Book(offered={}))
        offer = self._offer_of(run, record)
        self._put(book, offer)
        if at_once:
            self._shard.rooms.matching.offer([offer])
        else:
            self.offer_soon()

    def taken(self, record: TaskRecord) -> None:
        self._forget(record.queue_no, record.task_id)

    def forget(self, offer: TaskOffer) -> None:
        self._forget(offer.queue_no, offer.task_id)

    def _admit(self, run: Run, record: TaskRecord) -> TaskOffer | None:
        book = self._books.get(record.queue_no)
        if book is None:
            book = self._books[record.queue_no] = Book(offered={})
        if book.more or len(book.offered) >= CREDIT:
            self._leave_to_paging(book, record.task_id)
            return None
        offer = self._offer_of(run, record)
        self._put(book, offer)
        return offer

    def _offer_of(self, run: Run, record: TaskRecord) -> TaskOffer:
        folded = run.state.folded
        started = folded.started
        sticky = run.state.sticky_worker_id if record.kind is TaskKind.WORKFLOW else b""
        version = ""
        if record.pinned or self._shard.rooms.routing.active:
            version = self.version_of(run, record)
            if version != version_ran_on(folded):
                sticky = b""  # it moves: who has it cached will not be asked
        return TaskOffer(
            self._shard.shard_id,
            started.namespace_id,
            record.kind,
            record.queue,
            record.queue_no,
            record.task_id,
            started.run_id,
            record.scheduled_event_id,
            record.priority,
            sticky,
            record.ready_us,
            0,
            version,
            record.pinned,
        )

    def version_of(self, run: Run, record: TaskRecord) -> str:
        """Whose polls get the task now."""
        started = run.state.folded.started
        return self._version_of(
            started.namespace_id, record.queue, record.kind, started.run_id, record.pinned
        )

    def _version_of(
        self, namespace_id: bytes, queue: str, kind: TaskKind, run_id: bytes, pinned: str
    ) -> str:
        return self._shard.rooms.routing.version_for(namespace_id, queue, kind, run_id, pinned)

    def _leave_to_paging(self, book: Book, task_id: int) -> None:
        """No room for it now: the pages start before it, wherever the cursor had come to."""
        book.more = book.missed = True
        book.cursor = min(book.cursor, task_id - 1)

    def _put(self, book: Book, offer: TaskOffer) -> None:
        book.offered[offer.task_id] = offer
        if not book.more:  # else the cursor may have been lowered for rows before this one
            book.cursor = max(book.cursor, offer.task_id)
        self._watch()

    def _forget(self, queue_no: int, task_id: int) -> None:
        book = self._books.get(queue_no)
        if book is None:
            return
        book.offered.pop(task_id, None)
        self._next_page(queue_no, book)

    def offered(self) -> Iterator[TaskOffer]:
        """What matching was offered and nobody has taken."""
        for book in self._books.values():
            yield from book.offered.values()

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
        if not book.more or book.loading or len(book.offered) >= CREDIT // 2:
            return
        book.loading = True
        book.missed = False
        task = asyncio.get_running_loop().create_task(self._load_page(queue_no, book))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load_page(self, queue_no: int, book: Book) -> None:
        """The next page of saved rows. New tasks of the queue come after it: the key is their age."""
        shard = self._shard
        asked = book.cursor
        try:
            rows = await shard.rooms.store.load_queue_tasks(
                shard.shard_id, queue_no, book.cursor, PAGE
            )
        except StoreError:
            return  # asked for again by the next tick
        finally:
            book.loading = False
        offers: list[TaskOffer] = []
        lowered = (
            book.cursor < asked
        )  # something before this page has been left to paging meanwhile
        for row in rows:
            if not lowered:
                book.cursor = max(book.cursor, row.task_id)
            if row.state == TaskState.READY and row.task_id not in book.offered:
                offer = self._readable(row)
                if offer is not None:
                    offers.append(offer)
        if len(rows) < PAGE and not book.missed:
            book.more = False
        for offer in offers:
            book.offered[offer.task_id] = offer
        self._watch()
        if offers and not self._held_back:
            shard.rooms.matching.offer(offers)
        self._next_page(queue_no, book)

    def _readable(self, row: TaskRow) -> TaskOffer | None:
        """The row as an offer. One that does not read back is its run's trouble, not its queue's."""
        try:
            return self._offer_of_row(row)
        except CorruptRow as error:
            self._shard.rooms.alarm("corrupt_task_row", run_id=row.run_id.hex(), error=error)
            return None

    def _offer_of_row(self, row: TaskRow) -> TaskOffer:
        codec = self._shard.rooms.codec
        record = codec.decode_task(row)
        namespace_id = codec.namespace_of_task(row)
        version = ""
        if record.pinned or self._shard.rooms.routing.active:
            version = self._version_of(
                namespace_id, record.queue, record.kind, row.run_id, record.pinned
            )
        return TaskOffer(
            row.shard_id,
            namespace_id,
            record.kind,
            record.queue,
            row.queue_no,
            row.task_id,
            row.run_id,
            record.scheduled_event_id,
            row.priority,
            b"",
            record.ready_us,
            0,
            version,
            record.pinned,
        )

    # ---- take-over

    def found(self, row: TaskRow) -> None:
        """A ready row of before the take-over, in key order."""
        book = self._books.get(row.queue_no)
        if book is None:
            book = self._books[row.queue_no] = Book(offered={})
        if book.more or len(book.offered) >= CREDIT:
            self._leave_to_paging(book, row.task_id)
        elif row.task_id not in book.offered:
            offer = self._readable(row)
            if offer is not None:
                self._put(book, offer)

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

    def reroute(self) -> None:
        """Versions get other runs from now on: what nobody has taken is offered to whoever gets it now."""
        moved = False
        for book in self._books.values():
            for task_id, offer in book.offered.items():
                version = self._version_of(
                    offer.namespace_id, offer.queue, offer.kind, offer.run_id, offer.pinned
                )
                if version != offer.version:
                    book.offered[task_id] = msgspec.structs.replace(
                        offer, version=version, sticky_worker_id=b""
                    )
                    moved = True
        if moved:
            self._shard.rooms.matching.withdraw(self._shard.shard_id)
            self.offer_all()

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
        self._books = {no: book for no, book in self._books.items() if book.offered or book.more}
        if any(book.offered or book.more for book in self._books.values()):
            self._watch()
