"""ListWorkflows: runs by what lists know of them, newest start first."""

from __future__ import annotations

import hashlib

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import invalid
from perdure_engine.core.status import Status
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import VisibilityFilter

STATUSES = frozenset(Status)

canonical = msgspec.msgpack.Encoder().encode


class ListAnswer(msgspec.Struct, frozen=True):
    rows: list[VisibilityRow]
    next_page_token: bytes


class Last(msgspec.Struct, frozen=True, array_like=True):
    """The last row of the page before."""

    start_us: int
    run_id: bytes


async def list_workflows(
    frontend: Frontend, where: VisibilityFilter, page_size: int, page_token: bytes
) -> ListAnswer:
    check_filter(where)
    size = checks.page_size("page_size", page_size)
    before = None
    if page_token:
        last = frontend.sealer.open_page("page_token", page_token, _scope(where), Last)
        before = (last.start_us, last.run_id)
    rows = await frontend.visibility.list_runs(where, before, size + 1)
    shown = _within_bytes(rows[:size])
    if len(shown) == len(rows):
        return ListAnswer(shown, b"")
    last = Last(shown[-1].start_us, shown[-1].run_id)
    return ListAnswer(shown, frontend.sealer.seal_page(last, _scope(where)))


def check_filter(where: VisibilityFilter) -> None:
    for index, status in enumerate(where.statuses):
        if status not in STATUSES:
            raise invalid(f"filter.statuses[{index}]", "is not a status")
    if where.workflow_type:
        checks.type_name("filter.workflow_type", where.workflow_type)
    checks.id_prefix("filter.workflow_id_prefix", where.workflow_id_prefix)
    checks.instant("filter.start_time_min_us", where.start_min_us)
    checks.instant("filter.start_time_max_us", where.start_max_us)


def _scope(where: VisibilityFilter) -> bytes:
    return b"list_workflows" + hashlib.blake2b(canonical(where), digest_size=16).digest()


def _within_bytes(rows: list[VisibilityRow]) -> list[VisibilityRow]:
    """As many as fit into a message, and at least one: memos may be large."""
    room = limits.BATCH_MESSAGE_BYTES_MAX
    for index, row in enumerate(rows):
        room -= len(row.memo)
        if room < 0 and index:
            return rows[:index]
    return rows
