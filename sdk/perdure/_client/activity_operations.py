"""What operators do with pending activities."""

from __future__ import annotations

from datetime import timedelta

from perdure._client.core import ClientCore
from perdure._wire.activity_service import PendingAddress
from perdure.common import ActivityOptionsUpdate


class ActivityOperations:
    """Of the run's pending activities, one by `activity_id` or all of an `activity_type`.

    Each returns when it is saved (with its `reason`, in the audit log), and raises RPCError: NOT_FOUND
    when there is no such activity.
    """

    _core: ClientCore

    async def pause_activity(
        self,
        workflow_id: str,
        *,
        activity_id: str = "",
        activity_type: str = "",
        run_id: str | None = None,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> None:
        """No attempt begins before it is unpaused. One that runs is told, and its outcome counts."""
        core = self._core
        address = self._pending(workflow_id, run_id, activity_id, activity_type)
        await core.unary(
            lambda timeout_s: core.activity_service.pause(
                address, core.identity, reason, timeout_s
            ),
            rpc_timeout,
        )

    async def unpause_activity(
        self,
        workflow_id: str,
        *,
        activity_id: str = "",
        activity_type: str = "",
        run_id: str | None = None,
        reset_attempts: bool = False,
        reset_heartbeat: bool = False,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> None:
        core = self._core
        address = self._pending(workflow_id, run_id, activity_id, activity_type)
        await core.unary(
            lambda timeout_s: core.activity_service.unpause(
                address,
                core.identity,
                reset_attempts=reset_attempts,
                reset_heartbeat=reset_heartbeat,
                reason=reason,
                timeout_s=timeout_s,
            ),
            rpc_timeout,
        )

    async def reset_activity(
        self,
        workflow_id: str,
        *,
        activity_id: str = "",
        activity_type: str = "",
        run_id: str | None = None,
        reset_heartbeat: bool = False,
        keep_paused: bool = False,
        restore_original_options: bool = False,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> None:
        """Its next attempt is the first one again, at once unless one runs; a pause ends."""
        core = self._core
        address = self._pending(workflow_id, run_id, activity_id, activity_type)
        request_id = core.surroundings.new_uuid()
        await core.unary(
            lambda timeout_s: core.activity_service.reset(
                address,
                core.identity,
                request_id,
                reset_heartbeat=reset_heartbeat,
                keep_paused=keep_paused,
                restore_original_options=restore_original_options,
                reason=reason,
                timeout_s=timeout_s,
            ),
            rpc_timeout,
        )

    async def update_activity_options(
        self,
        workflow_id: str,
        update: ActivityOptionsUpdate | None,
        *,
        activity_id: str = "",
        activity_type: str = "",
        run_id: str | None = None,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> None:
        """From the next attempt on. None: back to the options it was scheduled with."""
        core = self._core
        address = self._pending(workflow_id, run_id, activity_id, activity_type)
        await core.unary(
            lambda timeout_s: core.activity_service.update_options(
                address, core.identity, update, reason, timeout_s
            ),
            rpc_timeout,
        )

    def _pending(
        self, workflow_id: str, run_id: str | None, activity_id: str, activity_type: str
    ) -> PendingAddress:
        return PendingAddress(
            namespace=self._core.namespace,
            workflow_id=workflow_id,
            run_id=run_id or "",
            activity_id=activity_id,
            activity_type=activity_type,
        )
