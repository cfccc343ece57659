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
    DeadLetter,
    DeadLetters,
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
    SUSPENDED = "suspended"
    POISONED = "poisoned"


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
        "status": statuses_of(status),
        "oldest_first": oldest_first,
        "archived": archived,
    }
    columns = ("JOB", "TASK", "STATUS", "ATTEMPT", "SCHEDULED", "QUEUE")
    await _print(session, wanted, limit, columns, _row)


@connected(app, "dead-letters")
async def dead_letters(
    session: Session,
    status: DeadLetters = None,
    task: Task = "",
    queue: Queue = "",
    user: User = "",
    schedule: Schedule = "",
    batch: Batch = "",
    failure_type: FailureType = "",
    since: Since = None,
    until: Until = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="How many of each function, status and failure type.")
    ] = False,
    limit: Limit = LIMIT_DEFAULT,
) -> None:
    """List jobs that have failed, are poisoned or suspended, with why.

    `perdure job redrive` begins them anew; `perdure job resume` lets a poisoned or suspended one go on.
    """
    wanted = {
        **filter_of(task, queue, user, schedule, batch, failure_type, since, until),
        "status": statuses_of(status or list(DeadLetter)),
    }
    if summary:
        await _print_summary(session, wanted)
        return
    columns = ("JOB", "TASK", "STATUS", "ATTEMPTS", "SINCE", "FAILURE TYPE", "MESSAGE")
    await _print(session, wanted, limit, columns, _dead_row)


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
        **wanted, status=statuses_of(status), rpc_timeout=session.call_timeout
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


def _dead_row(one: JobInfo) -> Sequence[Any]:
    return (
        one.id,
        one.task_name,
        None if one.status is None else one.status.name,
        one.attempt,
        one.close_time or one.first_crash_time,
        one.failure_type,
        _why(one),
    )


def _why(one: JobInfo) -> str:
    """One that is open has crashed its workers, which its reason says."""
    return one.reason if one.close_time is None else one.failure_message


async def _print_summary(session: Session, wanted: dict[str, Any]) -> None:
    client = await session.connect()
    groups: dict[tuple[str, str, str], list[JobInfo]] = {}
    async for one in client.jobs.list(**wanted, rpc_timeout=session.call_timeout):
        status = "" if one.status is None else one.status.name
        groups.setdefault((one.task_name, status, one.failure_type), []).append(one)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    if session.out.is_json:
        for (task, status, failure_type), jobs in ordered:
            line = {"task_name": task, "status": status, "failure_type": failure_type}
            session.out.json_line({**line, "count": len(jobs), "failure_message": _why(jobs[0])})
        return
    rows = [(*group, len(jobs), _why(jobs[0])) for group, jobs in ordered]
    session.out.table(("TASK", "STATUS", "FAILURE TYPE", "COUNT", "FOR EXAMPLE"), rows)


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


def statuses_of(given: Sequence[Status | DeadLetter] | None) -> Sequence[JobStatus]:
    from perdure.job import JobStatus

    return [JobStatus[one.name] for one in given or ()]
