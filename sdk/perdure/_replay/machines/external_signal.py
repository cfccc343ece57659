"""A signal to another run: initiated, then delivered or refused.

CREATED ──RECORDED──▶ INITIATED ──RESOLVED──▶ CLOSED
   └──CANCEL──▶ CLOSED      (never sent)

Once it is on its way it cannot be called back: cancelling the wait for it changes nothing then.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from perdure._replay.machines.moves import next_state

if TYPE_CHECKING:
    from perdure._replay.ledger import Entry
    from perdure._replay.request_future import RequestFuture


class ExternalSignalState(IntEnum):
    CREATED = 1
    INITIATED = 2
    CLOSED = 3


class ExternalSignalMove(IntEnum):
    RECORDED = 1
    RESOLVED = 2
    CANCEL = 3


MOVES = {
    (ExternalSignalState.CREATED, ExternalSignalMove.RECORDED): ExternalSignalState.INITIATED,
    (ExternalSignalState.CREATED, ExternalSignalMove.CANCEL): ExternalSignalState.CLOSED,
    (ExternalSignalState.INITIATED, ExternalSignalMove.RESOLVED): ExternalSignalState.CLOSED,
}


class Canceller(Protocol):
    def cancel_signal(self, machine: ExternalSignalMachine) -> None: ...


class ExternalSignalMachine:
    __slots__ = ("_canceller", "by_asyncio", "entry", "future", "signal_name", "state", "target")

    def __init__(self, target: str, signal_name: str, canceller: Canceller) -> None:
        self.target = target
        self.signal_name = signal_name
        self._canceller = canceller
        self.state = ExternalSignalState.CREATED
        self.entry: Entry | None = None
        self.by_asyncio = False
        self.future: RequestFuture[None]

    def move(self, move: ExternalSignalMove) -> None:
        self.state = next_state(MOVES, self.state, move, self)

    def request_cancel(self, *, by_asyncio: bool) -> bool:
        self.by_asyncio = by_asyncio
        self._canceller.cancel_signal(self)
        return True

    def describe(self) -> str:
        return f"signal {self.signal_name!r} to workflow {self.target!r}"
