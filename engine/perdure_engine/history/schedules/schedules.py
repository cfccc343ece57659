"""A shard's schedules: all of them are in memory, as they are saved; a step works on copies (`core.schedules.draft`).

A schedule that was in a step which was not saved leaves memory and is read again, because then memory and database may
differ. What a schedule does to job runs is in the step's `JobDraft`, and what becomes of its job runs is heard there,
so that one statement saves both.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.draft import Env
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import schedule_uid
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.jobs.needs import Needs
from perdure_engine.core.schedules import intents
from perdure_engine.core.schedules.decide import (
    action_ended,
    backfill,
    decide,
    fire_slot,
    hear,
    job_ids,
    mend,
)
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import ScheduleReply
from perdure_engine.core.schedules.model import (
    JobAction,
    ScheduleRecord,
    SlotOrigin,
    SlotOutcome,
    absent,
)
from perdure_engine.history.rows import add_audit
from perdure_engine.history.schedules import rows
from perdure_engine.history.schedules.due import DueSlots
from perdure_engine.history.schedules.errands import Errands
from perdure_engine.history.schedules.loading import ScheduleLoading
from perdure_engine.history.schedules.watch import ScheduleWatch
from perdure_engine.history.work import LIST_OF, Item, ShardStep, many_of
from perdure_engine.ports.store import Batch

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

SLOTS_PER_STEP = 300  # of all schedules that are due: some have missed more than one
SCHEDULE_BYTES = 2_000  # what one takes in memory besides what its action is given


class Schedules:
    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        # by uid; those that are gone until they are swept
        self.records: dict[bytes, ScheduleRecord] = {}
        self.busy: set[bytes] = set()  # changed by the step in flight
        self.loading = ScheduleLoading(self)
        self.due = DueSlots(self)
        self.errands = Errands(self)
        self.watch = ScheduleWatch(self)
        self.bytes_in_all = 0  # of definitions
        self._sizes: dict[bytes, int] = {}
        self._aside: set[bytes] = set()  # hearing of their job runs raised what it must not

    def start(self) -> None:
        """The shard is ours: read them all, and see to it that none is forgotten."""
        self.loading.start()
        self.watch.start()

    @property
    def at_work(self) -> bool:
        """Something is going on that time need not pass for."""
        return self.loading.busy or self.due.busy or self.errands.busy

    # ---- decision

    def decide(self, step: ShardStep, item: Item, env: Env) -> None:
        """Decide the item's intent, or park it until what it is about is in memory."""
        self.shard.jobs.loading.came_back.discard(item)
        if type(item.intent) in LISTS:
            self._decide_list(step, item, env)
        else:
            self._decide_call(step, item, env)

    def _decide_call(self, step: ShardStep, item: Item, env: Env) -> None:
        intent: Any = item.intent
        uid = schedule_uid(intent.namespace_id, intent.schedule_id)
        if self.loading.parks(uid, item):
            return
        record = self.records.get(uid)
        if record is None:
            record = absent(uid, intent.namespace_id, intent.schedule_id)
        now = step.schedules.get(uid, record)
        if self._lacks_jobs(item, [(now, getattr(intent, "overlap", None))]):
            return
        if type(intent) is intents.BackfillSchedule and self.loading.parks_for_slots(
            record, item, env
        ):
            return
        step.items.append(item)
        try:
            self.loading.require_readable(uid)
            step.answers.append((item, self._reply(step, item, record, env)))
        except Rejected as refusal:
            step.answers.append((item, refusal))

    def _reply(
        self, step: ShardStep, item: Item, record: ScheduleRecord, env: Env
    ) -> ScheduleReply:
        intent: Any = item.intent
        draft = self._draft_of(step, record, env)
        if type(intent) is intents.BackfillSchedule:
            return backfill.decide(draft, intent, self.loading.slots_for(item))
        if type(intent) is intents.CreateSchedule:
            self._require_room(draft, intent)
        return decide(draft, intent)

    def _require_room(self, draft: ScheduleDraft, intent: intents.CreateSchedule) -> None:
        """All schedules of a shard are in its memory (B30)."""
        if draft.exists:
            return
        many = len(self.records) >= limits.SCHEDULES_OF_SHARD_MAX
        if many or self.bytes_in_all >= limits.SCHEDULE_BYTES_OF_SHARD_MAX:
            raise Rejected(
                Code.RESOURCE_EXHAUSTED,
                "TOO_MANY_SCHEDULES",
                f"the shard of {intent.schedule_id!r} takes no further schedules",
            )

    def _draft_of(self, step: ShardStep, record: ScheduleRecord, env: Env) -> ScheduleDraft:
        draft = step.schedules.get(record.uid)
        if draft is None:
            jobs = self.shard.jobs.draft_of(step, env)
            times = self.shard.rooms.times
            draft = ScheduleDraft(record, self.shard.shard_id, env, times, jobs)
            step.schedules[record.uid] = draft
        return draft

    # ---- lists: what the shard itself wants of many schedules

    def _decide_list(self, step: ShardStep, item: Item, env: Env) -> None:
        """Of a schedule that is being read, its part waits; of one that is gone, there is none."""
        intent: Any = item.intent
        kind, field = LISTS[type(intent)], LIST_OF[type(intent)]
        there: list[Any] = []
        later: list[Any] = []
        over: list[Any] = []
        for entry in many_of(intent):
            uid = kind.uid_of(entry)
            known = uid in self.records
            (there if known else later if self.loading.will_know(uid) else over).append(entry)
        if later:
            rest = copy.copy(item)
            rest.intent = msgspec.structs.replace(intent, **{field: later})
            self.loading.park(rest)
            item.intent = msgspec.structs.replace(intent, **{field: [*there, *over]})
        uids = [kind.uid_of(entry) for entry in there]
        if self._lacks_jobs(
            item, [(step.schedules.get(uid, self.records[uid]), None) for uid in uids]
        ):
            return
        step.items.append(item)
        step.answers.append((item, None))
        kind.decide(self, step, there, over, env)

    def _fire(self, step: ShardStep, timers: list[Any], over: list[Any], env: Env) -> None:
        left, acted = SLOTS_PER_STEP, 0
        for uid, wake_us, timer_id in timers:
            if left <= 0:
                break
            draft = self._draft_of(step, self.records[uid], env)
            most = min(left, fire_slot.SLOTS_AT_ONCE)
            left -= max(1, fire_slot.decide(draft, wake_us, timer_id, most))
            acted += 1
        step.after.append(partial(self.due.acted, timers[:acted] + over, timers[acted:]))

    def _hear(self, step: ShardStep, heard: list[Any], _: list[Any], env: Env) -> None:
        for one in heard:
            hear(self._draft_of(step, self.records[one.uid], env), one)

    def _hear_ends(self, step: ShardStep, ends: list[Any], _: list[Any], env: Env) -> None:
        for end in ends:
            draft = self._draft_of(step, self.records[end.uid], env)
            action_ended.job_ended(draft, end.job_id, end.status)

    def _mend(self, step: ShardStep, uids: list[Any], _: list[Any], env: Env) -> None:
        for uid in uids:
            mend.decide(self._draft_of(step, self.records[uid], env))

    def _lacks_jobs(
        self, item: Item, wanted: list[tuple[ScheduleRecord | ScheduleDraft, Any]]
    ) -> bool:
        """Park the item until the job runs that it may touch are in memory, if they are not."""
        jobs = self.shard.jobs
        known = jobs.memory.jobs
        missing: dict[bytes, None] = {}
        for record, overlap in wanted:
            for job_id in job_ids(record, overlap):
                if job_id not in known and job_id not in item.absent:
                    missing[job_id] = None
        if missing:
            jobs.loading.park(Needs(jobs.memory, item.absent, jobs=missing), item)
        return bool(missing)

    # ---- what becomes of job runs

    def hear_jobs(self, step: ShardStep, env: Env) -> bool:
        """Job runs of schedules that end in this step are heard of in it, or told once it is saved. False: hearing of
        one raised what it must not, and what the step has changed can no longer be trusted; next time that schedule
        is told later, where it is the only culprit."""
        assert step.jobs is not None
        ended, later = step.jobs.ended, list[intents.JobEnd]()
        place = 0
        while place < len(ended):  # what is heard may end others
            run = ended[place]
            place += 1
            if not run.schedule_id:
                continue
            uid = schedule_uid(run.namespace_id, run.schedule_id)
            try:
                heard = uid not in self._aside and self._hear_job(step, uid, run, env)
            except Exception as error:
                self.shard.rooms.alarm(
                    "job_end_not_heard", schedule_id=run.schedule_id, error=error
                )
                self._aside.add(uid)
                return False
            if not heard:
                later.append(intents.JobEnd(uid, run.job_id, run.status))
        if later:
            tell = intents.HearJobs(self.shard.shard_id, later)
            step.after.append(partial(self.shard.tell, tell))
        return True

    def _hear_job(self, step: ShardStep, uid: bytes, run: JobRun, env: Env) -> bool:
        """False: it cannot be heard of now."""
        record = self.records.get(uid)
        if record is None:
            return not self.loading.will_know(uid)
        now = step.schedules.get(uid, record)
        named = [now.state.job_id, *(action.target for action in now.state.actions)]
        if run.job_id not in named:
            return True
        known = self.shard.jobs.memory.jobs
        if any(job_id not in known for job_id in job_ids(now)):
            return False
        draft = self._draft_of(step, record, env)
        action_ended.job_ended(draft, run.job_id, run.status)
        return True

    # ---- the step

    def changed(self, step: ShardStep) -> bool:
        """Whether there is something to save. What the step has changed is in flight from here on."""
        self.busy = {uid for uid, draft in step.schedules.items() if draft.changed}
        return bool(self.busy)

    def rows_of(self, step: ShardStep, batch: Batch) -> None:
        shard = self.shard
        for draft in step.schedules.values():
            if not draft.changed:
                continue
            rows.add_schedule(batch, shard.shard_id, draft, shard.rooms.codec)
            if draft.audit:
                head = step.audit_head or shard.audit_head
                step.audit_head = add_audit(batch, head, draft.audit)

    def publish(self, step: ShardStep) -> None:
        """The step is saved: its copies are memory's truth."""
        self.busy = set()
        shard = self.shard
        for uid, draft in step.schedules.items():
            if not draft.changed:
                continue
            record = self.records[uid] = rows.saved(draft)
            shard.timers.publish_schedule(uid, draft.timer)
            shard.sweeping.publish_timers(draft.gone_timers)
            if draft.defined:
                self.measure(record)
            if record.gone:
                shard.sweeping.schedule_gone(record.namespace_id, record.schedule_id)
            self.errands.sync(record)
            self._count(draft)

    def _count(self, draft: ScheduleDraft) -> None:
        metrics = self.shard.rooms.metrics
        for (nominal_us, origin), change in draft.slots.items():
            metrics.schedule_slots.inc(change.outcome.name)
            if not change.version and change.outcome in STARTED and origin is SlotOrigin.SPEC:
                late_us = change.acted_us - nominal_us
                metrics.schedule_delay_seconds.observe(late_us / 1_000_000)

    def take(self, record: ScheduleRecord) -> None:
        """It was read."""
        shard = self.shard
        self.records[record.uid] = record
        self.measure(record)
        if record.gone:
            shard.sweeping.schedule_gone(record.namespace_id, record.schedule_id)
            return
        self.errands.sync(record)
        if record.schedule.spec.tzdata_version < shard.rooms.times.tzdata_version:
            shard.tell(intents.MendSchedules(shard.shard_id, [record.uid]))

    def measure(self, record: ScheduleRecord) -> None:
        """Know how much memory its definition takes."""
        size = 0 if record.gone else weight_of(record)
        self.bytes_in_all += size - self._sizes.pop(record.uid, 0)
        if size:
            self._sizes[record.uid] = size

    def evict(self, step: ShardStep) -> None:
        """The step was not saved: memory may be wrong."""
        self.busy = set()
        for uid, draft in step.schedules.items():
            if draft.changed and self.records.pop(uid, None) is not None:
                self.loading.read_again(draft.record)

    def is_gone(self, namespace_id: bytes, schedule_id: str) -> bool:
        """Whether only its row is left."""
        record = self.records.get(schedule_uid(namespace_id, schedule_id))
        return record is not None and record.gone

    def swept(self, namespace_id: bytes, schedule_id: str) -> None:
        """The row of one that is gone is no more."""
        if self.is_gone(namespace_id, schedule_id):
            del self.records[schedule_uid(namespace_id, schedule_id)]

    def close(self) -> list[Item]:
        """Forget everything. Returns who waits for something."""
        self.watch.stop()
        self.errands.stop()
        self.due.stop()
        self.records.clear()
        return self.loading.stop()


class _ListKind(NamedTuple):
    uid_of: Callable[[Any], bytes]
    decide: Callable[[Schedules, ShardStep, list[Any], list[Any], Env], None]


LISTS: dict[type, _ListKind] = {
    intents.FireSlots: _ListKind(itemgetter(0), Schedules._fire),
    intents.HearErrands: _ListKind(attrgetter("uid"), Schedules._hear),
    intents.HearJobs: _ListKind(attrgetter("uid"), Schedules._hear_ends),
    intents.MendSchedules: _ListKind(bytes, Schedules._mend),
}
STARTED = (SlotOutcome.FIRED, SlotOutcome.FIRING)


def weight_of(record: ScheduleRecord) -> int:
    """Bytes of memory that its definition takes, roughly."""
    action = record.schedule.action
    if isinstance(action, JobAction):
        payload = len(action.spec.input) + len(action.spec.header)
    else:
        start = action.start
        payload = len(start.input) + len(start.header) + len(start.memo)
    return payload + SCHEDULE_BYTES
