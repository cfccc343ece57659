"""An activity whose outcome comes from outside its worker (`activity.raise_complete_async`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, overload

from perdure._client.core import ClientCore
from perdure._client.interceptors import (
    CompleteAsyncActivityInput,
    FailAsyncActivityInput,
    HeartbeatAsyncActivityInput,
    ReportCancellationAsyncActivityInput,
)
from perdure._failures import exception_to_failure
from perdure._wire.activity_service import AttemptAddress
from perdure._wire.payloads import payloads_to_bytes
from perdure.errors import AsyncActivityCancelledError

_NO_RESULT = object()


async def heartbeat(
    core: ClientCore,
    address: AttemptAddress,
    details: Sequence[Any],
    rpc_timeout: timedelta | None,
) -> None:
    payloads = core.converter.to_payloads(details) if details else None
    said = None
    if payloads is not None:
        said = await core.edge.encode_details(payloads_to_bytes(payloads))
    heard = await core.unary(
        lambda timeout_s: core.activity_service.heartbeat(
            address, core.identity, said, 0, timeout_s
        ),
        rpc_timeout,
    )
    if heard.cancel_requested:
        raise AsyncActivityCancelledError
    if heard.paused:
        raise AsyncActivityCancelledError("activity paused", paused=True)


async def complete(
    core: ClientCore, address: AttemptAddress, result: Any, rpc_timeout: timedelta | None
) -> None:
    payloads = [core.converter.to_payload(result)]
    await core.unary(
        lambda timeout_s: core.activity_service.complete(
            address, core.identity, payloads, timeout_s
        ),
        rpc_timeout,
    )


async def fail(
    core: ClientCore,
    address: AttemptAddress,
    error: Exception,
    last_heartbeat_details: Sequence[Any],
    rpc_timeout: timedelta | None,
) -> None:
    failure = exception_to_failure(error, core.converter)
    details = core.converter.to_payloads(last_heartbeat_details)
    request_id = core.surroundings.new_uuid()
    await core.unary(
        lambda timeout_s: core.activity_service.fail(
            address, core.identity, failure, details, request_id, timeout_s
        ),
        rpc_timeout,
    )


async def report_cancellation(
    core: ClientCore,
    address: AttemptAddress,
    details: Sequence[Any],
    rpc_timeout: timedelta | None,
) -> None:
    payloads = core.converter.to_payloads(details)
    await core.unary(
        lambda timeout_s: core.activity_service.report_cancellation(
            address, core.identity, payloads, timeout_s
        ),
        rpc_timeout,
    )


class AsyncActivityHandle:
    """One attempt by its token, or the running attempt of an activity by ids. Making one asks
    nobody.

    Every call raises RPCError: NOT_FOUND when the attempt is over. Of several outcomes the first
    counts. Calls are repeated while the engine is not available; a repeat of one that had been
    saved, its answer lost, is NOT_FOUND too.
    """

    def __init__(self, core: ClientCore, address: AttemptAddress) -> None:
        self._core = core
        self._address = address

    async def heartbeat(self, *details: Any, rpc_timeout: timedelta | None = None) -> None:
        """The attempt lives; returns when its progress is saved. Without details what is saved
        stays.

        Raises AsyncActivityCancelledError when the workflow no longer wants it.
        """
        core = self._core
        if core.outbound is None:
            await heartbeat(core, self._address, details, rpc_timeout)
            return
        await core.outbound.heartbeat_async_activity(
            HeartbeatAsyncActivityInput(
                id_or_token=self._address, details=details, rpc_timeout=rpc_timeout
            )
        )

    async def complete(
        self, result: Any = _NO_RESULT, *, rpc_timeout: timedelta | None = None
    ) -> None:
        """The activity's result is saved. By ids it is taken even when no attempt runs."""
        core = self._core
        value = None if result is _NO_RESULT else result
        if core.outbound is None:
            await complete(core, self._address, value, rpc_timeout)
            return
        await core.outbound.complete_async_activity(
            CompleteAsyncActivityInput(
                id_or_token=self._address, result=value, rpc_timeout=rpc_timeout
            )
        )

    async def fail(
        self,
        error: Exception,
        *,
        last_heartbeat_details: Sequence[Any] = (),
        rpc_timeout: timedelta | None = None,
    ) -> None:
        """The attempt has failed: tried again as the activity's retry policy says."""
        core = self._core
        if core.outbound is None:
            await fail(core, self._address, error, last_heartbeat_details, rpc_timeout)
            return
        await core.outbound.fail_async_activity(
            FailAsyncActivityInput(
                id_or_token=self._address,
                error=error,
                last_heartbeat_details=last_heartbeat_details,
                rpc_timeout=rpc_timeout,
            )
        )

    async def report_cancellation(
        self, *details: Any, rpc_timeout: timedelta | None = None
    ) -> None:
        """The activity has ended as cancelled. FAILED_PRECONDITION unless the workflow asked."""
        core = self._core
        if core.outbound is None:
            await report_cancellation(core, self._address, details, rpc_timeout)
            return
        await core.outbound.report_cancellation_async_activity(
            ReportCancellationAsyncActivityInput(
                id_or_token=self._address, details=details, rpc_timeout=rpc_timeout
            )
        )


class AsyncActivities:
    """The part of a client that makes such handles."""

    _core: ClientCore

    @overload
    def get_async_activity_handle(self, *, task_token: bytes) -> AsyncActivityHandle: ...

    @overload
    def get_async_activity_handle(
        self, *, workflow_id: str, run_id: str | None, activity_id: str
    ) -> AsyncActivityHandle: ...

    def get_async_activity_handle(
        self,
        *,
        workflow_id: str | None = None,
        run_id: str | None = None,
        activity_id: str | None = None,
        task_token: bytes | None = None,
    ) -> AsyncActivityHandle:
        """Of an attempt that ended with `activity.raise_complete_async`, by its
        `activity.info().task_token` or by ids; `run_id` None is the current run. Asks nobody.

        Raises ValueError unless there is either a token or a workflow id and an activity id.
        """
        core = self._core
        if task_token is not None:
            if workflow_id is not None or run_id is not None or activity_id is not None:
                raise ValueError("task_token names the attempt: ids cannot be given with it")
            by_token = AttemptAddress(namespace=core.namespace, token=task_token)
            return AsyncActivityHandle(core, by_token)
        if not workflow_id or not activity_id:
            raise ValueError("give task_token, or workflow_id and activity_id (and run_id)")
        address = AttemptAddress(
            namespace=core.namespace,
            workflow_id=workflow_id,
            run_id=run_id or "",
            activity_id=activity_id,
        )
        return AsyncActivityHandle(core, address)
