"""What a table module gives to the commit statement."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from perdure_engine.store.sql.parameters import Column


class BatchTable(NamedTuple):
    """A table that a batch writes. Its placeholders have the same numbers in every form of the
    statement.
    """

    name: str  # also the field of ports.store.Batch
    write: LiteralString  # its CTE, which joins the fence
    complete: LiteralString  # true when as many rows were written as were sent
    columns: tuple[type[Column], ...]  # its parameters, in order
