"""An attempt of an activity, run through its worker's interceptors. Without any it is not asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from perdure import activity
from perdure._interceptors.activity import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
)
from perdure._interceptors.worker import Interceptor

Call = Callable[[ExecuteActivityInput], Awaitable[Any]]


async def intercepted(
    interceptors: Sequence[Interceptor],
    context: activity._Context,  # pyright: ignore[reportPrivateUsage]  # made for us
    given: ExecuteActivityInput,
    call: Call,
) -> Any:
    """The first interceptor is the outermost. `call` runs the function itself.

    In the contextvars context of the attempt, so that interceptors can ask `activity.info()`.
    """
    inbound: ActivityInboundInterceptor = _RootInbound(context, call)
    for one in reversed(interceptors):
        inbound = one.intercept_activity(inbound)
    inbound.init(_RootOutbound(context))
    try:
        return await inbound.execute_activity(given)
    finally:
        context.outbound = None  # or only the garbage collector would open the ring


class _RootInbound(ActivityInboundInterceptor):
    def __init__(
        self,
        context: activity._Context,  # pyright: ignore[reportPrivateUsage]
        call: Call,
    ) -> None:
        self._context = context  # and no `next`
        self._call = call

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        if type(outbound) is not _RootOutbound:
            self._context.outbound = outbound

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return await self._call(input)


class _RootOutbound(ActivityOutboundInterceptor):
    def __init__(
        self,
        context: activity._Context,  # pyright: ignore[reportPrivateUsage]
    ) -> None:
        self._context = context  # and no `next`

    def info(self) -> activity.Info:
        return self._context.info

    def heartbeat(self, *details: Any) -> None:
        self._context.send_heartbeat(details)
