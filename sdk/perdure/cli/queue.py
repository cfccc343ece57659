"""`perdure queue`: what waits in a task queue, and how fast its jobs may start."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.cli.errors import UsageError
from perdure.cli.jsonable import to_jsonable
from perdure.cli.parameters import AuditReason
from perdure.cli.session import Session, connected

app = typer.Typer(
    name="queue", help="See what waits in a task queue; limit it.", no_args_is_help=True
)

NO_LIMIT = "none"

Name = Annotated[str, typer.Argument(help="The queue's name.", show_default=False)]


@connected(app, "describe")
async def describe(session: Session, name: Name) -> None:
    """Show how many tasks wait, since when the oldest does, what comes in and goes out, and who polls.

    Of several engine processes each tells of its own shards: the queue's figures are the sums over all,
    as those of the gauges of /metrics.
    """
    client = await session.connect()
    found = await client.operator.describe_task_queue(name, rpc_timeout=session.call_timeout)
    if session.out.is_json:
        session.out.document({"name": name, **to_jsonable(found, lambda payload: payload)})
        return
    kinds = {"workflows": found.workflow, "activities": found.activity, "jobs": found.job}
    rows = [
        (
            kind,
            one.backlog_count,
            one.backlog_age if one.backlog_count else None,
            f"{one.add_rate:.1f}",
            f"{one.dispatch_rate:.1f}",
            one.pollers,
        )
        for kind, one in kinds.items()
    ]
    session.out.table(("TASKS", "WAITING", "OLDEST", "IN/S", "OUT/S", "POLLERS"), rows)
    if found.nodes > 1:
        session.out.note(
            f"These are of the shards of engine process {found.node_id}, one of {found.nodes}:"
            " add up what each says."
        )


@connected(app, "limit")
async def limit(
    session: Session,
    name: Name,
    rate: Annotated[
        str, typer.Argument(help="Starts of jobs in a second, or none.", show_default=False)
    ],
    reason: AuditReason = "",
) -> None:
    """Let at most so many jobs of a queue start in a second, over the whole installation."""
    client_rate = None if rate == NO_LIMIT else _rate(rate)
    client = await session.connect()
    await client.jobs.set_queue_limit(
        name, client_rate, reason=reason, rpc_timeout=session.call_timeout
    )
    told = "no limit" if client_rate is None else f"a limit of {client_rate:g}/s"
    session.out.note(f"{name} has {told}.")


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    # Written so that NaN fails too.
    if not 0.0 < rate < float("inf"):
        raise UsageError(f"a rate is a number above 0, or {NO_LIMIT}: {text!r}")
    return rate
