"""Leases of started jobs (`history.judging` has what all leases share). What a look finds is told in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure_engine.core.errors import Rejected
from perdure_engine.core.failures import TimeoutType
from perdure_engine.core.jobs.decide.attempts import may_run
from perdure_engine.core.jobs.intents import (
    PutBackJobs,
    SaveJobProgress,
    SaveJobStarts,
    TakeBackCrashes,
    TimeOutJob,
)
from perdure_engine.core.jobs.model import JobRun, JobStatus
from perdure_engine.core.jobs.needs import Needs
from perdure_engine.core.tasks import Handout, TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history.judging import CANCEL, LONG_AGO, LOST, SAVE_RETRY_S, Held, Leases
from perdure_engine.ports.history import HeldVerdict, WorkerRef

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs


class JobLeases(Leases[bytes]):
    """Orphans are named by their job."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__(jobs.shard)
        self._jobs = jobs
        self._aside: dict[bytes, Held] = {}  # of jobs that were evicted and are not loaded yet
        self._claims: list[tuple[WorkerRef, TaskToken]] = []  # of jobs that are busy
        self._back: list[tuple[bytes, int, bool, bool]] = []  # to be told
        self._starts: list[tuple[bytes, int]] = []  # to be told

    # ---- what changes the book

    def hand_out(self, run: JobRun, handout: Handout, token: TaskToken, now: float) -> None:
        held = Held(
            run.job_id,
            0,
            handout,
            TaskKind.JOB,
            0,
            now,
            token.deadline_us,
            run.spec.heartbeat_timeout_ms * 1000,
            now,
            token,
        )
        self._hold(held)

    def keep_aside(self, job_ids: set[bytes]) -> None:
        """The jobs leave memory, their hand-outs do not."""
        for held in self._held.values():
            if held.run_id in job_ids:
                self._aside[held.run_id] = held

    def loaded(self, run: JobRun) -> None:
        """A hand-out that the memory before an eviction knew of is still out. It is judged again: what was under way
        for it may have come to nothing."""
        held = self._aside.pop(run.job_id, None)
        if held is None:
            return
        handout = held.handout
        valid = held.token.attempt == run.attempt and handout.start_no >= run.start_no
        if not (run.open and valid and may_run(run)):
            self.drop(handout.start_no)
            return
        handout.saved = run.status is JobStatus.IN_PROGRESS
        run.handout = handout
        _note(run, handout)
        held.ending = False
        held.save_told_at = LONG_AGO
        if held.details is not None:
            self._remember(held, run)

    def add_orphan(self, job_id: bytes, start_no: int, until: float) -> None:
        """A saved start of before the take-over: its worker has until then to claim it."""
        self._orphans[job_id] = (until, start_no)
        self._watch()

    # ---- heartbeats

    def renew(
        self, worker: WorkerRef, token: TaskToken, details: bytes | None, version: int = 0
    ) -> HeldVerdict | None:
        held = self._held.get(token.start_no)
        if held is None:
            return self._adopt_or_lose(worker, token)
        rooms = self._shard.rooms
        held.renewed(rooms.clock.monotonic() + rooms.config.lease_s)
        if details is not None:
            self._progress(held, details, version)
        run = self._jobs.memory.jobs.get(held.run_id)
        if run is not None and run.cancel_us and not run.busy:
            return CANCEL
        return None

    # ---- adoption (design §6, take-over)

    def _adopt_or_lose(self, worker: WorkerRef, token: TaskToken) -> HeldVerdict | None:
        """A token this memory does not know: handed out by the owner before us, or over."""
        run = self._jobs.memory.jobs.get(token.run_id)
        if run is None:
            if token.run_id not in self._shard.quarantined:
                self._load_and_adopt(worker, token)
            return None
        if run.busy:
            self._claims.append((worker, token))
            return None
        return None if self._adopt(run, worker, token) else LOST

    def step_over(self) -> None:
        """What the step was about is not busy any more."""
        claims, self._claims = self._claims, []
        for worker, token in claims:
            self._adopt_if_there(worker, token)

    def _load_and_adopt(self, worker: WorkerRef, token: TaskToken) -> None:
        self._claimed(token.run_id)
        needs = Needs(self._jobs.memory, (), jobs={token.run_id: None})
        self._jobs.loading.ask(needs, lambda _, __: self._adopt_if_there(worker, token))

    def _adopt_if_there(self, worker: WorkerRef, token: TaskToken) -> None:
        run = self._jobs.memory.jobs.get(token.run_id)
        if run is None or token.start_no in self._held:
            return
        if run.busy:
            self._claims.append((worker, token))
        else:
            self._adopt(run, worker, token)

    def _adopt(self, run: JobRun, worker: WorkerRef, token: TaskToken) -> bool:
        """Whether a token of another owner's hand-out is still the job's newest start. A worker that was thought dead
        is heard of here first: whatever becomes of the start, its crashes were none."""
        if run.crashes is not None and worker.worker_id in run.crashes.worker_ids:
            self._take_back([(run.job_id, worker.worker_id)])
        if run.handout is not None or not run.open or not may_run(run):
            return False
        if run.attempt != token.attempt or token.start_no < run.start_no:
            return False
        rooms = self._shard.rooms
        now = rooms.clock.monotonic()
        self._orphans.pop(run.job_id, None)
        run.handout = Handout(
            token.start_no,
            worker.worker_id,
            worker.identity,
            token.started_us,
            now + rooms.config.lease_s,
            saved=run.status is JobStatus.IN_PROGRESS,
            beat_us=rooms.database_clock.low_us(),
        )
        _note(run, run.handout)
        self._jobs.queues.taken(run)
        self._jobs.in_use(run)
        self.hand_out(run, run.handout, token, now)
        return True

    def _take_back(self, marks: list[tuple[bytes, bytes]]) -> None:
        self._shard.tell(TakeBackCrashes(self._shard.shard_id, marks))

    # ---- what it is asked by all leases

    def _progressing(self, held: Held) -> JobRun | None:
        return self._jobs.memory.jobs.get(held.run_id)

    def _time_out(self, held: Held, timeout_type: TimeoutType) -> None:
        shard_id, start_no = self._shard.shard_id, held.handout.start_no
        self._shard.tell(TimeOutJob(shard_id, held.run_id, start_no, timeout_type))

    def _put_back(self, held: Held, *, worker_dead: bool, crashed: bool) -> None:
        self._back.append((held.run_id, held.handout.start_no, worker_dead, crashed))

    def _put_orphan_back(self, key: bytes, start_no: int) -> None:
        self._back.append((key, start_no, True, False))

    def came_back(self, died_with: Sequence[Held]) -> None:
        self._take_back([(held.run_id, held.handout.worker_id) for held in died_with])

    def _save_start(self, held: Held) -> None:
        self._starts.append((held.run_id, held.handout.start_no))

    def _tell_progress(self, held: Held, details: bytes) -> None:
        shard_id = self._shard.shard_id
        version = held.details_version
        self._shard.tell(SaveJobProgress(shard_id, held.token, details, version, beat=True))

    def _tell(self) -> None:
        shard_id = self._shard.shard_id
        if self._back:
            back, self._back = self._back, []
            self._shard.tell(PutBackJobs(shard_id, back))
        if self._starts:
            starts, self._starts = self._starts, []
            self._shard.tell(SaveJobStarts(shard_id, starts))

    # ---- before a release

    async def save_all_starts(self) -> None:
        shard = self._shard
        while not shard.closed:
            pending = [
                (held.run_id, held.handout.start_no)
                for held in self._held.values()
                if not held.handout.saved
            ]
            if not pending:
                return
            try:
                await shard.submit_job(SaveJobStarts(shard.shard_id, pending))
            except Rejected:
                await shard.rooms.clock.sleep(SAVE_RETRY_S)
            else:
                return


def _note(run: JobRun, handout: Handout) -> None:
    """Who has the attempt."""
    run.start_no = handout.start_no
    run.started_us = handout.started_us
    run.worker_id, run.worker_identity = handout.worker_id, handout.identity
