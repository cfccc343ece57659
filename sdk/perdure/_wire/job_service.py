"""Jobs, as plain calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure._failure_info import FailureInfo
from perdure._jobs import JobStatus
from perdure._wire.connection import Connection
from perdure._wire.edge import PayloadEdge
from perdure._wire.errors import error_from_status, sent
from perdure._wire.failures import failure_from_message
from perdure._wire.job_info import (
    JobBatchInfo,
    JobCount,
    JobDescription,
    JobFilter,
    JobInfo,
    batch_from_message,
    count_from_message,
    description_from_message,
    filter_to_message,
    info_from_message,
    status_from_number,
)
from perdure._wire.new_jobs import JobsToMake, MadeJob, made_from_message
from perdure._wire.payloads import payloads_from_bytes
from perdure._wire.policies import instant_to_us
from perdure.converter import Payload
from perdure.errors import RPCError
from perdure_api.v1 import job_service_pb2 as pb
from perdure_api.v1.job_service_pb2_grpc import JobServiceStub

# How long one wait for results stays parked; the contract's maximum is 60 s.
RESULTS_WAIT_MS = 50_000
# An answer that takes this much longer is not coming.
_ANSWER_TIME_S = 10.0


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How a job ended."""

    status: JobStatus | None
    result: list[Payload]
    failure: FailureInfo | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAct:
    """An operator's act on one job. `request_id`: a repeat of it is the same act."""

    namespace: str
    job_id: str
    identity: str
    request_id: str


class EndedJob:
    """The message of a job that has ended, which is read by who waits for it."""

    __slots__ = ("_message", "job_id")

    def __init__(self, message: pb.JobResult) -> None:
        self._message = message
        self.job_id = message.job_id

    @property
    def error(self) -> RPCError | None:
        """There is no such job."""
        return error_from_status(self._message.error) if self._message.error else None

    async def read(self, edge: PayloadEdge) -> JobOutcome:
        """Raises PayloadDecodeError."""
        message = self._message
        if not edge.is_plain:
            await edge.decode(message)
        return JobOutcome(
            status=status_from_number(message.status),
            result=payloads_from_bytes(message.result),
            failure=failure_from_message(message.failure) if message.HasField("failure") else None,
            reason=message.reason,
        )


class JobService:
    """Every method raises RPCError, and sends once: trying again is the caller's decision."""

    def __init__(self, connection: Connection, edge: PayloadEdge) -> None:
        self._stub = JobServiceStub(connection.channel)
        self._edge = edge

    async def create(self, jobs: JobsToMake, timeout_s: float) -> list[MadeJob | RPCError]:
        """In their order. Those that are refused do not disturb the others."""
        answer = await sent(self._stub.CreateJobs, jobs.message, timeout_s)
        return [made_from_message(one) for one in answer.jobs]

    async def get(
        self, namespace: str, job_id: str, decode: Callable[[Payload], Any], timeout_s: float
    ) -> JobDescription:
        request = pb.GetJobRequest(namespace=namespace, job_id=job_id)
        answer = await sent(self._stub.GetJob, request, timeout_s)
        await self._edge.decode(answer, keeps_unreadable=True)
        return description_from_message(answer.job, decode)

    async def list(
        self,
        namespace: str,
        wanted: JobFilter,
        page_size: int,
        page_token: bytes,
        timeout_s: float,
        *,
        oldest_first: bool,
        archived: bool,
    ) -> tuple[Sequence[JobInfo], bytes]:
        request = pb.ListJobsRequest(
            namespace=namespace,
            filter=filter_to_message(wanted),
            page_size=page_size,
            page_token=page_token,
            oldest_first=oldest_first,
            archived=archived,
        )
        answer = await sent(self._stub.ListJobs, request, timeout_s)
        return [info_from_message(one) for one in answer.jobs], answer.next_page_token

    async def count(self, namespace: str, wanted: JobFilter, timeout_s: float) -> JobCount:
        request = pb.CountJobsRequest(namespace=namespace, filter=filter_to_message(wanted))
        return count_from_message(await sent(self._stub.CountJobs, request, timeout_s))

    async def results(self, namespace: str, job_ids: Sequence[str]) -> Sequence[EndedJob]:
        """Returns as soon as one of them has ended, with all that have; empty after a while."""
        request = pb.GetJobResultsRequest(
            namespace=namespace, job_ids=job_ids, timeout_ms=RESULTS_WAIT_MS
        )
        timeout_s = RESULTS_WAIT_MS / 1000 + _ANSWER_TIME_S
        answer = await sent(self._stub.GetJobResults, request, timeout_s)
        return [EndedJob(one) for one in answer.results]

    async def cancel(self, act: JobAct, reason: str, timeout_s: float) -> JobStatus | None:
        request = pb.CancelJobRequest(
            namespace=act.namespace,
            job_id=act.job_id,
            reason=reason,
            identity=act.identity,
            request_id=act.request_id,
        )
        answer = await sent(self._stub.CancelJob, request, timeout_s)
        return status_from_number(answer.status)

    async def reschedule(self, act: JobAct, run_at: datetime | None, timeout_s: float) -> None:
        """None: now."""
        request = pb.RescheduleJobRequest(
            namespace=act.namespace,
            job_id=act.job_id,
            due_time_us=instant_to_us(run_at),
            identity=act.identity,
            request_id=act.request_id,
        )
        await sent(self._stub.RescheduleJob, request, timeout_s)

    async def resume(self, act: JobAct, reason: str, timeout_s: float) -> JobStatus | None:
        request = pb.ResumeJobRequest(
            namespace=act.namespace,
            job_id=act.job_id,
            reason=reason,
            identity=act.identity,
            request_id=act.request_id,
        )
        answer = await sent(self._stub.ResumeJob, request, timeout_s)
        return status_from_number(answer.status)

    async def redrive(
        self,
        namespace: str,
        job_ids: Sequence[str],
        wanted: JobFilter,
        timeout_s: float,
        *,
        dry_run: bool,
        identity: str,
        reason: str,
        request_id: str,
    ) -> int:
        """How many begin anew, or would."""
        request = pb.RedriveJobsRequest(
            namespace=namespace,
            job_ids=job_ids,
            filter=None if job_ids else filter_to_message(wanted),
            dry_run=dry_run,
            identity=identity,
            reason=reason,
            request_id=request_id,
        )
        return int((await sent(self._stub.RedriveJobs, request, timeout_s)).count)

    async def batch(self, namespace: str, batch_id: str, timeout_s: float) -> JobBatchInfo:
        request = pb.GetJobBatchRequest(namespace=namespace, batch_id=batch_id)
        return batch_from_message(await sent(self._stub.GetJobBatch, request, timeout_s))

    async def set_queue_limit(
        self,
        namespace: str,
        queue: str,
        rate_per_s: float,
        identity: str,
        reason: str,
        timeout_s: float,
    ) -> None:
        """0: no limit."""
        request = pb.SetQueueLimitRequest(
            namespace=namespace,
            task_queue=queue,
            rate_per_s=rate_per_s,
            identity=identity,
            reason=reason,
        )
        await sent(self._stub.SetQueueLimit, request, timeout_s)
