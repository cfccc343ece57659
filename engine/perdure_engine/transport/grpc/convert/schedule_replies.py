"""Schedules and what they did, towards the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from perdure_api.v1 import schedule_service_pb2 as pb
from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.schedules.intents import (
    Backfilled,
    ScheduleInfo,
    ScheduleSaved,
    Slot,
    SlotsActed,
)
from perdure_engine.core.schedules.model import (
    Action,
    CalendarRange,
    CalendarSpec,
    JobAction,
    Schedule,
    SchedulePolicies,
    ScheduleSpec,
    WorkflowAction,
)
from perdure_engine.frontend.handlers.describe_schedule import DescribedSchedule
from perdure_engine.frontend.handlers.list_schedule_slots import SlotsPage
from perdure_engine.frontend.handlers.list_schedules import SchedulesPage
from perdure_engine.frontend.handlers.preview_schedule import Preview
from perdure_engine.transport.grpc.convert.fields import Fields
from perdure_engine.transport.grpc.convert.retries import policy_fields
from perdure_engine.transport.grpc.convert.search_attributes import attribute_fields
from perdure_engine.transport.grpc.convert.versions import versioning_fields


def created(reply: ScheduleSaved) -> pb.CreateScheduleResponse:
    return pb.CreateScheduleResponse(
        conflict_token=reply.conflict_token, next_time_us=reply.next_us
    )


def updated(reply: ScheduleSaved) -> pb.UpdateScheduleResponse:
    return pb.UpdateScheduleResponse(
        conflict_token=reply.conflict_token,
        next_time_us=reply.next_us,
        firing=_slots(reply.firing),
    )


def deleted(reply: ScheduleSaved) -> pb.DeleteScheduleResponse:
    return pb.DeleteScheduleResponse(firing=_slots(reply.firing))


def paused(reply: ScheduleSaved) -> pb.PauseScheduleResponse:
    return pb.PauseScheduleResponse(firing=_slots(reply.firing))


def unpaused(reply: ScheduleSaved) -> pb.UnpauseScheduleResponse:
    return pb.UnpauseScheduleResponse(next_time_us=reply.next_us)


def triggered(reply: SlotsActed) -> pb.TriggerScheduleResponse:
    (slot,) = _slots(reply.slots)
    return pb.TriggerScheduleResponse(slot=slot)


def backfilled(reply: Backfilled) -> pb.BackfillScheduleResponse:
    return pb.BackfillScheduleResponse(
        nominal_times_us=reply.nominal_us, fired_before_us=reply.fired_before_us
    )


def described(found: DescribedSchedule) -> pb.DescribeScheduleResponse:
    return pb.DescribeScheduleResponse(
        schedule=schedule_fields(found.info.schedule),
        info=_info(found.info, found.description),
        conflict_token=found.conflict_token,
        next_times_us=found.next_times_us,
        recent=_slots(found.recent),
        open=_slots(found.open),
        tzdata_version=found.tzdata_version,
    )


def listed(page: SchedulesPage) -> pb.ListSchedulesResponse:
    return pb.ListSchedulesResponse(
        schedules=[_info(one.info, one.description) for one in page.schedules],
        next_page_token=page.next_page_token,
    )


def listed_slots(page: SlotsPage) -> pb.ListScheduleSlotsResponse:
    return pb.ListScheduleSlotsResponse(
        slots=_slots(page.slots), next_page_token=page.next_page_token
    )


def previewed(preview: Preview) -> pb.PreviewScheduleResponse:
    return pb.PreviewScheduleResponse(
        times_us=preview.times_us,
        description=preview.description,
        tzdata_version=preview.tzdata_version,
    )


def _info(info: ScheduleInfo, description: str) -> pb.ScheduleInfo:
    return pb.ScheduleInfo(
        schedule_id=info.schedule_id,
        user_id=info.user_id,
        paused=info.paused,
        note=info.note,
        create_time_us=info.created_us,
        update_time_us=info.updated_us,
        next_time_us=info.next_us,
        last_nominal_time_us=info.last_nominal_us,
        last_outcome=pb.SlotOutcome.ValueType(info.last_outcome or 0),
        action_name=info.action_name,
        description=description,
    )


def _slots(slots: Sequence[Slot]) -> list[pb.ScheduleSlot]:
    return [
        pb.ScheduleSlot(
            nominal_time_us=slot.nominal_us,
            outcome=pb.SlotOutcome.ValueType(slot.outcome),
            acted_time_us=slot.acted_us,
            job_id=slot.job_id,
            workflow_id=slot.workflow_id,
            run_id=slot.run_id,
            detail=slot.detail,
            manual=slot.manual,
        )
        for slot in slots
    ]


def schedule_fields(schedule: Schedule) -> Fields:
    remaining = schedule.remaining_actions
    return {
        "spec": spec_fields(schedule.spec),
        "action": _action_fields(schedule.action),
        "policies": _policies_fields(schedule.policies),
        "paused": schedule.paused,
        "note": schedule.note,
        "remaining_actions": remaining or 0,
        "limited": remaining is not None,
    }


def spec_fields(spec: ScheduleSpec) -> Fields:
    return {
        "cron": spec.cron,
        "intervals": [
            {"every_ms": one.every_ms, "phase_ms": one.phase_ms} for one in spec.intervals
        ],
        "calendars": [_calendar_fields(one) for one in spec.calendars],
        "dates_us": spec.dates_us,
        "exclude": [_calendar_fields(one) for one in spec.exclude],
        "start_time_us": spec.start_us,
        "end_time_us": spec.end_us,
        "jitter_ms": spec.jitter_ms,
        "timezone": spec.timezone,
        "seconds_first": spec.seconds_first,
        "gap": spec.gap,
        "repeat": spec.repeat,
    }


def _calendar_fields(calendar: CalendarSpec) -> Fields:
    return {
        "second": _range_fields(calendar.second),
        "minute": _range_fields(calendar.minute),
        "hour": _range_fields(calendar.hour),
        "day_of_month": _range_fields(calendar.day_of_month),
        "month": _range_fields(calendar.month),
        "day_of_week": _range_fields(calendar.day_of_week),
        "year": _range_fields(calendar.year),
        "comment": calendar.comment,
    }


def _range_fields(ranges: Sequence[CalendarRange]) -> list[Fields]:
    return [{"start": one.start, "end": one.end, "step": one.step} for one in ranges]


def _policies_fields(policies: SchedulePolicies) -> Fields:
    return {
        "overlap": policies.overlap,
        "catch_up_window_ms": policies.catch_up_window_ms,
        "catch_up": policies.catch_up,
        "catch_up_most": policies.catch_up_most,
        "pause_on_failure": policies.pause_on_failure,
    }


def _action_fields(action: Action) -> Fields:
    match action:
        case JobAction():
            return {"job": _job_fields(action)}
        case WorkflowAction():
            start = _start_fields(action.start)
            return {"workflow": {"workflow_id": action.workflow_id, "start": start}}
        case _:
            assert_never(action)


def _job_fields(action: JobAction) -> Fields:
    """Without what each slot has of its own, and without keys, which a schedule's jobs have none of."""
    spec = action.spec
    return {
        "task_name": action.task_name,
        "task_queue": action.queue,
        "input": spec.input,
        "header": spec.header,
        "user_id": action.user_id,
        "timeout_ms": spec.timeout_ms,
        "heartbeat_timeout_ms": spec.heartbeat_timeout_ms,
        "retry_policy": policy_fields(spec.retry),
        "priority": action.priority,
    }


def _start_fields(start: StartWorkflow) -> Fields:
    """Without what each slot has of its own."""
    return {
        "workflow_type": start.workflow_type,
        "task_queue": start.task_queue,
        "input": start.input,
        "identity": start.identity,
        "execution_timeout_ms": start.execution_timeout_ms,
        "run_timeout_ms": start.run_timeout_ms,
        "task_timeout_ms": start.task_timeout_ms,
        "retry_policy": policy_fields(start.retry_policy),
        "memo": start.memo,
        "header": start.header,
        "priority": start.priority,
        "static_summary": start.static_summary,
        "static_details": start.static_details,
        "search_attributes": attribute_fields(start.search_attributes),
        "versioning_override": versioning_fields(start.versioning_override),
    }
