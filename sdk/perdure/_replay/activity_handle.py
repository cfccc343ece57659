"""What `workflow.start_activity` returns."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from perdure._replay.callsite import frame_above
from perdure._replay.cancelled import Waited, raised_instead

if TYPE_CHECKING:
    from perdure._replay.loop import DeterministicLoop

_R = TypeVar("_R")


class Cancellable(Waited, Protocol):
    @property
    def activity_id(self) -> str: ...

    def request_cancel(self, *, by_asyncio: bool) -> bool:
        """What Future.cancel promises."""
        ...


class ActivityHandle(asyncio.Future[_R]):
    """A running activity: await it for its result, as often as you like.

    Awaiting raises ActivityError when the activity did not succeed. `cancel` asks the activity to
    stop, as its cancellation type says: the handle then ends as ActivityError with a
    CancelledError as its cause. So it does when the run, or the task that awaits it, is cancelled
    meanwhile; where asyncio itself begins that (a timeout that is over, a task group one of whose
    tasks has failed) it ends as asyncio.CancelledError. Hashes by order, like tasks.
    """

    __slots__ = ("_machine", "_order")

    def __init__(self, loop: DeterministicLoop, order: int) -> None:
        super().__init__(loop=loop)
        self._order = order

    def bind(self, machine: Cancellable) -> None:
        self._machine = machine

    @property
    def activity_id(self) -> str:
        return self._machine.activity_id

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

    def cancel(self, msg: Any | None = None) -> bool:
        """False when the activity is over."""
        if self.done():
            return False
        loop = cast("DeterministicLoop", self.get_loop())
        with loop.cancelling(frame_above(1)):
            return self._machine.request_cancel(by_asyncio=bool(loop.asyncio_cancels))

    def give_up(self) -> None:
        """Ends it as asyncio's own cancellation ends a future."""
        super().cancel()
