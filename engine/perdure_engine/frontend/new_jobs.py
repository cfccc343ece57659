"""Jobs as they are asked for: what must be right about them, and which shard they go to.

Thousands come in one call, and nearly all of them differ in nothing but their input. So what they have in common is one
`JobOptions` that is looked at once; whoever makes the request shares it between jobs where it is the same.
"""

from __future__ import annotations

import hashlib

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.ids import shard_of
from perdure_engine.core.jobs.model import (
    DEFAULT_JOB_RETRY,
    DEFAULT_QUEUE,
    Concurrency,
    JobSpec,
    NewJob,
    Unique,
    UniqueScope,
)
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.frontend import checks

PRIORITY_DEFAULT = 3
BODY_HASH_BYTES = 8

DUE_TOO_LATE = "must lie behind the time when the job is due"


class JobOptions(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Everything that is asked of a job but its input. Instants in µs, durations in ms; 0 is "none".

    `due_us` is an instant, `delay_ms` counts from when the job is made; with neither it is due at once. What has its
    default is left out of a job's hash: a field that a later version has besides does not change it.
    """

    task_name: str
    queue: str = DEFAULT_QUEUE
    header: bytes = b""
    due_us: int = 0
    delay_ms: int = 0
    user_id: str = ""
    timeout_ms: int = 0
    heartbeat_timeout_ms: int = 0
    retry: RetryPolicy = DEFAULT_JOB_RETRY
    priority: int = PRIORITY_DEFAULT
    idempotency_key: str = ""
    unique: Unique | None = None
    concurrency: Concurrency | None = None
    expire_us: int = 0


class AskedJob(msgspec.Struct, frozen=True, gc=False):
    """`input` is Payloads. `told`: what of the input a repeat with the same idempotency key must have in common with
    it, if not all; encrypted input is another each time."""

    options: JobOptions
    input: bytes = b""
    told: bytes | None = None


class Plan(msgspec.Struct, frozen=True, gc=False):
    """What is made of all jobs of a call that share their options. `shard_id` 0: that depends on the place in the
    call."""

    options: JobOptions
    shard_id: int
    due_us: int
    refused: Rejected | None = None
    late: bool = False
    """Refused for the time that it is: a repeat of a call that came in time is not."""


def check_options(options: JobOptions, *, in_batch: bool) -> None:
    """What is wrong at any time. `in_batch`: all jobs of the call are one shard's, so that none can be where its own
    key belongs."""
    checks.type_name("task_name", options.task_name)
    checks.name("task_queue", options.queue)
    checks.size("header", options.header, limits.HEADER_BYTES_MAX)
    checks.label("user_id", options.user_id)
    checks.duration("timeout_ms", options.timeout_ms)
    checks.duration("heartbeat_timeout_ms", options.heartbeat_timeout_ms)
    checks.retry_policy("retry_policy", options.retry)
    checks.priority("priority", options.priority)
    if options.idempotency_key:
        checks.key("idempotency_key", options.idempotency_key)
    _check_times(options)
    if options.unique is not None:
        _check_unique(options.unique, in_batch)
    if options.concurrency is not None:
        _check_concurrency(options.concurrency, in_batch)


def _check_times(options: JobOptions) -> None:
    checks.instant("due_time_us", options.due_us)
    checks.duration("delay_ms", options.delay_ms)
    if options.due_us and options.delay_ms:
        raise invalid("delay_ms", "cannot be given with due_time_us")
    expire_us = options.expire_us
    checks.instant("expire_time_us", expire_us)
    if expire_us and expire_us <= options.due_us:
        raise invalid("expire_time_us", DUE_TOO_LATE)


def too_late(options: JobOptions, now_us: int) -> Rejected | None:
    """Why jobs that are asked for now would expire before they are due."""
    if not options.expire_us or options.expire_us > max(now_us, due_of(options, now_us)):
        return None
    if options.expire_us <= now_us:
        return invalid("expire_time_us", "lies in the past")
    return invalid("expire_time_us", DUE_TOO_LATE)


def _check_unique(unique: Unique, in_batch: bool) -> None:
    checks.key("unique_key", unique.key)
    checks.duration("unique_period_ms", unique.period_ms)
    by_period = unique.scope is UniqueScope.PERIOD
    if by_period and not unique.period_ms:
        raise invalid("unique_period_ms", "is required with the scope PERIOD")
    if unique.period_ms and not by_period:
        raise invalid("unique_period_ms", "is for the scope PERIOD only")
    if in_batch:
        raise invalid("unique_key", "cannot be given in a batch")


def _check_concurrency(concurrency: Concurrency, in_batch: bool) -> None:
    checks.key("concurrency.key", concurrency.key)
    if not 1 <= concurrency.limit <= limits.JOB_PLACES_MAX:
        raise invalid("concurrency.limit", f"must lie between 1 and {limits.JOB_PLACES_MAX}")
    check_rate("concurrency.rate_per_s", concurrency.rate_per_s)
    if in_batch:
        raise invalid("concurrency.key", "cannot be given in a batch")


def check_rate(field: str, rate_per_s: float) -> None:
    # Written so that NaN fails too.
    if not 0.0 <= rate_per_s <= limits.JOB_RATE_MAX:
        raise invalid(field, f"must lie between 0 and {limits.JOB_RATE_MAX:.0f}")


def due_of(options: JobOptions, now_us: int) -> int:
    """0: at once."""
    return now_us + options.delay_ms * 1000 if options.delay_ms else options.due_us


def shard_of_keys(options: JobOptions, namespace_id: bytes, number_of_shards: int) -> int:
    """Each key has one owner, which decides about all jobs of it. 0: there is no key."""
    if options.concurrency is not None:
        about = f"concurrency:{options.concurrency.key}"
    elif options.unique is not None:
        about = f"unique:{options.unique.key}"
    elif options.idempotency_key:
        about = f"idempotency:{options.idempotency_key}"
    else:
        return 0
    return shard_of(namespace_id, about, number_of_shards)


def shard_of_batch(batch_id: str, namespace_id: bytes, number_of_shards: int) -> int:
    return shard_of(namespace_id, f"batch:{batch_id}", number_of_shards)


def body_hash(asked: AskedJob) -> bytes:
    """Of all that is asked for: by it a repeat with the same idempotency key is known from a mistake. Headers are not
    counted: a trace's are another with each call."""
    options = asked.options
    if options.header:
        options = msgspec.structs.replace(options, header=b"")
    told = asked.input if asked.told is None else asked.told
    body = msgspec.msgpack.encode((options, told))
    return hashlib.blake2b(body, digest_size=BODY_HASH_BYTES).digest()


def new_job(
    plan: Plan, asked: AskedJob, job_id: bytes, hashed: bytes, batch_id: str, identity: str
) -> NewJob:
    options = plan.options
    spec = JobSpec(
        asked.input,
        options.header,
        options.retry,
        options.timeout_ms,
        options.heartbeat_timeout_ms,
        options.idempotency_key,
        hashed,
        options.unique,
        options.concurrency,
        options.expire_us,
        0,
        identity,
    )
    return NewJob(
        job_id=job_id,
        task_name=options.task_name,
        queue=options.queue,
        spec=spec,
        due_us=plan.due_us,
        user_id=options.user_id,
        priority=options.priority,
        batch_id=batch_id,
    )
