"""`update execute`, `start` and `result`: what changes a running workflow and waits for its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.durations import optional_duration
from perdure.cli.inputs import read_inputs
from perdure.cli.jsonable import to_jsonable
from perdure.cli.parameters import InputFiles, Inputs, RunId, WorkflowId
from perdure.cli.session import Session, connected
from perdure.cli.workflow.group import app

if TYPE_CHECKING:
    from perdure.client import WorkflowUpdateHandle

group = typer.Typer(
    name="update", help="Change a running workflow, and hear its answer.", no_args_is_help=True
)
app.add_typer(group)

Name = Annotated[str, typer.Argument(help="The update's name.", show_default=False)]
UpdateId = Annotated[
    str | None,
    typer.Option("--update-id", help="The update's id: one outcome for all; new unless given."),
]
KnownUpdateId = Annotated[str, typer.Argument(help="The update's id.", show_default=False)]
Wait = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        help="How long to wait for the update; without end unless given.",
        metavar="DURATION",
    ),
]


@connected(group, "execute")
async def execute(
    session: Session,
    workflow_id: WorkflowId,
    name: Name,
    input: Inputs = None,
    input_file: InputFiles = None,
    run_id: RunId = None,
    update_id: UpdateId = None,
    wait: Wait = None,
) -> None:
    """Update a workflow and print what it answers as JSON.

    Exit code 4: it was refused or failed; 5: --timeout passed.
    """
    args = read_inputs(input or (), input_file or ())
    wait_at_most = optional_duration(wait)
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    with session.out.waiting(f"Waiting for {name}; Ctrl-C leaves it running"):
        value = await handle.execute_update(name, args=args, id=update_id, rpc_timeout=wait_at_most)
    session.out.document(to_jsonable(value, client.core.decode_or_keep))


@connected(group, "start")
async def start(
    session: Session,
    workflow_id: WorkflowId,
    name: Name,
    input: Inputs = None,
    input_file: InputFiles = None,
    run_id: RunId = None,
    update_id: UpdateId = None,
) -> None:
    """Update a workflow. When this returns, it has been accepted and will have a result.

    Exit code 4: it was refused; 5: no worker has answered in time.
    """
    from perdure.client import WorkflowUpdateStage  # gRPC takes longer to import than --help may

    args = read_inputs(input or (), input_file or ())
    client = await session.connect()
    handle: WorkflowUpdateHandle[Any] = await client.get_workflow_handle(
        workflow_id, run_id=run_id
    ).start_update(
        name,
        args=args,
        wait_for_stage=WorkflowUpdateStage.ACCEPTED,
        id=update_id,
        rpc_timeout=session.call_timeout,
    )
    if handle.has_failed:
        await handle.result()  # which says why
    started = {
        "workflow_id": workflow_id,
        "run_id": handle.workflow_run_id,
        "update_id": handle.id,
    }
    if session.out.is_json:
        session.out.document(started)
    else:
        session.out.fields(started)


@connected(group, "result")
async def result(
    session: Session,
    workflow_id: WorkflowId,
    update_id: KnownUpdateId,
    run_id: RunId = None,
    wait: Wait = None,
) -> None:
    """Wait for an update's end and print what it answered as JSON.

    Exit code 4: it failed; 5: --timeout passed.
    """
    wait_at_most = optional_duration(wait)
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id).get_update_handle(update_id)
    with session.out.waiting(f"Waiting for {update_id}; Ctrl-C leaves it running"):
        value = await handle.result(rpc_timeout=wait_at_most)
    session.out.document(to_jsonable(value, client.core.decode_or_keep))
