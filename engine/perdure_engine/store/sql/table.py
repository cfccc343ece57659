"""What a table module gives to the commit statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, LiteralString

from perdure_engine.store.sql.parameters import Column


class BatchTable:
    """A table that a batch writes.

    `name` is also the field of ports.store.Batch; `write` its CTE, which joins the fence; `complete` is true when as
    many rows were written as were sent. In both the first placeholder is number `first`, and there is one for each
    of `columns`. `pack` makes them of rows whose columns are not simply these.
    """

    def __init__(
        self,
        *,
        name: str,
        write: LiteralString,
        complete: LiteralString,
        first: int,
        columns: tuple[type[Column], ...],
        pack: Callable[[Sequence[Any]], list[object]] | None = None,
    ) -> None:
        self.name: Final = name
        self.write: Final = write
        self.complete: Final = complete
        self.first: Final = first
        self.width: Final = len(columns)
        self.parameters: Final = pack or self._parameters
        self._columns: Final = columns

    def _parameters(self, rows: Sequence[Any]) -> list[object]:
        if not rows:
            return [column() for column in self._columns]
        return [
            column(values)
            for column, values in zip(self._columns, zip(*rows, strict=True), strict=True)
        ]
