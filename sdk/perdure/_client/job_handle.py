"""A job as its client holds it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, cast

from perdure._client import job_calls
from perdure._client.core import ClientCore
from perdure._client.job_inputs import (
    CancelJobInput,
    DescribeJobInput,
    GetJobResultInput,
    RescheduleJobInput,
    ResumeJobInput,
)
from perdure._jobs import JobStatus
from perdure._wire.job_info import JobDescription
from perdure._wire.new_jobs import MadeJob

R = TypeVar("R")


class JobHandle(Generic[R]):
    """A job that returns R. Making a handle asks nobody.

    Every call takes `rpc_timeout` and raises RPCError: NOT_FOUND when there is no such job,
    DEADLINE_EXCEEDED when the time was up.
    """

    __slots__ = ("_core", "_made", "_result_type", "id")

    def __init__(
        self,
        core: ClientCore,
        id: str,
        *,
        result_type: Any = Any,
        made: MadeJob | None = None,
    ) -> None:
        self._core = core
        self.id = id
        self._result_type = result_type
        self._made = made

    @property
    def created(self) -> bool | None:
        """Did the call make the job that this handle comes from? False: one of its idempotency or
        unique key was there. None: it comes from elsewhere."""
        return None if self._made is None else self._made.created

    async def result(self, *, rpc_timeout: timedelta | None = None) -> R:
        """Waits until the job has ended, without limit unless `rpc_timeout` sets one.

        Raises JobFailedError, whose cause says how, JobCancelledError or JobSkippedError when it did
        not complete.
        """
        asked = GetJobResultInput(id=self.id, ret_type=self._result_type, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return cast("R", await job_calls.result(self._core, asked))
        return cast("R", await outbound.get_job_result(asked))

    async def describe(self, *, rpc_timeout: timedelta | None = None) -> JobDescription:
        asked = DescribeJobInput(id=self.id, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return await job_calls.describe(self._core, asked)
        return await outbound.describe_job(asked)

    async def cancel(
        self, *, reason: str = "", rpc_timeout: timedelta | None = None
    ) -> JobStatus | None:
        """One that has not started ends at once: CANCELLED. One that runs is asked to stop, and is
        IN_PROGRESS until it does. FAILED_PRECONDITION: it has ended."""
        asked = CancelJobInput(id=self.id, reason=reason, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return await job_calls.cancel(self._core, asked)
        return await outbound.cancel_job(asked)

    async def reschedule(
        self, run_at: datetime | None, *, rpc_timeout: timedelta | None = None
    ) -> None:
        """Another time for one that has not started; None: now. FAILED_PRECONDITION: it has."""
        asked = RescheduleJobInput(id=self.id, run_at=run_at, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            await job_calls.reschedule(self._core, asked)
        else:
            await outbound.reschedule_job(asked)

    async def resume(
        self, *, reason: str = "", rpc_timeout: timedelta | None = None
    ) -> JobStatus | None:
        """A poisoned or suspended job is ready at once, for the surgical pool, with 24 hours before
        it is suspended (again): POISONED. FAILED_PRECONDITION: it is neither."""
        asked = ResumeJobInput(id=self.id, reason=reason, rpc_timeout=rpc_timeout)
        outbound = self._core.outbound
        if outbound is None:
            return await job_calls.resume(self._core, asked)
        return await outbound.resume_job(asked)
