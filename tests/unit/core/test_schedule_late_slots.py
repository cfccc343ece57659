"""Slots whose time is over: caught up with, backfilled, or found when a schedule is mended (invariants 52, 54)."""

from __future__ import annotations

import msgspec
from tests.unit.core.schedule_bench import (
    BACKFILL,
    BACKFILLED,
    BUFFERED,
    EVERY_HOUR,
    FIRED,
    FIRING,
    HOUR,
    MINUTE,
    MISSED,
    PAUSED,
    SECOND,
    START_US,
    TIMES,
    WORKFLOW,
    Bench,
    refused,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules import intents
from perdure_engine.core.schedules.decide import fire_slot
from perdure_engine.core.schedules.model import (
    BACKFILL_MOST,
    CatchUpPolicy,
    OverlapPolicy,
    ScheduleSpec,
)
from perdure_engine.core.status import Status

# ---- catching up


def down(bench: Bench, minutes: int) -> None:
    """Nothing runs for so long; then the schedule's timer fires until it is up to date."""
    bench.now_us += minutes * MINUTE
    while bench.state.wake is not None and bench.state.wake[0] <= bench.now_us:
        bench.fire()


def test_catching_up_with_all(bench: Bench) -> None:
    """Invariant 54, bug report 35."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    down(bench, 90)

    assert bench.outcomes() == [FIRED] * 90


def test_catching_up_with_the_last(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL, catch_up=CatchUpPolicy.LAST)
    bench.now_us += 30 * SECOND
    down(bench, 5)

    assert bench.outcomes() == [MISSED] * 4 + [FIRED]
    assert bench.job_of(START_US + MINUTE).status is JobStatus.SKIPPED


def test_catching_up_with_none(bench: Bench) -> None:
    """Bug report 52: each is recorded, and what is late by less than a few seconds runs."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL, catch_up=CatchUpPolicy.NONE)
    bench.now_us += 9 * SECOND
    down(bench, 5)

    assert bench.outcomes() == [MISSED] * 4 + [FIRED]


def test_what_is_older_than_the_window_is_missed(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL, catch_up_window_ms=150_000)
    down(bench, 5)

    assert bench.outcomes() == [MISSED] * 2 + [FIRED] * 3
    assert bench.details()[0] == "later than the catch-up window"


def test_no_more_than_so_many_are_caught_up_with(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL, catch_up_most=3)
    bench.now_us += 20 * SECOND
    down(bench, 5)
    assert bench.outcomes() == [FIRED] * 3 + [MISSED] * 2

    bench.pass_time(MINUTE)
    down(bench, 5)
    assert bench.outcomes()[5:] == [FIRED] * 4 + [MISSED] * 2, "counted anew after one on time"


def test_a_year_of_missed_minutes_is_worked_off_in_portions(bench: Bench) -> None:
    """Each step takes a share; the rest is a timer that is due."""
    bench.create(catch_up=CatchUpPolicy.NONE)
    bench.now_us += 365 * 24 * HOUR
    steps = 0
    while steps < 5:
        assert bench.fire() == fire_slot.SLOTS_AT_ONCE
        steps += 1
        assert bench.state.wake is not None
        assert bench.state.wake[0] <= bench.now_us
        assert bench.timers.keys() == {bench.state.wake[:2]}

    assert bench.outcomes() == [MISSED] * steps * fire_slot.SLOTS_AT_ONCE
    assert len(bench.jobs) == steps + 1, "a run is made for the next one of each step only"


# ---- backfill


def test_a_backfill_acts_for_slots_that_have_not_acted(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.pass_time(2 * MINUTE)
    bench.pause()
    bench.pass_time(2 * MINUTE)
    bench.unpause()
    span = (START_US - MINUTE, START_US + 4 * MINUTE)
    wanted = [START_US + n * MINUTE for n in (-1, 0, 3, 4)]

    dry = bench.backfill(*span, dry_run=True)
    assert (dry.nominal_us, dry.fired_before_us) == (
        wanted,
        [START_US + MINUTE, START_US + 2 * MINUTE],
    )
    assert BACKFILLED not in bench.outcomes()

    request_id = bench.new_id()
    done = bench.backfill(*span, request_id=request_id)
    assert done == dry
    assert bench.outcomes() == [FIRED, FIRED, BACKFILLED, BACKFILLED]
    assert bench.outcomes(BACKFILL) == [BACKFILLED, BACKFILLED]
    assert bench.backfill(*span, request_id=request_id) == done, "a repeat"
    again = bench.backfill(*span)
    assert (again.nominal_us, len(again.fired_before_us)) == ([], 6)
    assert sum(len(begun) for begun in bench.actions.values()) == 6


def test_a_backfill_leaves_what_is_still_to_come_to_the_schedule(bench: Bench) -> None:
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.now_us += 2 * MINUTE  # due, and not worked off yet
    done = bench.backfill(START_US, START_US + HOUR)
    assert done.nominal_us == [START_US]

    bench.pass_time(MINUTE)
    assert bench.outcomes() == [FIRED] * 3


def test_a_backfill_of_too_many_slots_is_refused(bench: Bench) -> None:
    """B31."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    span = {"overlap": None, "dry_run": False, "to_us": START_US}
    ten_years = 10 * 365 * 24 * HOUR
    refusal = refused(bench, intents.BackfillSchedule, from_us=START_US - ten_years, **span)
    assert (refusal.code, refusal.field) == (Code.INVALID_ARGUMENT, "to_us")
    backwards = refused(bench, intents.BackfillSchedule, from_us=START_US + 1, **span)
    assert (backwards.code, backwards.field) == (Code.INVALID_ARGUMENT, "from_us")
    assert bench.outcomes(BACKFILL) == []

    most = bench.backfill(START_US - (BACKFILL_MOST - 1) * MINUTE, START_US)
    assert len(most.nominal_us) == BACKFILL_MOST


def test_a_backfill_one_after_the_other(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.backfill(START_US - 2 * MINUTE, START_US, overlap=OverlapPolicy.BUFFER_ALL)
    assert bench.outcomes(BACKFILL) == [FIRING, BUFFERED, BUFFERED]

    bench.started()
    assert bench.outcomes(BACKFILL) == [BACKFILLED, BUFFERED, BUFFERED]
    bench.asked(Status.COMPLETED)
    assert bench.outcomes(BACKFILL) == [BACKFILLED, FIRING, BUFFERED]


def test_what_a_step_has_done_already_is_not_done_again(bench: Bench) -> None:
    """Bug report 34: two calls, and the slot itself, decided together."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.now_us += MINUTE
    span = (START_US - MINUTE, START_US + MINUTE)
    with bench.one_step():
        bench.fire()
        first, second = bench.backfill(*span), bench.backfill(*span)

    assert (len(first.nominal_us), second.nominal_us) == (2, [])
    assert bench.outcomes() == [FIRED]
    assert bench.outcomes(BACKFILL) == [BACKFILLED, BACKFILLED]
    assert len(bench.jobs) == 4


def test_a_slot_that_was_paused_in_the_step_that_backfills_it(bench: Bench) -> None:
    """It waits for an answer, and its row is by then one that was written before."""
    bench.create(WORKFLOW)
    bench.trigger()
    bench.started()
    bench.now_us += MINUTE
    with bench.one_step():
        bench.pause()
        bench.fire()
        bench.backfill(START_US + MINUTE, START_US + MINUTE)
    assert bench.outcomes() == [PAUSED]

    bench.asked(Status.COMPLETED)
    bench.started()
    assert bench.outcomes() == [BACKFILLED]


def test_a_failed_slot_can_be_backfilled(bench: Bench) -> None:
    bench.create(WORKFLOW)
    bench.pass_time(MINUTE)
    bench.started(refused="no")
    bench.backfill(START_US + MINUTE, START_US + MINUTE)
    bench.started()

    assert bench.outcomes() == [BACKFILLED]


# ---- mending


def test_a_schedule_without_a_timer_gets_one(bench: Bench) -> None:
    """Bug report 1: its row was lost; the slots in the hole act or are missed."""
    bench.create(overlap=OverlapPolicy.ALLOW_ALL)
    bench.lose_timer()
    bench.now_us += 3 * MINUTE
    bench.mend()
    bench.fire()

    assert bench.outcomes() == [FIRED] * 3
    assert len(bench.timers) == 1


def test_a_timer_that_only_memory_has_lost_is_replaced(bench: Bench) -> None:
    bench.create()
    bench.mend()

    assert len(bench.timers) == 1
    bench.pass_time(MINUTE)
    assert bench.outcomes() == [FIRED]


def test_newer_rules_of_a_zone_move_the_slots_to_come(bench: Bench) -> None:
    """Not those that were: and an older node does not undo it."""
    bench.create(spec=EVERY_HOUR, overlap=OverlapPolicy.ALLOW_ALL)
    bench.pass_time(HOUR)
    older = msgspec.structs.replace(bench.record.schedule.spec, tzdata_version="1999a")
    bench.record.schedule = msgspec.structs.replace(bench.record.schedule, spec=older)
    bench.record.state.next_us += 15 * MINUTE  # as those rules had it
    token = bench.record.conflict_token
    bench.mend()

    assert bench.state.next_us == START_US + 2 * HOUR
    assert bench.record.schedule.spec.tzdata_version > "2025"
    assert bench.record.conflict_token == token
    bench.pass_time(HOUR)
    assert bench.outcomes() == [FIRED, FIRED]

    newer = msgspec.structs.replace(bench.record.schedule.spec, tzdata_version="2999z")
    bench.record.schedule = msgspec.structs.replace(bench.record.schedule, spec=newer)
    bench.record.state.next_us += 15 * MINUTE
    bench.mend()
    assert bench.state.next_us == START_US + 3 * HOUR + 15 * MINUTE
    assert bench.record.schedule.spec.tzdata_version == "2999z"


CHANGE_US = START_US + 90 * MINUTE


class Rules:
    """Those of a zone as a node has them, by which slots past a change of the clocks come so much later."""

    def __init__(self, tzdata_version: str, later_us: int) -> None:
        self.tzdata_version = tzdata_version
        self._later_us = later_us

    def next_us(self, spec: ScheduleSpec, after_us: int) -> int:
        slot_us = moved_us = after_us - self._later_us
        while moved_us <= after_us:
            slot_us = TIMES.next_us(spec, slot_us)
            moved_us = slot_us + (self._later_us if slot_us > CHANGE_US else 0)
        return moved_us

    def jitter_us(self, spec: ScheduleSpec, seed: bytes, nominal_us: int) -> int:
        return 0


def test_nodes_with_other_rules_of_a_zone_own_schedules_and_the_newest_rules_win(
    bench: Bench,
) -> None:
    """Invariant 55: slots to come are planned again, and no node refuses (§7: "re-derive future slots on upgrade").
    To refuse would leave shards without an owner while a cluster is upgraded node by node."""
    older, newer = Rules("2025b", 0), Rules("2026f", 15 * MINUTE)
    bench.times = older
    bench.create(spec=EVERY_HOUR, overlap=OverlapPolicy.ALLOW_ALL)
    bench.times = newer
    bench.mend()
    assert bench.record.schedule.spec.tzdata_version == "2026f"

    # back on the older node, which plans the next slot by the rules that it knows
    bench.times = older
    bench.mend()
    bench.pass_time(HOUR)
    assert bench.state.next_us == START_US + 2 * HOUR
    assert bench.record.schedule.spec.tzdata_version == "2025b"

    # so that whoever knows better looks at it again
    bench.times = newer
    token = bench.record.conflict_token
    bench.mend()
    assert bench.state.next_us == START_US + 2 * HOUR + 15 * MINUTE
    assert bench.record.schedule.spec.tzdata_version == "2026f"
    assert bench.record.conflict_token == token

    # and what is planned by newer rules stays on the older node
    bench.times = older
    bench.mend()
    assert bench.state.next_us == START_US + 2 * HOUR + 15 * MINUTE
    bench.pass_time(HOUR + 15 * MINUTE)
    assert bench.outcomes() == [FIRED, FIRED]
