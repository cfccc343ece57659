"""`perdure entity`: keys of virtual objects, by the entity's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure._definitions import entity_key_of, entity_workflow_id
from perdure.cli.durations import optional_duration
from perdure.cli.errors import UsageError
from perdure.cli.inputs import read_inputs
from perdure.cli.jsonable import to_jsonable
from perdure.cli.lists import LIMIT_DEFAULT, Limit, page_size, print_list, to_fetch
from perdure.cli.parameters import InputFiles, Inputs
from perdure.cli.session import Session, connected
from perdure.cli.workflow.looking import describe as describe_workflow
from perdure.common import WorkflowStatus
from perdure.errors import RPCError, RPCStatusCode

if TYPE_CHECKING:
    from perdure.client import Client, EntityHandle, WorkflowExecution

app = typer.Typer(name="entity", help="Virtual objects: one key at a time.", no_args_is_help=True)

Entity = Annotated[str, typer.Argument(help="The entity's name.", show_default=False)]
Key = Annotated[str, typer.Argument(help="Which object.", show_default=False)]
Handler = Annotated[str, typer.Argument(help="The handler's name.", show_default=False)]
Reader = Annotated[str, typer.Argument(help="The reader's name.", show_default=False)]
Queue = Annotated[
    str | None,
    typer.Option(
        "--task-queue", "-q", help="Of its workers; needed for a key that does not exist yet."
    ),
]
CallId = Annotated[
    str | None, typer.Option("--id", help="The call's id: done once for it; new unless given.")
]
Wait = Annotated[
    str | None,
    typer.Option("--timeout", help="How long to wait for the call.", metavar="DURATION"),
]
KeyPrefix = Annotated[str, typer.Option(help="Only keys that begin so.", show_default=False)]


@connected(app, "list")
async def list_(
    session: Session, entity: Entity, key_prefix: KeyPrefix = "", limit: Limit = LIMIT_DEFAULT
) -> None:
    """List an entity's keys that exist, those first whose present run is the newest."""
    client = await session.connect()
    found = client.list_workflows(
        status=(WorkflowStatus.RUNNING, WorkflowStatus.PAUSED),
        workflow_type=entity,
        id_prefix=entity_workflow_id(entity, key_prefix) if key_prefix else f"{entity}/",
        page_size=page_size(limit),
        limit=to_fetch(limit),
        rpc_timeout=session.call_timeout,
    )

    def line(one: WorkflowExecution) -> dict[str, Any]:
        return {"key": entity_key_of(one.id, entity), "workflow_id": one.id, "run_id": one.run_id}

    def row(one: WorkflowExecution) -> Sequence[Any]:
        paused = "paused" if one.status is WorkflowStatus.PAUSED else ""
        return entity_key_of(one.id, entity), "stuck" if one.stuck else paused, one.run_id

    await print_list(session, found, limit, line=line, columns=("KEY", "STATE", "RUN ID"), row=row)


@connected(app, "describe")
async def describe(session: Session, entity: Entity, key: Key) -> None:
    """Show the workflow that a key is, and what it waits for."""
    await describe_workflow(session, entity_workflow_id(entity, key))


@connected(app, "call")
async def call(
    session: Session,
    entity: Entity,
    key: Key,
    handler: Handler,
    input: Inputs = None,
    input_file: InputFiles = None,
    task_queue: Queue = None,
    call_id: CallId = None,
    wait: Wait = None,
) -> None:
    """Call a handler and print what it returns as JSON.

    Exit code 4: it failed, and nothing has changed; 5: --timeout passed.
    """
    args = read_inputs(input or (), input_file or ())
    wait_at_most = optional_duration(wait)
    client = await session.connect()
    found = await _entity(session, client, entity, key, task_queue)
    asked = found.with_options(id=call_id, rpc_timeout=wait_at_most)
    with session.out.waiting(f"Waiting for {handler}; Ctrl-C leaves it running"):
        value = await asked.call(handler, *args)
    session.out.document(to_jsonable(value, client.core.decode_or_keep))


@connected(app, "tell")
async def tell(
    session: Session,
    entity: Entity,
    key: Key,
    handler: Handler,
    input: Inputs = None,
    input_file: InputFiles = None,
    task_queue: Queue = None,
    call_id: CallId = None,
) -> None:
    """Have a handler called. When this returns, that is saved."""
    args = read_inputs(input or (), input_file or ())
    client = await session.connect()
    found = await _entity(session, client, entity, key, task_queue)
    asked = found.with_options(id=call_id, rpc_timeout=session.call_timeout)
    await asked.tell(handler, *args)


@connected(app, "read")
async def read(
    session: Session,
    entity: Entity,
    key: Key,
    reader: Reader,
    input: Inputs = None,
    input_file: InputFiles = None,
) -> None:
    """Ask a reader and print its answer as JSON: of what was saved last."""
    args = read_inputs(input or (), input_file or ())
    client = await session.connect()
    found = client.entity(entity, key, task_queue="")
    value = await found.with_options(rpc_timeout=session.call_timeout).read(reader, *args)
    session.out.document(to_jsonable(value, client.core.decode_or_keep))


@connected(app, "destroy")
async def destroy(session: Session, entity: Entity, key: Key, wait: Wait = None) -> None:
    """Make a key as if it had never been used, when its turn comes."""
    wait_at_most = optional_duration(wait)
    client = await session.connect()
    found = client.entity(entity, key, task_queue="")
    with session.out.waiting("Waiting for its turn; Ctrl-C leaves it waiting"):
        await found.with_options(rpc_timeout=wait_at_most).destroy()
    session.out.note(f"{entity} {key} is destroyed.")


async def _entity(
    session: Session, client: Client, entity: str, key: str, task_queue: str | None
) -> EntityHandle[Any]:
    """Of a key that exists the queue is known."""
    if task_queue is None:
        run = client.get_workflow_handle(entity_workflow_id(entity, key))
        try:
            known = await run.describe(rpc_timeout=session.call_timeout)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or error.reason != "WORKFLOW_NOT_FOUND":
                raise
            raise UsageError(f"{entity} {key} does not exist yet: give --task-queue") from None
        task_queue = known.task_queue
    return client.entity(entity, key, task_queue=task_queue)
