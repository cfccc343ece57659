"""`cancel`, `reschedule`, `resume` and `redrive`: what changes jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.cli.durations import parse_time
from perdure.cli.errors import UsageError
from perdure.cli.job.group import (
    Batch,
    DeadLetters,
    FailureType,
    JobId,
    Queue,
    Schedule,
    Since,
    Task,
    Until,
    User,
    app,
)
from perdure.cli.job.listing import filter_of, statuses_of
from perdure.cli.session import Session, connected


@connected(app, "cancel")
async def cancel(
    session: Session,
    job_id: JobId,
    reason: Annotated[str, typer.Option(help="Shown by describe.")] = "",
) -> None:
    """End a job that has not started; ask one that runs to stop."""
    from perdure.job import JobStatus

    client = await session.connect()
    status = await client.jobs.cancel(job_id, reason=reason, rpc_timeout=session.call_timeout)
    over = status is JobStatus.CANCELLED
    session.out.note(f"{job_id} is cancelled." if over else f"{job_id} is asked to stop.")


@connected(app, "reschedule")
async def reschedule(
    session: Session,
    job_id: JobId,
    at: Annotated[
        str | None, typer.Option(help="The new time.", metavar="TIME", show_default=False)
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="At once.")] = False,
) -> None:
    """Give a job that has not started another time."""
    if (at is None) != now:
        raise UsageError("give --at TIME, or --now")
    run_at = None if at is None else parse_time(at)
    client = await session.connect()
    await client.jobs.reschedule(job_id, run_at, rpc_timeout=session.call_timeout)
    session.out.note(f"{job_id} has another time.")


@connected(app, "resume")
async def resume(
    session: Session,
    job_id: JobId,
    reason: Annotated[str, typer.Option(help="Kept in the audit log.")] = "",
) -> None:
    """Let a poisoned or suspended job run at once, in the surgical pool."""
    client = await session.connect()
    await client.jobs.resume(job_id, reason=reason, rpc_timeout=session.call_timeout)
    session.out.note(f"{job_id} is ready in the surgical pool.")


@connected(app, "redrive")
async def redrive(
    session: Session,
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB_ID]...", help="These jobs.")
    ] = None,
    status: DeadLetters = None,
    task: Task = "",
    queue: Queue = "",
    user: User = "",
    schedule: Schedule = "",
    batch: Batch = "",
    failure_type: FailureType = "",
    since: Since = None,
    until: Until = None,
    every: Annotated[bool, typer.Option("--all", help="Every one.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    reason: Annotated[str, typer.Option(help="Shown by describe.")] = "",
) -> None:
    """Begin failed, poisoned and suspended jobs anew: these, or all that fit. What failed stays on them."""
    wanted = filter_of(task, queue, user, schedule, batch, failure_type, since, until)
    wanted["status"] = statuses_of(status)
    filters = {name: value for name, value in wanted.items() if value}
    ids = job_ids or []
    if bool(ids) + bool(filters) + every != 1:
        raise UsageError("give ids, filters, or --all")
    client = await session.connect()
    if dry_run or not (ids or yes):
        count = await client.jobs.redrive(
            ids, **filters, dry_run=True, rpc_timeout=session.call_timeout
        )
        if dry_run:
            session.out.document({"count": count} if session.out.is_json else count)
            return
        typer.confirm(f"Begin {count} jobs anew?", abort=True, err=True)
    count = await client.jobs.redrive(
        ids, **filters, reason=reason, rpc_timeout=session.call_timeout
    )
    if session.out.is_json:
        session.out.document({"count": count})
    else:
        session.out.note(f"{count} jobs begin anew.")
