"""Jobs, keys and batches that are not in memory, read beside the actor's loop: as many in one read as have come
together, whoever needs them.

What a read brings was true when it began. Nobody but this shard changes it, and the shard changes only what is in
memory: so it is true still, unless it was in memory meanwhile and has left it again. So what leaves while a read is
under way is remembered with its version, and an older one is not taken from that read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from perdure_engine.core.errors import Code, Rejected, unavailable
from perdure_engine.core.jobs.memory import (
    PLACES_MAX,
    WAITING_KEPT_MAX,
    BatchId,
    JobBatch,
    KeyId,
    RoomId,
    UniqueKey,
)
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.jobs.needs import Needs
from perdure_engine.history.jobs.keyed import room_of_rows
from perdure_engine.history.jobs.rows import batch_of_row, job_of_row, key_of_row
from perdure_engine.history.work import Item
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.rows import JobRunRow
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs

RETRY_S = 1.0  # after a read that failed
UNREADABLE_S = 60.0
JOBS_PER_READ = 1_000
KEYED_ROWS_MAX = PLACES_MAX + WAITING_KEPT_MAX

Then = Callable[[Rejected | None, set[bytes]], None]
"""Told why the read failed, and which jobs there are none of."""


class Read(msgspec.Struct, eq=False):
    """One that is under way, and what has left memory since it began: the versions of jobs, keys and batches by their
    ids, and concurrency keys, which have none."""

    left: dict[object, int] = {}

    def is_stale(self, key: object, version: int) -> bool:
        return version < self.left.get(key, 0)


class JobLoading:
    """One shard's reads of jobs. One at a time: what comes meanwhile is the next one."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._asked: list[tuple[Needs, Then]] = []
        self._parked: dict[Item, None] = {}
        self._arrived: list[Item] = []  # what they need is in memory
        self.came_back: set[Item] = set()  # and they have not had their turn yet
        self._under_way: list[Read] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Something waits for a read."""
        return bool(self._asked) or self._task is not None

    def park(self, needs: Needs, item: Item) -> None:
        """Let the item have its turn when what it needs is in memory."""
        self._parked[item] = None
        self.ask(needs, lambda refusal, absent: self._come(item, refusal, absent))

    def ask(self, needs: Needs, then: Then) -> None:
        self._asked.append((needs, then))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def drain(self) -> list[Item]:
        """Whatever waits, given up (the shard closes)."""
        if self._task is not None:
            self._task.cancel()
        self._asked.clear()
        parked, self._parked = list(self._parked), {}
        return parked

    @contextmanager
    def read(self) -> Iterator[Read]:
        """To be open while rows are read that will be put into memory."""
        one = Read()
        self._under_way.append(one)
        try:
            yield one
        finally:
            self._under_way.remove(one)

    def left(self, key: object, version: int) -> None:
        """Something has left memory, as it is saved in that version."""
        for read in self._under_way:
            read.left[key] = version

    # ---- reading

    async def _run(self) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked, []
                await self._serve(asked)
        finally:
            self._task = None

    async def _serve(self, asked: list[tuple[Needs, Then]]) -> None:
        refusal: Rejected | None = None
        absent: set[bytes] = set()
        try:
            with self.read() as read:
                absent = await self._read(read, [needs for needs, _ in asked])
        except StoreError as error:
            refusal = unavailable(
                "DATABASE_UNAVAILABLE", f"the database did not answer a read: {error}"
            )
        except Exception as error:  # whatever it is, who asks for something else is served
            self._jobs.shard.rooms.alarm("jobs_do_not_read_back", error=error)
            if len(asked) > 1:
                for one in asked:
                    await self._serve([one])
                return
            refusal = Rejected(Code.DATA_LOSS, "JOBS_UNREADABLE", f"rows of jobs: {error}")
        shard = self._jobs.shard
        if shard.closed:
            return
        for _, then in asked:
            then(refusal, absent)
        arrived, self._arrived = self._arrived, []
        shard.put_again(arrived)
        shard.work_waits()

    async def _read(self, read: Read, asked: list[Needs]) -> set[bytes]:
        """Bring into memory what is needed. Returns the jobs that there are none of."""
        memory = self._jobs.memory
        keys = _all([needs.keys for needs in asked])
        await self._read_keys(read, [one for one in keys if one not in memory.keys])
        for batch_id in _all([needs.batches for needs in asked]):
            if batch_id not in memory.batches:
                await self._read_batch(read, batch_id)
        for room_id in _all([needs.rooms for needs in asked]):
            await self._read_room(read, room_id)
        wanted = [one for one in _all([needs.jobs for needs in asked]) if one not in memory.jobs]
        for at in range(0, len(wanted), JOBS_PER_READ):
            await self._read_jobs(read, wanted[at : at + JOBS_PER_READ])
        return {one for one in wanted if one not in memory.jobs and one not in read.left}

    async def _read_jobs(self, read: Read, job_ids: list[bytes]) -> None:
        shard = self._jobs.shard
        rows = await shard.rooms.store.load_jobs(shard.shard_id, job_ids)
        for row in rows:
            self.take(read, row)

    def take(self, read: Read, row: JobRunRow) -> JobRun | None:
        """The job of a row that was read, as it is by now. None: it does not read back, or the row is stale."""
        jobs = self._jobs
        run = jobs.memory.jobs.get(row.job_id)
        if run is not None:
            return run
        if read.is_stale(row.job_id, row.version):
            return None
        try:
            run = job_of_row(row, jobs.shard.rooms.codec)
        except CorruptRow as error:
            jobs.shard.quarantined.add(row.job_id, f"its row does not read back: {error}")
            return None
        jobs.bring_in(run)
        return run

    async def _read_keys(self, read: Read, keys: list[KeyId]) -> None:
        if not keys:
            return
        shard, known = self._jobs.shard, self._jobs.memory.keys
        rows = await shard.rooms.store.load_job_keys([(shard.shard_id, *key) for key in keys])
        found = {(row.namespace_id, row.kind, row.key): key_of_row(row) for row in rows}
        for key in keys:
            held = found.get(key) or UniqueKey()
            if not read.is_stale(key, held.version):
                known.setdefault(key, held)

    async def _read_batch(self, read: Read, batch_id: BatchId) -> None:
        shard = self._jobs.shard
        row = await shard.rooms.store.load_job_batch(shard.shard_id, *batch_id)
        batch = JobBatch(*batch_id) if row is None else batch_of_row(row, shard.rooms.codec)
        if not read.is_stale(batch_id, batch.version):
            self._jobs.memory.batches.setdefault(batch_id, batch)

    async def _read_room(self, read: Read, room_id: RoomId) -> None:
        """Also one that is in memory already, but not all of it."""
        jobs = self._jobs
        shard, rooms = jobs.shard, jobs.memory.rooms
        if room_id in rooms:
            # what a step that is out has decided of the key's jobs is in no row yet
            await jobs.between_steps(partial(self._forget_short, room_id))
            if room_id in rooms:
                return
            read.left.pop(room_id, None)
        rows = await shard.rooms.store.load_keyed_jobs(shard.shard_id, *room_id, KEYED_ROWS_MAX)
        if room_id in read.left:
            return
        runs = [run for row in rows if (run := self.take(read, row)) is not None]
        room = room_of_rows(room_id, runs, more=len(rows) == KEYED_ROWS_MAX)
        room.tokens_at_us = shard.rooms.database_clock.low_us()
        rooms[room_id] = room

    def _forget_short(self, room_id: RoomId) -> None:
        known = self._jobs.memory.rooms.get(room_id)
        if known is not None and known.is_short:
            self._jobs.forget_room(room_id)

    # ---- what waited

    def _come(self, item: Item, refusal: Rejected | None, absent: set[bytes]) -> None:
        if item not in self._parked:
            return  # given up meanwhile
        del self._parked[item]
        if refusal is None:
            item.absent = item.absent | absent
            self._arrived.append(item)
            self.came_back.add(item)
            return
        self.came_back.discard(item)  # it may have come back from an earlier read
        if item.future is not None:
            item.refuse(refusal)
        else:  # the shard's own work waits for the database to come back, or for somebody to mend a row
            wait_s = RETRY_S if refusal.code is Code.UNAVAILABLE else UNREADABLE_S
            asyncio.get_running_loop().call_later(wait_s, self._jobs.shard.put, item)


T = TypeVar("T")


def _all(parts: list[dict[T, None]]) -> dict[T, None]:
    together: dict[T, None] = {}
    for part in parts:
        together |= part
    return together
