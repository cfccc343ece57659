"""What operators do with a workflow's run through its handle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from perdure._client.core import ClientCore
from perdure._wire.calls import Target
from perdure._wire.run_service import ResetPoint, Why
from perdure.common import ResetReapplyExcludeType, ResetType


class HandleOperations:
    """The part of `WorkflowHandle` that holds runs back."""

    _core: ClientCore
    _target: Target

    async def pause(self, *, reason: str = "", rpc_timeout: timedelta | None = None) -> None:
        """Holds the run back: from the return on none of its tasks is handed out.

        What happens to it is recorded: signals, updates, timers, the outcomes of activities that
        run already; they go on. A workflow task that a worker has is taken back. Cancel, terminate
        and timeouts work. Raises RPCError FAILED_PRECONDITION when it is paused already.
        """
        core, why = self._core, _why(self._core, reason)
        await core.unary(
            lambda timeout_s: core.run_service.pause(self._target, why, timeout_s), rpc_timeout
        )

    async def unpause(self, *, reason: str = "", rpc_timeout: timedelta | None = None) -> None:
        """Lets the run go on, also one that is suspended (`resume`). Raises RPCError
        FAILED_PRECONDITION when it is not paused."""
        core, why = self._core, _why(self._core, reason)
        await core.unary(
            lambda timeout_s: core.run_service.unpause(self._target, why, timeout_s), rpc_timeout
        )

    async def resume(self, *, reason: str = "", rpc_timeout: timedelta | None = None) -> None:
        """Has what of the run has crashed its workers again and again tried at once, by a worker of
        the surgical pool, with 24 hours before the run is suspended. A suspended run goes on, with
        what was left of its timeouts. Raises RPCError FAILED_PRECONDITION when nothing of it is
        poisoned.
        """
        core, why = self._core, _why(self._core, reason)
        await core.unary(
            lambda timeout_s: core.run_service.resume(self._target, why, timeout_s), rpc_timeout
        )


async def reset_run(
    core: ClientCore,
    target: Target,
    *,
    event_id: int | None,
    reset_type: ResetType | None,
    build_id: str,
    exclude: Sequence[ResetReapplyExcludeType],
    reason: str,
    rpc_timeout: timedelta | None,
) -> str:
    """Returns the new run's id. Raises ValueError unless exactly one thing says where to."""
    if build_id and reset_type is None:
        reset_type = ResetType.BUILD_ID
    if (event_id is None) == (reset_type is None):
        raise ValueError("a reset takes event_id or reset_type: one of them")
    if bool(build_id) != (reset_type is ResetType.BUILD_ID):
        raise ValueError("build_id and ResetType.BUILD_ID belong together")
    if event_id is not None and event_id < 1:
        raise ValueError("event_id must be positive")
    point = ResetPoint(event_id=event_id or 0, reset_type=reset_type, build_id=build_id)
    why = _why(core, reason)
    return await core.unary(
        lambda timeout_s: core.run_service.reset(target, point, exclude, why, timeout_s),
        rpc_timeout,
    )


def _why(core: ClientCore, reason: str) -> Why:
    return Why(request_id=core.surroundings.new_uuid(), identity=core.identity, reason=reason)
