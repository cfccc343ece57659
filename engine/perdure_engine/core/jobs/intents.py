"""What somebody wants of jobs, in the imperative. Those of the hot path carry many jobs of one shard each: at 20,000 a
second an intent for each would cost more than the job."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure_engine.core.failures import Failure, TimeoutType
from perdure_engine.core.jobs.model import JobStatus, NewJob
from perdure_engine.core.tokens import TaskToken


class Callback(msgspec.Struct, frozen=True, gc=False):
    """The batch that the jobs of a call belong to. `callback` None: nothing follows its end (or it was told before)."""

    batch_id: str
    callback: NewJob | None
    sealed: bool  # no further jobs come


class CreateJobs(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Jobs of one shard. Answered with `JobsCreated`, in their order."""

    shard_id: int
    namespace_id: bytes
    jobs: Sequence[NewJob]
    batch: Callback | None = None


class JobCompleted(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    result: bytes  # Payloads


class JobFailed(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    failure: Failure
    progress: bytes = b""  # the last one, for the next attempt
    progress_version: int = 0  # 0: not counted


class JobCanceled(msgspec.Struct, frozen=True, gc=False):
    """The worker stopped because it was asked to."""

    token: TaskToken
    details: bytes


class JobCrashed(msgspec.Struct, frozen=True, gc=False):
    """The process that the attempt had to itself has died of it: no attempt is counted, but a crash is."""

    token: TaskToken
    failure: Failure


JobOutcome = JobCompleted | JobFailed | JobCanceled | JobCrashed


class CompleteJobs(msgspec.Struct, frozen=True, gc=False):
    """What became of attempts of one shard's jobs. Answered with `JobsAnswered`."""

    shard_id: int
    outcomes: Sequence[JobOutcome]
    identity: str


class CancelJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered with `JobAnswered`. Rejected NOT_FOUND, FAILED_PRECONDITION."""

    namespace_id: bytes
    job_id: bytes
    request_id: bytes
    reason: str = ""
    identity: str = ""


class RescheduleJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """`due_us` 0: now. Answered with `JobAnswered`. Rejected NOT_FOUND, FAILED_PRECONDITION."""

    namespace_id: bytes
    job_id: bytes
    request_id: bytes
    due_us: int
    identity: str = ""


class RedriveJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A failed job begins anew. Answered with `JobAnswered`. Rejected NOT_FOUND, FAILED_PRECONDITION."""

    namespace_id: bytes
    job_id: bytes
    request_id: bytes
    reason: str = ""
    identity: str = ""


class ResumeJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A poisoned or suspended job is ready at once, for the surgical pool. Answered with `JobAnswered`. Rejected
    NOT_FOUND, FAILED_PRECONDITION."""

    namespace_id: bytes
    job_id: bytes
    request_id: bytes
    reason: str = ""
    identity: str = ""


class DescribeJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered with `JobDescription`. Rejected NOT_FOUND."""

    namespace_id: bytes
    job_id: bytes


class WaitJobs(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered with `JobsEnded` as soon as one of the jobs, all of one shard, has ended. Who gives up cancels the
    future. Unknown ids are among the answer, as NOT_FOUND."""

    shard_id: int
    namespace_id: bytes
    job_ids: Sequence[bytes]


class PutBackJobs(msgspec.Struct, frozen=True, gc=False):
    """Attempts whose worker is gone or never got them: (job id, start number, whether the worker is dead, whether it
    died with the job in hand). Ready again, no attempt counted, unless the policy allows one attempt only and the
    worker is dead. Who dies with it in hand is a crash, which is counted (`core.poison`)."""

    shard_id: int
    starts: Sequence[tuple[bytes, int, bool, bool]]


class TakeBackCrashes(msgspec.Struct, frozen=True, gc=False):
    """(job id, worker id): that worker was thought dead and lives."""

    shard_id: int
    marks: Sequence[tuple[bytes, bytes]]


class SaveJobStarts(msgspec.Struct, frozen=True, gc=False):
    """(job id, start number) of attempts that run for a while: their rows say so from now on."""

    shard_id: int
    starts: Sequence[tuple[bytes, int]]


class TimeOutJob(msgspec.Struct, frozen=True, gc=False):
    shard_id: int
    job_id: bytes
    start_no: int
    timeout_type: TimeoutType


class SaveJobProgress(msgspec.Struct, frozen=True, gc=False):
    shard_id: int
    token: TaskToken
    details: bytes
    version: int = 0  # what progress_version becomes; 0: one more
    beat: bool = False  # it came with a heartbeat, and is no checkpoint


class FireJobTimers(msgspec.Struct, frozen=True, gc=False):
    """Timers of jobs that are due: (wake_us, timer_id, kind, job id)."""

    shard_id: int
    timers: Sequence[tuple[int, int, int, bytes]]


JobClientIntent = (
    CreateJobs | CancelJob | RescheduleJob | RedriveJob | ResumeJob | DescribeJob | WaitJobs
)
JobWorkerIntent = CompleteJobs | SaveJobProgress
JobShardIntent = PutBackJobs | TakeBackCrashes | SaveJobStarts | TimeOutJob | FireJobTimers
JobIntent = JobClientIntent | JobWorkerIntent | JobShardIntent


class CreatedJob(msgspec.Struct, frozen=True, gc=False):
    job_id: bytes
    created: bool  # False: one of its idempotency or unique key was there
    status: JobStatus
