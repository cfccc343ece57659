"""What one step changes of one schedule.

The decisions of a step work on a copy of its state; the record in memory is replaced by it once the step is saved, so
that a step which is not saved leaves nothing behind. A slot, and the timer, that change twice within a step are written
once. What a schedule does to job runs goes into the shard's `JobDraft` of the same step.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from perdure_engine.core.audit import Entry
from perdure_engine.core.draft import Env
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.repeats import require_same
from perdure_engine.core.schedules.intents import (
    BackfillSchedule,
    PauseSchedule,
    TriggerSchedule,
    UpdateSchedule,
)
from perdure_engine.core.schedules.model import (
    RequestMark,
    ScheduleRecord,
    ScheduleSpec,
    SlotOrigin,
    SlotOutcome,
)
from perdure_engine.core.tasks import TimerKind, TimerRecord

REQUESTS_KEPT = 10
"""Calls whose repeats are known. A client repeats within seconds what had no answer."""

MarkedIntent = UpdateSchedule | PauseSchedule | TriggerSchedule | BackfillSchedule
SlotKey = tuple[int, SlotOrigin]  # nominal time and origin


class SlotTimes(Protocol):
    """When a spec's times are: see ports.schedules."""

    def next_us(self, spec: ScheduleSpec, after_us: int) -> int: ...

    def jitter_us(self, spec: ScheduleSpec, seed: bytes, nominal_us: int) -> int: ...

    @property
    def tzdata_version(self) -> str: ...


class SlotChange(msgspec.Struct, gc=False):
    """What becomes of a slot's row. `version`: of the one that is stored, 0 if there is none."""

    outcome: SlotOutcome
    acted_us: int
    target: bytes
    detail: str
    version: int


class ScheduleDraft:
    __slots__ = (
        *("audit", "changed", "conflict_token", "defined", "env", "gone", "gone_timers", "jobs"),
        *("record", "schedule", "shard_id", "slots", "state", "timer", "times", "user_id"),
    )

    def __init__(
        self, record: ScheduleRecord, shard_id: int, env: Env, times: SlotTimes, jobs: JobDraft
    ) -> None:
        self.record = record  # as saved; not changed here
        self.shard_id = shard_id
        self.env = env
        self.times = times
        self.jobs = jobs
        self.schedule = record.schedule
        self.state = msgspec.structs.replace(record.state)
        self.user_id = record.user_id
        self.conflict_token = record.conflict_token
        self.gone = record.gone
        self.changed = False
        self.defined = False  # `schedule` was changed
        self.slots: dict[SlotKey, SlotChange] = {}
        self.timer: TimerRecord | None = None  # new
        self.gone_timers: list[TimerRecord] = []
        self.audit: list[Entry] = []  # for the log of what operators did

    @property
    def exists(self) -> bool:
        """For callers."""
        return not (self.gone or self.state.deleted)

    # ---- calls

    def answered(self, mark: RequestMark) -> None:
        """A repeat of the call is known from now on."""
        state = self.state
        state.requests = (*state.requests[1 - REQUESTS_KEPT :], mark)
        self.changed = True

    def mark_of(self, intent: MarkedIntent) -> RequestMark | None:
        """Of the call, if it is a repeat. Raises INVALID_ARGUMENT for another call of the same request id."""
        for mark in self.state.requests:
            if mark.request_id == intent.request_id:
                require_same(mark.body, intent)
                return mark
        return None

    # ---- the definition

    def define(self, **changes: object) -> None:
        """Change the definition: whoever read it before has another conflict token."""
        self.schedule = msgspec.structs.replace(self.schedule, **changes)
        self.conflict_token += 1
        self.state.updated_us = self.env.now_us
        self.changed = self.defined = True

    # ---- slots

    def next_us(self, after_us: int) -> int:
        """The first slot past an instant; 0: there is none.

        The spec remembers by which rules of the zones it was found, even if it knew newer ones: nodes differ while a
        cluster is upgraded, and who has the newer finds by that what to look at again (invariant 55).
        """
        spec, version = self.schedule.spec, self.times.tzdata_version
        if spec.tzdata_version != version:
            spec = msgspec.structs.replace(spec, tzdata_version=version)
            self.schedule = msgspec.structs.replace(self.schedule, spec=spec)  # no new definition
            self.changed = self.defined = True
        return self.times.next_us(spec, after_us)

    def put_slot(
        self,
        nominal_us: int,
        origin: SlotOrigin,
        outcome: SlotOutcome,
        *,
        target: bytes = b"",
        detail: str = "",
        version: int = 0,
    ) -> int:
        """Write down what has become of a slot. `version`: of its row, as far as is known; the one after this step is
        returned."""
        self.changed = True
        known = self.slots.get((nominal_us, origin))
        if known is not None:
            version = known.version
        self.slots[nominal_us, origin] = SlotChange(
            outcome, self.env.now_us, target, detail, version
        )
        if nominal_us >= self.state.last_us:
            self.state.last_us, self.state.last_outcome = nominal_us, outcome
        return version + 1

    # ---- the timer

    def due_us(self, nominal_us: int) -> int:
        """When a slot is to act."""
        spec = self.schedule.spec
        if not spec.jitter_ms:
            return nominal_us
        return nominal_us + self.times.jitter_us(spec, self.record.uid, nominal_us)

    def wake_at(self, due_us: int) -> None:
        self.drop_wake()
        env = self.env
        wake_us, timer_id = max(due_us, env.timer_mark_us), env.new_number()
        self.timer = TimerRecord(TimerKind.SCHEDULE_SLOT, 0, wake_us, timer_id, due_us)
        self.state.wake = (wake_us, timer_id, due_us)
        self.changed = True

    def drop_wake(self) -> None:
        wake, self.state.wake = self.state.wake, None
        if wake is None:
            return
        self.changed = True
        if self.timer is not None:  # made in this step, and never written
            self.timer = None
            return
        gone = TimerRecord(TimerKind.SCHEDULE_SLOT, 0, *wake, gone=True, version=1)
        self.gone_timers.append(gone)
