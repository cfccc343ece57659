"""What became of each time of each schedule: exactly one outcome, and at most one action, the one that it names."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.attempts import NEVER_S, Attempt
from tests.chaos.job_rows import SavedJob, SavedRows
from tests.chaos.schedule_load import Overlap, ScheduleStory

from perdure.job import JobStatus
from perdure_engine.core.instants import instant_text
from perdure_engine.core.schedules.decide.delete import DELETED
from perdure_engine.core.schedules.model import SlotOrigin
from perdure_engine.core.schedules.model import SlotOutcome as Outcome
from perdure_engine.core.schedules.overlap import ONE_WAITS, OVERLAPS
from perdure_engine.ports.rows import ScheduleSlotRow


class SavedRun(NamedTuple):
    """A workflow that a schedule has started. Seconds by the database's clock."""

    workflow_id: str
    run_id: str
    started_s: float
    closed_s: float  # 0: it is open


class Action(NamedTuple):
    """What a slot has begun, and from when to when that was open."""

    slot: ScheduleSlotRow
    begun_s: float
    closed_s: float


@dataclass
class ScheduleVerdict:
    slots: int = 0
    by_outcome: dict[str, int] = field(default_factory=dict)
    latest_s: float = 0.0
    missing: list[str] = field(default_factory=list)  # no outcome, or none that is final
    twice: list[str] = field(default_factory=list)  # several actions
    broken: list[str] = field(default_factory=list)  # an outcome that cannot be

    @property
    def problems(self) -> list[str]:
        return [*self.missing, *self.twice, *self.broken]

    def figures(self) -> dict[str, object]:
        return {
            "slots": self.slots,
            "outcomes": self.by_outcome,
            "latest_s": round(self.latest_s, 1),
            "slots_missing": len(self.missing),
            "slots_twice": len(self.twice),
            "slots_broken": len(self.broken),
        }


class ScheduleJudge:
    def __init__(
        self,
        stories: Sequence[ScheduleStory],
        rows: SavedRows,
        runs: Sequence[SavedRun],
        attempts: dict[str, list[Attempt]],
    ) -> None:
        self.verdict = ScheduleVerdict()
        self._stories = stories
        self._rows = rows
        self._attempts = attempts
        self._runs: dict[str, list[SavedRun]] = defaultdict(list)
        for run in runs:
            self._runs[run.workflow_id].append(run)
        self._jobs: dict[str, list[SavedJob]] = defaultdict(list)
        for job in rows.jobs.values():
            if job.run.schedule_id:
                self._jobs[job.run.schedule_id].append(job)

    def judge(self) -> ScheduleVerdict:
        for row in self._rows.schedules:
            self.verdict.missing.append(f"{row.schedule_id}: deleted, and there")
        for story in self._stories:
            slots = self._rows.slots.get(story.schedule_id, [])
            self.verdict.slots += len(slots)
            self._complete(story, slots)
            actions = [
                action for slot in slots if (action := self._judge_slot(story, slot)) is not None
            ]
            self._once(story, slots, actions)
            self._overlaps(story, slots, actions)
        return self.verdict

    def _complete(self, story: ScheduleStory, slots: Sequence[ScheduleSlotRow]) -> None:
        """Invariants 51, 52, 53 and 56: the slots are the times of the spec while there was one."""
        every_s = story.kind.every_s
        found = {slot.nominal_us for slot in slots if slot.origin == SlotOrigin.SPEC}
        must = _times_us(story.answered_s, story.delete_asked_s, every_s)
        may = _times_us(story.asked_s, story.deleted_s, every_s)
        for nominal_us in sorted(must - found):
            self.verdict.missing.append(f"52: {story.schedule_id} {instant_text(nominal_us)}")
        for nominal_us in sorted(found - may):
            when = instant_text(nominal_us)
            self.verdict.broken.append(f"56: {story.schedule_id} {when} is no time of it")
        manual = {slot.nominal_us for slot in slots if slot.origin == SlotOrigin.MANUAL}
        told = {round(slot.nominal_at.timestamp() * 1e6) for slot in story.triggered}
        if manual != told:
            self.verdict.broken.append(f"51: {story.schedule_id}: triggered {told}, has {manual}")

    def _judge_slot(self, story: ScheduleStory, slot: ScheduleSlotRow) -> Action | None:
        """Its outcome, and what it has begun."""
        outcome = Outcome(slot.outcome)
        counts = self.verdict.by_outcome
        counts[outcome.name] = counts.get(outcome.name, 0) + 1
        name = f"{story.schedule_id} {instant_text(slot.nominal_us)}"
        if outcome is Outcome.FIRED:
            if story.kind.overlap is Overlap.ALLOW_ALL:  # others may have had to wait
                late_s = (slot.acted_us - slot.nominal_us) / 1e6
                self.verdict.latest_s = max(self.verdict.latest_s, late_s)
            if _must_be_paused(story, slot):
                self.verdict.broken.append(f"56: {name} has fired while it was paused")
            return (self._run_of if story.kind.workflow else self._job_of)(name, slot)
        if outcome in (Outcome.FIRING, Outcome.BUFFERED):
            self.verdict.missing.append(f"52: {name} is {outcome.name} still")
        elif not _may_be(outcome, story, slot):
            self.verdict.broken.append(f"52: {name} is {outcome.name}: {slot}")
        return None

    def _job_of(self, name: str, slot: ScheduleSlotRow) -> Action | None:
        job = self._rows.jobs.get(slot.target_id)
        if job is None:
            self.verdict.missing.append(f"51: {name} has fired, and its job is not there")
            return None
        if job.status != JobStatus.COMPLETED:
            self.verdict.missing.append(f"57: the job of {name} is {job.status.name}")
        attempts = self._attempts.get(job.job_id, [])
        if attempts and attempts[0].begun_s < slot.nominal_us / 1e6:
            self.verdict.broken.append(f"{name} began early, at {attempts[0].begun_s}")
        return Action(slot, slot.acted_us / 1e6, job.closed_s or NEVER_S)

    def _run_of(self, name: str, slot: ScheduleSlotRow) -> Action | None:
        runs = self._runs.get(slot.detail, [])
        if [run.run_id for run in runs] != [slot.target_id]:
            self.verdict.missing.append(f"51: {name} has fired as {slot.target_id}: {runs}")
            return None
        [run] = runs
        if run.started_s < slot.nominal_us / 1e6:
            self.verdict.broken.append(f"{name} began early, at {run.started_s}")
        return Action(slot, run.started_s, run.closed_s or NEVER_S)

    def _once(
        self, story: ScheduleStory, slots: Sequence[ScheduleSlotRow], actions: Sequence[Action]
    ) -> None:
        """Nothing has begun but what slots that have fired name."""
        named = {action.slot.target_id for action in actions}
        for job in self._jobs[story.schedule_id]:
            if job.job_id not in named and job.job_id in self._attempts:
                self.verdict.twice.append(f"51: {story.schedule_id}: no slot names {job.job_id}")
        if not story.kind.workflow:
            return
        prefix = f"{story.schedule_id}-"
        for workflow_id, runs in self._runs.items():
            if workflow_id.startswith(prefix) and not {run.run_id for run in runs} <= named:
                self.verdict.twice.append(f"51: no slot of {story.schedule_id} names {runs}")

    def _overlaps(
        self, story: ScheduleStory, slots: Sequence[ScheduleSlotRow], actions: Sequence[Action]
    ) -> None:
        if story.kind.overlap is Overlap.ALLOW_ALL:
            return
        in_order = sorted(actions, key=lambda action: action.begun_s)
        open_until_s = 0.0
        for action in in_order:
            of_spec = action.slot.origin == SlotOrigin.SPEC
            if of_spec and open_until_s > action.begun_s:
                self.verdict.broken.append(f"{story.schedule_id}: overlaps: {action}")
            open_until_s = max(open_until_s, action.closed_s)
        spec = [action for action in in_order if action.slot.origin == SlotOrigin.SPEC]
        for earlier, later in itertools.pairwise(spec):
            if earlier.slot.nominal_us > later.slot.nominal_us:
                self.verdict.broken.append(f"54: {story.schedule_id}: {later} before {earlier}")
        for slot in slots:
            if slot.outcome == Outcome.SKIPPED and not _had_to_skip(slot, actions, slots):
                self.verdict.broken.append(f"{story.schedule_id}: skipped for nothing: {slot}")


def _had_to_skip(
    slot: ScheduleSlotRow, actions: Sequence[Action], slots: Sequence[ScheduleSlotRow]
) -> bool:
    """An earlier action was open, or it was not known yet whether an earlier slot would act."""
    if slot.detail.startswith(DELETED):
        return True
    earlier_waits = any(
        one.nominal_us < slot.nominal_us and one.acted_us >= slot.acted_us for one in slots
    )
    if slot.detail == ONE_WAITS or earlier_waits:
        return earlier_waits
    return slot.detail == OVERLAPS and any(
        action.slot.nominal_us < slot.nominal_us and action.closed_s >= slot.nominal_us / 1e6
        for action in actions
    )


def _times_us(after_s: float, until_s: float, every_s: int) -> set[int]:
    first = math.floor(after_s / every_s) + 1
    return {
        number * every_s * 1_000_000 for number in range(first, math.floor(until_s / every_s) + 1)
    }


def _may_be(outcome: Outcome, story: ScheduleStory, slot: ScheduleSlotRow) -> bool:
    """Of a slot that has begun nothing. Why one was skipped is looked at with the others (`_overlaps`)."""
    match outcome:
        case Outcome.PAUSED:
            return _may_be_paused(story, slot)
        case Outcome.SKIPPED:
            return story.kind.overlap is not Overlap.ALLOW_ALL
        case Outcome.MISSED:
            return slot.detail.startswith(DELETED)
        case _:
            return False


def _must_be_paused(story: ScheduleStory, slot: ScheduleSlotRow) -> bool:
    nominal_s = slot.nominal_us / 1e6
    of_spec = slot.origin == SlotOrigin.SPEC
    return of_spec and any(
        pause.answered_s <= nominal_s <= pause.end_asked_s for pause in story.pauses
    )


def _may_be_paused(story: ScheduleStory, slot: ScheduleSlotRow) -> bool:
    """Also one that was due before, and had not acted yet."""
    return any(
        slot.acted_us / 1e6 >= pause.asked_s and slot.nominal_us / 1e6 <= pause.end_answered_s
        for pause in story.pauses
    )
