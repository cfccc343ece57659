"""Jobs: a function that is to run once, now or at a time, without a workflow behind it.

    @job.defn
    async def send_email(to: str, subject: str) -> None: ...

    await client.jobs.create(send_email, "ada@example.org", "Hello", delay=timedelta(hours=1))

A job's function is an activity's: the same decorator, the same context, and every activity can be
run as a job as it is. It runs at least once; `info().idempotency_key` makes its effects count once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple, Unpack, overload

from perdure import activity
from perdure._jobs import (
    Concurrency,
    ConcurrencyPolicy,
    Info,
    JobOptions,
    JobStatus,
    NewJob,
    UniqueScope,
    new_job,
)
from perdure.activity import (
    CancellationDetails,
    cancellation_details,
    checkpoint,
    checkpoint_sync,
    defn,
    heartbeat,
    is_cancelled,
    is_worker_shutdown,
    logger,
    raise_if_cancelled,
    wait_for_cancelled,
    wait_for_cancelled_sync,
    wait_for_worker_shutdown,
    wait_for_worker_shutdown_sync,
)

__all__ = [
    "CancellationDetails",
    "Concurrency",
    "ConcurrencyPolicy",
    "Info",
    "JobOptions",
    "JobStatus",
    "NewJob",
    "UniqueScope",
    "callback",
    "cancellation_details",
    "checkpoint",
    "checkpoint_sync",
    "defn",
    "heartbeat",
    "in_job",
    "info",
    "is_cancelled",
    "is_worker_shutdown",
    "logger",
    "new",
    "raise_if_cancelled",
    "wait_for_cancelled",
    "wait_for_cancelled_sync",
    "wait_for_worker_shutdown",
    "wait_for_worker_shutdown_sync",
]

_Ts = TypeVarTuple("_Ts")
_R = TypeVar("_R")


def in_job() -> bool:
    return activity.in_activity() and activity.info().job is not None


def info() -> Info:
    """Of the job that runs. Raises RuntimeError outside of jobs, also in a workflow's activity."""
    found = activity.info().job if activity.in_activity() else None
    if found is None:
        raise RuntimeError("not in a job")
    return found


@overload
def new(
    fn: Callable[[*_Ts], Awaitable[_R]], *arguments: *_Ts, **options: Unpack[JobOptions]
) -> NewJob[_R]: ...


@overload
def new(
    fn: Callable[[*_Ts], _R], *arguments: *_Ts, **options: Unpack[JobOptions]
) -> NewJob[_R]: ...


@overload
def new(
    fn: Callable[..., Awaitable[_R]], *, args: Sequence[Any], **options: Unpack[JobOptions]
) -> NewJob[_R]: ...


@overload
def new(
    fn: Callable[..., _R], *, args: Sequence[Any], **options: Unpack[JobOptions]
) -> NewJob[_R]: ...


@overload
def new(
    fn: str,
    *arguments: Any,
    args: Sequence[Any] = ...,
    result_type: type[_R],
    **options: Unpack[JobOptions],
) -> NewJob[_R]: ...


@overload
def new(
    fn: str,
    *arguments: Any,
    args: Sequence[Any] = ...,
    result_type: None = None,
    **options: Unpack[JobOptions],
) -> NewJob[Any]: ...


def new(  # type: ignore[misc]  # mypy does not match *Ts with *Any
    fn: Any,
    *arguments: Any,
    args: Sequence[Any] = (),
    result_type: Any = None,
    **options: Unpack[JobOptions],
) -> NewJob[Any]:
    """One of the jobs that `client.jobs.create_many` or `batch` makes. Nothing is made yet.

    `fn` is a function with `@job.defn` (or `@activity.defn`), or a name. Raises TypeError for what
    is neither.
    """
    return new_job(fn, arguments or args, result_type, options)


def callback(fn: Callable[..., Any] | str, **options: Unpack[JobOptions]) -> NewJob[Any]:
    """What `client.jobs.batch` lets follow. Its argument is made by the engine, so none is given."""
    return new_job(fn, (), None, options)
