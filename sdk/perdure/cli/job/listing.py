"""`list`, `count` and `dead-letters`: many jobs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.durations import parse_instant
from perdure.cli.job.group import (
    Batch,
    FailureType,
    Queue,
    Schedule,
    Since,
    Task,
    Until,
    User,
    app,
)
from perdure.cli.jsonable import to_jsonable
from perdure.cli.lists import LIMIT_DEFAULT, Limit, print_list, to_fetch
from perdure.cli.session import Session, connected

if TYPE_CHECKING:
    from perdure.client import JobInfo
    from perdure.job import JobStatus


class Status(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in-progress"
    RETRY = "retry"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


Statuses = Annotated[
    list[Status] | None, typer.Option("--status", help="Only these; again for more.")
]


@connected(app, "list")
async def list_(
    session: Session,
    status: Statuses = None,
    task: Task = "",
    queue: Queue = "",
    user: User = "",
    schedule: Schedule = "",
    batch: Batch = "",
    failure_type: FailureType = "",
    since: Since = None,
    until: Until = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first")] = False,
    archived: Annotated[
        bool,
        typer.Option(
            "--archived",
            help="Those that have left the tables instead, by the day of their end, newest first.",
        ),
    ] = False,
    limit: Limit = LIMIT_DEFAULT,
) -> None:
    """List jobs, the newest scheduled time first. Lists are never stale."""
    wanted = {
        **filter_of(task, queue, user, schedule, batch, failure_type, since, until),
        "status": _statuses(status),
        "oldest_first": oldest_first,
        "archived": archived,
    }
    columns = ("JOB", "TASK", "STATUS", "ATTEMPT", "SCHEDULED", "QUEUE")
    await _print(session, wanted, limit, columns, _row)


@connected(app, "dead-letters")
async def dead_letters(
    session: Session,
    task: Task = "",
    queue: Queue = "",
    user: User = "",
    schedule: Schedule = "",
    batch: Batch = "",
    failure_type: FailureType = "",
    since: Since = None,
    until: Until = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="How many of each function and failure type.")
    ] = False,
    limit: Limit = LIMIT_DEFAULT,
) -> None:
    """List jobs whose last attempt failed, with why; `perdure job redrive` begins them anew."""
    from perdure.job import JobStatus

    wanted = {
        **filter_of(task, queue, user, schedule, batch, failure_type, since, until),
        "status": JobStatus.FAILED,
    }
    if summary:
        await _print_summary(session, wanted)
        return
    columns = ("JOB", "TASK", "ATTEMPTS", "FAILED", "FAILURE TYPE", "MESSAGE")
    await _print(session, wanted, limit, columns, _failed_row)


@connected(app, "count")
async def count(
    session: Session,
    status: Statuses = None,
    task: Task = "",
    queue: Queue = "",
    user: User = "",
    schedule: Schedule = "",
    batch: Batch = "",
    failure_type: FailureType = "",
    since: Since = None,
    until: Until = None,
) -> None:
    """Count jobs, in all and of each status."""
    wanted = filter_of(task, queue, user, schedule, batch, failure_type, since, until)
    client = await session.connect()
    found = await client.jobs.count(
        **wanted, status=_statuses(status), rpc_timeout=session.call_timeout
    )
    by_status = {one.name: count for one, count in found.by_status.items()}
    if session.out.is_json:
        session.out.document({"count": found.count, "by_status": by_status})
    else:
        session.out.table(("STATUS", "COUNT"), [*by_status.items(), ("all", found.count)])


async def _print(
    session: Session,
    wanted: dict[str, Any],
    limit: int,
    columns: Sequence[str],
    row: Callable[[JobInfo], Sequence[Any]],
) -> None:
    client = await session.connect()
    await print_list(
        session,
        client.jobs.list(**wanted, limit=to_fetch(limit), rpc_timeout=session.call_timeout),
        limit,
        line=lambda one: to_jsonable(one, client.core.decode_or_keep),
        columns=columns,
        row=row,
    )


def _row(one: JobInfo) -> Sequence[Any]:
    status = None if one.status is None else one.status.name
    return one.id, one.task_name, status, one.attempt, one.scheduled_time, one.queue


def _failed_row(one: JobInfo) -> Sequence[Any]:
    return (
        one.id,
        one.task_name,
        one.attempt,
        one.close_time,
        one.failure_type,
        one.failure_message,
    )


async def _print_summary(session: Session, wanted: dict[str, Any]) -> None:
    client = await session.connect()
    groups: dict[tuple[str, str], list[JobInfo]] = {}
    async for one in client.jobs.list(**wanted, rpc_timeout=session.call_timeout):
        groups.setdefault((one.task_name, one.failure_type), []).append(one)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    if session.out.is_json:
        for (task, failure_type), jobs in ordered:
            line = {"task_name": task, "failure_type": failure_type, "count": len(jobs)}
            session.out.json_line({**line, "failure_message": jobs[0].failure_message})
        return
    rows = [
        (task, failure_type, len(jobs), jobs[0].failure_message)
        for (task, failure_type), jobs in ordered
    ]
    session.out.table(("TASK", "FAILURE TYPE", "COUNT", "FOR EXAMPLE"), rows)


def filter_of(
    task: str,
    queue: str,
    user: str,
    schedule: str,
    batch: str,
    failure_type: str,
    since: str | None,
    until: str | None,
) -> dict[str, Any]:
    """Arguments of the client's lists."""
    now = datetime.now(UTC)
    return {
        "task_name": task,
        "queue": queue,
        "user_id": user,
        "schedule_id": schedule,
        "batch_id": batch,
        "failure_type": failure_type,
        "scheduled_time_min": None if since is None else parse_instant(since, now),
        "scheduled_time_max": None if until is None else parse_instant(until, now),
    }


def _statuses(given: list[Status] | None) -> Sequence[JobStatus]:
    from perdure.job import JobStatus

    return [JobStatus[one.name] for one in given or ()]
