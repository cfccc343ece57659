"""`reset`, `pause`, `unpause` and `resume`: what operators do with whole runs."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.cli.batch import Operation, begin
from perdure.cli.errors import UsageError
from perdure.cli.parameters import MaybeWorkflowId, Reason, RunId, WorkflowId
from perdure.cli.reset_options import BuildId, Exclude, Type, excluded, type_of
from perdure.cli.session import Session, connected
from perdure.cli.workflow.group import app

EventId = Annotated[
    int | None,
    typer.Option(
        "--event-id",
        "-e",
        min=1,
        help="The end of a workflow task: a WorkflowTaskCompleted, Failed, TimedOut or Started.",
    ),
]


@connected(app, "reset")
async def reset(
    session: Session,
    workflow_id: MaybeWorkflowId = None,
    run_id: RunId = None,
    event_id: EventId = None,
    type: Type = None,
    build_id: BuildId = "",
    reapply_exclude: Exclude = "",
    reason: Reason = "",
    query: Annotated[
        str, typer.Option("--query", help="All workflows that it finds, as a batch operation.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --query: do not ask.")] = False,
) -> None:
    """Begin a new run with a run's history up to a workflow task. The open run is terminated.

    With --query many workflows, each once: closed ones too; say ExecutionStatus in it for less.
    """
    if (workflow_id is None) == (not query) or (query and (run_id or event_id)):
        raise UsageError("give a workflow's id, or --query with --type")
    exclude = excluded(reapply_exclude)
    reset_type = type_of(type, build_id)
    if (event_id is None) == (reset_type is None):
        raise UsageError("say where to: --event-id, or --type")
    if workflow_id is None:
        await begin(
            session,
            query,
            Operation.RESET,
            reason=reason,
            yes=yes,
            reset_type=reset_type,
            build_id=build_id,
            reapply_exclude=exclude,
        )
        return
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    new = await handle.reset(
        event_id=event_id,
        reset_type=reset_type,
        build_id=build_id,
        reapply_exclude=exclude,
        reason=reason,
        rpc_timeout=session.call_timeout,
    )
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


@connected(app, "resume")
async def resume(
    session: Session, workflow_id: WorkflowId, run_id: RunId = None, reason: Reason = ""
) -> None:
    """Have what has crashed its workers again and again tried at once, in the surgical pool."""
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    await handle.resume(reason=reason, rpc_timeout=session.call_timeout)
    session.out.note(f"{workflow_id} goes on; workers of the surgical pool get what is poisoned.")
