"""`list`, `count` and `dead-letters`: many jobs at once."""

from __future__ import annotations

from collections.abc import Sequence
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
from perdure.cli.session import Session, connected

if TYPE_CHECKING:
    from perdure.client import JobInfo
    from perdure.job import JobStatus

LIMIT_DEFAULT = 100


class Status(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in-progress"
    RETRY = "retry"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    SUSPENDED = "suspended"


Statuses = Annotated[
    list[Status] | None, typer.Option("--status", help="Only these; again for more.")
]
Limit = Annotated[int, typer.Option(min=0, help="At most so many; 0: all.")]


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
    found = await _shown(session, wanted, limit)
    if not session.out.is_json:
        rows = [
            (one.id, one.task_name, _name(one.status), one.attempt, one.scheduled_time, one.queue)
            for one in found
        ]
        columns = ("JOB", "TASK", "STATUS", "ATTEMPT", "SCHEDULED", "QUEUE")
        session.out.table(columns, rows)


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
    found = await _shown(session, wanted, limit)
    if not session.out.is_json:
        rows = [
            (
                one.id,
                one.task_name,
                one.attempt,
                one.close_time,
                one.failure_type,
                one.failure_message,
            )
            for one in found
        ]
        columns = ("JOB", "TASK", "ATTEMPTS", "FAILED", "FAILURE TYPE", "MESSAGE")
        session.out.table(columns, rows)


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


async def _shown(session: Session, wanted: dict[str, Any], limit: int) -> list[JobInfo]:
    """As many as may be shown; printed here when that is JSON, one a line."""
    client = await session.connect()
    ask = limit + 1 if limit else None  # one more than is shown, to know whether there are more
    found: list[JobInfo] = []
    async for one in client.jobs.list(**wanted, limit=ask, rpc_timeout=session.call_timeout):
        if limit and len(found) == limit:
            session.out.note(f"There are more than {limit}: --limit shows more, 0 all.")
            break
        found.append(one)
        if session.out.is_json:
            session.out.json_line(to_jsonable(one, client.core.decode_or_keep))
    return found


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


def _name(status: JobStatus | None) -> str | None:
    return None if status is None else status.name
