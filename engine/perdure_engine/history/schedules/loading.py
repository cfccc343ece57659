"""Schedules come into memory: all of a shard's when it is taken, in pages; and again one that was in a step which was
not saved. What is asked of them meanwhile waits, in order.

With them come the job runs that they hold for their next slots, and what has become of those that were open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from perdure_engine.core.draft import Env
from perdure_engine.core.errors import Code, Rejected, unavailable
from perdure_engine.core.ids import schedule_uid
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.needs import Needs
from perdure_engine.core.schedules.decide import backfill, held_jobs, open_jobs
from perdure_engine.core.schedules.decide.backfill import KnownSlot
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import (
    BackfillSchedule,
    HearJobs,
    JobEnd,
    MendSchedules,
)
from perdure_engine.core.schedules.model import ScheduleRecord, SlotOrigin, SlotOutcome
from perdure_engine.history.schedules.rows import schedule_of_row
from perdure_engine.history.work import Item
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.rows import ROW_GONE, ScheduleRow
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.schedules.schedules import Schedules

PAGE = 500
SLOTS_PAGE = 1_000
RETRY_S = 1.0  # after a read that failed


class ScheduleLoading:
    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self.complete = False  # all of the shard's have been read
        self._again: dict[bytes, ScheduleRecord] = {}  # are being read again
        self._parked: list[Item] = []
        self._unreadable: dict[bytes, str] = {}
        # what was read for a backfill, and of which version of the schedule
        self._slots: dict[Item, tuple[int, list[KnownSlot]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def will_know(self, uid: bytes) -> bool:
        """Whether a schedule that is not in memory may come."""
        return not self.complete or uid in self._again

    def parks(self, uid: bytes, item: Item) -> bool:
        """Let the item wait until its schedule is known, if it is not."""
        if uid in self._schedules.records or not self.will_know(uid):
            return False
        self._parked.append(item)
        return True

    def park(self, item: Item) -> None:
        """Until all schedules are known."""
        self._parked.append(item)

    def require_readable(self, uid: bytes) -> None:
        """Raises Rejected DATA_LOSS."""
        why = self._unreadable.get(uid)
        if why is not None:
            raise Rejected(Code.DATA_LOSS, "SCHEDULE_UNREADABLE", f"the schedule is broken: {why}")

    def start(self) -> None:
        self._beside(self._load_all())

    def stop(self) -> list[Item]:
        """Returns who waits for something."""
        for task in self._tasks:
            task.cancel()
        waiting = self._parked + list(self._slots)
        self._parked, self._slots = [], {}
        return waiting

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._schedules.shard.rooms.alarm("schedules_not_loaded", error=task.exception())

    # ---- a take-over

    async def _load_all(self) -> None:
        shard = self._schedules.shard
        store, after = shard.rooms.store, None
        while not shard.closed:
            try:
                found = await store.load_schedules(shard.shard_id, after, PAGE)
                await self._take_page(found)
            except Exception as error:
                if not isinstance(error, StoreError):  # a bug; the shard is nothing without them
                    shard.rooms.alarm("schedules_not_loaded", error=error)
                await shard.rooms.clock.sleep(RETRY_S)
                continue
            if len(found) < PAGE:
                break
            after = (found[-1].namespace_id, found[-1].schedule_id)
        self.complete = True
        self._known()

    async def _take_page(self, found: list[ScheduleRow]) -> None:
        records = [record for row in found if (record := self._read(row)) is not None]
        await self.load_jobs(records)
        for record in records:
            self._schedules.take(record)

    def _read(self, row: ScheduleRow) -> ScheduleRecord | None:
        """One that does not read back is set aside: it is its own trouble, not its neighbours'."""
        rooms = self._schedules.shard.rooms
        try:
            return schedule_of_row(row, rooms.codec)
        except CorruptRow as error:
            rooms.alarm("corrupt_schedule_row", schedule_id=row.schedule_id, error=error)
            uid = schedule_uid(row.namespace_id, row.schedule_id)
            self._unreadable[uid] = str(error)
            return None

    async def load_jobs(self, records: list[ScheduleRecord]) -> None:
        """Those that are held come to stay. Those that were open may have ended while nobody listened: then their
        schedules are told."""
        named = {
            job_id: record.uid
            for record in records
            if not record.gone
            for job_id in (*held_jobs(record.state), *open_jobs(record.state))
        }
        shard = self._schedules.shard
        while named and not shard.closed:
            refusal, ends = await self._ends_of(named)
            if refusal is None:
                if ends:
                    shard.tell(HearJobs(shard.shard_id, ends))
                return
            await shard.rooms.clock.sleep(RETRY_S)

    async def _ends_of(self, named: dict[bytes, bytes]) -> tuple[Rejected | None, list[JobEnd]]:
        """Of the named job runs, with the schedule of each, those that are over."""
        jobs = self._schedules.shard.jobs
        answer: asyncio.Future[tuple[Rejected | None, list[JobEnd]]]
        answer = asyncio.get_running_loop().create_future()

        def then(refusal: Rejected | None, _: set[bytes]) -> None:
            ends: list[JobEnd] = []
            for job_id, uid in named.items():
                run = jobs.memory.jobs.get(job_id)
                if run is None:
                    ends.append(JobEnd(uid, job_id, None))
                elif not (run.open or run.busy):  # what is not saved yet is heard of when it is
                    ends.append(JobEnd(uid, job_id, run.status))
            if not answer.done():
                answer.set_result((refusal, [] if refusal is not None else ends))

        jobs.loading.ask(Needs(jobs.memory, (), jobs=dict.fromkeys(named)), then)
        return await answer

    def _known(self) -> None:
        """Whoever has waited goes on, if there is nothing left to wait for."""
        shard = self._schedules.shard
        if shard.closed or not self.complete or self._again:
            return
        parked, self._parked = self._parked, []
        shard.put_again(parked)
        shard.work_waits()
        self._schedules.due.fire()

    # ---- after a step that was not saved

    def read_again(self, record: ScheduleRecord) -> None:
        self._again[record.uid] = record
        self._beside(self._read_one(record))

    async def _read_one(self, before: ScheduleRecord) -> None:
        shard = self._schedules.shard
        store = shard.rooms.store
        while not shard.closed:
            try:
                row = await store.load_schedule(
                    shard.shard_id, before.namespace_id, before.schedule_id
                )
                record = None if row is None else self._read(row)
                timer = record is None or await self.has_timer_row(record)
            except StoreError:
                await shard.rooms.clock.sleep(RETRY_S)
                continue
            del self._again[before.uid]
            if record is not None:
                self._schedules.take(record)
                if not timer:
                    self.timer_lost(record)
            self._known()
            return

    async def has_timer_row(self, record: ScheduleRecord) -> bool:
        """Raises StoreError."""
        wake = record.state.wake
        if wake is None:
            return not record.state.next_us
        shard = self._schedules.shard
        wake_us, timer_id, _ = wake
        found = await shard.rooms.store.load_timers(
            shard.shard_id, (wake_us, timer_id - 1), wake_us + 1, 1
        )
        return any(row.timer_id == timer_id and row.state != ROW_GONE for row in found)

    def timer_lost(self, record: ScheduleRecord) -> None:
        """Bug report 1: nothing would ever wake it."""
        shard = self._schedules.shard
        shard.rooms.alarm("schedule_timer_lost", schedule_id=record.schedule_id)
        record.state.wake = None
        shard.tell(MendSchedules(shard.shard_id, [record.uid]))

    # ---- the slots of a backfill

    def parks_for_slots(self, record: ScheduleRecord, item: Item, env: Env) -> bool:
        """Let the item wait until the records of its span have been read, if they have not."""
        known = self._slots.get(item)
        if known is not None and known[0] == record.version:
            return False
        self._slots.pop(item, None)
        shard, intent = self._schedules.shard, item.intent
        assert isinstance(intent, BackfillSchedule)
        jobs = JobDraft(shard.jobs.memory, env)
        draft = ScheduleDraft(record, shard.shard_id, env, shard.rooms.times, jobs)
        try:
            span = backfill.span_of(draft, intent)
        except Rejected:
            return False  # refused when it is decided
        self._slots[item] = (record.version, [])
        if span:
            self._beside(self._read_slots(record, item, span[0], span[-1]))
        return bool(span)

    def slots_for(self, item: Item) -> list[KnownSlot]:
        """What was read for it, once."""
        return self._slots.pop(item, (0, []))[1]

    async def _read_slots(
        self, record: ScheduleRecord, item: Item, from_us: int, to_us: int
    ) -> None:
        shard = self._schedules.shard
        found: list[KnownSlot] = []
        past: tuple[int, int] | None = None
        of = (shard.shard_id, record.namespace_id, record.schedule_id)
        try:
            while True:
                page = await shard.rooms.store.list_slots(
                    *of, (), from_us, to_us + 1, past, SLOTS_PAGE
                )
                found += [
                    KnownSlot(
                        row.nominal_us,
                        SlotOrigin(row.origin),
                        SlotOutcome(row.outcome),
                        row.version,
                    )
                    for row in page
                    if row.origin != SlotOrigin.MANUAL
                ]
                if len(page) < SLOTS_PAGE:
                    break
                past = (page[-1].nominal_us, page[-1].origin)
        except StoreError as error:
            self._slots.pop(item, None)
            item.refuse(
                unavailable("DATABASE_UNAVAILABLE", f"the database did not answer a read: {error}")
            )
            return
        if item in self._slots:
            self._slots[item] = (record.version, found)
            shard.put_again([item])
            shard.work_waits()
