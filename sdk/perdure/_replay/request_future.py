"""What the workflow's code waits for that something outside the run brings about, and that it may cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from perdure._replay.callsite import frame_above
from perdure._replay.cancelled import Waited, raised_instead

if TYPE_CHECKING:
    from perdure._replay.loop import DeterministicLoop

_R = TypeVar("_R")


class Cancellable(Protocol):
    def request_cancel(self, *, by_asyncio: bool) -> bool:
        """What Future.cancel promises."""
        ...


class CancellableWork(Cancellable, Waited, Protocol): ...


_W = TypeVar("_W", bound=CancellableWork)


class RequestFuture(asyncio.Future[_R]):
    """Cancelling it does not end it: it asks its machine, which knows what that means."""

    __slots__ = ("_machine",)

    def __init__(self, loop: DeterministicLoop, machine: Cancellable) -> None:
        super().__init__(loop=loop)
        self._machine = machine

    def cancel(self, msg: Any | None = None) -> bool:
        """False when it is over."""
        if self.done():
            return False
        loop = cast("DeterministicLoop", self.get_loop())
        with loop.cancelling(frame_above(1)):
            return self._machine.request_cancel(by_asyncio=bool(loop.asyncio_cancels))

    def give_up(self) -> None:
        """Ends it as asyncio's own cancellation ends a future."""
        super().cancel()

    def fail(self, error: BaseException) -> None:
        """With what only those need hear of who wait."""
        self.set_exception(error)
        self._log_traceback = False


class WorkHandle(RequestFuture[_R], Generic[_R, _W]):
    """An activity or a child workflow. Hashes by order, like tasks."""

    __slots__ = ("_order",)

    _machine: _W

    def __init__(self, loop: DeterministicLoop, machine: _W, order: int) -> None:
        super().__init__(loop, machine)
        self._order = order

    def __hash__(self) -> int:
        return self._order

    def __await__(self) -> Generator[Any, None, _R]:
        try:
            return (yield from super().__await__())
        except asyncio.CancelledError:
            error = raised_instead(self, self._machine)
            if error is None:
                raise
        raise error

    __iter__ = __await__  # as Future's own: also for `yield from`
