"""The process's writer: it carries the decided batches of all shards to the database, one statement for all of
them (design §3), and finds out what happened when the database does not say.

A shard is in at most one statement at a time; `config.writers` statements may be in flight, on different shards.
The writer is a task of its own: no caller's deadline or cancellation reaches it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Protocol, TypeVar

from perdure_engine.core.errors import unavailable
from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.jobs.intents import CreateJobs
from perdure_engine.history import metering
from perdure_engine.history.refusals import run_id_in_use
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.shard import Shard
from perdure_engine.history.work import ShardStep
from perdure_engine.ports.store import (
    Batch,
    BatchRefused,
    Conflict,
    Fence,
    FenceLost,
    FenceState,
    GuardFailed,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)

CONFLICT_TRIES_MAX = 10
CONFLICT_WAIT_S = 0.01  # times the try, times a jitter
DATABASE_WAIT_S = 0.05  # first wait for a database that does not answer; doubles
DATABASE_WAIT_S_MAX = 2.0
NOT_THE_ROWS = (
    "42",
    "53",
)  # classes that say nothing against a row: a schema on the move, a full disk
GUARD_TRIES_MAX = 3  # of an intent alone in its batch
GIVE_UP_AFTER_S = 5.0  # of StoreUnavailable: then the callers are told, and the work forgotten


_SHARD_ID = attrgetter("shard.shard_id")

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class Chore(Protocol[R_co, T]):
    """Rows of a shard that are to go: what one statement deletes of them, and what became of it."""

    def take(self, batch_id: bytes) -> tuple[R_co, T]: ...

    def removed(self, taken: T) -> None: ...

    def refused(self, taken: T, error: Exception) -> None: ...

    def give_back(self, taken: T) -> None: ...


class Writer:
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._ready: OrderedDict[int, Shard] = OrderedDict()
        self._work = asyncio.Event()
        self._calm = asyncio.Event()  # a statement has ended, and none has begun since
        self._calm.set()
        self._slots: list[asyncio.Task[None]] = []
        self.statements = 0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._slots = [loop.create_task(self._serve()) for _ in range(self._rooms.config.writers)]

    async def stop(self) -> None:
        for slot in self._slots:
            slot.cancel()
        await asyncio.gather(*self._slots, return_exceptions=True)
        self._slots = []

    def ready(self, shard: Shard) -> None:
        self._ready[shard.shard_id] = shard
        self._work.set()

    async def statement_over(self) -> None:
        """See `Readiness`."""
        await self._calm.wait()

    async def _serve(self) -> None:
        while True:
            while not self._ready:
                self._work.clear()
                await self._work.wait()
            steps: list[ShardStep] = []
            try:
                self._gather(steps)
                if steps:
                    self._calm.clear()
                    await self._save(steps)
            except Exception as error:
                # a bug, not a refusal: nothing of the step is said, and the writer lives on
                self._rooms.alarm("writer_failed", error=error)
                self._forget([step for step in steps if not step.over])
                await self._rooms.clock.sleep(DATABASE_WAIT_S)
            finally:
                self._calm.set()
                for step in steps:
                    if not step.over:
                        self._free(step)

    def _gather(self, steps: list[ShardStep]) -> None:
        """Take work from the ready shards until the group is full. They are in flight from here on."""
        room = self._rooms.config.group_intents_max
        now = self._rooms.clock.monotonic()
        now_us = self._rooms.database_clock.low_us()
        while self._ready and room > 0:
            shard = self._ready.popitem(last=False)[1]
            if shard.closed or shard.in_flight:
                continue
            suspect = shard.suspect
            if suspect and steps:
                self._ready[shard.shard_id] = shard  # a culprit is looked for: the shard goes alone
                self._ready.move_to_end(shard.shard_id, last=False)
                break
            step = ShardStep(shard)
            if not shard.unproven:
                try:
                    step = shard.decide(step, room, now_us)
                except Exception:
                    shard.in_flight, shard.in_flight_since = True, now
                    steps.append(step)  # whoever sees to the others' work sees to what it took
                    raise
            if step.items or shard.chore_due or shard.unproven:
                shard.in_flight, shard.in_flight_since = True, now
                steps.append(step)
                room -= step.items[0].weight if len(step.items) == 1 else step.weight
            elif shard.inbox.count:
                self._ready[shard.shard_id] = shard
            if suspect:
                break

    def _free(self, step: ShardStep) -> None:
        step.over = True
        step.shard.turn_is_over()

    # ---- saving

    async def _save(self, steps: list[ShardStep]) -> None:
        steps = await self._prove(steps)
        read_only = [step for step in steps if not step.writes]
        if read_only and self._rooms.lease_valid():
            # nothing to write, and nobody else can have the shards: memory is the truth
            self._publish(read_only)
            steps_to_save = [step for step in steps if step.writes]
        else:
            steps_to_save = steps
        saved = not steps_to_save or await self._save_together(steps_to_save)
        waiting = [step for step in steps if not step.over]
        # One chore a turn: all that are due in a row would keep every shard's commits waiting.
        chore = next((step for step in waiting if step.shard.chore_due), None)
        for step in waiting:
            if step is not chore:
                self._free(step)
        if chore is not None:
            if saved and not chore.shard.closed:
                await self._do_chore(chore.shard)
            self._free(chore)

    async def _save_together(self, steps: list[ShardStep]) -> bool:
        """Save and publish. False: it was not saved, and everybody concerned has been seen to."""
        try:
            batch = self._batch(steps)
        except Exception as error:  # a row cannot be made: its intent stands alone soon
            self._rooms.alarm("rows_failed", error=error)
            self._halve(steps, repr(error))
            return False
        if not await self._commit(steps, batch):
            return False
        self._publish(steps)
        return True

    async def _prove(self, steps: list[ShardStep]) -> list[ShardStep]:
        """Shards that need a new range get it before anything of them is saved or answered. Lost ones fall out.

        Repeated, because the lease may lapse while a bump is under way: that one then proves nothing.
        """
        while needy := [step for step in steps if step.shard.unproven]:
            lapses = [step.shard.lapses for step in needy]
            bumped = await self._bump([step.shard for step in needy])
            for step, lapses_before in zip(needy, lapses, strict=True):
                fence = bumped.get(step.shard.shard_id)
                if fence is None:
                    self._lose(step)
                else:
                    step.shard.new_range(_as_fence(fence), lapses_before)
            steps = [step for step in steps if not step.shard.closed]
        return steps

    def _batch(self, steps: list[ShardStep]) -> Batch:
        steps.sort(key=_SHARD_ID)
        fences = [step.shard.fence for step in steps]
        batch = Batch(self._rooms.ids.new_id(), fences, [], [], [], [], [], [], [], [])
        for step in steps:
            step.shard.rows_of(step, batch)
        return batch

    def _publish(self, steps: list[ShardStep]) -> None:
        """Tell everybody. Then the shards may go on, but those with a chore: that is their own turn only."""
        # All answers first: a call that brought completions of several shards is woken before
        # matching pairs what follows from them, and takes it along (see WorkerService.CompleteTasks).
        drafts = [draft for step in steps for _, draft in step.drafts.values()]
        if drafts:
            metering.count(self._rooms.metrics, drafts)
        for step in steps:
            try:
                step.shard.answer(step)
            except Exception as error:
                self._publication_failed(step, error)
        for step in steps:
            shard = step.shard
            try:
                shard.publish(step)
            except Exception as error:
                self._publication_failed(step, error)
            if not shard.chore_due:
                self._free(step)
        self._rooms.job_cache.trim()
        self._rooms.lately_closed.trim()

    def _publication_failed(self, step: ShardStep, error: Exception) -> None:
        """A bug in one shard's publication must not cost the others theirs. What was saved and not said is in its
        rows: its memory is given up, and whoever takes the shard next offers it all again."""
        self._rooms.alarm("publication_failed", shard_id=step.shard.shard_id, error=error)
        step.shard.close()

    async def _commit(self, steps: list[ShardStep], batch: Batch) -> bool:
        """Save the batch. False: it was not saved, and everybody concerned has been seen to."""
        try:
            database_us = await self._commit_patiently(batch)
        except FenceLost:
            self._rooms.metrics.fenced_writes.inc()
            await self._drop_lost(steps)
        except GuardFailed as error:
            self._reload(steps, str(error))
        except BatchRefused as error:
            self._halve(steps, str(error))
        except Conflict as error:
            if len(steps) == 1 and len(steps[0].items) == 1:
                self._forget(steps)  # it says nothing against the intent
            else:
                self._halve(steps, str(error))
        except OutcomeUnknown:
            self._rooms.metrics.db_ambiguous.inc()
            await self._find_out(steps, batch.batch_id)
        except StoreUnavailable:
            self._forget(steps)
        else:
            self._rooms.database_clock.sample(database_us)
            self._rooms.metrics.db_batch_intents.observe(sum([len(step.items) for step in steps]))
            for fence in batch.fences:  # the shards' own
                fence.commit_seq += 1
            return True
        return False

    async def _commit_patiently(self, batch: Batch) -> int:
        """Try again what certainly did not land: conflicts 10 times, a database that is away for 5 s."""
        conflicts = 0
        give_up_at = self._rooms.clock.monotonic() + GIVE_UP_AFTER_S
        wait_s = DATABASE_WAIT_S
        while True:
            self.statements += 1
            try:
                return await self._rooms.store.commit(batch)
            except Conflict:
                self._rooms.metrics.db_retries.inc("conflict")
                conflicts += 1
                if conflicts >= CONFLICT_TRIES_MAX:
                    raise
                await self._rooms.clock.sleep(
                    CONFLICT_WAIT_S * conflicts * self._rooms.ids.jitter()
                )
            except (StoreUnavailable, BatchRefused) as error:
                if isinstance(error, BatchRefused) and error.sqlstate[:2] not in NOT_THE_ROWS:
                    raise
                if self._rooms.clock.monotonic() > give_up_at:
                    raise StoreUnavailable(str(error)) from error
                self._rooms.metrics.db_retries.inc("unavailable")
                await self._rooms.clock.sleep(wait_s * (0.5 + self._rooms.ids.jitter()))
                wait_s = min(wait_s * 2, DATABASE_WAIT_S_MAX)

    # ---- when it was not saved

    def _reload(self, steps: list[ShardStep], reason: str) -> None:
        """Memory was wrong, not the intents: they are decided again on reloaded state, if need be one by one."""
        if _to_look_up(steps):
            for step in steps:
                step.shard.redo(step)
            return
        self._rooms.alarm("memory_and_database_differ", error=reason)
        if len(steps) > 1 or len(steps[0].items) > 1:
            self._halve(steps, reason)
            return
        [step] = steps
        [item] = step.items
        item.tries += 1
        if item.tries < GUARD_TRIES_MAX:
            step.shard.redo(step)
        elif isinstance(item.intent, StartWorkflow):
            # nothing but its run id can be there already: its workflow id's row has just been read
            step.items.clear()
            step.shard.redo(step)
            item.refuse(run_id_in_use(item.intent.run_id))
        else:
            step.shard.blame(step, reason)

    def _halve(self, steps: list[ShardStep], reason: str) -> None:
        """A definite error: decide again in halves until the culprit stands alone, shard by shard."""
        if len(steps) == 1 and len(steps[0].items) == 1:
            steps[0].shard.blame(steps[0], reason)
            steps[0].shard.grow_group()
            return
        for step in steps:
            step.shard.shrink_group(step.weight if len(steps) == 1 else 2 * step.weight)
            step.shard.redo(step)

    def _forget(self, steps: list[ShardStep]) -> None:
        """The database is away: memory goes back to what was saved, the callers repeat with the same request ids."""
        refusal = unavailable("DATABASE_UNAVAILABLE", "the database does not answer; try again")
        for step in steps:
            callers = [item for item in step.items if item.future is not None]
            step.items = [
                item for item in step.items if item.future is None
            ]  # the shard's own goes on
            step.shard.redo(step)
            for item in callers:
                item.refuse(refusal)

    async def _drop_lost(self, steps: list[ShardStep]) -> None:
        """Somebody else has one of the shards: forget it; the others' work is decided again."""
        stored = await self._until_answered(
            lambda: self._rooms.store.read_fences([s.shard.shard_id for s in steps])
        )
        by_shard = {fence.shard_id: fence for fence in stored}
        lost = 0
        for step in steps:
            held = by_shard.get(step.shard.shard_id)
            if held is not None and _is_ours(step.shard.fence, held):
                step.shard.redo(step)
            else:
                lost += 1
                self._lose(step)
        if not lost:
            self._rooms.alarm("fence_lost_but_ours", shards=[step.shard.shard_id for step in steps])
            for step in steps:
                self._lose(step)

    def _lose(self, step: ShardStep) -> None:
        self._rooms.metrics.shard_moves.inc("lost")
        for run, _ in step.drafts.values():
            run.busy = False
        step.shard.close()
        step.shard.put_again(step.items)

    async def _find_out(self, steps: list[ShardStep], batch_id: bytes) -> None:
        """The statement may have landed: bump the fences, which also makes sure that it cannot land any more."""
        lapses = [step.shard.lapses for step in steps]
        bumped = await self._bump([step.shard for step in steps])
        saved: list[ShardStep] = []
        for step, lapses_before in zip(steps, lapses, strict=True):
            fence = bumped.get(step.shard.shard_id)
            if fence is None:
                self._lose(step)
                continue
            step.shard.new_range(_as_fence(fence), lapses_before)
            if fence.batch_id == batch_id:
                saved.append(step)
            else:
                step.shard.redo(step)
        self._publish(saved)

    async def _bump(self, shards: list[Shard]) -> dict[int, FenceState]:
        """Our fences after the bump; a shard that is missing is lost. Repeated until the rows say whose they are."""
        fences = [shard.fence for shard in shards]
        wait_s = DATABASE_WAIT_S
        while True:
            try:
                changed = await self._rooms.store.bump_fences(fences, self._rooms.node_id)
                found = {fence.shard_id: fence for fence in changed}
                missing = {f.shard_id: f.range_id for f in fences if f.shard_id not in found}
                return found | await self._bumped_before(missing)
            except StoreError:
                await self._rooms.clock.sleep(wait_s * (0.5 + self._rooms.ids.jitter()))
                wait_s = min(wait_s * 2, DATABASE_WAIT_S_MAX)

    async def _bumped_before(self, ranges: dict[int, int]) -> dict[int, FenceState]:
        """Fences that an earlier try of ours has bumped already: ours, and one range on."""
        if not ranges:
            return {}
        stored = await self._rooms.store.read_fences(list(ranges))
        ours = self._rooms.node_id
        return {
            fence.shard_id: fence
            for fence in stored
            if fence.owner_id == ours and fence.range_id == ranges[fence.shard_id] + 1
        }

    async def _until_answered(
        self, read: Callable[[], Awaitable[list[FenceState]]]
    ) -> list[FenceState]:
        wait_s = DATABASE_WAIT_S
        while True:
            try:
                return await read()
            except StoreError:
                await self._rooms.clock.sleep(wait_s * (0.5 + self._rooms.ids.jitter()))
                wait_s = min(wait_s * 2, DATABASE_WAIT_S_MAX)

    # ---- chores: what is deleted

    async def _do_chore(self, shard: Shard) -> None:
        store = self._rooms.store
        if shard.sweeping.due:
            await self._sweep(shard)
        elif shard.removing.due:
            await self._remove(shard, shard.removing, store.remove_runs)
        else:
            await self._remove(shard, shard.jobs.removing, store.remove_jobs)

    async def _remove(
        self, shard: Shard, chore: Chore[R, T], remove: Callable[[R], Awaitable[int]]
    ) -> None:
        batch_id = self._rooms.ids.new_id()
        removal, taken = chore.take(batch_id)
        try:
            database_us = await remove(removal)
        except FenceLost:
            chore.give_back(taken)
            shard.close()
        except OutcomeUnknown:
            await self._find_out_removal(shard, batch_id, chore, taken)
        except GuardFailed as error:
            chore.refused(taken, error)
        except StoreError:
            chore.give_back(taken)
            await self._rooms.clock.sleep(DATABASE_WAIT_S)
        else:
            shard.fence.commit_seq += 1
            self._rooms.database_clock.sample(database_us)
            chore.removed(taken)

    async def _find_out_removal(
        self, shard: Shard, batch_id: bytes, chore: Chore[R, T], taken: T
    ) -> None:
        """Whether it landed must be known before anything more is written: it may have added to the audit log,
        and a place there is taken once."""
        lapses = shard.lapses
        fence = (await self._bump([shard])).get(shard.shard_id)
        if fence is None:
            chore.give_back(taken)
            shard.close()
            return
        shard.new_range(_as_fence(fence), lapses)
        if fence.batch_id == batch_id:
            chore.removed(taken)
        else:
            chore.give_back(taken)

    async def _sweep(self, shard: Shard) -> None:
        sweep = shard.sweeping.take(self._rooms.ids.new_id())
        try:
            database_us = await self._rooms.store.sweep(sweep)
        except FenceLost:
            shard.close()
        except OutcomeUnknown:
            shard.sweeping.give_back(sweep)
            shard.unproven = True  # the next turn bumps the fence, and so learns its sequence
        except GuardFailed as error:
            self._rooms.alarm("sweep_met_a_live_row", shard_id=shard.shard_id, error=error)
        except StoreError:
            shard.sweeping.give_back(sweep)
        else:
            shard.fence.commit_seq += 1
            self._rooms.database_clock.sample(database_us)
            shard.sweeping.deleted(sweep)
        shard.sweeping.done()


def _to_look_up(steps: list[ShardStep]) -> bool:
    """Jobs are made without a look whether they are there: for once in a while a call is repeated. Then the guard says
    so, and those that were made this way are looked up before they are decided again. Whether there are any."""
    found = False
    for step in steps:
        for item in step.items:
            if type(item.intent) is CreateJobs and not item.look_up:
                item.look_up = found = True
    return found


def _as_fence(stored: FenceState) -> Fence:
    return Fence(stored.shard_id, stored.range_id, stored.commit_seq, stored.owner_id)


def _is_ours(ours: Fence, stored: FenceState) -> bool:
    return (ours.range_id, ours.owner_id, ours.commit_seq) == (
        stored.range_id,
        stored.owner_id,
        stored.commit_seq,
    )
