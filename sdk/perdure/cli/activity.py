"""`perdure activity`: one pending activity of a run, or all of a type."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.durations import optional_duration
from perdure.cli.errors import UsageError
from perdure.cli.inputs import read_inputs
from perdure.cli.parameters import RunId, WorkflowId
from perdure.cli.session import Session, connected
from perdure.common import ActivityOptionsUpdate, Priority, RetryPolicy
from perdure.errors import ApplicationError

if TYPE_CHECKING:
    from perdure.client import AsyncActivityHandle, Client

app = typer.Typer(
    name="activity", help="Hold back, change or end pending activities.", no_args_is_help=True
)

ActivityId = Annotated[str, typer.Argument(help="The activity's id.", show_default=False)]
MaybeActivityId = Annotated[
    str | None, typer.Argument(help="The activity's id, unless --type is given.")
]
ActivityType = Annotated[
    str | None, typer.Option("--type", help="All pending activities of this type.")
]
ResetHeartbeat = Annotated[bool, typer.Option("--reset-heartbeat", help="Forget its progress.")]
Why = Annotated[str, typer.Option("--reason", help="Stands in the audit log.")]
Timeout = Annotated[str | None, typer.Option(metavar="DURATION")]


@connected(app, "pause")
async def pause(
    session: Session,
    workflow_id: WorkflowId,
    activity_id: MaybeActivityId = None,
    type: ActivityType = None,
    run_id: RunId = None,
    reason: Annotated[str, typer.Option(help="Shown by describe.")] = "",
) -> None:
    """Begin no further attempt. One that runs is told, and its outcome counts."""
    which = _which(activity_id, type)
    client = await session.connect()
    await client.operator.pause_activity(
        workflow_id, **which, run_id=run_id, reason=reason, rpc_timeout=session.call_timeout
    )
    session.out.note(f"{activity_id or type} is paused.")


@connected(app, "unpause")
async def unpause(
    session: Session,
    workflow_id: WorkflowId,
    activity_id: MaybeActivityId = None,
    type: ActivityType = None,
    run_id: RunId = None,
    reset_attempts: Annotated[
        bool, typer.Option("--reset-attempts", help="Count its attempts from 1 again.")
    ] = False,
    reset_heartbeat: ResetHeartbeat = False,
    reason: Why = "",
) -> None:
    """Let a paused activity go on."""
    which = _which(activity_id, type)
    client = await session.connect()
    await client.operator.unpause_activity(
        workflow_id,
        **which,
        run_id=run_id,
        reset_attempts=reset_attempts,
        reset_heartbeat=reset_heartbeat,
        reason=reason,
        rpc_timeout=session.call_timeout,
    )
    session.out.note(f"{activity_id or type} goes on.")


@connected(app, "reset")
async def reset(
    session: Session,
    workflow_id: WorkflowId,
    activity_id: MaybeActivityId = None,
    type: ActivityType = None,
    run_id: RunId = None,
    reset_heartbeat: ResetHeartbeat = False,
    keep_paused: Annotated[bool, typer.Option("--keep-paused", help="A pause goes on.")] = False,
    restore_original_options: Annotated[
        bool, typer.Option("--restore-original-options", help="As it was scheduled.")
    ] = False,
    reason: Why = "",
) -> None:
    """Count its attempts from 1 again, and try it at once unless an attempt runs."""
    which = _which(activity_id, type)
    client = await session.connect()
    await client.operator.reset_activity(
        workflow_id,
        **which,
        run_id=run_id,
        reset_heartbeat=reset_heartbeat,
        keep_paused=keep_paused,
        restore_original_options=restore_original_options,
        reason=reason,
        rpc_timeout=session.call_timeout,
    )
    session.out.note(f"{activity_id or type} begins anew.")


@connected(app, "update-options")
async def update_options(
    session: Session,
    workflow_id: WorkflowId,
    activity_id: MaybeActivityId = None,
    type: ActivityType = None,
    run_id: RunId = None,
    task_queue: Annotated[str | None, typer.Option(help="Where its next attempt runs.")] = None,
    schedule_to_close_timeout: Timeout = None,
    schedule_to_start_timeout: Timeout = None,
    start_to_close_timeout: Timeout = None,
    heartbeat_timeout: Timeout = None,
    initial_interval: Annotated[
        str | None, typer.Option(help="Of a new retry policy.", metavar="DURATION")
    ] = None,
    maximum_attempts: Annotated[
        int | None, typer.Option(help="Of a new retry policy; 0: without limit.", min=0)
    ] = None,
    priority: Annotated[int | None, typer.Option(min=1, max=5)] = None,
    restore_original: Annotated[
        bool, typer.Option("--restore-original", help="Back to what it was scheduled with.")
    ] = False,
    reason: Why = "",
) -> None:
    """Change the options of its next attempts. What is not given stays, a retry policy as a whole."""
    which = _which(activity_id, type)
    given = {
        "task_queue": task_queue,
        "schedule_to_close_timeout": optional_duration(schedule_to_close_timeout),
        "schedule_to_start_timeout": optional_duration(schedule_to_start_timeout),
        "start_to_close_timeout": optional_duration(start_to_close_timeout),
        "heartbeat_timeout": optional_duration(heartbeat_timeout),
        "retry_policy": _retry_policy(optional_duration(initial_interval), maximum_attempts),
        "priority": None if priority is None else Priority(priority_key=priority),
    }
    changes: dict[str, Any] = {name: one for name, one in given.items() if one is not None}
    if restore_original == bool(changes):
        raise UsageError("give options to change, or --restore-original alone")
    client = await session.connect()
    await client.operator.update_activity_options(
        workflow_id,
        None if restore_original else ActivityOptionsUpdate(**changes),
        **which,
        run_id=run_id,
        reason=reason,
        rpc_timeout=session.call_timeout,
    )
    session.out.note(f"{activity_id or type} has other options.")


@connected(app, "complete")
async def complete(
    session: Session,
    workflow_id: WorkflowId,
    activity_id: ActivityId,
    run_id: RunId = None,
    result: Annotated[
        str, typer.Option(help="What it is said to have returned.", metavar="JSON")
    ] = "null",
) -> None:
    """End an activity with a result, whether or not an attempt runs."""
    (value,) = read_inputs([result], ())
    handle = _handle(await session.connect(), workflow_id, run_id, activity_id)
    await handle.complete(value, rpc_timeout=session.call_timeout)
    session.out.note(f"{activity_id} is completed.")


@connected(app, "fail")
async def fail(
    session: Session,
    workflow_id: WorkflowId,
    activity_id: ActivityId,
    run_id: RunId = None,
    reason: Annotated[str, typer.Option(help="The failure's message.")] = "failed by an operator",
    error_type: Annotated[str, typer.Option(help="The failure's type.")] = "FailedByOperator",
    retryable: Annotated[
        bool, typer.Option("--retryable", help="As its retry policy says; else it ends.")
    ] = False,
) -> None:
    """Fail the attempt that runs."""
    handle = _handle(await session.connect(), workflow_id, run_id, activity_id)
    error = ApplicationError(reason, type=error_type, non_retryable=not retryable)
    await handle.fail(error, rpc_timeout=session.call_timeout)
    session.out.note(f"{activity_id} has failed.")


def _handle(
    client: Client, workflow_id: str, run_id: str | None, activity_id: str
) -> AsyncActivityHandle:
    return client.get_async_activity_handle(
        workflow_id=workflow_id, run_id=run_id, activity_id=activity_id
    )


def _which(activity_id: str | None, activity_type: str | None) -> dict[str, str]:
    if (activity_id is None) == (activity_type is None):
        raise UsageError("give the activity's id, or --type for all of a type")
    return {"activity_id": activity_id or "", "activity_type": activity_type or ""}


def _retry_policy(first: timedelta | None, maximum_attempts: int | None) -> RetryPolicy | None:
    if first is None and maximum_attempts is None:
        return None
    return RetryPolicy(
        initial_interval=first or timedelta(seconds=1), maximum_attempts=maximum_attempts or 0
    )
