"""The run's end: once, by the code's command or from outside.

    OPEN ──COMMAND──▶ CLOSING ──RECORDED──▶ CLOSED
      └──CLOSED_OUTSIDE──▶ CLOSED        (terminated, timed out)

A command that the engine refused is not undone: that workflow task failed, and with it this object.
"""

from __future__ import annotations

from enum import IntEnum

from perdure._replay.machines.moves import next_state


class CompletionState(IntEnum):
    OPEN = 1
    CLOSING = 2
    CLOSED = 3


class CompletionMove(IntEnum):
    COMMAND = 1
    RECORDED = 2
    CLOSED_OUTSIDE = 3


MOVES = {
    (CompletionState.OPEN, CompletionMove.COMMAND): CompletionState.CLOSING,
    (CompletionState.CLOSING, CompletionMove.RECORDED): CompletionState.CLOSED,
    (CompletionState.OPEN, CompletionMove.CLOSED_OUTSIDE): CompletionState.CLOSED,
}


class CompletionMachine:
    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = CompletionState.OPEN

    def move(self, move: CompletionMove) -> None:
        self.state = next_state(MOVES, self.state, move, self)

    def describe(self) -> str:
        return "the run"
