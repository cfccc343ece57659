"""Which legal moves the decisions of these tests have made, so that a table's move nobody makes is seen (style §4, 14).

Only what `decide` emits counts (`Draft.emit`); `test_transitions.py` proves the tables through `apply` directly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from perdure_engine.core import apply as applying
from perdure_engine.core import draft as drafting
from perdure_engine.core import transitions

Move = tuple[str, str, str]

TABLES: dict[int, str] = {
    id(getattr(transitions, name)): name
    for name in (
        "WORKFLOW",
        "WORKFLOW_TASK",
        "ACTIVITY",
        "TIMER",
        "UPDATE",
        "CHILD",
        "EXTERNAL_SIGNAL",
        "EXTERNAL_CANCEL",
    )
}
RAN: set[Move] = set()


def legal_moves() -> set[Move]:
    return {
        (name, phase.name, event.name)
        for name in TABLES.values()
        for phase, event in getattr(transitions, name)
    }


@contextlib.contextmanager
def recorded() -> Iterator[None]:
    """Note every move of every event that a draft emits."""
    apply, move = applying.apply, transitions.move
    deciding = [False]

    def noted_apply(folded: Any, event: Any) -> None:
        deciding[0] = True
        try:
            apply(folded, event)
        finally:
            deciding[0] = False

    def noted_move(table: Any, phase: Any, event: Any) -> Any:
        after = move(table, phase, event)
        if deciding[0]:
            RAN.add((TABLES[id(table)], phase.name, event.name))
        return after

    drafting.apply, applying.move = noted_apply, noted_move  # type: ignore[attr-defined]
    try:
        yield
    finally:
        drafting.apply, applying.move = apply, move  # type: ignore[attr-defined]
