"""A shard's jobs: what is in memory of them, decided in the shard's step, saved in its statement, published with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure_engine.core.draft import Env
from perdure_engine.core.errors import Rejected
from perdure_engine.core.jobs.decide import decide
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import (
    CancelJob,
    DescribeJob,
    FireJobTimers,
    JobIntent,
    RedriveJob,
    RescheduleJob,
    ResumeJob,
    WaitJobs,
)
from perdure_engine.core.jobs.memory import BatchId, JobMemory, RoomId
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.jobs.needs import Needs, job_ids_of, missing
from perdure_engine.history.jobs import rows
from perdure_engine.history.jobs.ahead import JobsAhead
from perdure_engine.history.jobs.leases import JobLeases
from perdure_engine.history.jobs.loading import JobLoading
from perdure_engine.history.jobs.queues import JobQueues
from perdure_engine.history.jobs.removing import JobRemoving
from perdure_engine.history.jobs.timers import JobTimers
from perdure_engine.history.jobs.waits import JobWaits
from perdure_engine.history.rows import add_audit
from perdure_engine.history.work import Item, ShardStep
from perdure_engine.ports.matching import TaskOffer
from perdure_engine.ports.store import Batch

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

OF_ONE_JOB = frozenset((DescribeJob, CancelJob, RescheduleJob, RedriveJob, ResumeJob))
OF_JOBS = "job"  # in what is counted of all tasks
STALE = 1 << 62  # a version that no row has: what was read of it is not taken
KEYS_KEPT_MAX = 10_000
BATCHES_KEPT_MAX = 1_000
ROOMS_KEPT_MAX = 1_000


class Jobs:
    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.memory = JobMemory()
        self.loading = JobLoading(self)
        self.queues = JobQueues(self)
        self.leases = JobLeases(self)
        self.waits = JobWaits(self)
        self.removing = JobRemoving(self)
        self.timers = JobTimers(self)
        self.ahead = JobsAhead(self)
        self._cache = shard.rooms.job_cache
        self._cache.owners[shard.shard_id] = self
        self._when_free: dict[int, TaskOffer] = {}  # met a job that was busy
        self._to_load: dict[int, TaskOffer] = {}  # met a job that was not in memory
        self.step_is_out = False  # decided, and not published yet
        self._between_steps: list[tuple[Callable[[], None], asyncio.Future[None]]] = []

    @property
    def busy(self) -> bool:
        """Something waits for a read."""
        return self.loading.busy or bool(self._to_load)

    # ---- intake and decision

    def decide(self, step: ShardStep, item: Item, env: Env) -> None:
        """Decide the item's intent, or park it until what it is about is in memory."""
        intent: Any = item.intent
        needs = missing(self.memory, intent, item.absent, look_up=item.look_up)
        if needs is not None:
            self.loading.park(needs, item)
            return
        self.loading.came_back.discard(item)
        step.items.append(item)
        draft = self.draft_of(step, env)
        if type(intent) is WaitJobs:
            step.after.append(partial(self.waits.take_turn, item))
            return
        if type(intent) is FireJobTimers:
            step.after.append(partial(self.timers.fired, intent.timers))
        try:
            if type(intent) in OF_ONE_JOB:
                self.shard.quarantined.require_not_in(intent.job_id)
            reply = decide(draft, intent)
        except Rejected as refusal:
            step.answers.append((item, refusal))
        else:
            step.answers.append((item, reply))

    def draft_of(self, step: ShardStep, env: Env) -> JobDraft:
        if step.jobs is None:
            step.jobs = JobDraft(self.memory, env)
            self.step_is_out = True
        return step.jobs

    def mark_busy(self, draft: JobDraft) -> None:
        for run in draft.jobs.values():
            run.busy = True

    def rows_of(self, step: ShardStep, draft: JobDraft, batch: Batch) -> None:
        shard = self.shard
        rows.add_jobs(batch, shard.shard_id, draft, shard.rooms.codec)
        if draft.audit:
            head = step.audit_head or shard.audit_head
            step.audit_head = add_audit(batch, head, draft.audit)

    # ---- after the commit

    def publish(self, draft: JobDraft) -> None:
        rows.saved(draft)
        # one that failed and began anew in the same step has not ended
        ended = [run for run in draft.ended if run.closed_us]
        self._measure(draft, ended)
        for start_no in draft.released:
            self.leases.drop(start_no)
        unused, waiting = self._cache.unused, list[JobRun]()
        for run in draft.jobs.values():
            if run.timer is not None and not run.task_id:
                waiting.append(run)
            elif run.handout is None:
                unused(run)
        if draft.withdrawn:
            self.queues.withdraw(draft.withdrawn)
        if draft.ready:
            self.queues.publish(draft.ready)
        if ended:
            self.waits.publish(ended)
        if draft.timers or draft.gone_timers:
            self.timers.publish(draft.timers, draft.gone_timers)
            self.shard.sweeping.publish_timers([timer for _, timer in draft.gone_timers])
        self._step_ends()
        self._forget_empty(draft)
        if waiting:
            self.ahead.keep(waiting)
        self._trim()

    def _measure(self, draft: JobDraft, ended: list[JobRun]) -> None:
        metrics = self.shard.rooms.metrics
        created = sum([run.version == 1 for run in draft.jobs.values()])
        if created:
            metrics.job_created.inc(by=created)
        if ended:
            statuses = [run.status for run in ended]
            for status in set(statuses):
                metrics.job_ended.inc(status.name, by=statuses.count(status))
        if draft.retries:
            metrics.job_retries.inc(by=draft.retries)
        if draft.crashes:
            metrics.task_crashes.inc(OF_JOBS, by=draft.crashes)
            metrics.tasks_poisoned.inc(OF_JOBS, by=draft.poisoned)
        if draft.suspended:
            metrics.tasks_suspended.inc(OF_JOBS, by=draft.suspended)

    def evict(self, draft: JobDraft) -> None:
        """The step was not saved: forget all that it touched. Hand-outs are kept aside, who waits waits on."""
        memory, loading = self.memory, self.loading
        self._evict_jobs({*draft.jobs, *(run.job_id for run in draft.ready)})
        for room in draft.rooms.values():
            self.forget_room((room.namespace_id, room.key))
        for key_id, held in draft.keys.items():
            memory.keys.pop(key_id, None)
            loading.left(key_id, held.version)
        for batch_id, batch in draft.batches.items():
            memory.batches.pop(batch_id, None)
            loading.left(batch_id, batch.version)
        self._step_ends()

    def spoiled(self, intent: JobIntent) -> None:
        """A decision about it broke off: what it names may have been changed without the draft knowing."""
        self._evict_jobs(set(job_ids_of(intent)))

    def _evict_jobs(self, job_ids: set[bytes]) -> None:
        self.leases.keep_aside(job_ids)
        for job_id in job_ids:
            run = self.memory.jobs.pop(job_id, None)
            self._cache.gone(job_id)
            if run is not None:
                run.busy = False
                self.loading.left(job_id, run.version)

    def _step_ends(self) -> None:
        self.step_is_out = False
        self.leases.step_over()
        if self._when_free:
            offers, self._when_free = list(self._when_free.values()), {}
            self.shard.rooms.matching.offer(offers)
        if self._between_steps:
            waiting, self._between_steps = self._between_steps, []
            for do, done in waiting:
                do()
                done.set_result(None)

    async def between_steps(self, do: Callable[[], None]) -> None:
        """Return when it is done. Where there is much to do the next step is out before anybody hears that one is over,
        so it is done by whoever ends the step."""
        if not self.step_is_out:
            do()
            return
        done = asyncio.get_running_loop().create_future()
        self._between_steps.append((do, done))
        await asyncio.shield(done)

    # ---- offers that met a job at a wrong moment

    def offer_when_free(self, offer: TaskOffer) -> None:
        self._when_free[offer.task_id] = offer

    def load_to_offer(self, offer: TaskOffer) -> None:
        """It has left memory while it waited for a worker. Those of one poll are loaded together."""
        self._to_load[offer.task_id] = offer
        if len(self._to_load) == 1:
            asyncio.get_running_loop().call_soon(self._load_to_offer)

    def _load_to_offer(self) -> None:
        offers, self._to_load = list(self._to_load.values()), {}
        if not self.shard.closed:
            needs = Needs(self.memory, (), jobs=dict.fromkeys(offer.run_id for offer in offers))
            self.loading.ask(needs, lambda refusal, _: self._loaded(offers, refusal))

    def _loaded(self, offers: list[TaskOffer], refusal: Rejected | None) -> None:
        if refusal is not None:
            return  # they are offered again by the next tick
        there = [offer for offer in offers if offer.run_id in self.memory.jobs]
        for offer in offers:
            if offer.run_id not in self.memory.jobs:
                self.queues.forget(offer)
        if there:
            self.shard.rooms.matching.offer(there)

    # ---- what is in memory

    def bring_in(self, run: JobRun) -> None:
        """It was read."""
        self.memory.jobs[run.job_id] = run
        self.leases.loaded(run)
        if run.handout is None:
            self.unused(run)

    def in_use(self, run: JobRun) -> None:
        self._cache.in_use(run)

    def unused(self, run: JobRun) -> None:
        self._cache.unused(run)

    def drop(self, run: JobRun) -> None:
        """It need not be in memory before its queue has come to it."""
        self._cache.gone(run.job_id)
        self.forget(run)

    def forget_room(self, room_id: RoomId) -> None:
        room = self.memory.rooms.pop(room_id, None)
        if room is None:
            return
        self.loading.left(room_id, STALE)
        for run in (*room.places.values(), *room.waiting.values(), *room.behind.values()):
            if run.handout is None and self.memory.jobs.get(run.job_id) is run:
                self.unused(run)

    def _forget_empty(self, draft: JobDraft) -> None:
        """Concurrency keys that nobody has a place of. Those with a rate stay for a while, or it would not hold."""
        for room in draft.rooms.values():
            kept = room.places or room.waiting or room.behind or room.more or room.rate_per_s
            if not kept:
                self.forget_room((room.namespace_id, room.key))

    def forget_removed(
        self,
        job_ids: list[bytes],
        keys: list[tuple[bytes, int, str, bytes]],
        batches: list[BatchId],
    ) -> None:
        """Their rows have been deleted: what a read that is under way brings of them is not taken."""
        memory, loading = self.memory, self.loading
        for job_id in job_ids:
            memory.jobs.pop(job_id, None)
            self._cache.gone(job_id)
            loading.left(job_id, STALE)
        for namespace_id, kind, key, job_id in keys:
            key_id = (namespace_id, kind, key)
            held = memory.keys.get(key_id)
            if held is not None and held.job_id == job_id:
                del memory.keys[key_id]
                loading.left(key_id, STALE)
        for batch_id in batches:
            memory.batches.pop(batch_id, None)
            loading.left(batch_id, STALE)

    def _trim(self) -> None:
        """Forget what was used longest ago, but nothing of which memory holds more than the database. Jobs themselves
        are trimmed for all shards together."""
        if not self.may_forget():
            return
        memory, loading = self.memory, self.loading
        for _ in range(len(memory.rooms) - ROOMS_KEPT_MAX):
            self.forget_room(next(iter(memory.rooms)))
        for _ in range(len(memory.keys) - KEYS_KEPT_MAX):
            key_id = next(iter(memory.keys))
            loading.left(key_id, memory.keys.pop(key_id).version)
        for _ in range(len(memory.batches) - BATCHES_KEPT_MAX):
            batch_id = next(iter(memory.batches))
            loading.left(batch_id, memory.batches.pop(batch_id).version)

    def may_forget(self) -> bool:
        """Not while somebody has come back from a read and not had a turn yet, or has had it and not been answered."""
        return not (self.loading.came_back or self.step_is_out)

    def forget(self, run: JobRun) -> None:
        """Unless memory holds more than the database, or a schedule holds it; when that is over, it is unused again."""
        jobs = self.memory.jobs
        if run.busy or run.handout is not None or run.held or self._has_room(run):
            return
        if jobs.get(run.job_id) is run:
            del jobs[run.job_id]
            self.loading.left(run.job_id, run.version)

    def _has_room(self, run: JobRun) -> bool:
        key = run.spec.concurrency
        room = None if key is None else self.memory.rooms.get((run.namespace_id, key.key))
        return room is not None and any(
            run.job_id in some for some in (room.places, room.waiting, room.behind)
        )

    # ---- the end

    def close(self) -> list[Item]:
        """Forget everything. Returns who waits for something."""
        self.queues.stop()
        self.leases.stop()
        self.removing.stop()
        self.timers.stop()
        self.ahead.stop()
        waiting = self.loading.drain() + self.waits.drain()
        jobs, self.memory = self.memory.jobs, JobMemory()
        self._cache.shard_closed(self.shard.shard_id, self, jobs)
        return waiting
