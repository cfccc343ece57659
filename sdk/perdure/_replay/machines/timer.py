"""A timer: started, then fired or cancelled, exactly one of the two.

CREATED ──RECORDED──▶ STARTED ──FIRED──▶ CLOSED
   │                     └──CANCEL──▶ CANCELING ──CANCEL_RECORDED──▶ CLOSED
   └──CANCEL──▶ CLOSED      (never sent: neither command goes out)
"""

from __future__ import annotations

from enum import IntEnum

from perdure._replay.ledger import Entry
from perdure._replay.loop import TimerHandle
from perdure._replay.machines.moves import next_state


class TimerState(IntEnum):
    CREATED = 1
    STARTED = 2
    CANCELING = 3
    CLOSED = 4


class TimerMove(IntEnum):
    RECORDED = 1
    FIRED = 2
    CANCEL = 3
    CANCEL_RECORDED = 4


MOVES = {
    (TimerState.CREATED, TimerMove.RECORDED): TimerState.STARTED,
    (TimerState.CREATED, TimerMove.CANCEL): TimerState.CLOSED,
    (TimerState.STARTED, TimerMove.FIRED): TimerState.CLOSED,
    (TimerState.STARTED, TimerMove.CANCEL): TimerState.CANCELING,
    (TimerState.CANCELING, TimerMove.CANCEL_RECORDED): TimerState.CLOSED,
}


class TimerMachine:
    __slots__ = ("entry", "handle", "state", "timer_id")

    def __init__(self, timer_id: str, handle: TimerHandle) -> None:
        self.timer_id = timer_id
        self.handle = handle
        self.state = TimerState.CREATED
        self.entry: Entry | None = None  # of the start, until it is recorded

    def move(self, move: TimerMove) -> None:
        self.state = next_state(MOVES, self.state, move, self)

    def describe(self) -> str:
        return f"timer {self.timer_id}"
