"""What one step changes of one shard's jobs: one draft for all of them, so that a job costs no more than its changes.

A job that changes twice within a step is written once, as it is at the end; a timer that is made and dropped within it
is never written. A decision refuses a job before it changes anything of it, or not at all.
"""

from __future__ import annotations

from perdure_engine.core.audit import Entry
from perdure_engine.core.draft import Env
from perdure_engine.core.jobs.memory import BatchId, JobBatch, JobMemory, KeyId, KeyRoom, UniqueKey
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.tasks import TimerKind, TimerRecord


class JobDraft:
    __slots__ = (
        *("audit", "batches", "crashes", "ended", "env", "gone_timers", "jobs", "keys", "memory"),
        *("over", "poisoned", "ready", "released", "retries", "rooms", "suspended", "timers"),
        "withdrawn",
    )

    def __init__(self, memory: JobMemory, env: Env) -> None:
        self.memory = memory
        self.env = env
        self.jobs: dict[bytes, JobRun] = {}  # new or changed
        self.ready: list[JobRun] = []  # became ready; may be no more by now, and may be here twice
        self.ended: list[JobRun] = []
        self.released: list[int] = []  # start numbers that nobody holds any more
        self.withdrawn: list[tuple[int, int]] = []  # queue and task id of what no worker may have
        self.retries = 0
        self.crashes = 0  # counted; and how many jobs became poisoned, and suspended
        self.poisoned = 0
        self.suspended = 0
        self.keys: dict[KeyId, UniqueKey] = {}
        self.rooms: dict[int, KeyRoom] = {}  # touched, by their identity
        self.batches: dict[BatchId, JobBatch] = {}
        self.over: list[JobBatch] = []  # their callbacks are to be made
        self.timers: list[tuple[bytes, TimerRecord]] = []  # new, with the job's id
        self.gone_timers: list[tuple[bytes, TimerRecord]] = []
        self.audit: list[Entry] = []  # for the log of what operators did

    @property
    def empty(self) -> bool:
        """Whether there is nothing to save."""
        changed = self.jobs or self.keys or self.batches or self.timers or self.gone_timers
        return not (changed or self.audit)

    def touch(self, run: JobRun) -> None:
        self.jobs[run.job_id] = run

    def make_ready(self, run: JobRun) -> None:
        """A worker may have it from the commit on, behind all that were ready before."""
        env = self.env
        run.task_id = env.new_number()
        run.ready_us = env.now_us
        self.jobs[run.job_id] = run
        self.ready.append(run)

    def make_unready(self, run: JobRun) -> None:
        """No worker may have it any more."""
        if run.task_id > 0 and run.handout is None:
            self.withdrawn.append((run.queue_no, run.task_id))
        run.task_id = 0

    def release(self, run: JobRun) -> None:
        """Nobody has it any more."""
        handout = run.handout
        if handout is not None:
            self.released.append(handout.start_no)
            run.handout = None

    # ---- timers

    def wake_at(self, run: JobRun, due_us: int) -> None:
        """Its next attempt's time."""
        run.due_us = due_us
        run.timer = self._new_timer(run, TimerKind.JOB_DUE, due_us)

    def expire_at(self, run: JobRun, due_us: int) -> None:
        run.expiry = self._new_timer(run, TimerKind.JOB_EXPIRY, due_us)

    def _new_timer(self, run: JobRun, kind: TimerKind, due_us: int) -> TimerRecord:
        env = self.env
        wake_us = max(due_us, env.timer_mark_us)
        record = TimerRecord(kind, 0, wake_us, env.new_number(), due_us)
        self.timers.append((run.job_id, record))
        return record

    def drop_wake(self, run: JobRun) -> None:
        if run.timer is not None:
            self._drop(run, run.timer)
            run.timer = None

    def drop_expiry(self, run: JobRun) -> None:
        if run.expiry is not None:
            self._drop(run, run.expiry)
            run.expiry = None

    def _drop(self, run: JobRun, record: TimerRecord) -> None:
        record.gone = True
        self.gone_timers.append((run.job_id, record))
