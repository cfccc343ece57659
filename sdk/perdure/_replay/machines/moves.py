"""How a machine moves: by its table, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol, TypeVar

from perdure.errors import HistoryError

_State = TypeVar("_State", bound=IntEnum)
_Move = TypeVar("_Move", bound=IntEnum, contravariant=True)


class IllegalMoveError(HistoryError):
    """A history told a machine something that cannot happen to it. Nothing was changed."""


class Described(Protocol):
    def describe(self) -> str: ...


def next_state(
    table: Mapping[tuple[_State, _Move], _State], state: _State, move: _Move, machine: Described
) -> _State:
    """Raises IllegalMoveError."""
    try:
        return table[state, move]
    except KeyError:
        raise IllegalMoveError(
            f"{machine.describe()} is {state.name} and cannot take {move.name}"
        ) from None
