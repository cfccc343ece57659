"""A request to another run, or to a child, to cancel: initiated, then delivered or refused.

CREATED ──RECORDED──▶ INITIATED ──RESOLVED──▶ CLOSED

It goes out in any case: whoever no longer waits for it still wants the other run to stop.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from perdure._replay.machines.moves import next_state

if TYPE_CHECKING:
    import asyncio

    from perdure._replay.machines.child import ChildMachine


class ExternalCancelState(IntEnum):
    CREATED = 1
    INITIATED = 2
    CLOSED = 3


class ExternalCancelMove(IntEnum):
    RECORDED = 1
    RESOLVED = 2


MOVES = {
    (ExternalCancelState.CREATED, ExternalCancelMove.RECORDED): ExternalCancelState.INITIATED,
    (ExternalCancelState.INITIATED, ExternalCancelMove.RESOLVED): ExternalCancelState.CLOSED,
}


class ExternalCancelMachine:
    """Of a child's cancellation `child` is set, of a call of the code's `future`."""

    __slots__ = ("child", "future", "state", "target")

    def __init__(
        self,
        target: str,
        *,
        child: ChildMachine | None = None,
        future: asyncio.Future[None] | None = None,
    ) -> None:
        self.target = target
        self.child = child
        self.future = future
        self.state = ExternalCancelState.CREATED

    def move(self, move: ExternalCancelMove) -> None:
        self.state = next_state(MOVES, self.state, move, self)

    def describe(self) -> str:
        return f"request to cancel workflow {self.target!r}"
