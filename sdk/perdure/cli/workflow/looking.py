"""`describe`, `why`, `show` and `query`: one workflow, as the engine and its own code see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from perdure.cli.inputs import read_inputs
from perdure.cli.jsonable import to_jsonable
from perdure.cli.output import shown_instant
from perdure.cli.parameters import InputFiles, Inputs, RunId, WorkflowId
from perdure.cli.printable import json_text
from perdure.cli.session import Session, connected
from perdure.cli.workflow.group import app

if TYPE_CHECKING:
    from perdure.client import HistoryEvent

EVENT_TYPE_COLUMNS = 36


@connected(app, "describe")
async def describe(session: Session, workflow_id: WorkflowId, run_id: RunId = None) -> None:
    """Show a workflow's state and what it waits for."""
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    found = await handle.describe(rpc_timeout=session.call_timeout)
    values: dict[str, Any] = to_jsonable(found, client.core.decode_or_keep)
    if session.out.is_json:
        session.out.document(values)
        return
    lines: dict[str, Any] = {}
    for name, value in values.items():
        title = name.replace("_", " ")
        if name.startswith("pending_") and isinstance(value, list):
            for number, one in enumerate(cast("list[dict[str, Any]]", value), start=1):
                lines[f"{title} {number}"] = _without_empty(one)
        elif value not in (None, "", {}):
            lines[title] = value
    session.out.fields(lines)


@connected(app, "why")
async def why(session: Session, workflow_id: WorkflowId, run_id: RunId = None) -> None:
    """Say what a workflow waits for, since when, and what will wake it."""
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    reasons = await handle.explain(rpc_timeout=session.call_timeout)
    if session.out.is_json:
        values = [to_jsonable(one, client.core.decode_or_keep) for one in reasons]
        texts = [{"text": f"It waits {one.text}."} for one in reasons]
        session.out.document([text | value for text, value in zip(texts, values, strict=True)])
        return
    for reason in reasons:
        session.out.line(f"It waits {reason.text}.")
        facts = {"since": reason.since, "until": reason.until}
        for name, instant in facts.items():
            if instant is not None:
                session.out.line(f"    {name:<6} {shown_instant(instant)}")
        if reason.last_failure is not None:
            session.out.line(f"    failed {reason.last_failure.message}")


@connected(app, "show")
async def show(
    session: Session,
    workflow_id: WorkflowId,
    run_id: RunId = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the workflow has closed.")
    ] = False,
) -> None:
    """Print a workflow's history, one event a line. As JSON it can be replayed (`Replayer`)."""
    from perdure._wire.history_json import event_to_json  # with protobuf: not for `--help`

    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    # A page that waits for the next event waits longer than any other call.
    timeout = None if follow else session.call_timeout
    events = handle.fetch_history_events(wait_new_event=follow, rpc_timeout=timeout)
    decode = client.core.decode_or_keep
    async for event in events:
        if session.out.is_json:
            session.out.json_line(event_to_json(event))
        else:
            session.out.line(_event_line(event, to_jsonable(event.attributes, decode)))


@connected(app, "query")
async def query(
    session: Session,
    workflow_id: WorkflowId,
    name: Annotated[str, typer.Argument(help="The query's name.", show_default=False)],
    input: Inputs = None,
    input_file: InputFiles = None,
    run_id: RunId = None,
) -> None:
    """Ask the workflow's code, and print its answer as JSON."""
    args = read_inputs(input or (), input_file or ())
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    answer = await handle.query(name, args=args, rpc_timeout=session.call_timeout)
    session.out.document(to_jsonable(answer, client.core.decode_or_keep))


def _event_line(event: HistoryEvent, attributes: Any) -> str:
    time = "" if event.event_time is None else shown_instant(event.event_time)
    detail = json_text(_without_empty(attributes)) if attributes else ""
    kind = event.event_type or "(unknown to this version)"
    return f"{event.event_id:>5}  {time}  {kind:<{EVENT_TYPE_COLUMNS}}  {detail}".rstrip()


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    """What is not set says nothing to people."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}
