"""One schedule on a bench: its record, the rows that its steps leave, and the job runs of its shard.

A step is decided on a draft and then saved, as the shard does it: rows go by version as the store's guard demands, so
that a decision which believes in another row than there is fails at once. `crash` takes all that is not saved away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest

from perdure_engine.core.audit import Entry
from perdure_engine.core.draft import Env
from perdure_engine.core.errors import Rejected
from perdure_engine.core.ids import schedule_uid
from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.jobs.decide.ending import end
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.memory import JobMemory
from perdure_engine.core.jobs.model import JobRun, JobSpec, JobStatus
from perdure_engine.core.limits import DEFAULT_RUN_LIMITS
from perdure_engine.core.schedules import intents
from perdure_engine.core.schedules.decide import (
    action_ended,
    backfill,
    decide,
    fire_slot,
    hear,
    mend,
)
from perdure_engine.core.schedules.decide.backfill import KnownSlot
from perdure_engine.core.schedules.draft import ScheduleDraft, SlotTimes
from perdure_engine.core.schedules.errands import Errand, ErrandKind, errands_of
from perdure_engine.core.schedules.model import (
    JobAction,
    Schedule,
    SchedulePolicies,
    ScheduleRecord,
    ScheduleSpec,
    ScheduleState,
    SlotOrigin,
    SlotOutcome,
    WorkflowAction,
    absent,
)
from perdure_engine.core.status import Status
from perdure_engine.scheduler.times import Times
from perdure_engine.store.codec import MsgpackCodec

T = TypeVar("T")
NAMESPACE = b"schedules-bench-"
SHARD = 3
TIMES = Times()
CODEC = MsgpackCodec()
SPEC, MANUAL, BACKFILL = SlotOrigin.SPEC, SlotOrigin.MANUAL, SlotOrigin.BACKFILL
FIRED, SKIPPED, MISSED = SlotOutcome.FIRED, SlotOutcome.SKIPPED, SlotOutcome.MISSED
PAUSED, FIRING, FAILED = SlotOutcome.PAUSED, SlotOutcome.FIRING, SlotOutcome.FAILED
BUFFERED, BACKFILLED = SlotOutcome.BUFFERED, SlotOutcome.BACKFILLED
START_US = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z
SECOND, MINUTE, HOUR = 1_000_000, 60_000_000, 3_600_000_000
EVERY_MINUTE = ScheduleSpec(cron=("* * * * *",))
EVERY_HOUR = ScheduleSpec(cron=("@hourly",))
JOB = JobAction("report", "reports", JobSpec(input=b"args"))
WORKFLOW = WorkflowAction(
    "nightly",
    StartWorkflow(
        namespace_id=b"",
        workflow_id="",
        run_id=b"",
        request_id=b"",
        body_hash=b"",
        workflow_type="Report",
        task_queue="reports",
    ),
)


class SlotRow(NamedTuple):
    outcome: SlotOutcome
    acted_us: int
    target: bytes
    detail: str
    version: int


def schedule(action: Any = JOB, spec: ScheduleSpec = EVERY_MINUTE, **options: Any) -> Schedule:
    """Options of the schedule, or of its policies."""
    names = Schedule.__struct_fields__
    of_schedule = {name: value for name, value in options.items() if name in names}
    policies = {name: value for name, value in options.items() if name not in names}
    return Schedule(spec, action, SchedulePolicies(**policies), **of_schedule)


class Bench:
    def __init__(self) -> None:
        self.now_us = START_US
        self.numbers = 0
        self.record = absent(schedule_uid(NAMESPACE, "s"), NAMESPACE, "s")
        self.memory = JobMemory()
        self.slots: dict[tuple[int, SlotOrigin], SlotRow] = {}
        self.timers: dict[tuple[int, int], int] = {}  # due times of live rows
        self.jobs: dict[bytes, JobRun] = {}  # as saved
        self.actions: dict[tuple[int, SlotOrigin], set[bytes]] = {}  # begun for a slot
        self.audit: list[Entry] = []
        self.times: SlotTimes = TIMES
        self._open: ScheduleDraft | None = None
        self._heard = 0  # of the ends of the open step

    def new_number(self) -> int:
        self.numbers += 1
        return self.numbers

    def new_id(self) -> bytes:
        return self.new_number().to_bytes(16, "big")

    @property
    def state(self) -> ScheduleState:
        return self.record.state

    # ---- steps

    def draft(self) -> ScheduleDraft:
        env = Env(self.now_us, self.new_number, DEFAULT_RUN_LIMITS)
        return ScheduleDraft(self.record, SHARD, env, self.times, JobDraft(self.memory, env))

    def step(self, work: Callable[[ScheduleDraft], T], *, crash: bool = False) -> T:
        draft = self._open or self.draft()
        reply = work(draft)
        self._hear_ends(draft)
        if self._open is None:
            if crash:
                self.crash()
            else:
                self._save(draft)
        return reply

    @contextmanager
    def one_step(self) -> Iterator[None]:
        """What is asked for in here is saved together."""
        self._open, self._heard = self.draft(), 0
        yield
        draft, self._open = self._open, None
        self._save(draft)

    def _hear_ends(self, draft: ScheduleDraft) -> None:
        heard = self._heard if self._open is not None else 0
        while heard < len(draft.jobs.ended):
            run = draft.jobs.ended[heard]
            heard += 1
            action_ended.job_ended(draft, run.job_id, run.status)
        self._heard = heard

    def _save(self, draft: ScheduleDraft) -> None:
        for key, change in draft.slots.items():
            stored = self.slots.get(key)
            assert change.version == (stored.version if stored else 0), (key, change, stored)
            row = SlotRow(
                change.outcome, change.acted_us, change.target, change.detail, change.version + 1
            )
            self.slots[key] = row
            if change.outcome in (
                SlotOutcome.FIRING,
                SlotOutcome.FIRED,
                SlotOutcome.BACKFILLED,
            ):
                self.actions.setdefault(key, set()).add(change.target)
            elif change.outcome is SlotOutcome.FAILED:
                del self.actions[key]  # the start was refused: nothing has begun
        for timer in draft.gone_timers:
            del self.timers[timer.wake_us, timer.timer_id]
        if draft.timer is not None:
            self.timers[draft.timer.wake_us, draft.timer.timer_id] = draft.timer.due_us
        for run in draft.jobs.jobs.values():
            run.version += 1
            self.jobs[run.job_id] = msgspec.structs.replace(run)
        self.audit += draft.audit
        if draft.changed:
            record = self.record
            self.record = ScheduleRecord(
                record.uid,
                NAMESPACE,
                record.schedule_id,
                draft.schedule,
                draft.state,
                draft.user_id,
                draft.conflict_token,
                record.version + 1,
                draft.gone,
            )
        else:
            assert draft.state == self.record.state, "changed, and nobody would save it"
            assert not draft.audit

    def lose_timer(self) -> None:
        """Its row is gone, and its shard has noticed."""
        self.timers.clear()
        self.record.state.wake = None

    def mend(self) -> None:
        self.step(mend.decide)

    def crash(self) -> None:
        """Another owner reads what is saved."""
        record = self.record
        self.record = msgspec.structs.replace(
            record,
            schedule=CODEC.decode_schedule(CODEC.encode_schedule(record.schedule)),
            state=CODEC.decode_schedule_state(CODEC.encode_schedule_state(record.state)),
        )
        self.memory = JobMemory()
        for job_id, run in self.jobs.items():
            self.memory.jobs[job_id] = msgspec.structs.replace(run)

    # ---- what is asked for

    def ask(self, kind: Any, **fields: Any) -> Any:
        known = {"namespace_id": NAMESPACE, "schedule_id": self.record.schedule_id}
        if "request_id" in kind.__struct_fields__ and "request_id" not in fields:
            known["request_id"] = self.new_id()
        intent = kind(**known, **fields)
        if kind is intents.BackfillSchedule:
            return self.step(lambda draft: backfill.decide(draft, intent, self._known(intent)))
        return self.step(lambda draft: decide(draft, intent))

    def _known(self, intent: intents.BackfillSchedule) -> list[KnownSlot]:
        return [
            KnownSlot(nominal_us, origin, row.outcome, row.version)
            for (nominal_us, origin), row in self.slots.items()
            if intent.from_us <= nominal_us <= intent.to_us and origin is not MANUAL
        ]

    def create(self, action: Any = JOB, spec: ScheduleSpec = EVERY_MINUTE, **options: Any) -> Any:
        return self.ask(intents.CreateSchedule, schedule=schedule(action, spec, **options))

    def update(self, *args: Any, conflict_token: int = 0, **options: Any) -> Any:
        new = schedule(*args, **options)
        return self.ask(intents.UpdateSchedule, schedule=new, conflict_token=conflict_token)

    def pause(self, note: str = "") -> Any:
        return self.ask(intents.PauseSchedule, paused=True, note=note)

    def unpause(self, note: str = "") -> Any:
        return self.ask(intents.PauseSchedule, paused=False, note=note)

    def delete(self, **fields: Any) -> Any:
        return self.ask(intents.DeleteSchedule, **fields)

    def trigger(self, overlap: Any = None, **fields: Any) -> intents.Slot:
        acted: intents.SlotsActed = self.ask(intents.TriggerSchedule, overlap=overlap, **fields)
        (slot,) = acted.slots
        return slot

    def backfill(
        self, from_us: int, to_us: int, *, overlap: Any = None, dry_run: bool = False, **fields: Any
    ) -> intents.Backfilled:
        span = {"from_us": from_us, "to_us": to_us, "overlap": overlap, "dry_run": dry_run}
        done: intents.Backfilled = self.ask(intents.BackfillSchedule, **span, **fields)
        return done

    def describe(self) -> Any:
        return self.ask(intents.DescribeSchedule)

    # ---- what happens

    def fire(self, most: int = fire_slot.SLOTS_AT_ONCE, *, crash: bool = False) -> int:
        """Its timer fires, once."""
        assert self.state.wake is not None
        wake_us, timer_id, _ = self.state.wake
        assert (wake_us, timer_id) in self.timers, "its row is there"
        assert wake_us <= self.now_us, "never early"
        return self.step(
            lambda draft: fire_slot.decide(draft, wake_us, timer_id, most), crash=crash
        )

    def pass_time(self, us: int, *, fire: bool = True) -> None:
        """Each timer fires at its time."""
        goal_us = self.now_us + us
        while fire and self.state.wake is not None and self.state.wake[0] <= goal_us:
            self.now_us = max(self.now_us, self.state.wake[0])
            self.fire()
        self.now_us = goal_us

    def end_job(self, job_id: bytes, status: JobStatus = JobStatus.COMPLETED) -> None:
        self.step(lambda draft: end(draft.jobs, self.memory.jobs[job_id], status))

    def end_open_jobs(self, status: JobStatus = JobStatus.COMPLETED) -> None:
        for action in self.state.actions:
            self.end_job(action.target, status)

    def errands(self, kind: ErrandKind | None = None) -> list[Errand]:
        return [e for e in errands_of(self.record) if kind in (None, e.kind)]

    def hear(self, errand: Errand, **answer: Any) -> None:
        heard = intents.Heard(self.record.uid, errand, **({"asked_us": self.now_us} | answer))
        self.step(lambda draft: hear(draft, heard))

    def started(self, refused: str = "") -> None:
        """All starts have arrived."""
        for errand in self.errands(ErrandKind.START):
            self.hear(errand, refused=refused)

    def asked(self, status: Status | None) -> None:
        for errand in self.errands(ErrandKind.ASK):
            self.hear(errand, status=status)

    # ---- what is there

    def outcomes(self, origin: SlotOrigin = SPEC) -> list[SlotOutcome]:
        """Of the slots, in order of their times."""
        return [row.outcome for key, row in sorted(self.slots.items()) if key[1] is origin]

    def details(self) -> list[str]:
        return [row.detail for _, row in sorted(self.slots.items())]

    def job_of(self, nominal_us: int, origin: SlotOrigin = SPEC) -> JobRun:
        return self.jobs[self.slots[nominal_us, origin].target]

    def statuses(self) -> list[JobStatus]:
        """Of the job runs, in order of their times."""
        runs = sorted(self.jobs.values(), key=lambda run: (run.scheduled_us, run.job_id))
        return [run.status for run in runs]


def refused(bench: Bench, kind: object, **fields: object) -> Rejected:
    with pytest.raises(Rejected) as caught:
        bench.ask(kind, **fields)
    return caught.value
