"""All shards of this process, behind history's door; and their acquisition and release."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from typing import Any, Protocol

from perdure_engine.core.audit import Head
from perdure_engine.core.events import Event
from perdure_engine.core.intents import (
    ClientIntent,
    DeliveredIntent,
    DescribeWorkflow,
    WorkerIntent,
)
from perdure_engine.core.jobs.intents import JobClientIntent, JobWorkerIntent
from perdure_engine.core.jobs.replies import JobReply
from perdure_engine.core.replies import Description, QueryAnswer, Reply
from perdure_engine.core.schedules.intents import ScheduleIntent, ScheduleReply
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import MESSAGE_QUEUE_NO, TaskKind, TaskState
from perdure_engine.core.tokens import QueryToken, TaskToken
from perdure_engine.history import handout, queue_facts, reading
from perdure_engine.history.jobs.handout import start_job
from perdure_engine.history.jobs.handout import undo as undo_job
from perdure_engine.history.jobs.leases import JobLeases
from perdure_engine.history.jobs.take_over import find_jobs
from perdure_engine.history.judging import Held
from perdure_engine.history.leases import LeaseBook
from perdure_engine.history.refusals import moved
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.shard import Shard
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.delivery import Peers
from perdure_engine.ports.history import (
    EventsPage,
    Handed,
    HandedJobTask,
    HeldTask,
    HeldVerdict,
    QueueFacts,
    QueueName,
    StartOutcome,
    WorkerRef,
)
from perdure_engine.ports.matching import TaskOffer
from perdure_engine.ports.rows import TaskRow
from perdure_engine.ports.store import (
    NO_NODE,
    Batch,
    Fence,
    FenceState,
    MembershipStore,
    StoreError,
)

SCAN_PAGE = 1_000
RETRY_S = 0.5
DRAIN_TICK_S = 0.005
RUNS_PER_SHARD_MIN = 16


class OwnershipStore(MembershipStore, Protocol):
    """What taking and giving up shards needs, besides the commit side in `rooms.store`."""


class HistoryService:
    """Implements ports.history.History, ports.shards.OwnedShards, ports.delivery.Delivery and Receiver.

    `peers` None: this node is alone, and what goes to a shard that it does not serve waits.
    """

    def __init__(
        self, rooms: Rooms, ownership: OwnershipStore, *, number_of_shards: int, address: str
    ) -> None:
        self.number_of_shards = number_of_shards
        self._rooms = rooms
        self._ownership = ownership
        self._address = address
        self._shards: dict[int, Shard] = {}
        self._background: set[asyncio.Task[None]] = set()
        self.peers: Peers | None = None
        rooms.delivery = self
        rooms.local_shard = self._local_shard
        rooms.routing.on_change(self.reroute)

    # ---- History

    def submit(self, shard_id: int, intent: ClientIntent) -> asyncio.Future[Reply]:
        shard = self._shards.get(shard_id)
        return _refused(shard_id) if shard is None else shard.submit(intent)

    def complete(self, intent: WorkerIntent) -> asyncio.Future[Reply]:
        shard = self._shards.get(intent.token.shard_id)
        return _refused(intent.token.shard_id) if shard is None else shard.submit(intent)

    def deliver(self, shard_id: int, intent: DeliveredIntent) -> Awaitable[object]:
        shard = self._shards.get(shard_id)
        if self.peers is not None and (shard is None or shard.closed):
            return self.peers.deliver(shard_id, intent)
        return self.receive(shard_id, intent)

    def receive(self, shard_id: int, intent: DeliveredIntent) -> asyncio.Future[Reply]:
        """What another run says to one of a shard of ours. Nobody is asked further."""
        shard = self._shards.get(shard_id)
        return _refused(shard_id) if shard is None else shard.submit(intent)

    def submit_job(
        self, shard_id: int, intent: JobClientIntent | JobWorkerIntent
    ) -> asyncio.Future[JobReply]:
        shard = self._shards.get(shard_id)
        return _refused(shard_id) if shard is None else shard.submit_job(intent)

    def submit_schedule(
        self, shard_id: int, intent: ScheduleIntent
    ) -> asyncio.Future[ScheduleReply]:
        shard = self._shards.get(shard_id)
        return _refused(shard_id) if shard is None else shard.submit_schedule(intent)

    def answer_query(self, token: QueryToken, answer: QueryAnswer) -> bool:
        shard = self._shards.get(token.shard_id)
        return shard is not None and shard.queries.answer(token, answer)

    def start_task(self, offer: TaskOffer, worker: WorkerRef) -> StartOutcome:
        shard = self._shards.get(offer.shard_id)
        if shard is None or shard.closed or shard.leaving:
            return None
        if offer.kind is TaskKind.JOB:
            return start_job(shard.jobs, offer, worker)
        return handout.start_task(shard, offer, worker)

    def undo_start(self, handed: Handed) -> None:
        shard_id = (
            handed.token.shard_id if handed.token is not None else getattr(handed, "shard_id", 0)
        )
        shard = self._shards.get(shard_id)
        if shard is None or shard.closed:
            return
        if isinstance(handed, HandedJobTask):
            undo_job(shard.jobs, handed.token)
        else:
            handout.undo(shard, handed)

    def heartbeat(self, worker: WorkerRef, held: list[HeldTask]) -> list[HeldVerdict | None]:
        if not self._rooms.lease_valid():
            return [None] * len(held)  # another node may own the shards by now: it judges, not we
        self._rooms.hearing.heard(worker.worker_id)
        verdicts: list[HeldVerdict | None] = []
        listed: dict[int, set[int]] = {}
        for task in held:
            token = task.token
            shard = self._shards.get(token.shard_id)
            if shard is None or shard.closed or shard.unproven:
                # its owner is elsewhere, or not known yet: the worker goes on
                verdicts.append(None)
                continue
            listed.setdefault(token.shard_id, set()).add(token.start_no)
            leases = shard.jobs.leases if token.kind is TaskKind.JOB else shard.leases
            verdicts.append(leases.renew(worker, token, task.details, task.progress_version))
        for shard, book, given in self._held_by(worker.worker_id):
            if not shard.closed and not shard.unproven:
                book.listed(given, listed.get(shard.shard_id, frozenset()))
        self._lives(worker.worker_id)
        return verdicts

    def _lives(self, worker_id: bytes) -> None:
        for (shard_id, of_jobs), died_with in self._rooms.holders.came_back(worker_id).items():
            shard = self._shards.get(shard_id)
            if shard is not None and not shard.closed:
                (shard.jobs.leases if of_jobs else shard.leases).came_back(died_with)

    def _held_by(
        self, worker_id: bytes
    ) -> Iterator[tuple[Shard, LeaseBook | JobLeases, list[Held]]]:
        """What the worker has in hand, by the books that it is in."""
        for (shard_id, of_jobs), given in self._rooms.holders.of(worker_id).items():
            shard = self._shards[shard_id]
            yield shard, shard.jobs.leases if of_jobs else shard.leases, given

    def goodbye(self, worker: WorkerRef, released: list[TaskToken]) -> None:
        self._rooms.matching.forget_worker(worker.worker_id)
        for _, book, given in self._held_by(worker.worker_id):
            book.release(given)
        self._lives(worker.worker_id)
        for shard in self._shards.values():
            shard.queries.worker_gone(worker.worker_id)

    def poll_broken(self, worker_id: bytes) -> None:
        """A poll's connection broke: the worker may be dead, or its network. Its next heartbeat tells."""
        for _, book, given in self._held_by(worker_id):
            book.suspect(given)
        for shard in self._shards.values():
            shard.queries.worker_gone(worker_id)

    def refill(self, shard_id: int, queue_no: int) -> None:
        shard = self._shards.get(shard_id)
        if shard is not None:
            shard.queues.refill(queue_no)
            shard.jobs.queues.refill(queue_no)

    def queue_facts(self, name: QueueName) -> QueueFacts:
        return queue_facts.facts_of(self._rooms, self.shards(), name)

    def all_queue_facts(self) -> dict[QueueName, QueueFacts]:
        """Of each queue that has tasks or flow."""
        return queue_facts.facts_of_all(self._rooms, self.shards())

    async def read_events(
        self,
        shard_id: int,
        namespace_id: bytes,
        workflow_id: str,
        run_id: bytes,
        from_event_id: int,
        limit: int,
    ) -> EventsPage:
        shard = self._shards.get(shard_id)
        if shard is None:
            raise moved(shard_id)
        described = await shard.submit(
            DescribeWorkflow(namespace_id=namespace_id, workflow_id=workflow_id, run_id=run_id)
        )
        assert isinstance(described, Description)
        info = described.info
        events = await reading.read_events(shard, info.run_id, from_event_id, limit)
        next_event_id = events[-1].event_id + 1 if events else from_event_id
        more = next_event_id <= info.history_events
        closed = info.status not in (Status.RUNNING, Status.PAUSED)
        return EventsPage(events, next_event_id if more else 0, closed, info.run_id)

    async def read_task_events(
        self, shard_id: int, run_id: bytes, from_event_id: int, to_event_id: int, limit_bytes: int
    ) -> tuple[list[Event], int]:
        shard = self._shards.get(shard_id)
        if shard is None:
            raise moved(shard_id)
        return await reading.read_task_events(
            shard, run_id, from_event_id, to_event_id, limit_bytes
        )

    # ---- OwnedShards

    def owned(self) -> frozenset[int]:
        return frozenset(shard_id for shard_id, shard in self._shards.items() if not shard.closed)

    async def acquire_many(self, found: list[FenceState]) -> frozenset[int]:
        free = {fence.shard_id: fence for fence in found if fence.shard_id not in self.owned()}
        if not free:
            return frozenset()
        metrics, began = self._rooms.metrics, self._rooms.clock.monotonic()
        bumped = await self._bump(list(free.values()))
        marks = {row.shard_id: row.timer_mark_us for row in await self._ownership.list_shards()}
        heads = await self._audit_heads(bumped)
        proven = await self._first_step(bumped)
        for fence in bumped:
            clean = free[fence.shard_id].owner_id == NO_NODE
            shard = self._begin(fence, marks.get(fence.shard_id, 0), clean=clean, proven=proven)
            shard.audit_head = heads.get(fence.shard_id, shard.audit_head)
        self._share_memory()
        metrics.shard_moves.inc("taken", by=len(bumped))
        metrics.shard_acquire_seconds.observe(self._rooms.clock.monotonic() - began)
        self._beside(self._record(bumped, self._rooms.node_id, self._address))
        return frozenset(fence.shard_id for fence in bumped)

    async def _bump(self, found: list[FenceState]) -> list[FenceState]:
        """Take the fences as they were found; return those won.

        Tried until the database says what happened: a fence that is ours and not served would be nobody's.
        """
        fences = [Fence(f.shard_id, f.range_id, f.commit_seq, f.owner_id) for f in found]
        return await self._until_known(fences, self._rooms.node_id)

    async def _until_known(self, fences: list[Fence], owner_id: bytes) -> list[FenceState]:
        """Bump fences to an owner. Returns those that are now the owner's, one range on."""
        store = self._rooms.store
        ranges = {fence.shard_id: fence.range_id + 1 for fence in fences}
        while True:
            try:
                changed = await store.bump_fences(fences, owner_id)
                if len(changed) == len(fences):
                    return changed
                stored = await store.read_fences(list(ranges))
            except StoreError:
                await self._rooms.clock.sleep(RETRY_S)
            else:
                return [
                    fence
                    for fence in stored
                    if fence.owner_id == owner_id and fence.range_id == ranges[fence.shard_id]
                ]

    async def _first_step(self, bumped: list[FenceState]) -> bool:
        """An empty fence step: it proves the take-over, and brings the first sample of database time.

        False: it failed, or may have. The shards are ours all the same, and the writer bumps their fences once more.
        """
        fences = [Fence(f.shard_id, f.range_id, f.commit_seq, f.owner_id) for f in bumped]
        batch = Batch(self._rooms.ids.new_id(), fences, [], [], [], [], [], [], [], [])
        try:
            database_us = await self._rooms.store.commit(batch)
        except StoreError:
            return False
        self._rooms.database_clock.sample(database_us)
        return True

    async def _audit_heads(self, bumped: list[FenceState]) -> dict[int, Head]:
        """Where the shards' chains end. Nobody else adds to them any more: the fences are ours."""
        while True:
            try:
                heads = await self._rooms.store.load_audit_heads([f.shard_id for f in bumped])
            except StoreError:
                await self._rooms.clock.sleep(RETRY_S)
            else:
                return {head.chain: head for head in heads}

    def _begin(self, fence: FenceState, mark_us: int, *, clean: bool, proven: bool) -> Shard:
        ours = Fence(fence.shard_id, fence.range_id, fence.commit_seq + proven, fence.owner_id)
        shard = Shard(ours, self._rooms, mark_us)
        shard.unproven = not proven
        self._shards[fence.shard_id] = shard
        if not clean:
            shard.queues.hold_back(self._rooms.config.adopt_ready_s)
            shard.jobs.queues.hold_back(self._rooms.config.adopt_ready_s)
        shard.timers.start()
        shard.schedules.start()
        self._beside(self._scan(shard))
        return shard

    async def _scan(self, shard: Shard) -> None:
        """Read the shard's tasks and jobs once, in pages: ready ones are offered, started ones wait to be claimed."""
        first_number = shard.fence.range_id << 24  # rows from here on are our own
        until = self._rooms.clock.monotonic() + self._rooms.config.adopt_started_s
        after = (-1, -1)
        while not shard.closed:
            try:
                rows = await self._rooms.store.load_tasks(shard.shard_id, after, SCAN_PAGE)
            except StoreError:
                await self._rooms.clock.sleep(RETRY_S)
                continue
            for row in rows:
                if row.task_id < first_number:
                    self._found(shard, row, until)
            if len(rows) < SCAN_PAGE or rows[-1].queue_no > MESSAGE_QUEUE_NO:
                shard.outbox.begin()  # messages come first
            if len(rows) < SCAN_PAGE:
                shard.queues.offer_all()
                await find_jobs(shard.jobs, until)
                return
            after = (rows[-1].queue_no, rows[-1].task_id)

    def _found(self, shard: Shard, row: TaskRow, until: float) -> None:
        """A task row of before the take-over."""
        if row.state == TaskState.READY:
            shard.queues.found(row)
        elif row.state == TaskState.GONE:
            shard.sweeping.found(row)
        elif row.state == TaskState.TO_SEND:
            shard.outbox.found(row)
        elif row.state == TaskState.STARTED:
            try:
                record = self._rooms.codec.decode_task(row)
            except CorruptRow as error:
                self._rooms.alarm("corrupt_task_row", run_id=row.run_id.hex(), error=error)
            else:
                shard.leases.add_orphan(row.run_id, record, until)

    async def release_many(self, shard_ids: list[int]) -> None:
        shards = [self._shards[s] for s in shard_ids if s in self._shards]
        await asyncio.gather(*(self._drain(shard) for shard in shards if not shard.closed))
        given = [shard.fence for shard in shards if not shard.closed]
        for shard in shards:
            shard.close()
            self._shards.pop(shard.shard_id, None)
        self._share_memory()
        self._rooms.metrics.shard_moves.inc("released", by=len(given))
        if given:
            await self._until_known(given, NO_NODE)
        await self._record(given, NO_NODE, "")

    async def _drain(self, shard: Shard) -> None:
        """What was handed out is written down, what was taken in is decided; then nothing more comes in."""
        shard.leaving = True
        for book in shard.lease_books:
            await book.save_all_starts()
        shard.draining = True
        while not shard.closed and (shard.in_flight or len(shard.inbox)):
            shard.work_waits()
            await self._rooms.clock.sleep(DRAIN_TICK_S)

    async def _record(
        self, fences: Sequence[Fence | FenceState], node_id: bytes, address: str
    ) -> None:
        """Tell the others where to look. Only a hint: the fences are the truth."""
        for fence in fences:
            try:
                await self._ownership.put_shard(fence.shard_id, node_id, address)
            except StoreError:
                return

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._beside_ended)

    def _beside_ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._rooms.alarm("background_task_failed", error=task.exception())

    def _share_memory(self) -> None:
        """The cache is the process's: each shard has its share of it."""
        config, shards = self._rooms.config, max(1, len(self._shards))
        for shard in self._shards.values():
            shard.runs_max = max(
                min(RUNS_PER_SHARD_MIN, config.runs_cached_max), config.runs_cached_max // shards
            )

    def shards(self) -> list[Shard]:
        """Those that are served now."""
        return [shard for shard in self._shards.values() if not shard.closed]

    def _local_shard(self, shard_id: int) -> Shard | None:
        shard = self._shards.get(shard_id)
        return None if shard is None or shard.closed else shard

    def reroute(self) -> None:
        """Versions of workers get other runs from now on."""
        for shard in self.shards():
            shard.reroute()

    def lapsed(self) -> None:
        for shard in self._shards.values():
            shard.lapsed()

    async def stop(self) -> None:
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()


def _refused(shard_id: int) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_exception(moved(shard_id))
    return future
