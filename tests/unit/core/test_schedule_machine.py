"""One schedule under everything that may happen to it: random calls, times, ends, answers, crashes and new owners.

After each step: every nominal time from creation to deletion has exactly one record, or waits (invariant 52); at most
one action stands for it (51); the next one follows from the one before (53); nothing of an old definition is left (56).
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.core.schedule_bench import (
    BACKFILL,
    EVERY_MINUTE,
    JOB,
    MANUAL,
    MINUTE,
    SECOND,
    SPEC,
    TIMES,
    WORKFLOW,
    Bench,
)

from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules.decide import fire_slot
from perdure_engine.core.schedules.errands import ErrandKind
from perdure_engine.core.schedules.model import (
    CalendarRange,
    CalendarSpec,
    CatchUpPolicy,
    IntervalSpec,
    OverlapPolicy,
    ScheduleSpec,
    SlotOutcome,
)
from perdure_engine.core.status import Status

SPECS = (
    EVERY_MINUTE,
    ScheduleSpec(cron=("*/5 * * * *",), intervals=(IntervalSpec(180_000, 30_000),)),
    ScheduleSpec(intervals=(IntervalSpec(120_000),), jitter_ms=100_000),
    ScheduleSpec(
        calendars=(CalendarSpec(hour=(CalendarRange(0, 23),), minute=(CalendarRange(0, 59, 2),)),)
    ),
)
ACTED = (SlotOutcome.FIRING, SlotOutcome.FIRED, SlotOutcome.BACKFILLED)
CALLS = ("fire", "trigger", "backfill", "pause", "unpause", "start")
OVERLAPS = st.sampled_from(OverlapPolicy)
ENDS = st.sampled_from([JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED])
STATUSES = st.sampled_from([Status.RUNNING, Status.COMPLETED, Status.FAILED, None])
POLICIES = st.fixed_dictionaries(
    {
        "overlap": OVERLAPS,
        "catch_up": st.sampled_from(CatchUpPolicy),
        "catch_up_window_ms": st.sampled_from([60_000, 600_000, 86_400_000]),
        "catch_up_most": st.sampled_from([2, 1_000]),
        "pause_on_failure": st.booleans(),
        "remaining_actions": st.sampled_from([None, None, None, 5]),
    }
)


class Span(msgspec.Struct):
    """The slots of a spec from its first day to its last. `to_us` 0: it is the schedule's."""

    spec: ScheduleSpec
    after_us: int
    to_us: int = 0


class ScheduleMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.spans: list[Span] = []

    # ---- calls

    @precondition(lambda self: not self.bench.draft().exists)
    @rule(action=st.sampled_from([JOB, WORKFLOW]), spec=st.sampled_from(SPECS), options=POLICIES)
    def create(self, action: Any, spec: ScheduleSpec, options: dict[str, Any]) -> None:
        self.bench.create(action, spec, **options)
        self.spans.append(Span(spec, self.bench.now_us))

    @precondition(lambda self: self.bench.draft().exists)
    @rule(action=st.sampled_from([JOB, WORKFLOW]), spec=st.sampled_from(SPECS), options=POLICIES)
    def update(self, action: Any, spec: ScheduleSpec, options: dict[str, Any]) -> None:
        bench = self.bench
        planned = bench.state.next_us != 0
        self._close_if_over()
        bench.update(action, spec, **options)
        if not planned or spec != self.spans[-1].spec:
            self._close(bench.now_us)
            self.spans.append(Span(spec, bench.now_us))

    @precondition(lambda self: self.bench.draft().exists)
    @rule()
    def delete(self) -> None:
        self._close_if_over()
        self.bench.delete()
        self._close(self.bench.now_us)

    @precondition(lambda self: self.bench.draft().exists)
    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        if paused:
            self.bench.pause()
        else:
            self.bench.unpause()

    @precondition(lambda self: self.bench.draft().exists)
    @rule(overlap=st.one_of(st.none(), OVERLAPS))
    def trigger(self, overlap: OverlapPolicy | None) -> None:
        self.bench.trigger(overlap)

    @precondition(lambda self: self.bench.draft().exists)
    @rule(minutes=st.tuples(st.integers(0, 40), st.integers(0, 20)), overlap=OVERLAPS)
    def backfill(self, minutes: tuple[int, int], overlap: OverlapPolicy) -> None:
        from_us = self.bench.now_us - minutes[0] * MINUTE
        self.bench.backfill(from_us, from_us + minutes[1] * MINUTE, overlap=overlap)

    @precondition(lambda self: self.bench.draft().exists)
    @rule(calls=st.lists(st.sampled_from(CALLS), min_size=2, max_size=5), overlap=OVERLAPS)
    def several_in_one_step(self, calls: list[str], overlap: OverlapPolicy) -> None:
        bench = self.bench
        with bench.one_step():
            for call in calls:
                match call:
                    case "fire" if _is_due(bench):
                        bench.fire(2)
                    case "trigger":
                        bench.trigger(overlap)
                    case "backfill":
                        bench.backfill(bench.now_us - 9 * MINUTE, bench.now_us, overlap=overlap)
                    case "pause":
                        bench.pause()
                    case "unpause":
                        bench.unpause()
                    case "start" if bench.errands(ErrandKind.START):
                        bench.hear(bench.errands(ErrandKind.START)[0])
                    case _:
                        pass

    # ---- what happens

    @rule(seconds=st.integers(0, 400))
    def pass_time(self, seconds: int) -> None:
        self.bench.pass_time(seconds * SECOND)

    @rule(seconds=st.integers(60, 1_200))
    def stand_still(self, seconds: int) -> None:
        """Nothing fires: the engine is down, or slow."""
        self.bench.pass_time(seconds * SECOND, fire=False)

    @precondition(lambda self: _is_due(self.bench))
    @rule(most=st.integers(1, 5), crash=st.booleans())
    def fire(self, most: int, crash: bool) -> None:
        self.bench.fire(most, crash=crash)

    @precondition(lambda self: bool(self.bench.timers))
    @rule()
    def fire_an_old_timer(self) -> None:
        wake = self.bench.state.wake
        assert wake is not None
        old = (wake[0], wake[1] - 1)
        assert self.bench.step(lambda draft: fire_slot.decide(draft, *old)) == 0

    @precondition(lambda self: any(run.open for run in self.bench.memory.jobs.values()))
    @rule(which=st.integers(0, 1_000), status=ENDS, runs=st.booleans())
    def end_job(self, which: int, status: JobStatus, runs: bool) -> None:
        """Of an open slot, or, by somebody's hand, of the next one."""
        runs_open = [run for run in self.bench.memory.jobs.values() if run.open]
        run = runs_open[which % len(runs_open)]
        if run.held:
            status = JobStatus.CANCELLED
        self.bench.end_job(run.job_id, status)

    @precondition(lambda self: bool(self.bench.errands()))
    @rule(which=st.integers(0, 1_000), refused=st.booleans(), status=STATUSES)
    def answer(self, which: int, refused: bool, status: Status | None) -> None:
        errands = self.bench.errands()
        errand = errands[which % len(errands)]
        if errand.kind is ErrandKind.ASK:
            self.bench.hear(errand, status=status)
        else:
            self.bench.hear(errand, refused="no" if refused else "")

    @rule()
    def another_owner_takes_over(self) -> None:
        self.bench.crash()

    @precondition(lambda self: self.bench.state.next_us != 0)
    @rule(row=st.booleans())
    def lose_the_timer(self, row: bool) -> None:
        if row:
            self.bench.lose_timer()
        self.bench.mend()

    # ---- what holds

    @invariant()
    def each_slot_has_one_record(self) -> None:
        bench = self.bench
        self._close_if_over()
        waiting = {slot.nominal_us for slot in bench.state.waiting if slot.origin is SPEC}
        for span in self.spans:
            to_us = span.to_us or bench.state.done_us
            at_us = TIMES.next_us(span.spec, span.after_us)
            while at_us <= to_us:
                records = [o for o in (SPEC, BACKFILL) if (at_us, o) in bench.slots]
                assert len(records) + (at_us in waiting and not records) == 1, (at_us, records)
                at_us = TIMES.next_us(span.spec, at_us)

    @invariant()
    def each_slot_acts_once_at_most(self) -> None:
        for key, begun in self.bench.actions.items():
            assert len(begun) == 1, (key, begun)
            assert self.bench.slots[key].outcome in ACTED, (key, self.bench.slots[key])
        for (nominal_us, origin), row in self.bench.slots.items():
            if origin is not MANUAL and row.outcome in ACTED:
                others = {SPEC, BACKFILL} - {origin}
                assert not any((nominal_us, other) in self.bench.actions for other in others), (
                    nominal_us
                )

    @invariant()
    def the_next_one_follows_from_the_one_before(self) -> None:
        record, state = self.bench.record, self.bench.state
        if state.next_us:
            assert state.next_us == TIMES.next_us(record.schedule.spec, state.done_us)
            assert state.wake is not None
            assert self.bench.timers.keys() == {state.wake[:2]}
        else:
            assert self.bench.timers == {}

    @invariant()
    def a_run_that_is_held_is_somebodys(self) -> None:
        state = self.bench.state
        held = {run.job_id for run in self.bench.jobs.values() if run.held}
        named = {state.job_id, *(slot.job_id for slot in state.waiting)} - {b""}
        assert held <= named, "a run that nothing will ever make due"
        for run in self.bench.jobs.values():
            if run.status is JobStatus.PENDING and not run.held:
                assert run.task_id, "ready"

    @invariant()
    def what_is_over_leaves_nothing_behind(self) -> None:
        record, state = self.bench.record, self.bench.state
        assert record.gone == (state.deleted and not state.actions) or not self.spans
        if not any(action.kept for action in state.actions):
            assert state.kept == ()
        if record.schedule.paused:
            assert all(slot.origin is MANUAL or slot.backfill for slot in state.waiting)
        if state.waiting:
            assert state.actions, "somebody waits for nothing"

    # ----

    def _close(self, to_us: int) -> None:
        if self.spans and not self.spans[-1].to_us:
            self.spans[-1].to_us = to_us

    def _close_if_over(self) -> None:
        """No actions remain: the slots end with the last that was seen to."""
        if not self.bench.state.next_us:
            self._close(self.bench.state.done_us)


def _is_due(bench: Bench) -> bool:
    wake = bench.state.wake
    return wake is not None and wake[0] <= bench.now_us


TestSchedule = ScheduleMachine.TestCase
TestSchedule.settings = settings(max_examples=60, stateful_step_count=60)
