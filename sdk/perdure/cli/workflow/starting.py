"""`start`, `execute` and `result`: what begins a workflow, and what waits for its end."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.durations import optional_duration
from perdure.cli.errors import UsageError
from perdure.cli.inputs import read_inputs
from perdure.cli.jsonable import to_jsonable
from perdure.cli.parameters import InputFiles, Inputs, RunId, Wait, WorkflowId
from perdure.cli.search_attributes import parse_search_attributes
from perdure.cli.session import Session, connected
from perdure.cli.workflow.group import app
from perdure.common import WorkflowIdConflictPolicy, WorkflowIdReusePolicy

if TYPE_CHECKING:
    from perdure.client import Client, StartOptions, WorkflowHandle


class ReusePolicy(StrEnum):
    ALLOW_DUPLICATE = "allow-duplicate"
    ALLOW_DUPLICATE_FAILED_ONLY = "allow-duplicate-failed-only"
    REJECT_DUPLICATE = "reject-duplicate"


class ConflictPolicy(StrEnum):
    FAIL = "fail"
    USE_EXISTING = "use-existing"
    TERMINATE_EXISTING = "terminate-existing"


WorkflowType = Annotated[str, typer.Argument(help="The workflow's type.", show_default=False)]
TaskQueue = Annotated[
    str, typer.Option("--task-queue", "-q", help="The queue its workers poll.", show_default=False)
]
Id = Annotated[str | None, typer.Option(help="The workflow's id; a new UUID unless given.")]
ExecutionTimeout = Annotated[
    str | None, typer.Option(help="Of the whole chain of runs.", metavar="DURATION")
]
RunTimeout = Annotated[str | None, typer.Option(help="Of one run.", metavar="DURATION")]
TaskTimeout = Annotated[
    str | None, typer.Option(help="Of one step of its code on a worker.", metavar="DURATION")
]
Reuse = Annotated[ReusePolicy | None, typer.Option(help="When a closed run has that id.")]
Conflict = Annotated[ConflictPolicy | None, typer.Option(help="When an open run has that id.")]
CronSchedule = Annotated[
    str,
    typer.Option(
        "--cron-schedule", "--cron", help="Begin it again at each time of this.", metavar="CRON"
    ),
]
Memo = Annotated[
    list[str] | None,
    typer.Option(help="Stands in lists: NAME=JSON; again for more.", metavar="NAME=JSON"),
]

SearchAttributes = Annotated[
    list[str] | None,
    typer.Option(
        help="What lists find it by: NAME=JSON, or NAME:TYPE=JSON for Text and Datetime; again for more.",
        metavar="NAME=JSON",
    ),
]


@connected(app, "start")
async def start(
    session: Session,
    workflow_type: WorkflowType,
    task_queue: TaskQueue,
    id: Id = None,
    input: Inputs = None,
    input_file: InputFiles = None,
    execution_timeout: ExecutionTimeout = None,
    run_timeout: RunTimeout = None,
    task_timeout: TaskTimeout = None,
    reuse_policy: Reuse = None,
    conflict_policy: Conflict = None,
    memo: Memo = None,
    cron_schedule: CronSchedule = "",
    search_attribute: SearchAttributes = None,
) -> None:
    """Start a workflow. When this returns, the start is saved."""
    options = _start_options(
        session, task_queue, id, execution_timeout, run_timeout, task_timeout, memo
    )
    _add_policies(options, reuse_policy, conflict_policy)
    if cron_schedule:
        options["cron_schedule"] = cron_schedule
    options["search_attributes"] = parse_search_attributes(search_attribute or ())
    args = read_inputs(input or (), input_file or ())
    client = await session.connect()
    handle = await client.start_workflow(workflow_type, args=args, **options)
    started = {"workflow_id": handle.id, "run_id": handle.result_run_id}
    if session.out.is_json:
        session.out.document(started)
    else:
        session.out.fields(started)


@connected(app, "execute")
async def execute(
    session: Session,
    workflow_type: WorkflowType,
    task_queue: TaskQueue,
    id: Id = None,
    input: Inputs = None,
    input_file: InputFiles = None,
    wait: Wait = None,
    execution_timeout: ExecutionTimeout = None,
    run_timeout: RunTimeout = None,
    task_timeout: TaskTimeout = None,
    reuse_policy: Reuse = None,
    conflict_policy: Conflict = None,
    memo: Memo = None,
    search_attribute: SearchAttributes = None,
) -> None:
    """Start a workflow, wait for it, print its result as JSON.

    Exit code 4: it failed or was terminated; 5: it timed out, or --timeout passed; 6: cancelled.
    """
    wait_at_most = optional_duration(wait)
    options = _start_options(
        session, task_queue, id, execution_timeout, run_timeout, task_timeout, memo
    )
    _add_policies(options, reuse_policy, conflict_policy)
    options["search_attributes"] = parse_search_attributes(search_attribute or ())
    args = read_inputs(input or (), input_file or ())
    client = await session.connect()
    handle = await client.start_workflow(workflow_type, args=args, **options)
    session.out.note(f"Started {handle.id} (run {handle.result_run_id}).")
    await _print_result(session, client, handle, wait_at_most)


@connected(app, "result")
async def result(
    session: Session, workflow_id: WorkflowId, run_id: RunId = None, wait: Wait = None
) -> None:
    """Wait for a workflow's end and print its result as JSON.

    Exit code 4: it failed or was terminated; 5: it timed out, or --timeout passed; 6: cancelled.
    """
    wait_at_most = optional_duration(wait)
    client = await session.connect()
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    await _print_result(session, client, handle, wait_at_most)


async def _print_result(
    session: Session,
    client: Client,
    handle: WorkflowHandle[Any, Any],
    wait: timedelta | None,
) -> None:
    with session.out.waiting(f"Waiting for {handle.id}; Ctrl-C leaves it running"):
        value = await handle.result(rpc_timeout=wait)
    session.out.document(to_jsonable(value, client.core.decode_or_keep))


def _start_options(
    session: Session,
    task_queue: str,
    id: str | None,
    execution_timeout: str | None,
    run_timeout: str | None,
    task_timeout: str | None,
    memo: Sequence[str] | None,
) -> StartOptions:
    return {
        "id": str(uuid.uuid4()) if id is None else id,
        "task_queue": task_queue,
        "execution_timeout": optional_duration(execution_timeout),
        "run_timeout": optional_duration(run_timeout),
        "task_timeout": optional_duration(task_timeout),
        "memo": _parse_memo(memo or ()),
        "rpc_timeout": session.call_timeout,
    }


def _add_policies(
    options: StartOptions, reuse: ReusePolicy | None, conflict: ConflictPolicy | None
) -> None:
    if reuse is not None:
        options["id_reuse_policy"] = WorkflowIdReusePolicy[reuse.name]
    if conflict is not None:
        options["id_conflict_policy"] = WorkflowIdConflictPolicy[conflict.name]


def _parse_memo(entries: Sequence[str]) -> dict[str, Any]:
    memo: dict[str, Any] = {}
    for entry in entries:
        name, separator, text = entry.partition("=")
        if not separator or not name:
            raise UsageError(f"--memo must be NAME=JSON: {entry!r}")
        (memo[name],) = read_inputs((text,), ())
    return memo
