"""A shard's jobs on a bench: decisions are made one after the other, each step is saved in the memory store's tables,
and memory can be thrown away and read back."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure_engine.core.draft import Env
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import job_id_of
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.decide import decide
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.memory import JobBatch, JobMemory, UniqueKey
from perdure_engine.core.jobs.model import JobRun, JobSpec, JobStatus, NewJob
from perdure_engine.core.jobs.needs import missing
from perdure_engine.core.limits import DEFAULT_RUN_LIMITS
from perdure_engine.core.tasks import Handout, TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history.jobs.keyed import room_of_rows
from perdure_engine.history.jobs.rows import (
    add_jobs,
    batch_of_row,
    job_of_row,
    key_of_row,
    saved,
)
from perdure_engine.ports.rows import ROW_GONE, JobRunRow
from perdure_engine.ports.store import Batch, Fence
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.memory.batch import apply_batch
from perdure_engine.store.memory.tables import Tables

NAMESPACE = b"namespace of job"
SHARD = 1
START_US = 1_700_000_000_000_000
FAILURE = Failure(FailureKind.APPLICATION, "no", type="Refused")
CODEC = MsgpackCodec()


def id_of(name: str) -> bytes:
    return job_id_of(SHARD, NAMESPACE, name, b"", 0)


def new_job(name: str, **fields: Any) -> NewJob:
    """What is no field of NewJob is one of its spec."""
    spec = {key: fields.pop(key) for key in list(fields) if key in JobSpec.__struct_fields__}
    return NewJob(
        job_id=id_of(name), task_name="send", queue="mail", spec=JobSpec(**spec), **fields
    )


class JobBench:
    def __init__(self) -> None:
        self.now_us = START_US
        self.number = 1 << 24
        self.memory = JobMemory()
        self.tables = Tables(SHARD)
        self.commits = 1
        self.ended: list[tuple[bytes, JobStatus]] = []

    def new_number(self) -> int:
        self.number += 1
        return self.number

    # ---- deciding

    def decide(self, *intents: job.JobIntent) -> Any:
        """In one step, which is saved. Returns the reply to the last of them."""
        draft = JobDraft(self.memory, Env(self.now_us, self.new_number, DEFAULT_RUN_LIMITS))
        reply: Any = None
        for intent in intents:
            self.fetch(intent)
            reply = decide(draft, intent)
        self.save(draft)
        return reply

    def save(self, draft: JobDraft) -> None:
        state = self.tables.fences[SHARD]
        fence = Fence(SHARD, state.range_id, state.commit_seq, state.owner_id)
        batch = Batch(bytes(16), [fence], [], [], [], [], [], [], [], [])
        add_jobs(batch, SHARD, draft, CODEC)
        apply_batch(self.tables, batch)
        saved(draft)
        self.ended += [(run.job_id, run.status) for run in draft.ended]

    def fetch(self, intent: job.JobIntent) -> None:
        """What the shard's loader does."""
        while (needs := missing(self.memory, intent, self._absent, look_up=True)) is not None:
            for job_id in needs.jobs:
                self.run_of_row(self.row(job_id))
            for key in needs.keys:
                row = self.tables.job_keys.get(SHARD, key)
                self.memory.keys[key] = UniqueKey() if row is None else key_of_row(row)
            for batch_id in needs.batches:
                found = self.tables.job_batches.get(SHARD, batch_id)
                self.memory.batches[batch_id] = (
                    JobBatch(*batch_id) if found is None else batch_of_row(found, CODEC)
                )
            for room_id in needs.rooms:
                rows = [
                    row
                    for row in self.tables.job_runs.in_order(SHARD)
                    if (row.namespace_id, row.concurrency_key) == room_id
                    and (row.task_id or row.status == JobStatus.IN_PROGRESS)
                ]
                runs = [run for row in rows if (run := self.run_of_row(row)) is not None]
                self.memory.rooms[room_id] = room_of_rows(room_id, runs, more=False)

    @property
    def _absent(self) -> Any:
        bench = self

        class Absent:
            def __contains__(self, job_id: object) -> bool:
                return bench.tables.job_runs.get(SHARD, job_id) is None

        return Absent()

    def row(self, job_id: bytes) -> JobRunRow:
        row = self.tables.job_runs.get(SHARD, job_id)
        assert row is not None
        return row

    def run_of_row(self, row: JobRunRow) -> JobRun:
        return self.memory.jobs.setdefault(row.job_id, job_of_row(row, CODEC))

    def forget(self) -> None:
        """All memory is lost: another owner reads what is saved."""
        self.memory = JobMemory()

    # ---- short ways

    def create(self, *jobs: NewJob, batch: job.Callback | None = None) -> Any:
        return self.decide(
            job.CreateJobs(shard_id=SHARD, namespace_id=NAMESPACE, jobs=jobs, batch=batch)
        )

    def run(self, name: str) -> JobRun:
        return self.run_of_row(self.row(id_of(name)))

    def hand_out(self, name: str, worker_id: bytes = b"") -> TaskToken:
        """As the shard does: in memory only. To a worker of which nobody has heard before, if none is named."""
        return self.start(self.run(name), worker_id)

    def start(self, run: JobRun, worker_id: bytes = b"") -> TaskToken:
        assert run.task_id > 0
        assert run.handout is None
        run.start_no = self.new_number()
        worker_id = worker_id or run.start_no.to_bytes(16, "big")
        run.started_us = self.now_us
        run.worker_id, run.worker_identity = worker_id, "w"
        run.handout = Handout(run.start_no, worker_id, "w", self.now_us, 0.0)
        return TaskToken(
            *(SHARD, NAMESPACE, run.job_id, TaskKind.JOB, 0, run.attempt),
            *(run.start_no, self.now_us, 0),
        )

    def complete(self, token: TaskToken) -> Any:
        return self.outcome(job.JobCompleted(token, b"ok"))

    def fail(self, token: TaskToken, failure: Failure = FAILURE) -> Any:
        return self.outcome(job.JobFailed(token, failure))

    def crash(self, name: str, worker_id: bytes = b"") -> None:
        """The lease of a worker ends that has it in hand."""
        run = self.run(name)
        if run.handout is None:
            self.start(run, worker_id)
        self.decide(job.PutBackJobs(SHARD, ((run.job_id, run.start_no, True, True),)))

    def outcome(self, outcome: job.JobOutcome) -> Any:
        return self.decide(job.CompleteJobs(SHARD, (outcome,), "w"))

    def timers(self) -> list[Any]:
        """Rows that are not gone, in their order."""
        return [row for row in self.tables.timers.in_order(SHARD) if row.state != ROW_GONE]

    def pass_time(self, seconds: float) -> None:
        """Fire what falls due, each at its time."""
        end_us = self.now_us + round(seconds * 1_000_000)
        while (timers := self.timers()) and timers[0].wake_us <= end_us:
            first = timers[0]
            self.now_us = max(self.now_us, first.wake_us)
            due = [(first.wake_us, first.timer_id, first.kind, first.run_id)]
            self.decide(job.FireJobTimers(SHARD, due))
        self.now_us = end_us

    def operate(self, kind: Any, name: str, request: bytes = b"", **fields: Any) -> Any:
        request_id = request or self.new_number().to_bytes(16, "big")
        return self.decide(
            kind(namespace_id=NAMESPACE, job_id=id_of(name), request_id=request_id, **fields)
        )


def as_saved(run: JobRun) -> Any:
    """What of a job a reload brings back."""
    return msgspec.structs.asdict(
        msgspec.structs.replace(run, handout=None, timer=None, expiry=None, busy=False)
    )
