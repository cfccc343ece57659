"""A job as its client holds it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar, cast

from perdure._client.core import ClientCore
from perdure._failures import failure_to_exception
from perdure._jobs import JobStatus
from perdure._wire.job_info import JobDescription
from perdure._wire.job_service import JobAct, JobOutcome
from perdure._wire.new_jobs import MadeJob
from perdure.errors import (
    JobCancelledError,
    JobError,
    JobFailedError,
    JobSkippedError,
    RPCError,
    RPCStatusCode,
)

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
        core = self._core
        try:
            async with asyncio.timeout(
                None if rpc_timeout is None else rpc_timeout.total_seconds()
            ):
                ended = await core.job_waits.wait(self.id)
                outcome = await ended.read(core.edge)
        except TimeoutError:
            message = f"job {self.id} has not ended in time"
            raise RPCError(message, RPCStatusCode.DEADLINE_EXCEEDED) from None
        if outcome.status is not JobStatus.COMPLETED:
            raise self._error_of(outcome)
        value: Any = None
        if outcome.result:
            value = core.converter.from_payload(outcome.result[0], self._result_type)
        return cast("R", value)

    def _error_of(self, outcome: JobOutcome) -> JobError:
        cause = None
        if outcome.failure is not None:
            cause = failure_to_exception(outcome.failure, self._core.converter)
        match outcome.status:
            case JobStatus.CANCELLED:
                return JobCancelledError(self.id, reason=outcome.reason)
            case JobStatus.SKIPPED:
                return JobSkippedError(self.id, reason=outcome.reason)
            case _:
                return JobFailedError(self.id, cause=cause, reason=outcome.reason)

    async def describe(self, *, rpc_timeout: timedelta | None = None) -> JobDescription:
        core = self._core
        service, namespace = core.job_service, core.namespace
        return await core.unary(
            lambda timeout_s: service.get(namespace, self.id, core.decode_or_keep, timeout_s),
            rpc_timeout,
        )

    async def cancel(
        self, *, reason: str = "", rpc_timeout: timedelta | None = None
    ) -> JobStatus | None:
        """One that has not started ends at once: CANCELLED. One that runs is asked to stop, and is
        IN_PROGRESS until it does. FAILED_PRECONDITION: it has ended."""
        core, act = self._core, self._act()
        return await core.unary(partial(core.job_service.cancel, act, reason), rpc_timeout)

    async def reschedule(
        self, run_at: datetime | None, *, rpc_timeout: timedelta | None = None
    ) -> None:
        """Another time for one that has not started; None: now. FAILED_PRECONDITION: it has."""
        core, act = self._core, self._act()
        await core.unary(partial(core.job_service.reschedule, act, run_at), rpc_timeout)

    def _act(self) -> JobAct:
        core = self._core
        return JobAct(
            namespace=core.namespace,
            job_id=self.id,
            identity=core.identity,
            request_id=core.surroundings.new_uuid(),
        )
