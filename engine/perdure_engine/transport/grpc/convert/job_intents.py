"""Messages about jobs, to requests.

Thousands of jobs come in one message and differ in little but their input. So the rest of each is looked at as bytes
first: what has been read for another job of the call is shared with it.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from perdure_api.v1 import common_pb2
from perdure_api.v1 import job_service_pb2 as pb
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.jobs.model import (
    DEFAULT_JOB_RETRY,
    DEFAULT_QUEUE,
    Concurrency,
    ConcurrencyPolicy,
    Unique,
    UniqueScope,
)
from perdure_engine.frontend.checks import uuid_bytes
from perdure_engine.frontend.handlers.create_jobs import AskedBatch, CreateJobsCall
from perdure_engine.frontend.handlers.list_jobs import ListJobs
from perdure_engine.frontend.handlers.redrive_jobs import RedriveJobs
from perdure_engine.frontend.new_jobs import PRIORITY_DEFAULT, AskedJob, JobOptions
from perdure_engine.ports.jobs import JobFilter
from perdure_engine.transport.grpc.convert.intents import body_hash
from perdure_engine.transport.grpc.convert.retries import policy_of

# What the converter makes of a value is the same each time, what a codec makes of it may not be.
PLAIN_ENCODINGS = frozenset(("json/plain", "binary/plain", "binary/null", "json/protobuf"))
_SCOPES = {int(scope): scope for scope in UniqueScope}
_POLICIES = {int(policy): policy for policy in ConcurrencyPolicy}

Read = JobOptions | Rejected


def create_jobs(message: pb.CreateJobsRequest, namespace_id: bytes) -> CreateJobsCall:
    request_id = uuid_bytes("request_id", message.request_id)
    body = body_hash(message)
    batch = None
    if message.HasField("batch"):
        batch = _batch(message.batch)
    read: dict[bytes, Read] = {}
    return CreateJobsCall(
        namespace_id=namespace_id,
        request_id=request_id,
        jobs=[_asked(job, read) for job in message.jobs],
        body=body,
        batch=batch,
        identity=message.identity,
    )


def _asked(job: pb.NewJob, read: dict[bytes, Read]) -> AskedJob | Rejected:
    """The message is spent afterwards: nobody else reads its input."""
    given = job.input
    job.ClearField("input")
    rest = job.SerializeToString()
    options = read.get(rest)
    if options is None:
        options = read[rest] = _options(job)
    if isinstance(options, Rejected):
        return options
    if options.idempotency_key:
        return AskedJob(options, given, _told(given))
    return AskedJob(options, given)


def asked_job(job: pb.NewJob) -> AskedJob:
    """One that comes alone. Raises INVALID_ARGUMENT."""
    options = _options(job)
    if isinstance(options, Rejected):
        raise options
    return AskedJob(options, job.input)


def _batch(message: pb.JobBatch) -> AskedBatch:
    callback = None
    if message.HasField("callback"):
        options = _options(message.callback)
        if isinstance(options, Rejected):
            raise options
        callback = options
    return AskedBatch(message.batch_id, callback, not message.more)


def _options(job: pb.NewJob) -> Read:
    try:
        return JobOptions(
            task_name=job.task_name,
            queue=job.task_queue or DEFAULT_QUEUE,
            header=job.header,
            due_us=job.due_time_us,
            delay_ms=job.delay_ms,
            user_id=job.user_id,
            timeout_ms=job.timeout_ms,
            heartbeat_timeout_ms=job.heartbeat_timeout_ms,
            retry=policy_of(job.retry_policy)
            if job.HasField("retry_policy")
            else DEFAULT_JOB_RETRY,
            priority=job.priority or PRIORITY_DEFAULT,
            idempotency_key=job.idempotency_key,
            unique=_unique(job),
            concurrency=_concurrency(job.concurrency) if job.HasField("concurrency") else None,
            expire_us=job.expire_time_us,
        )
    except Rejected as refused:
        return refused


def _unique(job: pb.NewJob) -> Unique | None:
    if not job.unique_key:
        if job.unique_scope or job.unique_period_ms:
            raise invalid("unique_key", "is required with a scope or a period")
        return None
    scope = _SCOPES.get(job.unique_scope or UniqueScope.ACTIVE)
    if scope is None:
        raise invalid("unique_scope", "is unknown to this version")
    return Unique(job.unique_key, scope, job.unique_period_ms)


def _concurrency(message: pb.Concurrency) -> Concurrency:
    policy = _POLICIES.get(message.policy or ConcurrencyPolicy.QUEUE)
    if policy is None:
        raise invalid("concurrency.policy", "is unknown to this version")
    return Concurrency(message.key, message.limit or 1, policy, message.rate_per_s)


def _told(given: bytes) -> bytes | None:
    """What of an input a repeat must have in common with it: all (None), unless a codec has made it."""
    try:
        payloads = common_pb2.Payloads.FromString(given).payloads
    except DecodeError:
        return None  # of a client that encodes in its own way; to the engine all bytes are the same
    if all(payload.encoding in PLAIN_ENCODINGS for payload in payloads):
        return None
    return b"%d" % len(payloads)


def filter_of(message: pb.JobFilter, namespace_id: bytes) -> JobFilter:
    return JobFilter(
        namespace_id=namespace_id,
        user_id=message.user_id,
        statuses=tuple(message.statuses),
        task_name=message.task_name,
        queue=message.task_queue,
        schedule_id=message.schedule_id,
        batch_id=message.batch_id,
        from_us=message.start_time_us,
        to_us=message.end_time_us,
    )


def list_jobs(message: pb.ListJobsRequest, namespace_id: bytes) -> ListJobs:
    return ListJobs(
        where=filter_of(message.filter, namespace_id),
        failure_type=message.filter.failure_type,
        page_size=message.page_size,
        page_token=message.page_token,
        oldest_first=message.oldest_first,
        archived=message.archived,
    )


def redrive_jobs(message: pb.RedriveJobsRequest, namespace_id: bytes) -> RedriveJobs:
    return RedriveJobs(
        namespace_id=namespace_id,
        request_id=uuid_bytes("request_id", message.request_id),
        job_ids=list(message.job_ids),
        where=filter_of(message.filter, namespace_id),
        failure_type=message.filter.failure_type,
        dry_run=message.dry_run,
        identity=message.identity,
        reason=message.reason,
    )
