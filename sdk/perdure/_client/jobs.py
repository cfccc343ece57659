"""What a client does with jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, TypeVarTuple, Unpack, overload

from perdure._client import job_calls
from perdure._client.core import ClientCore
from perdure._client.job_handle import JobHandle
from perdure._client.job_inputs import CreateJobInput, CreateJobsInput, DescribeJobBatchInput
from perdure._client.job_lists import JobLists
from perdure._client.job_requests import Outcome
from perdure._jobs import JobOptions, JobStatus, NewJob, new_job
from perdure._wire.calls import NO_HEADER
from perdure._wire.job_info import JobBatchInfo
from perdure._wire.new_jobs import MadeJob, job_fields
from perdure.errors import JobsRefusedError, RPCError

_Ts = TypeVarTuple("_Ts")
_R = TypeVar("_R")


class CreateJobOptions(JobOptions, total=False):
    """Keyword arguments of `create` and `execute`."""

    rpc_timeout: timedelta | None


class Jobs(JobLists):
    """Made by the client: `client.jobs`. Every method raises RPCError."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core

    @overload
    async def create(
        self,
        fn: Callable[[*_Ts], Awaitable[_R]],
        *arguments: *_Ts,
        **options: Unpack[CreateJobOptions],
    ) -> JobHandle[_R]: ...

    @overload
    async def create(
        self, fn: Callable[[*_Ts], _R], *arguments: *_Ts, **options: Unpack[CreateJobOptions]
    ) -> JobHandle[_R]: ...

    @overload
    async def create(
        self,
        fn: Callable[..., Awaitable[_R]],
        *,
        args: Sequence[Any],
        **options: Unpack[CreateJobOptions],
    ) -> JobHandle[_R]: ...

    @overload
    async def create(
        self, fn: Callable[..., _R], *, args: Sequence[Any], **options: Unpack[CreateJobOptions]
    ) -> JobHandle[_R]: ...

    @overload
    async def create(
        self,
        fn: str,
        *arguments: Any,
        args: Sequence[Any] = ...,
        result_type: type[_R],
        **options: Unpack[CreateJobOptions],
    ) -> JobHandle[_R]: ...

    @overload
    async def create(
        self,
        fn: str,
        *arguments: Any,
        args: Sequence[Any] = ...,
        result_type: None = None,
        **options: Unpack[CreateJobOptions],
    ) -> JobHandle[Any]: ...

    async def create(  # type: ignore[misc]  # mypy does not match *Ts with *Any
        self,
        fn: Any,
        *arguments: Any,
        args: Sequence[Any] = (),
        result_type: Any = None,
        **options: Unpack[CreateJobOptions],
    ) -> JobHandle[Any]:
        """Returns when the job is saved: from then on it runs at its time, whatever dies.

        `fn` is a function with `@job.defn` (or `@activity.defn`), or a name. Options: see
        `perdure.job.JobOptions`. Raises TypeError or ValueError for options that make no sense,
        PayloadEncodeError for arguments that cannot travel.
        """
        core = self._core
        rpc_timeout = options.pop("rpc_timeout", None)
        new = new_job(fn, arguments or args, result_type, options)
        asked = CreateJobInput(job=new, headers=NO_HEADER, rpc_timeout=rpc_timeout)
        if core.outbound is None:
            return await create_job(core, asked)
        return await core.outbound.create_job(asked)

    @overload
    async def execute(
        self,
        fn: Callable[[*_Ts], Awaitable[_R]],
        *arguments: *_Ts,
        **options: Unpack[CreateJobOptions],
    ) -> _R: ...

    @overload
    async def execute(
        self, fn: Callable[[*_Ts], _R], *arguments: *_Ts, **options: Unpack[CreateJobOptions]
    ) -> _R: ...

    @overload
    async def execute(
        self,
        fn: Callable[..., Awaitable[_R]],
        *,
        args: Sequence[Any],
        **options: Unpack[CreateJobOptions],
    ) -> _R: ...

    @overload
    async def execute(
        self, fn: Callable[..., _R], *, args: Sequence[Any], **options: Unpack[CreateJobOptions]
    ) -> _R: ...

    @overload
    async def execute(
        self,
        fn: str,
        *arguments: Any,
        args: Sequence[Any] = ...,
        result_type: type[_R],
        **options: Unpack[CreateJobOptions],
    ) -> _R: ...

    @overload
    async def execute(
        self,
        fn: str,
        *arguments: Any,
        args: Sequence[Any] = ...,
        result_type: None = None,
        **options: Unpack[CreateJobOptions],
    ) -> Any: ...

    async def execute(  # type: ignore[misc]  # mypy does not match *Ts with *Any
        self,
        fn: Any,
        *arguments: Any,
        args: Sequence[Any] = (),
        result_type: Any = None,
        **options: Unpack[CreateJobOptions],
    ) -> Any:
        """`create`, then the handle's `result`; `rpc_timeout` is that of the creation."""
        create: Callable[..., Awaitable[JobHandle[Any]]] = self.create
        handle = await create(fn, *arguments, args=args, result_type=result_type, **options)
        return await handle.result()

    async def create_many(
        self, jobs: Sequence[NewJob[_R]], *, rpc_timeout: timedelta | None = None
    ) -> list[JobHandle[_R]]:
        """Thousands at once, of `perdure.job.new`; the handles are in their order.

        They travel a thousand in a message, whose time limit `rpc_timeout` is. Raises
        JobsRefusedError when some were not made (its `errors` say which and why, its `handles` are
        the others'), and what refused the first when none was.
        """
        return await self._create(
            CreateJobsInput(jobs=jobs, headers=NO_HEADER, rpc_timeout=rpc_timeout)
        )

    async def batch(
        self,
        id: str,
        jobs: Sequence[NewJob[_R]],
        *,
        callback: NewJob[Any] | None = None,
        sealed: bool = True,
        rpc_timeout: timedelta | None = None,
    ) -> list[JobHandle[_R]]:
        """`create_many` of jobs that belong together under an id of yours.

        When all of them have ended, `callback` (see `job.callback`) is made, in the transaction that
        ends the last: its argument is an object with batch_id, total, completed, failed, cancelled
        and skipped. With `sealed=False` more calls may follow, until one seals it.
        A job of a batch cannot have a unique or concurrency key.
        """
        return await self._create(
            CreateJobsInput(
                jobs=jobs,
                headers=NO_HEADER,
                rpc_timeout=rpc_timeout,
                batch_id=id,
                callback=callback,
                sealed=sealed,
            )
        )

    async def describe_batch(
        self, id: str, *, rpc_timeout: timedelta | None = None
    ) -> JobBatchInfo:
        """How far a batch is."""
        asked = DescribeJobBatchInput(id=id, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return await job_calls.describe_batch(self._core, asked)
        return await outbound.describe_job_batch(asked)

    def get(self, id: str, *, result_type: Any = Any) -> JobHandle[Any]:
        """Asks nobody: that there is no such job is told by the first call."""
        return JobHandle(self._core, id, result_type=result_type)

    async def cancel(
        self, id: str, *, reason: str = "", rpc_timeout: timedelta | None = None
    ) -> JobStatus | None:
        """See `JobHandle.cancel`."""
        return await self.get(id).cancel(reason=reason, rpc_timeout=rpc_timeout)

    async def reschedule(
        self, id: str, run_at: datetime | None, *, rpc_timeout: timedelta | None = None
    ) -> None:
        """See `JobHandle.reschedule`."""
        await self.get(id).reschedule(run_at, rpc_timeout=rpc_timeout)

    async def resume(
        self, id: str, *, reason: str = "", rpc_timeout: timedelta | None = None
    ) -> JobStatus | None:
        """See `JobHandle.resume`."""
        return await self.get(id).resume(reason=reason, rpc_timeout=rpc_timeout)

    async def set_queue_limit(
        self,
        queue: str,
        rate_per_s: float | None,
        *,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> None:
        """How many jobs of a queue may start in a second, over the whole installation; None: any."""
        core = self._core
        limit = partial(
            core.job_service.set_queue_limit,
            *(core.namespace, queue, rate_per_s or 0.0, core.identity, reason),
        )
        await core.unary(limit, rpc_timeout)

    async def _create(self, asked: CreateJobsInput) -> list[JobHandle[Any]]:
        core = self._core
        if core.outbound is None:
            return await create_jobs(core, asked)
        return await core.outbound.create_jobs(asked)


async def create_job(core: ClientCore, asked: CreateJobInput) -> JobHandle[Any]:
    """Behind the interceptors."""
    job = asked.job
    made = await core.job_creation.make_one(job, asked.headers, asked.rpc_timeout)
    return JobHandle(core, made.id, result_type=job.result_type, made=made)


async def create_jobs(core: ClientCore, asked: CreateJobsInput) -> list[JobHandle[Any]]:
    """Behind the interceptors."""
    creation, what = core.job_creation, (asked.jobs, asked.headers, asked.rpc_timeout)
    if asked.batch_id is None:
        return _handles(core, asked.jobs, await creation.make_many(*what))
    fields: dict[str, Any] = {"batch_id": asked.batch_id}
    if asked.callback is not None:
        fields["callback"] = job_fields(asked.callback, core.converter, asked.headers)
    made = await creation.make_batch(fields, *what, sealed=asked.sealed)
    return _handles(core, asked.jobs, made)


def _handles(
    core: ClientCore, jobs: Sequence[NewJob[_R]], outcomes: Sequence[Outcome]
) -> list[JobHandle[_R]]:
    handles: list[JobHandle[_R] | None] = []
    errors: dict[int, Exception] = {}
    for index, (new, outcome) in enumerate(zip(jobs, outcomes, strict=True)):
        if isinstance(outcome, MadeJob):
            handle: JobHandle[_R] = JobHandle(
                core, outcome.id, result_type=new.result_type, made=outcome
            )
            handles.append(handle)
        else:
            errors[index] = outcome
            handles.append(None)
    if not errors:
        return [one for one in handles if one is not None]
    if len(errors) == len(outcomes) and isinstance(errors[0], RPCError):
        raise errors[0]
    raise JobsRefusedError(errors, handles)
