"""`signal`, `cancel`, `terminate`, `saga` and `delete`: what changes a workflow."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from perdure.cli.batch import Operation, begin
from perdure.cli.errors import UsageError
from perdure.cli.inputs import read_inputs
from perdure.cli.parameters import (
    InputFiles,
    Inputs,
    MaybeWorkflowId,
    Reason,
    RunId,
    WorkflowId,
)
from perdure.cli.session import Session, connected
from perdure.cli.workflow.group import app
from perdure.common import SAGA_SIGNAL


@connected(app, "signal")
async def signal(
    session: Session,
    workflow_id: WorkflowId,
    name: Annotated[str, typer.Argument(help="The signal's name.", show_default=False)],
    input: Inputs = None,
    input_file: InputFiles = None,
    run_id: RunId = None,
) -> None:
    """Send a signal. When this returns it is saved, and the workflow will see it once."""
    args = read_inputs(input or (), input_file or ())
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    await handle.signal(name, args=args, rpc_timeout=session.call_timeout)
    session.out.note(f"Signal {name} is saved.")


@connected(app, "cancel")
async def cancel(
    session: Session, workflow_id: WorkflowId, run_id: RunId = None, reason: Reason = ""
) -> None:
    """Ask a workflow to stop. Its code may clean up first, or go on."""
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    await handle.cancel(reason=reason, rpc_timeout=session.call_timeout)
    session.out.note(f"{workflow_id} is asked to stop.")


@connected(app, "terminate")
async def terminate(
    session: Session,
    workflow_id: MaybeWorkflowId = None,
    run_id: RunId = None,
    reason: Reason = "",
    query: Annotated[
        str, typer.Option("--query", help="All open runs that it finds, as a batch operation.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --query: do not ask.")] = False,
) -> None:
    """End a workflow at once, without its code, or many. This cannot be undone."""
    if (workflow_id is None) == (not query) or (query and run_id):
        raise UsageError("give a workflow's id, or --query")
    if workflow_id is None:
        await begin(session, query, Operation.TERMINATE, reason=reason, yes=yes)
        return
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    await handle.terminate(reason=reason, rpc_timeout=session.call_timeout)
    session.out.note(f"{workflow_id} is terminated.")


class SagaWord(StrEnum):
    retry = "retry"
    skip = "skip"


@connected(app, "saga")
async def saga(
    session: Session,
    workflow_id: WorkflowId,
    word: Annotated[SagaWord, typer.Argument(help="What is to become of the compensation.")],
    run_id: RunId = None,
    reason: Reason = "",
) -> None:
    """Tell a saga whose compensation has failed to try it again, or to go on without it."""
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    said = {"action": word.value, "reason": reason}
    await handle.signal(SAGA_SIGNAL, said, rpc_timeout=session.call_timeout)
    session.out.note(f"The saga of {workflow_id} is told to {word.value}.")


@connected(app, "delete")
async def delete(
    session: Session,
    workflow_id: WorkflowId,
    run_id: RunId = None,
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a run with its history; an open one is terminated first. This cannot be undone."""
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    there = await handle.describe(rpc_timeout=session.call_timeout)
    status_word = "of a newer engine" if there.status is None else there.status.name
    if not yes:
        question = f"Delete {workflow_id}, run {there.run_id} ({status_word})?"
        typer.confirm(question, abort=True, err=True)
    handle = client.get_workflow_handle(workflow_id, run_id=there.run_id)
    await handle.delete(reason=reason, rpc_timeout=session.call_timeout)
    session.out.note(f"{workflow_id}, run {there.run_id}, is gone.")
