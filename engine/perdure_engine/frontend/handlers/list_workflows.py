"""ListWorkflows: runs by what lists know of them, newest start first unless the query says otherwise."""

from __future__ import annotations

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import invalid
from perdure_engine.core.status import Status
from perdure_engine.frontend import checks, filters
from perdure_engine.frontend.archived import refusals_of_archive, require_archive
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.reading import read_page
from perdure_engine.frontend.seal import page_scope
from perdure_engine.ports.archive import ArchivePlace
from perdure_engine.ports.filters import Order
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import PageKey, VisibilityFilter

STATUSES = frozenset(Status)


class ListAnswer(msgspec.Struct, frozen=True):
    rows: list[VisibilityRow]
    next_page_token: bytes


class Last(msgspec.Struct, frozen=True, array_like=True):
    """Up to where the page before has looked."""

    start_us: int
    run_id: bytes
    close_us: int = 0
    now_us: int = 0  # of the first page: "2h" means the same on each


class LastArchived(msgspec.Struct, frozen=True, array_like=True):
    """The same of a list of archived runs."""

    place: ArchivePlace
    now_us: int


async def list_workflows(
    frontend: Frontend,
    where: VisibilityFilter,
    page_size: int,
    page_token: bytes,
    query: str = "",
) -> ListAnswer:
    """A page may have fewer runs than asked for, and even none, while its token says that there may be more."""
    check_filter(where)
    size = checks.page_size("page_size", page_size)
    scope = _scope(where, query)
    last: Last | None = None
    now_us = frontend.db_now_us()
    if page_token:
        last = frontend.sealer.open_page("page_token", page_token, scope, Last)
        now_us = last.now_us
    order = Order.START_DESC
    if query:
        asked = filters.parse("query", query, now_us)
        if asked.group is not None:
            raise invalid("query", "a list has no GROUP BY")
        where = msgspec.structs.replace(where, expression=asked.expression)
        order = asked.order or order

    async def read(
        past: Last | None, limit: int
    ) -> tuple[list[tuple[Last, VisibilityRow]], Last | None]:
        before = None if past is None else (past.start_us, past.run_id, past.close_us)
        page = await frontend.visibility.list_runs(where, before, limit, order)
        rows = [(_last(row, now_us), row) for row in page.rows]
        return rows, None if page.end is None else _last_of_key(page.end, now_us)

    rows, last = await read_page(frontend.clock, read, last, size)
    shown = _within_bytes(rows)
    if len(shown) < len(rows):
        last = _last(shown[-1], now_us)
    return ListAnswer(shown, b"" if last is None else frontend.sealer.seal_page(last, scope))


async def list_archived_workflows(
    frontend: Frontend,
    where: VisibilityFilter,
    page_size: int,
    page_token: bytes,
    query: str = "",
) -> ListAnswer:
    """By the day of their close, the newest first. A page may be empty and have a token."""
    check_filter(where)
    archive = require_archive(frontend)
    size = checks.page_size("page_size", page_size)
    scope = b"archived" + _scope(where, query)
    last = None
    now_us = frontend.db_now_us()
    if page_token:
        last = frontend.sealer.open_page("page_token", page_token, scope, LastArchived)
        now_us = last.now_us
    if query:
        asked = filters.parse("query", query, now_us)
        if asked.group is not None or asked.order is not None:
            raise invalid("query", "a list of archived runs has no GROUP BY and no ORDER BY")
        where = msgspec.structs.replace(where, expression=asked.expression)
    with refusals_of_archive():
        page = await archive.list_runs(where, None if last is None else last.place, size)
    rows = [row for row, _ in page.rows]
    shown = _within_bytes(rows)
    end = page.end if len(shown) == len(rows) else page.rows[len(shown) - 1][1]
    if end is None:
        return ListAnswer(shown, b"")
    return ListAnswer(shown, frontend.sealer.seal_page(LastArchived(end, now_us), scope))


def check_filter(where: VisibilityFilter) -> None:
    for index, status in enumerate(where.statuses):
        if status not in STATUSES:
            raise invalid(f"filter.statuses[{index}]", "is not a status")
    if where.workflow_type:
        checks.type_name("filter.workflow_type", where.workflow_type)
    checks.id_prefix("filter.workflow_id_prefix", where.workflow_id_prefix)
    checks.instant("filter.start_time_min_us", where.start_min_us)
    checks.instant("filter.start_time_max_us", where.start_max_us)


def _scope(where: VisibilityFilter, query: str) -> bytes:
    return page_scope(b"list_workflows", (where, query))


def _last(row: VisibilityRow, now_us: int) -> Last:
    return Last(row.start_us, row.run_id, row.close_us or 0, now_us)


def _last_of_key(key: PageKey, now_us: int) -> Last:
    return Last(key[0], key[1], key[2] if len(key) == 3 else 0, now_us)


def _within_bytes(rows: list[VisibilityRow]) -> list[VisibilityRow]:
    """As many as fit into a message, and at least one: memos may be large."""
    room = limits.BATCH_MESSAGE_BYTES_MAX
    for index, row in enumerate(rows):
        room -= len(row.memo)
        if room < 0 and index:
            return rows[:index]
    return rows
