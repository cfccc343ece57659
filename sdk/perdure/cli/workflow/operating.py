"""`reset`, `pause` and `unpause`: what operators do with whole runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from perdure.cli.errors import UsageError
from perdure.cli.parameters import Reason, RunId, WorkflowId
from perdure.cli.session import Session, connected
from perdure.cli.workflow.group import app
from perdure.common import ResetReapplyExcludeType, ResetType


class ResetTo(StrEnum):
    FIRST_WORKFLOW_TASK = "first-workflow-task"
    LAST_WORKFLOW_TASK = "last-workflow-task"
    BUILD_ID = "build-id"


EventId = Annotated[
    int | None,
    typer.Option(
        "--event-id",
        "-e",
        min=1,
        help="The end of a workflow task: a WorkflowTaskCompleted, Failed, TimedOut or Started.",
    ),
]
Type = Annotated[
    ResetTo | None, typer.Option("--type", "-t", help="Which workflow task, instead of an event.")
]
BuildId = Annotated[
    str, typer.Option(help="Go to the first workflow task that this build completed.")
]
Exclude = Annotated[
    str,
    typer.Option(
        "--reapply-exclude",
        help="What came in after the point and is not applied again: signal, update, or both with a comma; all.",
    ),
]


@connected(app, "reset")
async def reset(
    session: Session,
    workflow_id: WorkflowId,
    run_id: RunId = None,
    event_id: EventId = None,
    type: Type = None,
    build_id: BuildId = "",
    reapply_exclude: Exclude = "",
    reason: Reason = "",
) -> None:
    """Begin a new run with a run's history up to a workflow task. The open run is terminated."""
    exclude = _excluded(reapply_exclude)
    reset_type = None if type is None else ResetType[type.name]
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    try:
        new = await handle.reset(
            event_id=event_id,
            reset_type=reset_type,
            build_id=build_id,
            reapply_exclude=exclude,
            reason=reason,
            rpc_timeout=session.call_timeout,
        )
    except ValueError:
        raise UsageError(
            "say where to: --event-id, or --type; --build-id belongs to --type build-id"
        ) from None
    values = {"workflow_id": workflow_id, "run_id": new.result_run_id}
    if session.out.is_json:
        session.out.document(values)
    else:
        session.out.fields({"workflow id": workflow_id, "run id": new.result_run_id})


@connected(app, "pause")
async def pause(
    session: Session, workflow_id: WorkflowId, run_id: RunId = None, reason: Reason = ""
) -> None:
    """Hand out no task of a run. What happens to it is recorded; activities that run go on."""
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    await handle.pause(reason=reason, rpc_timeout=session.call_timeout)
    session.out.note(f"{workflow_id} is paused.")


@connected(app, "unpause")
async def unpause(
    session: Session, workflow_id: WorkflowId, run_id: RunId = None, reason: Reason = ""
) -> None:
    """Let a run go on that was paused."""
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    await handle.unpause(reason=reason, rpc_timeout=session.call_timeout)
    session.out.note(f"{workflow_id} goes on.")


def _excluded(text: str) -> list[ResetReapplyExcludeType]:
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return list(ResetReapplyExcludeType)
    known = {one.name.lower(): one for one in ResetReapplyExcludeType}
    for word in words:
        if word not in known:
            raise UsageError(f"--reapply-exclude: {word!r} is none of signal, update, all")
    return [known[word] for word in words]
