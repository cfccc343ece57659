"""`perdure audit`: what operators did, and whether the log still says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.durations import parse_instant
from perdure.cli.errors import CliError, UsageError
from perdure.cli.jsonable import to_jsonable
from perdure.cli.lists import LIMIT_DEFAULT, Limit, print_list
from perdure.cli.session import Session, connected

if TYPE_CHECKING:
    from perdure.client import AuditEntry, AuditHead

app = typer.Typer(name="audit", help="Read and verify the audit log.", no_args_is_help=True)


WorkflowIdFilter = Annotated[str, typer.Option("--workflow-id", help="Only of this workflow.")]
Action = Annotated[str, typer.Option(help="Only this, as workflow.terminate or namespace.update.")]
Since = Annotated[str | None, typer.Option(help="At or after: a time, or 2h ago.", metavar="TIME")]
Until = Annotated[str | None, typer.Option(help="Before.", metavar="TIME")]
Everything = Annotated[
    bool, typer.Option("--all", help="Of all namespaces, and of the installation itself.")
]
Heads = Annotated[
    Path | None,
    typer.Option(
        "--head",
        help="Heads that were kept, as `perdure audit head` wrote them: shows a tail that was cut.",
        metavar="FILE",
    ),
]


@connected(app, "list")
async def list_(
    session: Session,
    workflow_id: WorkflowIdFilter = "",
    action: Action = "",
    since: Since = None,
    until: Until = None,
    all: Everything = False,
    limit: Limit = LIMIT_DEFAULT,
) -> None:
    """What was done, newest first: when, by whom, what, to what, and why."""
    _check_all(workflow_id, all)
    asked = _asked(since, until)
    client = await session.connect()
    found = client.operator.list_audit(
        namespace="" if all else session.settings.namespace,
        workflow_id=workflow_id,
        action=action,
        time_min=asked[0],
        time_max=asked[1],
        rpc_timeout=session.call_timeout,
    )
    columns = ("TIME", "WHO", "ACTION", "WHAT", "CHANGE", "REASON")
    await print_list(session, found, limit, line=_entry, columns=columns, row=_row)


@connected(app, "export")
async def export(
    session: Session,
    since: Since = None,
    until: Until = None,
) -> None:
    """Everything, as JSON lines with hashes and hashed bytes: whoever has it needs no engine to verify it."""
    asked = _asked(since, until)
    client = await session.connect()
    async for entry in client.operator.list_audit(
        namespace="", time_min=asked[0], time_max=asked[1], rpc_timeout=session.call_timeout
    ):
        session.out.json_line(_entry(entry) | {"content": entry.content.hex()})


@connected(app, "head")
async def head(session: Session) -> None:
    """Where each chain ends, as JSON lines. Keep them elsewhere, for `perdure audit verify --head`."""
    client = await session.connect()
    for one in await client.operator.audit_heads(rpc_timeout=session.call_timeout):
        session.out.json_line(_head(one))


@connected(app, "verify")
async def verify(session: Session, head: Heads = None) -> None:
    """Walk every chain of the log. Exit code 1 when one does not hold; the first broken row is named."""
    expected = [] if head is None else _read_heads(head)
    client = await session.connect()
    found = await client.operator.verify_audit(expected, rpc_timeout=session.call_timeout)
    if session.out.is_json:
        session.out.document(
            {
                "rows": found.rows,
                "heads": [_head(one) for one in found.heads],
                "broken": to_jsonable(found.broken, _keep),
            }
        )
    if found.broken:
        raise CliError(
            "\n".join(f"chain {one.chain}, row {one.seq}: {one.why}" for one in found.broken)
        )
    session.out.note(f"{found.rows} rows in {len(found.heads)} chains: every link holds.")


def _check_all(workflow_id: str, everything: bool) -> None:
    if everything and workflow_id:
        raise UsageError("--workflow-id is one of a namespace: not with --all")


def _asked(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    now = datetime.now(UTC)
    return (
        None if since is None else parse_instant(since, now),
        None if until is None else parse_instant(until, now),
    )


def _read_heads(path: Path) -> list[AuditHead]:
    from perdure.client import AuditHead

    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [json.loads(line) for line in lines if line.strip()]
        return [
            AuditHead(
                chain=int(one["chain"]),
                seq=int(one["seq"]),
                hash=bytes.fromhex(one["hash"]),
                time=datetime.fromisoformat(one["time"]),
            )
            for one in kept
        ]
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path} does not hold what `perdure audit head` writes") from None


def _head(head: AuditHead) -> dict[str, Any]:
    time = to_jsonable(head.time, _keep)
    return {"chain": head.chain, "seq": head.seq, "hash": head.hash.hex(), "time": time}


def _entry(entry: AuditEntry) -> dict[str, Any]:
    told: dict[str, Any] = to_jsonable(entry, _keep)
    del told["place"], told["content"]
    return _head(entry.place) | told


def _row(entry: AuditEntry) -> Sequence[Any]:
    what = " ".join(one for one in (entry.workflow_id, entry.subject) if one)
    change = " → ".join(one for one in (entry.before, entry.after) if one)
    return (entry.place.time, entry.identity, entry.action, what, change, entry.reason)


_keep: Callable[[Any], Any] = lambda payload: payload  # noqa: E731 - the log carries no payloads
