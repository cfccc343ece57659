"""What was acknowledged of jobs against what the database and the ledger have."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.attempts import NEVER_S, Attempt, Faults, most_at_once
from tests.chaos.job_rows import SavedJob, SavedRows
from tests.chaos.job_stories import CALLED_BACK, HANG, Cancelled, JobsAcknowledged, Story
from tests.chaos.killing import WORKER, Kill

from perdure.job import JobStatus

REDELIVERED_S_MAX = 10.0
CLOCK_S = 0.001  # two readings of one clock
STATUSES = ("completed", "failed", "cancelled", "skipped")


@dataclass
class JobVerdict:
    jobs: int = 0
    attempts: int = 0
    lost: list[str] = field(default_factory=list)  # acknowledged, and not there or not so
    twice: list[str] = field(default_factory=list)  # one request, several jobs
    early: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # what must hold
    repeated: int = 0
    repeated_without_cause: list[str] = field(default_factory=list)
    redelivered_s: list[float] = field(default_factory=list)
    late: list[str] = field(default_factory=list)  # redelivered after too long, or never

    @property
    def problems(self) -> list[str]:
        return [
            *(self.lost + self.twice + self.early + self.broken),
            *(self.repeated_without_cause + self.late),
        ]

    def figures(self) -> dict[str, float]:
        return {
            "jobs": self.jobs,
            "attempts": self.attempts,
            "lost": len(self.lost),
            "twice": len(self.twice),
            "early": len(self.early),
            "broken": len(self.broken),
            "repeated": self.repeated,
            "repeated_without_cause": len(self.repeated_without_cause),
            "redelivered": len(self.redelivered_s),
            "slowest_redelivery_s": round(max(self.redelivered_s, default=0.0), 2),
            "late": len(self.late),
        }


class JobJudge:
    """`attempts`: by job. Findings are collected, so that one does not hide the others."""

    def __init__(
        self,
        acked: JobsAcknowledged,
        rows: SavedRows,
        attempts: dict[str, list[Attempt]],
        faults: Faults,
    ) -> None:
        self.verdict = JobVerdict(len(rows.jobs), sum(map(len, attempts.values())))
        self._acked = acked
        self._rows = rows
        self._attempts = attempts
        self._faults = faults
        self._stories = dict(acked.jobs)

    def judge(self) -> JobVerdict:
        self._found()
        for job_id, story in self._stories.items():
            job = self._rows.jobs.get(job_id)
            if job is None:
                self.verdict.lost.append(f"{job_id}: {story} was acknowledged, and is not there")
            else:
                self._of_story(job, story)
        for job in self._rows.jobs.values():
            self._of_any(job)
        self._answers()
        self._unique()
        self._keys()
        for batch_id in self._acked.batches:
            self._batch(batch_id)
        self._redelivered()
        return self.verdict

    # ---- one job

    def _of_story(self, job: SavedJob, story: Story) -> None:
        status, run = job.status, job.run
        lost = self.verdict.lost
        if not job.closed_s:
            lost.append(
                f"{job.job_id}: {story} is open: {status.name}, {run.task_id=} {run.reason}"
            )
            return
        if status not in story.ends:
            why = [one.failure.message for one in run.failures]
            lost.append(f"{job.job_id}: {story} ended as {status.name}: {run.reason} {why}")
        if job.argument != story.number:
            lost.append(f"{job.job_id}: {story}, but the row is of number {job.argument}")
        if status == JobStatus.COMPLETED and job.result != story.number:
            lost.append(f"{job.job_id}: {story} has the result {job.result!r}")
        attempts = self._attempts.get(job.job_id, [])
        if story.once and len(attempts) > 1:
            self.verdict.broken.append(f"{job.job_id}: {story} may run once, and ran: {attempts}")
        for earlier, later in itertools.pairwise(attempts):
            if later.attempt == earlier.attempt + 1:
                self._retried(story, earlier, later)

    def _retried(self, story: Story, earlier: Attempt, later: Attempt) -> None:
        """Invariant 31."""
        if earlier.attempt > max(story.fails, 1 if story.task == HANG else 0):
            self.verdict.broken.append(f"31: {story} did not fail, and has {later}")
        if story.task == HANG:
            return  # what hung may hear late that its time is over
        since_s = earlier.begun_s if earlier.over_s is None else earlier.over_s
        if later.begun_s < since_s + story.backoff_s - CLOCK_S:
            self.verdict.early.append(f"31: {story}: {later} too soon after {earlier}")

    def _of_any(self, job: SavedJob) -> None:
        attempts = self._attempts.get(job.job_id, [])
        run = job.run
        if job.status is JobStatus.COMPLETED and not attempts:
            self.verdict.broken.append(f"57: {job.job_id} is completed and never ran")
        if job.closed_s and (run.task_id or run.timer is not None or run.expiry is not None):
            self.verdict.broken.append(f"13: {job.job_id} has ended, and waits: {run.task_id=}")
        too_soon = attempts and attempts[0].begun_s < job.scheduled_s - CLOCK_S
        if too_soon and not self._handed_out_before(job, attempts[0]):
            self.verdict.early.append(f"{job.job_id}: due {job.scheduled_s:.3f}, {attempts[0]}")
        if attempts and max(one.attempt for one in attempts) > run.attempt:
            self.verdict.broken.append(f"31: {job.job_id} is at {run.attempt}, and ran {attempts}")
        for earlier, later in itertools.pairwise(attempts):
            if later.attempt <= earlier.attempt:
                self.verdict.repeated += 1
                self._repeated(job, earlier, later)
            elif later.attempt > earlier.attempt + 1:
                self._skipped(job, earlier, later)

    def _handed_out_before(self, job: SavedJob, first: Attempt) -> bool:
        """It got another time when the start that it had had was lost with its owner."""
        return any(
            one.job_id == job.job_id and self._faults.of_engine(first.begun_s, one.at_s)
            for one in self._acked.reschedules
        )

    def _repeated(self, job: SavedJob, earlier: Attempt, later: Attempt) -> None:
        """A fault hit the attempt while its end was not saved; anything else is the engine's."""
        not_saved = not job.closed_s or job.closed_s >= later.begun_s - CLOCK_S
        same = not_saved and later.attempt == earlier.attempt
        interrupted = same and self._faults.interrupted(earlier, later)
        if not (interrupted or self._faults.delayed(later)):
            self.verdict.repeated_without_cause.append(
                f"{job.job_id}: {later} after {earlier}; closed {job.closed_s:.3f}"
            )

    def _skipped(self, job: SavedJob, earlier: Attempt, later: Attempt) -> None:
        """An attempt between that has left no line: handed out, and never begun."""
        if not self._faults.interrupted(earlier, later):
            self.verdict.broken.append(f"31: {job.job_id}: {later} after {earlier}")

    # ---- answers

    def _found(self) -> None:
        """Answers to calls with a key: of a job that was there, or of one that was made."""
        ids: dict[str, set[str]] = defaultdict(set)
        for job_id, story in self._acked.found:
            job = self._rows.jobs.get(job_id)
            if job is None:
                self.verdict.lost.append(f"{job_id}: answered for {story}, and is not there")
                continue
            unique = job.run.spec.unique
            if job.argument == story.number:
                self._stories[job_id] = story
            elif unique is None or unique.key != story.unique:
                self.verdict.broken.append(f"{job_id}: answered for {story}: {job.argument}")
            if story.idempotency:
                ids[story.idempotency].add(job_id)
        in_rows = Counter(job.run.spec.idempotency_key for job in self._rows.jobs.values())
        for key, found in ids.items():
            if len(found) > 1 or in_rows[key] != 1:
                self.verdict.twice.append(f"{key}: {found}, {in_rows[key]} rows")

    def _answers(self) -> None:
        numbers = {
            job.argument for job in self._rows.jobs.values() if isinstance(job.argument, int)
        }
        for story in self._acked.not_made:
            if story.number in numbers:
                self.verdict.broken.append(f"{story} was refused, and is there")
        for job_id, status in self._acked.ended.items():
            job = self._rows.jobs.get(job_id)
            if job is None or job.status != status:
                self.verdict.lost.append(f"{job_id}: was said to have ended as {status.name}")
        for told in self._acked.cancels:
            if told.status is not JobStatus.CANCELLED:
                continue
            job = self._rows.jobs.get(told.job_id)
            if job is None or job.status != JobStatus.CANCELLED:
                self.verdict.lost.append(f"{told.job_id}: its cancel was acknowledged")
                continue
            self._cancelled(told, job)
        for other in self._acked.reschedules:
            job = self._rows.jobs.get(other.job_id)
            at_s = 0.0 if job is None else job.scheduled_s
            if other.due_s > other.at_s and abs(at_s - other.due_s) > CLOCK_S:
                self.verdict.lost.append(f"{other}: acknowledged, and due at {at_s:.3f}")

    def _cancelled(self, told: Cancelled, job: SavedJob) -> None:
        """One that was cancelled before its start does not start. Its start may have been lost with the owner that
        handed it out: then it had begun before it was cancelled."""
        for one in self._attempts.get(told.job_id, []):
            if self._faults.delayed(one):
                continue
            lost_start = self._faults.of_engine(one.begun_s, told.at_s) or job.run.failures
            if one.begun_s > told.at_s or not lost_start:
                self.verdict.broken.append(f"{told}: cancelled before its start, and ran: {one}")

    # ---- keys

    def _unique(self) -> None:
        """Invariant 57: one live job of a key."""
        by_key: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for job in self._rows.jobs.values():
            if job.run.spec.unique is not None:
                by_key[job.run.spec.unique.key].append((job.created_s, job.closed_s or NEVER_S))
        for key, spans in by_key.items():
            if most_at_once(spans) > 1:
                self.verdict.twice.append(f"57: {key} has had two live jobs")

    def _keys(self) -> None:
        by_key: dict[str, list[tuple[float, float]]] = defaultdict(list)
        limits: dict[str, int] = {}
        for job in self._rows.jobs.values():
            concurrency = job.run.spec.concurrency
            if concurrency is not None:
                limits[concurrency.key] = concurrency.limit
                by_key[concurrency.key] += self._live(job)
        for key, spans in by_key.items():
            most = most_at_once(spans)
            if most > limits[key]:
                self.verdict.broken.append(f"{key}: {most} at once, {limits[key]} allowed")

    def _live(self, job: SavedJob) -> list[tuple[float, float]]:
        """When an attempt of the job ran that counts: the last one that has begun, in a process that lived, of a job
        that had not ended. One whose lease ended unheard (or that was handed out by an owner which had been replaced)
        may go on for a moment beside its successor: it has lost its place with its lease, and the job has it still."""
        attempts = self._attempts.get(job.job_id, [])
        spans: list[tuple[float, float]] = []
        for one, successor in itertools.zip_longest(attempts, attempts[1:]):
            over_s = one.over_s or self._faults.death_s(one.pid) or NEVER_S
            succeeded_s = NEVER_S if successor is None else successor.begun_s
            spans.append((one.begun_s, min(over_s, succeeded_s, job.closed_s or NEVER_S)))
        return spans

    # ---- batches

    def _batch(self, batch_id: str) -> None:
        """Its callback was made once, after its last job, and counts right."""
        broken = self.verdict.broken
        acked, batch = self._acked.batches[batch_id], self._rows.batches.get(batch_id)
        if batch is None:
            self.verdict.lost.append(f"{batch_id}: acknowledged, and not there")
            return
        jobs = [job for job in self._rows.jobs.values() if job.run.batch_id == batch_id]
        if acked - {job.job_id for job in jobs}:
            self.verdict.lost.append(f"{batch_id}: jobs of it are not there")
        if batch.total != len(jobs) or batch.open or not (batch.sealed and batch.over):
            broken.append(f"{batch_id}: {len(jobs)} jobs, but {batch}")
            return
        callbacks = [
            job
            for job in self._rows.jobs.values()
            if job.run.task_name == CALLED_BACK and _summary(job).get("batch_id") == batch_id
        ]
        if len(callbacks) != 1 or callbacks[0].run.job_id != batch.callback_job_id:
            broken.append(f"{batch_id}: {len(callbacks)} callbacks")
            return
        [callback] = callbacks
        if callback.status != JobStatus.COMPLETED:
            self.verdict.lost.append(f"{batch_id}: its callback is {callback.status.name}")
        last_s = max(job.closed_s for job in jobs)
        if callback.created_s < last_s:
            self.verdict.early.append(f"{batch_id}: called back before {last_s:.3f}")
        counts = Counter(job.status.name.lower() for job in jobs)
        told = {name: count for name, count in _summary(callback).items() if name in STATUSES}
        if told != {name: counts[name] for name in STATUSES}:
            broken.append(f"{batch_id}: called back with {told}, ended as {counts}")

    # ---- redelivery

    def _redelivered(self) -> None:
        """What a killed worker held is with another one soon; unless something else was amiss meanwhile."""
        kills = self._faults.kills
        for kill in kills:
            if kill.stopped or not kill.only(WORKER):
                continue
            others = [one for one in kills if one is not kill]
            if any(one.at_s <= kill.at_s < one.restarted_s + REDELIVERED_S_MAX for one in others):
                continue
            next_s = min((one.at_s for one in others if one.at_s > kill.at_s), default=NEVER_S)
            for attempts in self._attempts.values():
                self._held_by(kill, next_s, attempts)

    def _held_by(self, kill: Kill, next_s: float, attempts: list[Attempt]) -> None:
        """`next_s`: when the next fault was."""
        for one, successor in itertools.zip_longest(attempts, attempts[1:]):
            job = self._rows.jobs.get(one.key)
            if one.pid not in kill.pids.values() or one.over_s is not None or job is None:
                continue
            if job.closed_s and job.closed_s < kill.at_s:
                continue
            until_s = (job.closed_s if successor is None else successor.begun_s) or NEVER_S
            took_s = until_s - kill.at_s
            if next_s < min(until_s, kill.at_s + REDELIVERED_S_MAX):
                continue
            self.verdict.redelivered_s.append(took_s)
            if took_s > REDELIVERED_S_MAX:
                self.verdict.late.append(
                    f"{job.job_id}: {one} died at {kill.at_s:.3f}, {took_s=:.1f}"
                )


def _summary(callback: SavedJob) -> dict[str, Any]:
    return callback.argument if isinstance(callback.argument, dict) else {}
