"""`list` and `count`: many workflows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.durations import parse_instant
from perdure.cli.jsonable import to_jsonable
from perdure.cli.lists import LIMIT_DEFAULT, Limit, page_size, print_list, to_fetch
from perdure.cli.session import Session, connected
from perdure.cli.workflow.group import app
from perdure.common import WorkflowStatus

if TYPE_CHECKING:
    from perdure.client import WorkflowExecution


class Status(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    TERMINATED = "terminated"
    CONTINUED_AS_NEW = "continued-as-new"
    TIMED_OUT = "timed-out"
    PAUSED = "paused"


Statuses = Annotated[
    list[Status] | None, typer.Option("--status", help="Only these; again for more.")
]
Type = Annotated[str, typer.Option("--type", help="Only of this type.", show_default=False)]
IdPrefix = Annotated[str, typer.Option(help="Only ids that begin so.", show_default=False)]
Since = Annotated[
    str | None, typer.Option(help="Started at or after: a time, or 2h ago.", metavar="TIME")
]
Until = Annotated[str | None, typer.Option(help="Started before.", metavar="TIME")]
Query = Annotated[
    str | None,
    typer.Option(
        "--query",
        help="Only these: \"WorkflowType = 'Order' AND Region = 'eu' ORDER BY CloseTime DESC\".",
        show_default=False,
    ),
]
GroupedQuery = Annotated[
    str | None,
    typer.Option(
        "--query",
        help="Only these; may end in GROUP BY ExecutionStatus or WorkflowType.",
        show_default=False,
    ),
]
Archived = Annotated[
    bool,
    typer.Option(
        "--archived",
        help="Those that have left the tables instead, by the day of their close, newest first.",
    ),
]


@dataclass(frozen=True)
class _Filter:
    statuses: Sequence[WorkflowStatus]
    since: datetime | None
    until: datetime | None


@connected(app, "list")
async def list_(
    session: Session,
    status: Statuses = None,
    type: Type = "",
    id_prefix: IdPrefix = "",
    since: Since = None,
    until: Until = None,
    query: Query = None,
    limit: Limit = LIMIT_DEFAULT,
    archived: Archived = False,
) -> None:
    """List workflows, newest start first unless the query says otherwise. Lists are never stale."""
    wanted = _filter(status, since, until)
    client = await session.connect()
    found = client.list_workflows(
        query,
        status=wanted.statuses,
        workflow_type=type,
        id_prefix=id_prefix,
        start_time_min=wanted.since,
        start_time_max=wanted.until,
        page_size=page_size(limit),
        limit=to_fetch(limit),
        archived=archived,
        rpc_timeout=session.call_timeout,
    )
    await print_list(
        session,
        found,
        limit,
        line=lambda one: to_jsonable(one, client.core.decode_or_keep),
        columns=("WORKFLOW ID", "TYPE", "STATUS", "STARTED", "RUN ID"),
        row=_row,
    )


def _row(one: WorkflowExecution) -> Sequence[Any]:
    state = "stuck" if one.stuck else one.status.name if one.status else None
    return one.id, one.workflow_type, state, one.start_time, one.run_id


@connected(app, "count")
async def count(
    session: Session,
    status: Statuses = None,
    type: Type = "",
    id_prefix: IdPrefix = "",
    since: Since = None,
    until: Until = None,
    query: GroupedQuery = None,
) -> None:
    """Count workflows."""
    wanted = _filter(status, since, until)
    client = await session.connect()
    found = await client.count_workflows(
        query,
        status=wanted.statuses,
        workflow_type=type,
        id_prefix=id_prefix,
        start_time_min=wanted.since,
        start_time_max=wanted.until,
        rpc_timeout=session.call_timeout,
    )
    if session.out.is_json:
        document: dict[str, Any] = {"count": found.count}
        if found.groups:
            document["groups"] = [
                {"values": list(group.group_values), "count": group.count} for group in found.groups
            ]
        session.out.document(document)
    elif found.groups:
        rows = [(" ".join(map(str, group.group_values)), group.count) for group in found.groups]
        session.out.table(("GROUP", "COUNT"), rows)
    else:
        session.out.document(found.count)


def _filter(statuses: list[Status] | None, since: str | None, until: str | None) -> _Filter:
    now = datetime.now(UTC)
    return _Filter(
        [WorkflowStatus[one.name] for one in statuses or ()],
        None if since is None else parse_instant(since, now),
        None if until is None else parse_instant(until, now),
    )
