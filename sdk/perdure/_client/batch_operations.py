"""One operation on every run that a query finds, done by the engine itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from perdure._client.core import ClientCore
from perdure._wire.batch_service import BatchOperationInfo, BatchOperationType, BatchRequest
from perdure.common import ResetReapplyExcludeType, ResetType
from perdure.converter import Payload


class BatchOperations:
    """A batch operation survives the engine, and acts once on each run that was there when it began."""

    _core: ClientCore

    async def start_batch_operation(
        self,
        query: str,
        operation: BatchOperationType,
        *,
        reason: str = "",
        job_id: str | None = None,
        signal: str = "",
        signal_args: Sequence[Any] = (),
        rps: int = 0,
        reset_type: ResetType | None = None,
        build_id: str = "",
        reapply_exclude: Sequence[ResetReapplyExcludeType] = (),
        rpc_timeout: timedelta | None = None,
    ) -> str:
        """Returns the job's id. The same `job_id` again is the same job, if it asks for the same.

        At most `rps` operations a second; 50 unless given. Only runs that are open are terminated,
        cancelled, signalled or paused; DELETE and RESET take closed ones too. RESET goes to the
        workflow task that `reset_type` names (`build_id`: with ResetType.BUILD_ID, which may then
        be left out), and applies signals and updates again unless `reapply_exclude` names them. It
        resets the newest run of each workflow id, and no run that it has begun itself; an older
        run that the query finds counts as failed. Raises RPCError INVALID_ARGUMENT, and
        ALREADY_EXISTS for a `job_id` that stands for another job.
        """
        core = self._core
        if build_id and reset_type is None:
            reset_type = ResetType.BUILD_ID
        asked = self._asked(
            query,
            operation,
            job_id=job_id or core.surroundings.new_uuid(),
            reason=reason,
            signal_name=signal,
            signal_args=core.converter.to_payloads(signal_args) if signal_args else [],
            rps=rps,
            reset_type=reset_type,
            build_id=build_id,
            reapply_exclude=reapply_exclude,
        )
        await core.unary(partial(core.batch_service.start, asked), rpc_timeout)
        return asked.job_id

    async def count_batch_operation(
        self,
        query: str,
        operation: BatchOperationType,
        *,
        rpc_timeout: timedelta | None = None,
    ) -> int:
        """How many runs it would be about, if it began now. Nothing is done."""
        is_reset = operation is BatchOperationType.RESET
        asked = self._asked(
            query,
            operation,
            signal_name="dry-run" if operation is BatchOperationType.SIGNAL else "",
            reset_type=ResetType.LAST_WORKFLOW_TASK if is_reset else None,
            dry_run=True,
        )
        service = self._core.batch_service
        return await self._core.unary(partial(service.start, asked), rpc_timeout)

    async def describe_batch_operation(
        self, job_id: str, *, rpc_timeout: timedelta | None = None
    ) -> BatchOperationInfo:
        core = self._core
        return await core.unary(
            partial(core.batch_service.describe, core.namespace, job_id), rpc_timeout
        )

    async def list_batch_operations(
        self, *, rpc_timeout: timedelta | None = None
    ) -> AsyncIterator[BatchOperationInfo]:
        """Newest first. `rpc_timeout` is each page's."""
        core = self._core
        token = b""
        while True:
            found, token = await core.unary(
                partial(core.batch_service.list, core.namespace, token), rpc_timeout
            )
            for one in found:
                yield one
            if not token:
                return

    async def stop_batch_operation(
        self, job_id: str, *, reason: str = "", rpc_timeout: timedelta | None = None
    ) -> None:
        """What is done stays done; what is under way may still be, a second's worth."""
        core = self._core
        await core.unary(
            partial(core.batch_service.stop, core.namespace, job_id, reason, core.identity),
            rpc_timeout,
        )

    def _asked(
        self,
        query: str,
        operation: BatchOperationType,
        *,
        job_id: str = "",
        reason: str = "",
        signal_name: str = "",
        signal_args: list[Payload] | None = None,
        rps: int = 0,
        reset_type: ResetType | None = None,
        build_id: str = "",
        reapply_exclude: Sequence[ResetReapplyExcludeType] = (),
        dry_run: bool = False,
    ) -> BatchRequest:
        return BatchRequest(
            namespace=self._core.namespace,
            job_id=job_id,
            query=query,
            operation=operation,
            reason=reason,
            identity=self._core.identity,
            signal_name=signal_name,
            signal_args=signal_args or [],
            rps=rps,
            dry_run=dry_run,
            reset_type=reset_type,
            build_id=build_id,
            reapply_exclude=reapply_exclude,
        )
