"""`/schedules`: make, look, change, pause, trigger, catch up."""

from __future__ import annotations

import re
from urllib.parse import quote

from perdure_engine.core.errors import invalid
from perdure_engine.core.schedules.intents import (
    BackfillSchedule,
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    PauseSchedule,
    TriggerSchedule,
    UpdateSchedule,
)
from perdure_engine.core.schedules.model import SlotOutcome
from perdure_engine.frontend.handlers.backfill_schedule import backfill_schedule
from perdure_engine.frontend.handlers.create_schedule import create_schedule
from perdure_engine.frontend.handlers.delete_schedule import delete_schedule
from perdure_engine.frontend.handlers.describe_schedule import describe_schedule
from perdure_engine.frontend.handlers.list_schedule_slots import (
    ListScheduleSlots,
    list_schedule_slots,
)
from perdure_engine.frontend.handlers.list_schedules import ListSchedules, list_schedules
from perdure_engine.frontend.handlers.pause_schedule import pause_schedule
from perdure_engine.frontend.handlers.preview_schedule import preview_schedule
from perdure_engine.frontend.handlers.trigger_schedule import trigger_schedule
from perdure_engine.frontend.handlers.unpause_schedule import unpause_schedule
from perdure_engine.frontend.handlers.update_schedule import update_schedule
from perdure_engine.transport.http.rest.bodies import schedules as bodies
from perdure_engine.transport.http.rest.convert import schedules as convert
from perdure_engine.transport.http.rest.convert.times import instant, to_us, to_us_or_zero
from perdure_engine.transport.http.rest.convert.tokens import page_token, page_token_text
from perdure_engine.transport.http.rest.operations import (
    ETAG_PATTERN,
    Answer,
    Call,
    Operation,
    Query,
)

NAMES = {
    "schedule": "",  # the body is the schedule
    "schedule.action.job.task_name": "action.job.task_id",
    "schedule.action.job.task_queue": "action.job.queue",
    "schedule.action.job.input": "action.job.parameters",
    "schedule.action.workflow.start": "action.workflow",
    "schedule.action.workflow.start.input": "action.workflow.args",
    "from": "start_time",
    "to": "end_time",
}


async def _create(call: Call[Query, bodies.NewSchedule]) -> Answer:
    body = call.body
    intent = CreateSchedule(
        namespace_id=call.namespace_id,
        schedule_id=body.schedule_id,
        schedule=convert.schedule_of(body),
        request_id=call.request_id(),
        identity=body.identity,
        user_id=body.user_id,
        trigger_immediately=body.trigger_immediately,
    )
    saved = await create_schedule(call.frontend, intent)
    location = f"/schedules/{quote(body.schedule_id, safe='')}"
    headers = {"etag": _etag(saved.conflict_token), "location": location}
    return Answer(201, convert.saved_body(body.schedule_id, saved), headers)


async def _list(call: Call[bodies.SchedulesQuery, None]) -> Answer:
    query = call.query
    page = await list_schedules(
        call.frontend,
        ListSchedules(
            namespace_id=call.namespace_id,
            id_prefix=query.id_prefix,
            user_id=query.user_id,
            page_size=query.limit,
            page_token=page_token(query.page_token),
        ),
    )
    return Answer(
        body=bodies.ScheduleList(
            schedules=[convert.info_body(one.info, one.description) for one in page.schedules],
            next_page_token=page_token_text(page.next_page_token),
        )
    )


async def _describe(call: Call[Query, None]) -> Answer:
    intent = DescribeSchedule(namespace_id=call.namespace_id, schedule_id=call.path["schedule_id"])
    found = await describe_schedule(call.frontend, intent)
    headers = {"etag": _etag(found.conflict_token)}
    return Answer(body=convert.description_body(found), headers=headers)


async def _update(call: Call[Query, bodies.ScheduleUpdate]) -> Answer:
    schedule_id, body = call.path["schedule_id"], call.body
    intent = UpdateSchedule(
        namespace_id=call.namespace_id,
        schedule_id=schedule_id,
        schedule=convert.schedule_of(body),
        conflict_token=_conflict_token(call.if_match),
        request_id=call.request_id(),
        identity=body.identity,
    )
    saved = await update_schedule(call.frontend, intent)
    headers = {"etag": _etag(saved.conflict_token)}
    return Answer(body=convert.saved_body(schedule_id, saved), headers=headers)


async def _delete(call: Call[bodies.DeleteQuery, None]) -> Answer:
    schedule_id = call.path["schedule_id"]
    intent = DeleteSchedule(
        namespace_id=call.namespace_id,
        schedule_id=schedule_id,
        request_id=call.request_id(),
        reason=call.query.reason,
    )
    saved = await delete_schedule(call.frontend, intent)
    return Answer(body=convert.saved_body(schedule_id, saved))


async def _slots(call: Call[bodies.SlotsQuery, None]) -> Answer:
    query = call.query
    page = await list_schedule_slots(
        call.frontend,
        ListScheduleSlots(
            namespace_id=call.namespace_id,
            schedule_id=call.path["schedule_id"],
            outcomes=tuple([SlotOutcome[name] for name in query.outcome]),
            from_us=to_us_or_zero(query.start_time),
            to_us=to_us_or_zero(query.end_time),
            page_size=query.limit,
            page_token=page_token(query.page_token),
        ),
    )
    return Answer(
        body=bodies.Slots(
            slots=convert.slot_bodies(page.slots),
            next_page_token=page_token_text(page.next_page_token),
        )
    )


async def _pause(call: Call[Query, bodies.Note]) -> Answer:
    intent = _pausing(call, paused=True)
    saved = await pause_schedule(call.frontend, intent)
    return Answer(body=convert.saved_body(intent.schedule_id, saved))


async def _unpause(call: Call[Query, bodies.Note]) -> Answer:
    intent = _pausing(call, paused=False)
    saved = await unpause_schedule(call.frontend, intent)
    return Answer(body=convert.saved_body(intent.schedule_id, saved))


def _pausing(call: Call[Query, bodies.Note], *, paused: bool) -> PauseSchedule:
    return PauseSchedule(
        namespace_id=call.namespace_id,
        schedule_id=call.path["schedule_id"],
        paused=paused,
        note=call.body.note,
        request_id=call.request_id(),
        identity=call.body.identity,
    )


async def _trigger(call: Call[Query, bodies.Trigger]) -> Answer:
    intent = TriggerSchedule(
        namespace_id=call.namespace_id,
        schedule_id=call.path["schedule_id"],
        overlap=convert.overlap_or_none(call.body.overlap),
        request_id=call.request_id(),
        identity=call.body.identity,
    )
    acted = await trigger_schedule(call.frontend, intent)
    (slot,) = convert.slot_bodies(acted.slots)
    return Answer(body=bodies.Triggered(slot=slot))


async def _backfill(call: Call[Query, bodies.Backfill]) -> Answer:
    body = call.body
    intent = BackfillSchedule(
        namespace_id=call.namespace_id,
        schedule_id=call.path["schedule_id"],
        from_us=to_us(body.start_time),
        to_us=to_us(body.end_time),
        overlap=convert.overlap_or_none(body.overlap),
        dry_run=body.dry_run,
        request_id=call.request_id(),
        identity=body.identity,
    )
    found = await backfill_schedule(call.frontend, intent)
    return Answer(
        body=bodies.Backfilled(
            nominal_times=[instant(one) for one in found.nominal_us],
            fired_before=[instant(one) for one in found.fired_before_us],
        )
    )


async def _preview(call: Call[Query, bodies.Preview]) -> Answer:
    body = call.body
    spec = convert.spec_of(body.spec)
    found = await preview_schedule(call.frontend, spec, to_us_or_zero(body.after), body.count)
    return Answer(
        body=bodies.Previewed(
            times=[instant(one) for one in found.times_us],
            description=found.description,
            tzdata_version=found.tzdata_version,
        )
    )


def _etag(conflict_token: int) -> str:
    return f'"{conflict_token}"'


def _conflict_token(if_match: str) -> int:
    """0, whatever it is, without the header and for *."""
    if if_match in ("", "*"):
        return 0
    if re.fullmatch(ETAG_PATTERN, if_match) is None:
        raise invalid("if-match", "is no ETag of a schedule")
    return int(if_match.strip('"'))


OPERATIONS = (
    Operation(
        method="POST",
        path="/schedules",
        name="create_schedule",
        summary="Make a schedule. From the answer on its times are acted for.",
        perform=_create,
        body=bodies.NewSchedule,
        example={
            "schedule_id": "daily-report",
            "spec": {"cron": ["0 10 * * MON-FRI"], "timezone": "Europe/Brussels"},
            "action": {
                "workflow": {"workflow_type": "Report", "task_queue": "reports", "args": ["daily"]}
            },
        },
        answers={201: bodies.ScheduleSaved},
        idempotent=True,
        names=NAMES,
    ),
    Operation(
        method="GET",
        path="/schedules",
        name="list_schedules",
        summary="Schedules by id.",
        perform=_list,
        query=bodies.SchedulesQuery,
        answers={200: bodies.ScheduleList},
    ),
    Operation(
        method="POST",
        path="/schedules:preview",
        name="preview_schedule",
        summary="The next times of a spec, which need not be any schedule's.",
        perform=_preview,
        body=bodies.Preview,
        example={"spec": {"cron": ["30 2 * * *"], "timezone": "America/New_York"}, "count": 3},
        answers={200: bodies.Previewed},
    ),
    Operation(
        method="POST",
        path="/schedules/{schedule_id}:pause",
        name="pause_schedule",
        summary="Its times are recorded and not acted for.",
        perform=_pause,
        body=bodies.Note,
        body_required=False,
        answers={200: bodies.ScheduleSaved},
        idempotent=True,
    ),
    Operation(
        method="POST",
        path="/schedules/{schedule_id}:unpause",
        name="unpause_schedule",
        summary="Its next time is acted for again.",
        perform=_unpause,
        body=bodies.Note,
        body_required=False,
        answers={200: bodies.ScheduleSaved},
        idempotent=True,
    ),
    Operation(
        method="POST",
        path="/schedules/{schedule_id}:trigger",
        name="trigger_schedule",
        summary="Its action now.",
        perform=_trigger,
        body=bodies.Trigger,
        body_required=False,
        answers={200: bodies.Triggered},
        idempotent=True,
    ),
    Operation(
        method="POST",
        path="/schedules/{schedule_id}:backfill",
        name="backfill_schedule",
        summary="Act for the times of a span that had no action.",
        perform=_backfill,
        body=bodies.Backfill,
        answers={200: bodies.Backfilled},
        idempotent=True,
        names=NAMES,
    ),
    Operation(
        method="GET",
        path="/schedules/{schedule_id}",
        name="describe_schedule",
        summary="What a schedule is, what it will do next, and what it did last.",
        perform=_describe,
        answers={200: bodies.ScheduleDescription},
    ),
    Operation(
        method="PUT",
        path="/schedules/{schedule_id}",
        name="update_schedule",
        summary="Another schedule in its place. No time after the answer follows the old one.",
        perform=_update,
        body=bodies.ScheduleUpdate,
        answers={200: bodies.ScheduleSaved},
        idempotent=True,
        conditional=True,
        names=NAMES,
    ),
    Operation(
        method="DELETE",
        path="/schedules/{schedule_id}",
        name="delete_schedule",
        summary="End a schedule. What its times have begun goes on. One that is not there is gone.",
        perform=_delete,
        query=bodies.DeleteQuery,
        answers={200: bodies.ScheduleSaved},
        idempotent=True,
    ),
    Operation(
        method="GET",
        path="/schedules/{schedule_id}/slots",
        name="list_slots",
        summary="What became of each of its times, newest first.",
        perform=_slots,
        query=bodies.SlotsQuery,
        answers={200: bodies.Slots},
        names=NAMES,
    ),
)
