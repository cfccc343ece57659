"""The ready jobs of a shard, as matching knows of them."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.tasks import TaskKind
from perdure_engine.history.flows import Flow
from perdure_engine.history.offering import PAGE, Book, Offering
from perdure_engine.ports.matching import TaskOffer
from perdure_engine.ports.rows import JobRunRow
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs


CREDIT = 250
"""Of one queue: less than of tasks, because what comes next is in memory too, and matching takes as many of a queue
as a few shards have together."""


class JobQueues(Offering[JobRunRow]):
    """Behind the jobs of a queue that matching knows come those of its reserve, in memory too, and behind these those
    that are only rows."""

    credit = CREDIT

    def __init__(self, jobs: Jobs) -> None:
        super().__init__(jobs.shard)
        self._jobs = jobs
        # by queue: task and job ids, in order. A job may have gone on since, or have left memory
        self._reserves: dict[int, deque[tuple[int, bytes]]] = {}
        self._cache = jobs.shard.rooms.job_cache
        self._to_refill: dict[int, None] = {}

    # ---- after a commit

    def publish(self, ready: list[JobRun]) -> None:
        """Jobs that became ready, and are saved; those among them that are not any more are left out."""
        offers: list[TaskOffer] = []
        flow: Flow | None = None
        flow_no = 0
        for run in ready:
            task_id = run.task_id
            if task_id > 0 and run.handout is None:
                queue_no = run.queue_no
                if flow is None or queue_no != flow_no:
                    flow_no, flow = queue_no, self._flow(run)
                flow.added += 1
                book = self._books.get(queue_no) or self._book(queue_no)
                if book.more or queue_no in self._reserves or len(book.offered) >= self.credit:
                    self._stand_behind(book, run)
                else:
                    offer = self._offer_of(run)
                    self._put(book, offer)
                    offers.append(offer)
        if offers:
            self._shard.rooms.matching.offer(offers)

    def _stand_behind(self, book: Book, run: JobRun) -> None:
        if book.more or self._cache.reserved >= self._cache.reserved_max:
            self._leave_to_paging(book, run.task_id)
            self._jobs.drop(run)
            return
        reserve = self._reserves.get(run.queue_no)
        if reserve is None:
            reserve = self._reserves[run.queue_no] = deque()
        reserve.append((run.task_id, run.job_id))
        self._cache.reserved += 1
        book.cursor = max(book.cursor, run.task_id)

    def _forget(self, queue_no: int, task_id: int) -> None:
        book = self._books.get(queue_no)
        if book is None:
            return
        if book.offered.pop(task_id, None) is None:
            self._gone_unread(book, task_id)
        if len(book.offered) < self.credit // 2 and (book.more or queue_no in self._reserves):
            if not self._to_refill:
                asyncio.get_running_loop().call_soon(self._refill_all)
            self._to_refill[queue_no] = None

    def _refill_all(self) -> None:
        """Not at once: matching may be in the middle of pairing."""
        queues, self._to_refill = self._to_refill, {}
        if self._shard.closed:
            return
        for queue_no in queues:
            book = self._books.get(queue_no)
            if book is not None:
                self._next_page(queue_no, book)

    def _next_page(self, queue_no: int, book: Book) -> None:
        if queue_no in self._reserves:
            self._offer_reserve(queue_no, book)
        super()._next_page(queue_no, book)

    def _offer_reserve(self, queue_no: int, book: Book) -> None:
        reserve, jobs = self._reserves[queue_no], self._jobs.memory.jobs
        offers: list[TaskOffer] = []
        while reserve and len(book.offered) < self.credit:
            task_id, job_id = reserve.popleft()
            self._cache.reserved -= 1
            run = jobs.get(job_id)
            if run is None:
                self._leave_to_paging(book, task_id)
            elif run.task_id == task_id and run.handout is None and task_id not in book.offered:
                offer = self._offer_of(run)
                self._put(book, offer)
                offers.append(offer)
        if not reserve:
            del self._reserves[queue_no]
        if offers and not self._held_back:
            self._shard.rooms.matching.offer(offers)

    def stop(self) -> None:
        super().stop()
        self._cache.reserved -= sum(len(reserve) for reserve in self._reserves.values())
        self._reserves.clear()

    def _is_empty(self, queue_no: int, book: Book) -> bool:
        return super()._is_empty(queue_no, book) and queue_no not in self._reserves

    def offer(self, run: JobRun, *, at_once: bool = True) -> None:
        """Offer one ready job again, for which credit does not matter: at once, or soon."""
        offer = self._offer_of(run)
        self._put(self._book(run.queue_no), offer)
        if at_once:
            self._shard.rooms.matching.offer([offer])
        else:
            self.offer_soon()

    def withdraw(self, withdrawn: list[tuple[int, int]]) -> None:
        """(queue, task id) of jobs that are not ready any more."""
        for queue_no, task_id in withdrawn:
            self._forget(queue_no, task_id)

    def taken(self, run: JobRun) -> None:
        self._forget(run.queue_no, run.task_id)

    def handed_out(self, run: JobRun) -> None:
        self.taken(run)
        self._flow(run).dispatched += 1

    def _flow(self, run: JobRun) -> Flow:
        """What the surgical pool gets is no flow of its queue, whose workers it does not concern."""
        flows = self._shard.rooms.flows
        if run.crashes is not None and run.pool:
            return Flow(run.namespace_id, run.queue, TaskKind.JOB)
        return flows.flow(run.queue_no, run.namespace_id, run.queue, TaskKind.JOB)

    def waiting(self, queue_no: int, book: Book) -> int:
        """Of its reserve some may have gone on since."""
        return super().waiting(queue_no, book) + len(self._reserves.get(queue_no, ()))

    def _offer_of(self, run: JobRun) -> TaskOffer:
        routing = self._shard.rooms.routing
        version = ""
        if routing.active:
            version = self.version_of(run.namespace_id, run.queue, run.job_id)
        return TaskOffer(
            self._shard.shard_id,
            run.namespace_id,
            TaskKind.JOB,
            run.queue,
            run.queue_no,
            run.task_id,
            run.job_id,
            0,
            run.priority,
            b"",
            run.ready_us,
            0,
            version,
            "",
            "" if run.crashes is None else run.pool,
        )

    def version_of(self, namespace_id: bytes, queue: str, job_id: bytes) -> str:
        """Whose polls get the job now: those that get an activity of a run that is pinned to none."""
        return self._shard.rooms.routing.version_for(
            namespace_id, queue, TaskKind.ACTIVITY, job_id, ""
        )

    def _version_for(self, offer: TaskOffer) -> str:
        return self.version_of(offer.namespace_id, offer.queue, offer.run_id)

    # ---- saved rows

    async def _read_page(self, queue_no: int, after_task_id: int) -> list[JobRunRow]:
        """Puts them into memory too: they are about to be handed out."""
        shard, loading = self._shard, self._jobs.loading
        while True:
            with loading.read() as read:
                rows = await shard.rooms.store.load_ready_jobs(
                    shard.shard_id, queue_no, after_task_id, PAGE
                )
                if shard.closed:
                    return []
                for row in rows:
                    loading.take(read, row)
            if not any(read.is_stale(row.job_id, row.version) for row in rows):
                return rows

    def count_beyond(self, queue_no: int, after_task_id: int, before_task_id: int) -> None:
        """Rows of before the take-over that are left to paging and are not read now: only their number is, beside."""
        counting = self._count_beyond(queue_no, after_task_id, before_task_id)
        task = asyncio.get_running_loop().create_task(counting)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _count_beyond(self, queue_no: int, after_task_id: int, before_task_id: int) -> None:
        shard = self._shard
        with suppress(StoreError):  # then the backlog is told too short until it has been read
            number = await shard.rooms.store.count_ready_jobs(
                shard.shard_id, queue_no, after_task_id, before_task_id
            )
            book = self._books.get(queue_no)
            if book is not None and book.more:
                book.beyond += number

    def _offer_of_row(self, row: JobRunRow) -> TaskOffer | None:
        run = self._jobs.memory.jobs.get(row.job_id)
        if run is None or run.task_id != row.task_id or run.handout is not None:
            return None  # it has gone on since the row was read
        return self._offer_of(run)
