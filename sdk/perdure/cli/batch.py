"""`perdure batch`: one operation on every run that a query finds, done by the engine itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.errors import UsageError
from perdure.cli.inputs import read_inputs
from perdure.cli.jsonable import to_jsonable
from perdure.cli.lists import LIMIT_DEFAULT, Limit, print_list
from perdure.cli.parameters import AuditReason, InputFiles, Inputs
from perdure.cli.reset_options import BuildId, Exclude, Type, excluded, type_of
from perdure.cli.session import Session, connected

if TYPE_CHECKING:
    from perdure.client import BatchOperationInfo
    from perdure.common import ResetReapplyExcludeType, ResetType

app = typer.Typer(
    name="batch",
    help="Terminate, cancel, signal, delete, reset, pause or unpause many runs.",
    no_args_is_help=True,
)


class Operation(StrEnum):
    TERMINATE = "terminate"
    CANCEL = "cancel"
    SIGNAL = "signal"
    DELETE = "delete"
    RESET = "reset"
    PAUSE = "pause"
    UNPAUSE = "unpause"


Query = Annotated[
    str,
    typer.Option("--query", help="Which runs, as in `workflow list`.", show_default=False),
]
JobId = Annotated[str, typer.Argument(help="The job's id.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Rps = Annotated[int, typer.Option(min=0, help="At most so many a second; 50 unless given.")]


@connected(app, "start")
async def start(
    session: Session,
    query: Query,
    operation: Annotated[Operation, typer.Option(help="What to do.", show_default=False)],
    reason: AuditReason = "",
    job_id: Annotated[
        str | None, typer.Option(help="An id of yours: the same again is the same job.")
    ] = None,
    signal: Annotated[str, typer.Option("--signal", help="The signal's name.")] = "",
    input: Inputs = None,
    input_file: InputFiles = None,
    type: Type = None,
    build_id: BuildId = "",
    reapply_exclude: Exclude = "",
    rps: Rps = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the runs.")] = False,
    yes: Yes = False,
) -> None:
    """Begin a batch operation on the runs that are open now.

    Delete and reset take closed ones too; say ExecutionStatus in the query for less. A reset goes to
    --type, and is of each workflow's newest run: an older one that the query finds counts as failed.
    """
    if (operation is Operation.SIGNAL) != bool(signal):
        raise UsageError("--signal NAME goes with --operation signal")
    reset_type = type_of(type, build_id)
    is_reset = operation is Operation.RESET
    if is_reset != (reset_type is not None) or (reapply_exclude and not is_reset):
        raise UsageError("--type, and --reapply-exclude, go with --operation reset")
    args = read_inputs(input or (), input_file or ())
    await begin(
        session,
        query,
        operation,
        reason=reason,
        job_id=job_id,
        signal=signal,
        args=args,
        rps=rps,
        dry_run=dry_run,
        yes=yes,
        reset_type=reset_type,
        build_id=build_id,
        reapply_exclude=excluded(reapply_exclude),
    )


async def begin(
    session: Session,
    query: str,
    operation: Operation,
    *,
    reason: str,
    job_id: str | None = None,
    signal: str = "",
    args: Sequence[Any] = (),
    rps: int = 0,
    dry_run: bool = False,
    yes: bool = False,
    reset_type: ResetType | None = None,
    build_id: str = "",
    reapply_exclude: Sequence[ResetReapplyExcludeType] = (),
) -> None:
    """Counts, asks, and begins. `perdure workflow terminate|reset --query` come here too."""
    from perdure.client import BatchOperationType

    kind = BatchOperationType[operation.name]
    operator = (await session.connect()).operator
    count = await operator.count_batch_operation(query, kind, rpc_timeout=session.call_timeout)
    if dry_run:
        session.out.document({"count": count} if session.out.is_json else count)
        return
    if not yes:
        typer.confirm(f"{operation.value.capitalize()} {count} runs?", abort=True, err=True)
    job_id = await operator.start_batch_operation(
        query,
        kind,
        reason=reason,
        job_id=job_id,
        signal=signal,
        signal_args=args,
        rps=rps,
        reset_type=reset_type,
        build_id=build_id,
        reapply_exclude=reapply_exclude,
        rpc_timeout=session.call_timeout,
    )
    if session.out.is_json:
        session.out.document({"job_id": job_id, "count": count})
    else:
        session.out.line(job_id)
    session.out.note(
        f"Begun for {count} runs: `perdure batch describe {job_id}` shows how far it is."
    )


@connected(app, "describe")
async def describe(session: Session, job_id: JobId) -> None:
    """Show how far a batch operation has come."""
    client = await session.connect()
    found = await client.operator.describe_batch_operation(job_id, rpc_timeout=session.call_timeout)
    if session.out.is_json:
        session.out.document(to_jsonable(found, _keep))
        return
    session.out.fields(
        {
            "job": found.job_id,
            "operation": _name(found.operation),
            "reset to": _name(found.reset_type),
            "build id": found.build_id or None,
            "query": found.query,
            "state": _name(found.state),
            "total": found.total,
            "done": found.done,
            "failed": found.failed,
            "last failure": found.last_failure or None,
            "started": found.start_time,
            "closed": found.close_time,
            "by": found.identity,
            "reason": found.reason or None,
        }
    )


@connected(app, "list")
async def list_(
    session: Session,
    limit: Limit = LIMIT_DEFAULT,
) -> None:
    """List batch operations, newest first."""
    client = await session.connect()
    await print_list(
        session,
        client.operator.list_batch_operations(rpc_timeout=session.call_timeout),
        limit,
        line=lambda one: to_jsonable(one, _keep),
        columns=("JOB", "OPERATION", "STATE", "DONE", "FAILED", "STARTED", "QUERY"),
        row=_row,
    )


def _row(one: BatchOperationInfo) -> Sequence[Any]:
    return (
        one.job_id,
        _name(one.operation),
        _name(one.state),
        f"{one.done}/{one.total}",
        one.failed,
        one.start_time,
        one.query,
    )


@connected(app, "stop")
async def stop(
    session: Session,
    job_id: JobId,
    reason: AuditReason = "",
) -> None:
    """Act on no further run. What is done stays done."""
    client = await session.connect()
    await client.operator.stop_batch_operation(
        job_id, reason=reason, rpc_timeout=session.call_timeout
    )
    session.out.note(f"{job_id} is stopped.")


def _name(choice: Any) -> str | None:
    return None if choice is None else choice.name.lower()


_keep: Callable[[Any], Any] = lambda payload: payload  # noqa: E731 - jobs are shown without payloads
