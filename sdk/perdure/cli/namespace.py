"""`perdure namespace`: tenants, whose ids, queues and workers are apart from each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.durations import optional_duration
from perdure.cli.errors import UsageError
from perdure.cli.jsonable import to_jsonable
from perdure.cli.parameters import AuditReason
from perdure.cli.session import Session, connected

if TYPE_CHECKING:
    from perdure.client import NamespaceInfo

app = typer.Typer(name="namespace", help="Create and look at namespaces.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The namespace's name.", show_default=False)]
Description = Annotated[str | None, typer.Option(help="For people.")]
Retention = Annotated[
    str | None, typer.Option(help="How long closed runs are kept.", metavar="DURATION")
]
Archive = Annotated[
    bool | None,
    typer.Option(
        "--archive/--no-archive",
        help="Whether they go to the archive then, if the engine has one, or are deleted.",
        show_default=False,
    ),
]


@connected(app, "create")
async def create(
    session: Session,
    name: Name,
    description: Description = None,
    retention: Retention = None,
    archive: Archive = None,
    reason: AuditReason = "",
) -> None:
    """Create a namespace. Closed runs are kept for 7 days unless told otherwise."""
    keep = optional_duration(retention)
    client = await session.connect()
    found = await client.operator.create_namespace(
        name,
        description=description or "",
        retention=keep,
        archive=archive is not False,
        reason=reason,
        rpc_timeout=session.call_timeout,
    )
    _print_one(session, found)


@connected(app, "describe")
async def describe(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(help="Its name; that of --namespace unless given.")
    ] = None,
) -> None:
    """Show one namespace."""
    client = await session.connect()
    found = await client.operator.describe_namespace(name, rpc_timeout=session.call_timeout)
    _print_one(session, found)


@connected(app, "list")
async def list_(session: Session) -> None:
    """List the namespaces."""
    client = await session.connect()
    found = await client.operator.list_namespaces(rpc_timeout=session.call_timeout)
    if session.out.is_json:
        for one in found:
            session.out.json_line(to_jsonable(one, _keep))
        return
    rows = [(one.name, one.retention, one.namespace_id, one.description) for one in found]
    session.out.table(("NAME", "RETENTION", "ID", "DESCRIPTION"), rows)


@connected(app, "update")
async def update(
    session: Session,
    name: Name,
    description: Description = None,
    retention: Retention = None,
    archive: Archive = None,
    reason: AuditReason = "",
) -> None:
    """Change a namespace; what is not given stays."""
    if description is None and retention is None and archive is None:
        raise UsageError("nothing to change: give --description, --retention or --archive")
    keep = optional_duration(retention)
    operator = (await session.connect()).operator
    before = await operator.describe_namespace(name, rpc_timeout=session.call_timeout)
    found = await operator.update_namespace(
        name,
        conflict_token=before.conflict_token,
        description=description,
        retention=keep,
        archive=archive,
        reason=reason,
        rpc_timeout=session.call_timeout,
    )
    _print_one(session, found)


def _print_one(session: Session, found: NamespaceInfo) -> None:
    if session.out.is_json:
        session.out.document(to_jsonable(found, _keep))
    else:
        session.out.fields(
            {
                "name": found.name,
                "id": found.namespace_id,
                "description": found.description,
                "retention": found.retention,
                "archive": found.archive,
            }
        )


_keep: Callable[[Any], Any] = lambda payload: payload  # noqa: E731 - namespaces carry no payloads
