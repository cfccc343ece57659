"""The shard: an actor that decides, has it saved, and publishes (design §3).

Theory of operation. `submit` puts an intent into the inbox and tells the writer that there is work. The writer
calls `decide` on every shard that is ready and not in flight, sends all they decided in one statement, and then
calls `publish` (or `redo`, or `lose`). Between `decide` and `publish` the state in memory runs ahead of the database:
such runs are `busy`, nothing of them is shown to anybody, and nothing else is decided for this shard.
Whatever cannot be decided yet because its run is not in memory waits parked, in order, while it is loaded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import cast, get_args

from perdure_engine.core import audit, intents
from perdure_engine.core.draft import Draft, Env
from perdure_engine.core.errors import Rejected
from perdure_engine.core.ids import SEQUENCE_BITS, SEQUENCE_MAX
from perdure_engine.core.jobs.intents import JobIntent, WaitJobs
from perdure_engine.core.jobs.replies import JobReply
from perdure_engine.core.limits import RUN_INTENTS_PER_BATCH_MAX
from perdure_engine.core.replies import Reply
from perdure_engine.core.schedules.intents import (
    ScheduleIntent,
    ScheduleReply,
    ScheduleShardIntent,
)
from perdure_engine.core.state import RunState
from perdure_engine.core.tasks import Handout
from perdure_engine.history import rows
from perdure_engine.history.deciding import Bug, Deciding
from perdure_engine.history.inbox import Inbox
from perdure_engine.history.jobs.jobs import Jobs
from perdure_engine.history.jobs.leases import JobLeases
from perdure_engine.history.leases import LeaseBook
from perdure_engine.history.loading import Loading
from perdure_engine.history.outbox import Outbox
from perdure_engine.history.quarantine import TRIES_MAX, Quarantine
from perdure_engine.history.queries import Queries
from perdure_engine.history.queues import QueueBooks
from perdure_engine.history.refusals import internal, moved
from perdure_engine.history.removing import Removing
from perdure_engine.history.resetting import Resetting
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.run import CurrentRun, Run
from perdure_engine.history.schedules.schedules import Schedules
from perdure_engine.history.splitting import split
from perdure_engine.history.sweeping import Sweeping
from perdure_engine.history.timers import ShardTimers
from perdure_engine.history.trimming import trim
from perdure_engine.history.updates import Updates
from perdure_engine.history.waits import wait_without_turn, wake
from perdure_engine.history.work import AnyIntent, Item, ShardStep
from perdure_engine.ports.store import Batch, Fence

# Left of the sequence when the shard asks for a new range: more than any batch takes.
NUMBERS_SPARE = 1 << 21


class _EachTurn:
    """What every turn of a shard touches. Where shards are many that is cold memory, a line of the cache at a time: so
    it lies side by side, before the rest, and nothing of it in a dictionary."""

    __slots__ = (
        *("_chore_waits", "_env", "_sequence", "closed", "currents", "deciding", "draining"),
        *("failing", "fence", "in_flight", "in_flight_since", "inbox", "leases", "leaving"),
        *("queues", "rooms", "runs", "runs_max", "shard_id", "suspect", "sweeping", "unproven"),
    )


class Shard(_EachTurn):
    __slots__ = (
        *("__weakref__", "audit_head", "group_max", "jobs", "kept_handouts", "lapses", "loading"),
        *("outbox", "quarantined", "queries", "removing", "resetting", "schedules", "timers"),
        "updates",
    )

    def __init__(self, fence: Fence, rooms: Rooms, timer_mark_us: int) -> None:
        self.shard_id = fence.shard_id
        self.fence = fence
        self.rooms = rooms
        self.inbox = Inbox()
        self.runs: OrderedDict[bytes, Run] = OrderedDict()
        self.currents: OrderedDict[tuple[bytes, str], CurrentRun] = OrderedDict()
        self.kept_handouts: dict[bytes, dict[int, tuple[int, Handout]]] = {}
        self.quarantined = Quarantine(rooms)
        self.in_flight = False
        self.in_flight_since = 0.0
        self.closed = False  # released or lost: takes nothing any more
        self.leaving = False  # about to be released: hands nothing out any more
        self.draining = False  # about to be released: takes nothing new
        self.lapses = 0  # how often the node's lease had ended
        # the node's lease had ended, or numbers come to their end: nothing is answered before the fence was bumped
        self.unproven = False
        self.group_max = rooms.config.group_intents_max
        self.suspect = False  # a culprit is looked for, in groups that shrink
        self.failing = False  # writes of some of its runs were refused lately
        self.runs_max = rooms.config.runs_cached_max
        self._chore_waits = False
        self._sequence = 0
        self.audit_head = audit.Head(fence.shard_id)  # as saved; whoever takes the shard sets it
        self.loading = Loading(self)
        self.leases = LeaseBook(self)
        self.queues = QueueBooks(self)
        self.outbox = Outbox(self)
        self.queries = Queries(self)
        self.updates = Updates(self)
        self.timers = ShardTimers(self, timer_mark_us)
        self.sweeping = Sweeping(self)
        self.removing = Removing(self)
        self.resetting = Resetting(self)
        self.deciding = Deciding(self)
        self.jobs = Jobs(self)
        self.schedules = Schedules(self)
        next_fire_us = rooms.cron.next_fire_us
        self._env = Env(
            0, self.new_number, rooms.run_limits, timer_mark_us, next_fire_us, rooms.json_payload
        )

    # ---- intake

    def submit(self, intent: intents.Intent) -> asyncio.Future[Reply]:
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.put(Item(intent, future))
        return future

    def submit_job(self, intent: JobIntent) -> asyncio.Future[JobReply]:
        future: asyncio.Future[JobReply] = asyncio.get_running_loop().create_future()
        self.put(Item(intent, future))
        return future

    def submit_schedule(self, intent: ScheduleIntent) -> asyncio.Future[ScheduleReply]:
        future: asyncio.Future[ScheduleReply] = asyncio.get_running_loop().create_future()
        self.put(Item(intent, future))
        return future

    def tell(self, intent: AnyIntent) -> None:
        """An intent of the shard's own: nobody waits for its answer."""
        self.put(Item(intent, None))

    def put(self, item: Item) -> None:
        if self.closed or self.draining:
            item.refuse(moved(self.shard_id))
        elif item.weight > self.rooms.config.group_intents_max and split(item, self._put_each):
            pass  # no list is more than a statement takes
        elif not self._waits_without_turn(item) and self.inbox.put(item):
            self.work_waits()

    def _put_each(self, items: list[Item]) -> None:
        for item in items:
            self.put(item)

    def _waits_without_turn(self, item: Item) -> bool:
        kind = type(item.intent)
        if kind is intents.WaitResult:
            return wait_without_turn(self.runs, item)
        if kind is intents.StartWorkflow:
            # its turn, which it could have now, would find no more than that its id is to be looked up
            idle = not (self.inbox.count or self.in_flight or self.unproven)
            return idle and self.loading.look_up_first(item)
        return kind is WaitJobs and self.jobs.waits.without_turn(item)

    def put_again(self, items: list[Item]) -> None:
        """Items that were taken before go first. On a shard that has closed meanwhile nothing waits."""
        if not self.closed:
            self.inbox.put_again(items)
            return
        for item in items:
            item.refuse(moved(self.shard_id))

    def work_waits(self) -> None:
        if not self.in_flight and not self.closed:
            self.rooms.writer.ready(self)

    def new_number(self) -> int:
        self._sequence += 1
        return self.fence.range_id << SEQUENCE_BITS | self._sequence

    def turn_is_over(self) -> None:
        """It is in no statement any more. The writer hears if it has something to do for this shard."""
        self.in_flight = False
        if self.inbox.count or self.unproven or (self._chore_waits and self.chore_due):
            self.work_waits()

    @property
    def chore_due(self) -> bool:
        """Whether the writer has a sweep or a removal to send in the shard's next turn."""
        # asked in each step: most find nothing, and look at none of the three
        if self._chore_waits:
            self._chore_waits = self.sweeping.due or self.removing.due or self.jobs.removing.due
        return self._chore_waits

    def chore_waits(self) -> None:
        """A sweep or a removal has become due."""
        self._chore_waits = True
        self.work_waits()

    @property
    def lease_books(self) -> tuple[LeaseBook, JobLeases]:
        return self.leases, self.jobs.leases

    def reroute(self) -> None:
        """Versions of workers get other work from now on: what nobody has taken goes to whoever gets it now."""
        if self.queues.reroute() | self.jobs.queues.reroute():
            self.rooms.matching.withdraw(self.shard_id)
            self.queues.offer_all()
            self.jobs.queues.offer_all()

    def new_range(self, fence: Fence, lapses: int) -> None:
        """The fence was bumped by ourselves: same memory, new numbers.

        `lapses` is what `self.lapses` was when the bump was sent.
        """
        self.fence = fence
        self._sequence = 0
        self.unproven = self.lapses != lapses

    def lapsed(self) -> None:
        """See ports.shards: a bump that was sent before this call proves nothing."""
        self.lapses += 1
        self.unproven = True
        self.work_waits()

    # ---- decide

    def decide(self, step: ShardStep, weight: int, now_us: int) -> ShardStep:
        """Take intents of about so much weight into a new step and decide them. Nothing leaves here: answers wait in
        the step that comes back, an empty one when all is decided again. Should this raise, what was taken is in
        `step` or in the inbox. `now_us`: the lower bound of database time that the decisions go by."""
        env = self._env
        env.now_us = now_us
        # while a culprit is looked for, a group is not larger than was meant
        items = self.inbox.take_only() or self.inbox.take(
            min(weight, self.group_max), exact=self.suspect
        )
        # how many of each run; of fewer than that no run can have too many
        taken: dict[bytes, int] | None = {} if len(items) > RUN_INTENTS_PER_BATCH_MAX else None
        too_many: list[Item] = []
        for index, item in enumerate(items):
            try:
                if type(item.intent) in JOB_KINDS:
                    self.jobs.decide(step, item, env)
                elif type(item.intent) in SCHEDULE_KINDS:
                    self.schedules.decide(step, item, env)
                elif not self.deciding.decide(step, item, env, taken):
                    too_many.append(item)
            except Exception as error:  # a bug: what it touched can no longer be trusted
                self.put_again(too_many + items[index + 1 :])
                return self._spoiled(step, item, error)
        if too_many:
            self.put_again(too_many)
        if self._sequence > SEQUENCE_MAX - NUMBERS_SPARE:
            self.unproven = True  # it gets a new range before this step is saved
        return self._decided(step, env)

    def _decided(self, step: ShardStep, env: Env) -> ShardStep:
        """What follows from all decisions together."""
        try:
            heard = step.jobs is None or not step.jobs.ended or self.schedules.hear_jobs(step, env)
            if not heard:
                self.redo(step)
                return ShardStep(self)
            self._mark_busy(step)
        except Exception as error:
            return self._in_halves(step, error)
        return step

    def _mark_busy(self, step: ShardStep) -> None:
        """What the step has changed is not shown before it is saved."""
        step.writes = bool(step.currents)
        for run, draft in step.drafts.values():
            if not draft.empty:
                run.busy = step.writes = True
        if step.jobs is not None and not step.jobs.empty:
            self.jobs.mark_busy(step.jobs)
            step.writes = True
        if step.schedules and self.schedules.changed(step):
            step.writes = True

    def _spoiled(self, step: ShardStep, item: Item, error: Exception) -> ShardStep:
        """A decision raised what is not a refusal: all but its intent is decided again on reloaded state."""
        if item not in step.items:
            step.items.append(item)
        why = repr(error.__cause__ if isinstance(error, Bug) else error)
        if isinstance(error, Bug) and isinstance(error.run, Run):
            self.evict(error.run)
            self._count_failure(error.run.state.run_id, why)
        step.items.remove(item)
        self._give_up_or_again(item, "DECISION_FAILED", why)
        self.redo(step)
        if type(item.intent) in JOB_KINDS:
            self.jobs.spoiled(cast("JobIntent", item.intent))
        return ShardStep(self)

    def _in_halves(self, step: ShardStep, error: Exception) -> ShardStep:
        """What follows from all decisions together raised, and nothing says whose it is: they are decided again in
        halves until the culprit stands alone."""
        if len(step.items) > 1:
            self.shrink_group(step.weight)
        elif step.items:
            self._give_up_or_again(step.items.pop(), "DECISION_FAILED", repr(error))
            self.grow_group()
        self.redo(step)
        return ShardStep(self)

    def _blamed(self, step: ShardStep) -> list[bytes]:
        """The run the culprit is about. A start has none yet: the run that was there before is innocent."""
        begins = (intents.StartWorkflow, intents.ResetWorkflow)
        if any(isinstance(item.intent, begins) for item in step.items):
            return []
        return [run_id for run_id, (_, draft) in step.drafts.items() if not draft.is_new]

    def _give_up_or_again(self, item: Item, reason: str, why: str) -> None:
        """A caller hears INTERNAL. The shard's own work has nobody who would repeat it: it is tried again. Of a list
        one job is to blame: it is looked for."""
        if split(item, self._put_parts):
            return
        item.tries += 1
        if item.future is None and item.tries < TRIES_MAX:
            self.put_again([item])
        else:
            self._refuse_internal(item, reason, why)

    def _put_parts(self, parts: list[Item]) -> None:
        self.put_again(parts)
        self.work_waits()

    def _refuse_internal(self, item: Item, reason: str, why: str) -> None:
        error_id = self.rooms.ids.new_id().hex()
        self.rooms.alarm(
            "intent_failed",
            error_id=error_id,
            intent=type(item.intent).__name__,
            reason=reason,
            why=why,
        )
        item.refuse(internal(reason, error_id))

    # ---- what is in memory

    def current_of(self, key: tuple[bytes, str]) -> CurrentRun | None:
        current = self.currents.get(key)
        if current is not None and len(self.currents) > 1:
            self.currents.move_to_end(key)
        return current

    def move_mark(self, mark_us: int) -> None:
        """The mark of its timers, as it is saved now."""
        self.timers.mark_us = self._env.timer_mark_us = mark_us

    # ---- after the commit

    def rows_of(self, step: ShardStep, batch: Batch) -> None:
        """Append what the step decided to the statement."""
        for _, draft in step.drafts.values():
            if not draft.empty:
                rows.add_run(batch, self.shard_id, draft, self.rooms.codec)
                if draft.audit is not None:
                    step.audit_head = rows.add_audit(
                        batch, step.audit_head or self.audit_head, draft.audit
                    )
                started = draft.state.folded.started
                if not draft.state.open:
                    self._closed_current(
                        step, draft.state, (started.namespace_id, started.workflow_id)
                    )
        for key, current in step.currents.items():
            rows.add_current(batch, self.shard_id, key, current)
        if step.jobs is not None:
            self.jobs.rows_of(step, step.jobs, batch)
        if step.schedules:
            self.schedules.rows_of(step, batch)

    def _closed_current(self, step: ShardStep, state: RunState, key: tuple[bytes, str]) -> None:
        run = self.runs.get(state.run_id)
        if run is not None and run.current.run_id == state.run_id:
            run.current.status = state.folded.status
            step.currents[key] = run.current

    def answer(self, step: ShardStep) -> None:
        """The step is saved: its callers hear so, before anybody hears of what follows from it."""
        for item, answer in step.answers:
            if isinstance(answer, Rejected):
                item.refuse(answer)
            else:
                item.answer(answer)

    def publish(self, step: ShardStep) -> None:
        """The step is saved: what it changed is memory's truth, and goes to whoever waits for it."""
        if step.audit_head is not None:
            self.audit_head = step.audit_head
        for key, current in step.currents.items():
            current.version += 1
            self.currents[key] = current
        for run, draft in step.drafts.values():
            if not draft.empty:
                self._publish_run(run, draft)
        if step.schedules:
            self.schedules.publish(step)
        for action in step.after:
            action()
        if step.jobs is not None:
            self.jobs.publish(step.jobs)
        if self.suspect:
            self.grow_group()
        if len(self.runs) > self.runs_max or len(self.currents) > self.runs_max * 2:
            trim(self)

    def _publish_run(self, run: Run, draft: Draft) -> None:
        rows.saved(draft)
        if self.failing:
            self.failing = self.quarantined.went_well(draft.state.run_id)
        run.add_events(draft.events)
        if draft.timers:
            self.timers.publish(run, draft)
        self.queues.publish(run, draft)
        self.leases.publish(run, draft)
        if draft.messages:
            self.outbox.publish(run, draft)
        self.sweeping.publish(run, draft)
        if not draft.state.open:
            self.rooms.lately_closed.add(self, run)
        wake(run, draft)
        if run.queries:
            self.queries.run_changed(run, draft)
        if run.update_waiters is not None:
            self.updates.run_changed(run, draft)
        run.free()

    # ---- when the step was not saved

    def redo(self, step: ShardStep) -> None:
        """Nothing was written: forget what was decided, and decide it again on reloaded state."""
        for run, _ in step.drafts.values():
            self.evict(run)
        for key in step.currents:
            self.currents.pop(key, None)
        self._evict_others(step)
        self.put_again(step.items)

    def _evict_others(self, step: ShardStep) -> None:
        if step.jobs is not None:
            self.jobs.evict(step.jobs)
        if step.schedules:
            self.schedules.evict(step)

    def evict(self, run: Run) -> None:
        """Drop a run from memory; who waits for it waits on through the inbox, its hand-outs are kept aside."""
        run_id = run.state.run_id
        if self.runs.pop(run_id, None) is None:
            return
        started = run.state.folded.started
        self.currents.pop((started.namespace_id, started.workflow_id), None)
        kept = self.leases.of_run(run_id)
        if kept:
            self.kept_handouts.setdefault(run_id, {}).update(kept)
        self.put_again(run.take_waiters() + self.queries.take_back(run))
        run.free()

    def blame(self, step: ShardStep, reason: str) -> None:
        """A batch of one intent was refused: it is the culprit. Its caller hears INTERNAL; the shard's own work
        is tried again until its run is quarantined."""
        for run, _ in step.drafts.values():
            self.evict(run)
        for run_id in self._blamed(step):
            self._count_failure(run_id, reason)
        for key in step.currents:
            self.currents.pop(key, None)
        self._evict_others(step)
        for item in step.items:
            self._give_up_or_again(item, "WRITE_REFUSED", reason)

    def _count_failure(self, run_id: bytes, why: str) -> None:
        self.failing = True
        self.quarantined.count_failure(run_id, why)

    def shrink_group(self, failed: int) -> None:
        """A batch with `failed` of our intents was refused: look for the culprit in its half."""
        self.group_max = max(1, failed // 2)
        self.suspect = self.group_max < self.rooms.config.group_intents_max

    def grow_group(self) -> None:
        """A batch went through: the groups grow back."""
        whole = self.rooms.config.group_intents_max
        self.group_max = min(whole, self.group_max * 2)
        self.suspect = self.group_max < whole

    # ---- the end

    def close(self) -> None:
        """Released or lost: forget everything; whoever waits is told to ask elsewhere."""
        if self.closed:
            return
        self.closed = True
        self.timers.stop()
        self.leases.stop()
        self.queues.stop()
        self.outbox.stop()
        self.queries.stop()
        self.updates.stop()
        self.sweeping.stop()
        self.rooms.matching.withdraw(self.shard_id)
        waiting = self.inbox.drain() + self.loading.drain() + self.removing.drain()
        waiting += self.resetting.drain() + self.jobs.close() + self.schedules.close()
        for item in waiting:
            item.refuse(moved(self.shard_id))
        for run in self.runs.values():
            for item in run.take_waiters() + self.queries.take_back(run):
                item.refuse(moved(self.shard_id))
            run.free()
        self.runs.clear()
        self.currents.clear()


JOB_KINDS = frozenset(get_args(JobIntent))
SCHEDULE_KINDS = frozenset((*get_args(ScheduleIntent), *get_args(ScheduleShardIntent)))
