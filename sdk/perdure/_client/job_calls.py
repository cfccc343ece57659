"""What is asked about jobs that are there, behind the interceptors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from perdure._client.core import ClientCore
from perdure._client.job_inputs import (
    CancelJobInput,
    CountJobsInput,
    DescribeJobBatchInput,
    DescribeJobInput,
    GetJobResultInput,
    JobsWanted,
    ListJobsInput,
    RedriveJobsInput,
    RescheduleJobInput,
    ResumeJobInput,
)
from perdure._client.paging import read_pages
from perdure._failures import failure_to_exception
from perdure._jobs import JobStatus
from perdure._wire.job_info import JobBatchInfo, JobCount, JobDescription, JobFilter, JobInfo
from perdure._wire.job_service import JobAct, JobOutcome
from perdure.errors import (
    JobCancelledError,
    JobError,
    JobFailedError,
    JobSkippedError,
    RPCError,
    RPCStatusCode,
)

_PAGE_SIZE = 100
_PAGE_SIZE_MAX = 1_000


async def result(core: ClientCore, asked: GetJobResultInput) -> Any:
    timeout = asked.rpc_timeout
    try:
        async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
            ended = await core.job_waits.wait(asked.id)
            outcome = await ended.read(core.edge)
    except TimeoutError:
        message = f"job {asked.id} has not ended in time"
        raise RPCError(message, RPCStatusCode.DEADLINE_EXCEEDED) from None
    if outcome.status is not JobStatus.COMPLETED:
        raise _error_of(core, asked.id, outcome)
    if not outcome.result:
        return None
    return core.converter.from_payload(outcome.result[0], asked.ret_type)


async def describe(core: ClientCore, asked: DescribeJobInput) -> JobDescription:
    service, namespace = core.job_service, core.namespace
    return await core.unary(
        lambda timeout_s: service.get(namespace, asked.id, core.decode_or_keep, timeout_s),
        asked.rpc_timeout,
    )


async def cancel(core: ClientCore, asked: CancelJobInput) -> JobStatus | None:
    act = _act(core, asked.id)
    return await core.unary(partial(core.job_service.cancel, act, asked.reason), asked.rpc_timeout)


async def reschedule(core: ClientCore, asked: RescheduleJobInput) -> None:
    act = _act(core, asked.id)
    await core.unary(partial(core.job_service.reschedule, act, asked.run_at), asked.rpc_timeout)


async def resume(core: ClientCore, asked: ResumeJobInput) -> JobStatus | None:
    act = _act(core, asked.id)
    return await core.unary(partial(core.job_service.resume, act, asked.reason), asked.rpc_timeout)


def list_jobs(core: ClientCore, asked: ListJobsInput) -> AsyncIterator[JobInfo]:
    page = partial(
        core.job_service.list,
        *(core.namespace, _filter(asked, asked.status)),
        oldest_first=asked.oldest_first,
        archived=asked.archived,
    )
    page_size = _PAGE_SIZE if asked.limit is None else _PAGE_SIZE_MAX
    return read_pages(core, page, page_size, asked.limit, asked.rpc_timeout)


async def count(core: ClientCore, asked: CountJobsInput) -> JobCount:
    count = partial(core.job_service.count, core.namespace, _filter(asked, asked.status))
    return await core.unary(count, asked.rpc_timeout)


async def redrive(core: ClientCore, asked: RedriveJobsInput) -> int:
    wanted = _filter(asked, asked.status)
    if asked.ids and wanted != JobFilter():
        raise ValueError("give ids or filters, not both")
    redrive = partial(
        core.job_service.redrive,
        *(core.namespace, asked.ids, wanted),
        dry_run=asked.dry_run,
        identity=core.identity,
        reason=asked.reason,
        request_id=core.surroundings.new_uuid(),
    )
    return await core.unary(redrive, asked.rpc_timeout)


async def describe_batch(core: ClientCore, asked: DescribeJobBatchInput) -> JobBatchInfo:
    describe = partial(core.job_service.batch, core.namespace, asked.id)
    return await core.unary(describe, asked.rpc_timeout)


def _filter(asked: JobsWanted, status: JobStatus | Sequence[JobStatus]) -> JobFilter:
    return JobFilter(
        user_id=asked.user_id,
        statuses=(status,) if isinstance(status, JobStatus) else tuple(status),
        task_name=asked.task_name,
        queue=asked.queue,
        schedule_id=asked.schedule_id,
        batch_id=asked.batch_id,
        scheduled_time_min=asked.scheduled_time_min,
        scheduled_time_max=asked.scheduled_time_max,
        failure_type=asked.failure_type,
    )


def _act(core: ClientCore, job_id: str) -> JobAct:
    return JobAct(
        namespace=core.namespace,
        job_id=job_id,
        identity=core.identity,
        request_id=core.surroundings.new_uuid(),
    )


def _error_of(core: ClientCore, job_id: str, outcome: JobOutcome) -> JobError:
    cause = None
    if outcome.failure is not None:
        cause = failure_to_exception(outcome.failure, core.converter)
    match outcome.status:
        case JobStatus.CANCELLED:
            return JobCancelledError(job_id, reason=outcome.reason)
        case JobStatus.SKIPPED:
            return JobSkippedError(job_id, reason=outcome.reason)
        case _:
            return JobFailedError(job_id, cause=cause, reason=outcome.reason)
