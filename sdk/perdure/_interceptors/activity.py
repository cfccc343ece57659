"""Around activities: what comes in to them, and what their code asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure._payload import Payload

if TYPE_CHECKING:
    from perdure import activity


@dataclass(kw_only=True)
class ExecuteActivityInput:
    fn: Callable[..., Any]
    args: Sequence[Any]
    executor: Executor | None
    """None: `fn` is async, and runs on the worker's event loop."""
    headers: Mapping[str, Payload]


class ActivityInboundInterceptor:
    """Made for one attempt. It runs on the worker's event loop, also when the activity does not."""

    def __init__(self, next: ActivityInboundInterceptor) -> None:
        self.next = next

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        """Before the activity runs. To see what its code asks for, wrap `outbound` for `next`."""
        self.next.init(outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        """Returns what the activity returns, or raises what it raises."""
        return await self.next.execute_activity(input)


class ActivityOutboundInterceptor:
    """What the activity's code asks for, in the thread that asks. An activity in another process
    is not seen."""

    def __init__(self, next: ActivityOutboundInterceptor) -> None:
        self.next = next

    def info(self) -> activity.Info:
        return self.next.info()

    def heartbeat(self, *details: Any) -> None:
        self.next.heartbeat(*details)
