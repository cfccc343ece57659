"""`pause`, `unpause`, `trigger`, `backfill` and `delete`: what is done to a schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.durations import parse_instant
from perdure.cli.jsonable import to_jsonable
from perdure.cli.output import shown_instant
from perdure.cli.parameters import AuditReason
from perdure.cli.schedule.group import app
from perdure.cli.schedule.options import Note, Overlap, OverlapOf, ScheduleId, Yes
from perdure.cli.schedule.showing import SLOT_COLUMNS, note_firing, slot_row
from perdure.cli.session import Session, connected

if TYPE_CHECKING:
    from perdure.schedule import ScheduleBackfillResult, ScheduleOverlapPolicy


@connected(app, "pause")
async def pause(session: Session, schedule_id: ScheduleId, note: Note = "") -> None:
    """Act for no time until it is unpaused; each is recorded. What runs already goes on."""
    client = await session.connect()
    handle = client.get_schedule_handle(schedule_id)
    note_firing(session, await handle.pause(note=note, rpc_timeout=session.call_timeout))
    session.out.note(f"{schedule_id} is paused.")


@connected(app, "unpause")
async def unpause(session: Session, schedule_id: ScheduleId, note: Note = "") -> None:
    """Act for its times again, from the next one on."""
    client = await session.connect()
    handle = client.get_schedule_handle(schedule_id)
    await handle.unpause(note=note, rpc_timeout=session.call_timeout)
    session.out.note(f"{schedule_id} goes on.")


@connected(app, "trigger")
async def trigger(session: Session, schedule_id: ScheduleId, overlap: OverlapOf = None) -> None:
    """Act once now, whatever its times; also when it is paused."""
    policy = _policy(overlap)
    client = await session.connect()
    handle = client.get_schedule_handle(schedule_id)
    slot = await handle.trigger(overlap=policy, rpc_timeout=session.call_timeout)
    if session.out.is_json:
        session.out.document(to_jsonable(slot, client.core.decode_or_keep))
    else:
        session.out.table(SLOT_COLUMNS, [slot_row(slot)])


@connected(app, "backfill")
async def backfill(
    session: Session,
    schedule_id: ScheduleId,
    since: Annotated[
        str,
        typer.Option(
            "--from", help="The first time, or 2h ago.", metavar="TIME", show_default=False
        ),
    ],
    until: Annotated[
        str, typer.Option("--to", help="The last time.", metavar="TIME", show_default=False)
    ],
    overlap: OverlapOf = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the times.")] = False,
    yes: Yes = False,
) -> None:
    """Act now for the times of a span that have had no action. Asks first, with their number."""
    from perdure.schedule import ScheduleBackfill

    now = datetime.now(UTC)
    span = ScheduleBackfill(parse_instant(since, now), parse_instant(until, now), _policy(overlap))
    client = await session.connect()
    handle = client.get_schedule_handle(schedule_id)
    found = await handle.backfill(span, dry_run=True, rpc_timeout=session.call_timeout)
    if not dry_run:
        if not yes:
            question = f"Act for {len(found.action_times)} times of {schedule_id}?"
            typer.confirm(question, abort=True, err=True)
        found = await handle.backfill(span, rpc_timeout=session.call_timeout)
    _show(session, found)


def _show(session: Session, found: ScheduleBackfillResult) -> None:
    if session.out.is_json:
        session.out.document(to_jsonable(found, lambda payload: payload))
        return
    for time in found.action_times:
        session.out.line(shown_instant(time))
    if found.fired_before:
        session.out.note(f"{len(found.fired_before)} had their action before, and are left alone.")


@connected(app, "delete")
async def delete(
    session: Session, schedule_id: ScheduleId, reason: AuditReason = "", yes: Yes = False
) -> None:
    """Remove a schedule. What it has begun goes on. This cannot be undone."""
    client = await session.connect()
    handle = client.get_schedule_handle(schedule_id)
    found = await handle.describe(rpc_timeout=session.call_timeout)
    if not yes:
        typer.confirm(f"Delete {schedule_id} ({found.description})?", abort=True, err=True)
    note_firing(session, await handle.delete(reason=reason, rpc_timeout=session.call_timeout))
    session.out.note(f"{schedule_id} is gone.")


def _policy(overlap: Overlap | None) -> ScheduleOverlapPolicy | None:
    from perdure.schedule import ScheduleOverlapPolicy

    return None if overlap is None else ScheduleOverlapPolicy[overlap.name]
