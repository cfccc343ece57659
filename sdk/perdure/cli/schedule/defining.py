"""`create` and `update`: what a schedule is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.errors import UsageError
from perdure.cli.schedule.building import change, check, new_schedule
from perdure.cli.schedule.group import app
from perdure.cli.schedule.options import ScheduleId
from perdure.cli.schedule.said import Said, spread
from perdure.cli.schedule.showing import note_firing
from perdure.cli.session import Session, connected

if TYPE_CHECKING:
    from perdure.schedule import ScheduleHandle, ScheduleUpdate, ScheduleUpdateInput


@connected(app, "create")
@spread
async def create(
    session: Session,
    schedule_id: ScheduleId,
    said: Said,
    user: Annotated[str, typer.Option("--user", help="Whose it is.")] = "",
    paused: Annotated[bool, typer.Option("--paused", help="Not before it is unpaused.")] = False,
    trigger_immediately: Annotated[
        bool, typer.Option("--trigger-immediately", help="Act once now, too.")
    ] = False,
) -> None:
    """Create a schedule: when (--cron, --interval, --calendar, --date) and what (--task or --workflow-type).

    When this returns it is saved, and its times will be acted for.
    """
    schedule = new_schedule(said)
    schedule.state.paused = paused
    client = await session.connect()
    handle = await client.create_schedule(
        schedule_id,
        schedule,
        trigger_immediately=trigger_immediately,
        user_id=user,
        rpc_timeout=session.call_timeout,
    )
    await _show(session, handle)


@connected(app, "update")
@spread
async def update(session: Session, schedule_id: ScheduleId, said: Said) -> None:
    """Change a schedule. What is not given stays as it is.

    --cron, --interval, --calendar and --date together replace all its times, --task or --workflow-type what it
    runs. When this returns, no time will be acted for as it was before.
    """
    from perdure.schedule import ScheduleUpdate

    if said.is_nothing:
        raise UsageError("say what to change")
    check(said)

    def changed(there: ScheduleUpdateInput) -> ScheduleUpdate:
        change(there.description.schedule, said)
        return ScheduleUpdate(there.description.schedule)

    client = await session.connect()
    handle = client.get_schedule_handle(schedule_id)
    note_firing(session, await handle.update(changed, rpc_timeout=session.call_timeout))
    await _show(session, handle)


async def _show(session: Session, handle: ScheduleHandle) -> None:
    """What has come of it, so that a mistake is seen before it fires."""
    found = await handle.describe(rpc_timeout=session.call_timeout)
    times = found.info.next_action_times
    if session.out.is_json:
        following = times[0].isoformat().replace("+00:00", "Z") if times else None
        session.out.document(
            {"schedule_id": found.id, "description": found.description, "next": following}
        )
        return
    session.out.fields(
        {"schedule": found.id, "when": found.description, "next": times[0] if times else None}
    )
