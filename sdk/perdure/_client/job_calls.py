"""What a job's handle asks, behind the interceptors."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from perdure._client.core import ClientCore
from perdure._client.interceptors import (
    CancelJobInput,
    DescribeJobInput,
    GetJobResultInput,
    RescheduleJobInput,
)
from perdure._failures import failure_to_exception
from perdure._jobs import JobStatus
from perdure._wire.job_info import JobDescription
from perdure._wire.job_service import JobAct, JobOutcome
from perdure.errors import (
    JobCancelledError,
    JobError,
    JobFailedError,
    JobSkippedError,
    RPCError,
    RPCStatusCode,
)


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
