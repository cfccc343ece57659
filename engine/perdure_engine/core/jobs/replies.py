"""What intents about jobs are answered with, once it is saved."""

from __future__ import annotations

import msgspec

from perdure_engine.core.errors import Rejected
from perdure_engine.core.failures import Failure
from perdure_engine.core.jobs.intents import CreatedJob
from perdure_engine.core.jobs.model import JobSpec, JobState, JobStatus


class JobsCreated(msgspec.Struct, frozen=True, gc=False):
    jobs: list[CreatedJob | Rejected]


class JobsAnswered(msgspec.Struct, frozen=True, gc=False):
    """The outcomes that were not taken, by their place in the intent."""

    refused: list[tuple[int, Rejected]]


class JobAnswered(msgspec.Struct, frozen=True, gc=False):
    status: JobStatus


class JobInfo(msgspec.Struct, frozen=True, gc=False):
    """A job run as lists show it."""

    job_id: bytes
    namespace_id: bytes
    task_name: str
    queue: str
    user_id: str
    schedule_id: str
    batch_id: str
    concurrency_key: str
    status: JobStatus
    attempt: int
    priority: int
    created_us: int
    scheduled_us: int
    closed_us: int  # 0: open
    spec: JobSpec
    state: JobState


class JobDescription(msgspec.Struct, frozen=True, gc=False):
    info: JobInfo
    result: bytes


class EndedJob(msgspec.Struct, frozen=True, gc=False):
    """`status` None: there is no such job."""

    job_id: bytes
    status: JobStatus | None
    result: bytes = b""
    failure: Failure | None = None
    reason: str = ""


class JobsEnded(msgspec.Struct, frozen=True, gc=False):
    jobs: list[EndedJob]


JobReply = JobsCreated | JobsAnswered | JobAnswered | JobDescription | JobsEnded | None
