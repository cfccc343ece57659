"""What `workflow.start_activity` returns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from perdure._replay.callsite import frame_above

if TYPE_CHECKING:
    from perdure._replay.loop import DeterministicLoop

_R = TypeVar("_R")


class Cancellable(Protocol):
    activity_id: str

    def request_cancel(self, *, by_asyncio: bool) -> bool:
        """What Future.cancel promises."""
        ...


class ActivityHandle(asyncio.Future[_R]):
    """A running activity: await it for its result, as often as you like.

    Awaiting raises ActivityError when the activity did not succeed. `cancel` asks the activity to
    stop, as its cancellation type says: the handle then ends as ActivityError with a
    CancelledError as its cause. Hashes by order, like tasks.
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

    def cancel(self, msg: Any | None = None) -> bool:
        """False when the activity is over."""
        if self.done():
            return False
        loop = cast("DeterministicLoop", self.get_loop())
        with loop.cancelling(frame_above(1).f_code.co_filename):
            return self._machine.request_cancel(by_asyncio=bool(loop.asyncio_cancels))

    def give_up(self) -> None:
        """Ends it as asyncio's own cancellation ends a future."""
        super().cancel()
