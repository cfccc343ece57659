"""Lists that show at most so many."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from perdure.cli.session import Session

T = TypeVar("T")

LIMIT_DEFAULT = 100
PAGE_SIZE_MAX = 1_000

Limit = Annotated[int, typer.Option(min=0, help="At most so many; 0: all.")]


def to_fetch(limit: int) -> int | None:
    """One more than is shown, to know whether there are more; None: all."""
    return limit + 1 if limit else None


def page_size(limit: int) -> int:
    return min(to_fetch(limit) or PAGE_SIZE_MAX, PAGE_SIZE_MAX)


async def print_list(
    session: Session,
    found: AsyncIterable[T],
    limit: int,
    *,
    line: Callable[[T], Any],
    columns: Sequence[str],
    row: Callable[[T], Sequence[Any]],
) -> None:
    """As JSON a line each as they come, else a table of all of them."""
    rows: list[Sequence[Any]] = []
    shown = 0
    async for one in found:
        if limit and shown == limit:
            session.out.note(f"There are more than {limit}: --limit shows more, 0 all.")
            break
        shown += 1
        if session.out.is_json:
            session.out.json_line(line(one))
        else:
            rows.append(row(one))
    if not session.out.is_json:
        session.out.table(columns, rows)
