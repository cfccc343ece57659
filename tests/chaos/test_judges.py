"""What the judges of jobs and schedules find. Else the torture tests would let pass what they are there to catch."""

from __future__ import annotations

from typing import Any

import pytest
from tests.chaos.attempts import Attempt, Faults, attempts_of, lost_steps
from tests.chaos.effects import CLIMBED_TO, CLIMBS_FROM, Effect
from tests.chaos.job_rows import SavedJob, SavedRows
from tests.chaos.job_stories import STUMBLE, TOIL, Cancelled, JobsAcknowledged, Rescheduled, Story
from tests.chaos.job_verdict import JobJudge, JobVerdict
from tests.chaos.killing import Kill
from tests.chaos.schedule_load import KINDS, Kind, ScheduleStory
from tests.chaos.schedule_verdict import ScheduleJudge, ScheduleVerdict

from perdure.job import JobStatus
from perdure_engine.core.jobs.memory import JobBatch
from perdure_engine.core.jobs.model import Concurrency, JobRun, JobSpec, Unique
from perdure_engine.core.jobs.model import JobStatus as Status
from perdure_engine.core.schedules.model import SlotOrigin, SlotOutcome
from perdure_engine.ports.rows import ScheduleSlotRow

S = 1_000_000
WORKER, OTHER = 7, 8  # processes


def ran(
    job_id: str, begun_s: float, over_s: float | None, attempt: int = 1, pid: int = WORKER
) -> Attempt:
    return Attempt(job_id, 1, attempt, pid, begun_s, over_s)


class Case:
    """Jobs made at 10 s and completed at 20 s, each with an attempt from 11 s to 12 s, unless it is said otherwise."""

    def __init__(self) -> None:
        self.acked = JobsAcknowledged()
        self.rows = SavedRows()
        self.attempts: dict[str, list[Attempt]] = {}
        self.kills: list[Kill] = []

    def job(self, job_id: str, story: Story, *attempts: Attempt, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "status": Status.COMPLETED,
            "created_us": 10 * S,
            "scheduled_us": 10 * S,
            "closed_us": 20 * S,
        } | changes
        spec = fields.pop("spec", JobSpec())
        run = JobRun(job_id.encode(), b"n", story.task, "q", 1, spec, **fields)
        self.acked.jobs[job_id] = story
        self.rows.jobs[job_id] = SavedJob(job_id, run, story.number, story.number)
        self.attempts[job_id] = list(attempts) or [ran(job_id, 11.0, 12.0)]

    def judged(self) -> JobVerdict:
        return JobJudge(self.acked, self.rows, self.attempts, Faults(self.kills)).judge()


@pytest.fixture
def case() -> Case:
    return Case()


TOILS = Story(1, TOIL)


def test_all_is_well(case: Case) -> None:
    case.job("a", TOILS)
    case.job("b", Story(1, STUMBLE, fails=1), ran("b", 11, 12), ran("b", 13, 14, 2), attempt=2)
    verdict = case.judged()

    assert verdict.problems == []
    assert (verdict.jobs, verdict.attempts) == (2, 3)


def test_a_job_that_is_lost(case: Case) -> None:
    case.acked.jobs["gone"] = TOILS
    case.job("open", TOILS, closed_us=0, status=Status.PENDING)
    case.job("other", TOILS, status=Status.FAILED)
    case.job("ended", TOILS)
    case.acked.ended["ended"] = JobStatus.SKIPPED
    case.acked.cancels.append(Cancelled("ended", JobStatus.CANCELLED, 15.0))
    case.acked.reschedules.append(Rescheduled("ended", 30.0, 15.0))

    assert len(case.judged().lost) == 6


def test_a_job_that_ran_again_without_a_reason(case: Case) -> None:
    case.job("a", TOILS, ran("a", 11, None), ran("a", 13, 14, pid=OTHER))
    assert len(case.judged().repeated_without_cause) == 1

    case.kills.append(Kill(("worker",), 12.0, 12.5, pids={"worker": WORKER}))
    assert case.judged().problems == []


def test_what_a_dead_worker_held_comes_too_late(case: Case) -> None:
    case.job("a", TOILS, ran("a", 11, None), ran("a", 30, 31, pid=OTHER), closed_us=40 * S)
    case.kills.append(Kill(("worker",), 12.0, 12.5, pids={"worker": WORKER}))

    assert len(case.judged().late) == 1


def test_a_retry_that_comes_too_soon_or_for_nothing(case: Case) -> None:
    stumbles = Story(1, STUMBLE, fails=1, backoff_s=0.3)
    case.job("soon", stumbles, ran("soon", 11, 12), ran("soon", 12.1, 13, 2), attempt=2)
    case.job("needless", TOILS, ran("needless", 11, 12), ran("needless", 13, 14, 2), attempt=2)
    case.job("early", TOILS, ran("early", 9, 12))
    case.job("never", TOILS)
    case.attempts["never"] = []
    verdict = case.judged()

    assert len(verdict.early) == 2
    assert len(verdict.broken) == 2


def test_keys_that_admit_too_many(case: Case) -> None:
    limited = JobSpec(concurrency=Concurrency("c", 1))
    case.job("a", TOILS, spec=limited)
    case.job("b", TOILS, ran("b", 12, 13), spec=limited)
    assert case.judged().problems == []

    case.job("b", TOILS, ran("b", 11.5, 13), spec=limited)
    case.job("c", TOILS, spec=JobSpec(unique=Unique("u")))
    case.job("d", TOILS, spec=JobSpec(unique=Unique("u")), created_us=11 * S)
    verdict = case.judged()
    assert len(verdict.broken) == 1
    assert len(verdict.twice) == 1


def test_two_jobs_of_one_idempotency_key(case: Case) -> None:
    story = Story(1, TOIL, idempotency="i")
    for job_id in "ab":
        case.job(job_id, story, spec=JobSpec(idempotency_key="i"))
        case.acked.found.append((job_id, story))

    assert len(case.judged().twice) == 1


def test_a_batch_that_counts_wrong_or_is_not_there(case: Case) -> None:
    case.job("a", TOILS, batch_id="b")
    case.acked.batches = {"b": {"a"}, "gone": set()}
    case.rows.batches["b"] = JobBatch(b"n", "b", total=2, sealed=True, over=True)
    verdict = case.judged()

    assert len(verdict.broken) == 1
    assert len(verdict.lost) == 1


def test_progress_that_is_lost() -> None:
    def line(key: str, number: int) -> Effect:
        return Effect(key, number, 1, WORKER, 1.0)

    saved = [line(f"a{CLIMBS_FROM}", 0), line(f"a{CLIMBED_TO}", 3)]
    assert lost_steps([*saved, line(f"a{CLIMBS_FROM}", 3)]) == []
    assert len(lost_steps([*saved, line(f"a{CLIMBS_FROM}", 2)])) == 1
    assert attempts_of(saved) == {}


# ---- schedules

EVERY_SECOND = next(kind for kind in KINDS if kind.name == "job-skip")


def slot(at_s: int, outcome: SlotOutcome = SlotOutcome.FIRED, detail: str = "") -> ScheduleSlotRow:
    return ScheduleSlotRow(
        *(1, b"n", "s", at_s * S, SlotOrigin.SPEC, outcome, at_s * S, f"job-{at_s}", detail, 1)
    )


def judged(
    *slots: ScheduleSlotRow, kind: Kind = EVERY_SECOND, lasts_s: float = 0.5
) -> ScheduleVerdict:
    """Of a schedule that was there from 10.5 s to 13.5 s, its jobs beside it."""
    case = Case()
    for one in slots:
        at_us = one.nominal_us
        closed_us = at_us + round(lasts_s * S)
        case.job(one.target_id, TOILS, scheduled_us=at_us, closed_us=closed_us, schedule_id="s")
        case.attempts[one.target_id] = [ran(one.target_id, at_us / S, closed_us / S)]
    case.rows.slots["s"] = list(slots)
    story = ScheduleStory("s", 1, kind, 10.4, 10.5, delete_asked_s=13.5, deleted_s=13.6)
    return ScheduleJudge([story], case.rows, [], case.attempts).judge()


def test_each_time_of_a_schedule_has_its_slot() -> None:
    assert judged(slot(11), slot(12), slot(13)).problems == []
    assert len(judged(slot(11), slot(13)).missing) == 1
    assert len(judged(slot(11), slot(12), slot(13), slot(14)).broken) == 1
    assert len(judged(slot(11), slot(12, SlotOutcome.FIRING), slot(13)).missing) == 1


def test_what_overlaps_or_is_skipped_for_nothing() -> None:
    assert len(judged(slot(11), slot(12), slot(13), lasts_s=1.5).broken) == 2
    skipped = judged(slot(11), slot(12, SlotOutcome.SKIPPED), slot(13))
    assert len(skipped.broken) == 1
    assert len(skipped.twice) == 1, "and its job ran all the same"
    assert len(judged(slot(11), slot(12, SlotOutcome.PAUSED), slot(13)).broken) == 1
