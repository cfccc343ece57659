"""`describe`, `list` and `slots`: schedules, and what became of their times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.durations import parse_instant
from perdure.cli.jsonable import to_jsonable
from perdure.cli.lists import LIMIT_DEFAULT, Limit, page_size, print_list, to_fetch
from perdure.cli.schedule.group import app
from perdure.cli.schedule.options import ScheduleId
from perdure.cli.schedule.showing import SLOT_COLUMNS, slot_row
from perdure.cli.session import Session, connected

if TYPE_CHECKING:
    from perdure.client import Client
    from perdure.schedule import Schedule, ScheduleDescription, ScheduleListDescription


class Outcome(StrEnum):
    FIRING = "firing"
    FIRED = "fired"
    SKIPPED = "skipped"
    MISSED = "missed"
    PAUSED = "paused"
    BACKFILLED = "backfilled"
    BUFFERED = "buffered"
    FAILED = "failed"


@connected(app, "describe")
async def describe(session: Session, schedule_id: ScheduleId) -> None:
    """Show a schedule, its next times and its last ones."""
    client = await session.connect()
    handle = client.get_schedule_handle(schedule_id)
    found = await handle.describe(rpc_timeout=session.call_timeout)
    if session.out.is_json:
        session.out.document(to_jsonable(found, client.core.decode_or_keep))
        return
    session.out.fields(_fields(found, client))
    slots = [*found.info.open_slots, *found.info.recent_slots]
    known = {(slot.nominal_at, slot.manual): slot for slot in slots}  # each once
    if known:
        session.out.table(SLOT_COLUMNS, [slot_row(slot) for slot in known.values()])


def _fields(found: ScheduleDescription, client: Client) -> dict[str, Any]:
    schedule, info = found.schedule, found.info
    lines: dict[str, Any] = {
        "schedule": found.id,
        "when": found.description,
        "status": _status(schedule.state.paused),
        "note": schedule.state.note,
        "user": found.user_id or None,
        **_policy(schedule),
        **_action(schedule, client),
        "created": info.created_at,
        "updated": info.last_updated_at,
    }
    for number, time in enumerate(info.next_action_times, start=1):
        lines[f"next {number}"] = time
    return {name: value for name, value in lines.items() if value is not None}


def _policy(schedule: Schedule) -> dict[str, Any]:
    policy, state = schedule.policy, schedule.state
    return {
        "overlap": policy.overlap.name.lower(),
        "catch up": f"{policy.catchup.name.lower()}, up to {policy.catchup_window} late",
        "pause on failure": policy.pause_on_failure or None,
        "remaining actions": state.remaining_actions if state.limited_actions else None,
    }


def _action(schedule: Schedule, client: Client) -> dict[str, Any]:
    """What of it is set."""
    action: dict[str, Any] = to_jsonable(schedule.action, client.core.decode_or_keep)
    return {name.replace("_", " "): value for name, value in action.items() if value not in _EMPTY}


_EMPTY: Sequence[Any] = (None, "", [], {})


@connected(app, "list")
async def list_(
    session: Session,
    id_prefix: Annotated[
        str, typer.Option(help="Only ids that begin so.", show_default=False)
    ] = "",
    user: Annotated[
        str, typer.Option("--user", help="Only of this user.", show_default=False)
    ] = "",
    limit: Limit = LIMIT_DEFAULT,
) -> None:
    """List schedules, by id."""
    client = await session.connect()
    found = client.schedules.list(
        id_prefix=id_prefix,
        user_id=user,
        page_size=page_size(limit),
        limit=to_fetch(limit),
        rpc_timeout=session.call_timeout,
    )
    await print_list(
        session,
        found,
        limit,
        line=lambda one: to_jsonable(one, client.core.decode_or_keep),
        columns=("SCHEDULE", "RUNS", "STATUS", "NEXT", "LAST", "WHEN"),
        row=_row,
    )


def _row(one: ScheduleListDescription) -> Sequence[Any]:
    times, last = one.info.next_action_times, one.info.last_outcome
    return (
        one.id,
        one.schedule.action.name,
        _status(one.schedule.state.paused),
        times[0] if times else None,
        None if last is None else last.name.lower(),
        one.description,
    )


def _status(paused: bool) -> str:
    return "paused" if paused else "active"


@connected(app, "slots")
async def slots(
    session: Session,
    schedule_id: ScheduleId,
    outcome: Annotated[
        list[Outcome] | None, typer.Option(help="Only these; again for more.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Times at or after this one, or 2h ago.", metavar="TIME")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Times before.", metavar="TIME")] = None,
    limit: Limit = LIMIT_DEFAULT,
) -> None:
    """List what became of each of a schedule's times, newest first."""
    from perdure.schedule import ScheduleSlotOutcome

    now = datetime.now(UTC)
    start_at = None if since is None else parse_instant(since, now)
    end_at = None if until is None else parse_instant(until, now)
    client = await session.connect()
    found = client.get_schedule_handle(schedule_id).slots(
        outcomes=[ScheduleSlotOutcome[one.name] for one in outcome or ()],
        start_at=start_at,
        end_at=end_at,
        page_size=page_size(limit),
        limit=to_fetch(limit),
        rpc_timeout=session.call_timeout,
    )
    await print_list(
        session,
        found,
        limit,
        line=lambda one: to_jsonable(one, client.core.decode_or_keep),
        columns=SLOT_COLUMNS,
        row=slot_row,
    )
