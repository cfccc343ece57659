"""Saying shortly what tests of jobs say: creations, polls, outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.unit.history.room import NAMESPACE, Node, Room

from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import job_id_of
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.model import (
    Concurrency,
    ConcurrencyPolicy,
    JobRun,
    JobSpec,
    JobStatus,
    NewJob,
    Unique,
    UniqueScope,
)
from perdure_engine.core.jobs.replies import EndedJob, JobDescription, JobsAnswered, JobsCreated
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tokens import TaskToken
from perdure_engine.ports.history import HandedJobTask, WorkerRef
from perdure_engine.ports.rows import JobRunRow

QUEUE = "mail"
FAILURE = Failure(FailureKind.APPLICATION, "no", type="Refused")
ONCE = RetryPolicy(maximum_attempts=1)
AT_ONCE = RetryPolicy(initial_interval_ms=0, maximum_attempts=3)


def new_job(name: str, shard_id: int = 1, **fields: Any) -> NewJob:
    """A job of that name: the same name is the same job. What is no field of NewJob is one of its spec."""
    spec = {key: fields.pop(key) for key in list(fields) if key in JobSpec.__struct_fields__}
    return NewJob(
        job_id=id_of(name, shard_id),
        task_name="send",
        queue=fields.pop("queue", QUEUE),
        spec=JobSpec(**{"input": name.encode()} | spec),
        **fields,
    )


def id_of(name: str, shard_id: int = 1) -> bytes:
    return job_id_of(shard_id, NAMESPACE, name, b"", 0)


def create(
    node: Node, *jobs: NewJob, shard_id: int = 1, batch: job.Callback | None = None
) -> asyncio.Future[Any]:
    intent = job.CreateJobs(shard_id=shard_id, namespace_id=NAMESPACE, jobs=jobs, batch=batch)
    return node.history.submit_job(shard_id, intent)


def create_named(node: Node, *names: str, shard_id: int = 1, **fields: Any) -> asyncio.Future[Any]:
    return create(node, *[new_job(name, shard_id, **fields) for name in names], shard_id=shard_id)


async def poll(
    node: Node, worker: WorkerRef, most: int = 100, timeout_s: float = 0.5, queue: str = QUEUE
) -> list[HandedJobTask]:
    answer = await node.polling(worker, workflow=0, activity=most, timeout_s=timeout_s, queue=queue)
    return answer.job_tasks


async def poll_one(
    node: Node, worker: WorkerRef, timeout_s: float = 0.5, queue: str = QUEUE
) -> HandedJobTask:
    tasks = await poll(node, worker, 1, timeout_s, queue)
    assert len(tasks) == 1, "a job was expected"
    return tasks[0]


def names(tasks: Sequence[HandedJobTask]) -> list[str]:
    return [task.job.spec.input.decode() for task in tasks]


def complete(
    node: Node, *tasks: HandedJobTask | TaskToken, result: bytes = b"ok"
) -> asyncio.Future[Any]:
    return tell(node, *[job.JobCompleted(token_of(task), result) for task in tasks])


def fail(
    node: Node, *tasks: HandedJobTask | TaskToken, failure: Failure = FAILURE, **fields: Any
) -> asyncio.Future[Any]:
    return tell(node, *[job.JobFailed(token_of(task), failure, **fields) for task in tasks])


def stop(node: Node, *tasks: HandedJobTask | TaskToken) -> asyncio.Future[Any]:
    return tell(node, *[job.JobCanceled(token_of(task), b"") for task in tasks])


def tell(node: Node, *outcomes: job.JobOutcome) -> asyncio.Future[Any]:
    shard_id = outcomes[0].token.shard_id
    return node.history.submit_job(shard_id, job.CompleteJobs(shard_id, outcomes, "w"))


def token_of(task: HandedJobTask | TaskToken) -> TaskToken:
    return task if isinstance(task, TaskToken) else task.token


def describe(node: Node, name: str, shard_id: int = 1) -> asyncio.Future[Any]:
    intent = job.DescribeJob(namespace_id=NAMESPACE, job_id=id_of(name, shard_id))
    return node.history.submit_job(shard_id, intent)


async def status(node: Node, name: str, shard_id: int = 1) -> JobStatus:
    described: JobDescription = await describe(node, name, shard_id)
    return described.info.status


def wait(node: Node, *names_: str, shard_id: int = 1) -> asyncio.Future[Any]:
    ids = [id_of(name, shard_id) for name in names_]
    intent = job.WaitJobs(shard_id=shard_id, namespace_id=NAMESPACE, job_ids=ids)
    return node.history.submit_job(shard_id, intent)


def cancel(node: Node, name: str, shard_id: int = 1, **fields: Any) -> asyncio.Future[Any]:
    return _operate(job.CancelJob, node, name, shard_id, fields)


def reschedule(
    node: Node, name: str, due_us: int, shard_id: int = 1, **fields: Any
) -> asyncio.Future[Any]:
    return _operate(job.RescheduleJob, node, name, shard_id, fields | {"due_us": due_us})


def redrive(node: Node, name: str, shard_id: int = 1, **fields: Any) -> asyncio.Future[Any]:
    return _operate(job.RedriveJob, node, name, shard_id, fields)


def resume(node: Node, name: str, shard_id: int = 1, **fields: Any) -> asyncio.Future[Any]:
    return _operate(job.ResumeJob, node, name, shard_id, fields)


def _operate(
    kind: Any, node: Node, name: str, shard_id: int, fields: dict[str, Any]
) -> asyncio.Future[Any]:
    request_id = fields.pop("request_id", None) or node.room.ids.new_id()
    intent = kind(
        namespace_id=NAMESPACE, job_id=id_of(name, shard_id), request_id=request_id, **fields
    )
    return node.history.submit_job(shard_id, intent)


def row_of(room: Room, name: str, shard_id: int = 1) -> JobRunRow:
    row = room.tables.job_runs.get(shard_id, id_of(name, shard_id))
    assert row is not None
    return row


def run_of(node: Node, name: str, shard_id: int = 1) -> JobRun:
    return node.shard(shard_id).jobs.memory.jobs[id_of(name, shard_id)]


__all__ = [
    "AT_ONCE",
    "FAILURE",
    "ONCE",
    "QUEUE",
    "Concurrency",
    "ConcurrencyPolicy",
    "EndedJob",
    "JobStatus",
    "JobsAnswered",
    "JobsCreated",
    "Unique",
    "UniqueScope",
]
