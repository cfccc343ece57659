"""Schedules as messages, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar, assert_never

from perdure._jobs import JobOptions, NewJob
from perdure._schedules.definition import (
    Schedule,
    ScheduleAction,
    ScheduleCatchUpPolicy,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleState,
)
from perdure._schedules.times import (
    ScheduleCalendarSpec,
    ScheduleGapPolicy,
    ScheduleIntervalSpec,
    ScheduleRange,
    ScheduleRepeatPolicy,
    ScheduleSpec,
)
from perdure._wire.calls import Start, start_fields
from perdure._wire.new_jobs import job_fields
from perdure._wire.payloads import (
    fields_from_bytes,
    payload_from_bytes,
    payloads_from_bytes,
)
from perdure._wire.policies import (
    EPOCH,
    duration_from_ms,
    duration_to_ms,
    instant_from_us,
    instant_to_us,
    retry_policy_from_message,
)
from perdure._wire.search_attributes import attributes_from_messages
from perdure._wire.version_service import override_from_message
from perdure.common import (
    Priority,
    RawValue,
    RetryPolicy,
    WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy,
)
from perdure.converter import Payload, PayloadConverter
from perdure.errors import RPCError, RPCStatusCode
from perdure_api.v1 import job_service_pb2 as job_pb
from perdure_api.v1 import schedule_service_pb2 as pb
from perdure_api.v1 import workflow_service_pb2 as workflow_pb

_GAPS = {0: ScheduleGapPolicy.RUN_AFTER, **{int(one): one for one in ScheduleGapPolicy}}
_REPEATS = {0: ScheduleRepeatPolicy.FIRST, **{int(one): one for one in ScheduleRepeatPolicy}}
_OVERLAPS = {0: ScheduleOverlapPolicy.SKIP, **{int(one): one for one in ScheduleOverlapPolicy}}
_CATCH_UPS = {0: ScheduleCatchUpPolicy.ALL, **{int(one): one for one in ScheduleCatchUpPolicy}}


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScheduledWorkflow:
    """A start without ids, its values converted."""

    workflow_id: str
    start: Start


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A job without what each slot has of its own, its values converted."""

    task_name: str
    args: list[Payload]
    options: JobOptions
    header: Mapping[str, Payload]


WireAction = ScheduledWorkflow | ScheduledJob


def schedule_to_message(schedule: Schedule, action: WireAction) -> pb.Schedule:
    """`action` is what the schedule's own is when its values are converted."""
    policy, state = schedule.policy, schedule.state
    return pb.Schedule(
        spec=spec_to_message(schedule.spec),
        action=_action_to_message(action),
        # The numbers of our enums are those of the wire's.
        policies=pb.SchedulePolicies(
            overlap=overlap_to_number(policy.overlap),
            catch_up_window_ms=duration_to_ms(policy.catchup_window),
            catch_up=pb.CatchUpPolicy.ValueType(policy.catchup),
            catch_up_most=policy.catchup_most or 0,
            pause_on_failure=policy.pause_on_failure,
        ),
        paused=state.paused,
        note=state.note or "",
        remaining_actions=state.remaining_actions,
        limited=state.limited_actions,
    )


def schedule_from_message(
    message: pb.Schedule, read_action: Callable[[WireAction], ScheduleAction]
) -> Schedule:
    policies = message.policies
    return Schedule(
        action=read_action(_action_from_message(message.action)),
        spec=spec_from_message(message.spec),
        policy=SchedulePolicy(
            overlap=_known(_OVERLAPS, policies.overlap),
            catchup_window=duration_from_ms(policies.catch_up_window_ms),
            pause_on_failure=policies.pause_on_failure,
            catchup=_known(_CATCH_UPS, policies.catch_up),
            catchup_most=policies.catch_up_most or None,
        ),
        state=ScheduleState(
            note=message.note or None,
            paused=message.paused,
            limited_actions=message.limited,
            remaining_actions=message.remaining_actions,
        ),
    )


def overlap_to_number(overlap: ScheduleOverlapPolicy | None) -> pb.OverlapPolicy.ValueType:
    return pb.OverlapPolicy.ValueType(overlap or 0)


def spec_to_message(spec: ScheduleSpec) -> pb.ScheduleSpec:
    return pb.ScheduleSpec(
        cron=spec.cron_expressions,
        intervals=[
            pb.IntervalSpec(every_ms=duration_to_ms(one.every), phase_ms=duration_to_ms(one.offset))
            for one in spec.intervals
        ],
        calendars=[_calendar_to_message(one) for one in spec.calendars],
        dates_us=[instant_to_us(one) for one in spec.dates],
        exclude=[_calendar_to_message(one) for one in spec.skip],
        start_time_us=instant_to_us(spec.start_at),
        end_time_us=instant_to_us(spec.end_at),
        jitter_ms=duration_to_ms(spec.jitter),
        timezone=spec.time_zone_name or "",
        seconds_first=spec.seconds_first,
        gap=pb.GapPolicy.ValueType(spec.gap),
        repeat=pb.RepeatPolicy.ValueType(spec.repeat),
    )


def spec_from_message(message: pb.ScheduleSpec) -> ScheduleSpec:
    return ScheduleSpec(
        calendars=[_calendar_from_message(one) for one in message.calendars],
        intervals=[
            ScheduleIntervalSpec(
                every=timedelta(milliseconds=one.every_ms), offset=duration_from_ms(one.phase_ms)
            )
            for one in message.intervals
        ],
        cron_expressions=list(message.cron),
        skip=[_calendar_from_message(one) for one in message.exclude],
        start_at=instant_from_us(message.start_time_us),
        end_at=instant_from_us(message.end_time_us),
        jitter=duration_from_ms(message.jitter_ms),
        time_zone_name=message.timezone or None,
        dates=[instant(one) for one in message.dates_us],
        seconds_first=message.seconds_first,
        gap=_known(_GAPS, message.gap),
        repeat=_known(_REPEATS, message.repeat),
    )


_CALENDAR_FIELDS = ("second", "minute", "hour", "day_of_month", "month", "year", "day_of_week")


def _calendar_to_message(calendar: ScheduleCalendarSpec) -> pb.CalendarSpec:
    message = pb.CalendarSpec(comment=calendar.comment or "")
    for name in _CALENDAR_FIELDS:
        ranges: Sequence[ScheduleRange] = getattr(calendar, name)
        getattr(message, name).extend(
            pb.CalendarRange(start=one.start, end=one.end, step=one.step) for one in ranges
        )
    return message


def _calendar_from_message(message: pb.CalendarSpec) -> ScheduleCalendarSpec:
    ranges = {
        name: tuple(ScheduleRange(one.start, one.end, one.step) for one in getattr(message, name))
        for name in _CALENDAR_FIELDS
    }
    return ScheduleCalendarSpec(**ranges, comment=message.comment or None)


def _action_to_message(action: WireAction) -> pb.ScheduleAction:
    match action:
        case ScheduledWorkflow():
            start = workflow_pb.StartWorkflowRequest(**start_fields(action.start))
            start.ClearField("id_reuse_policy")  # each slot's run has an id of its own
            return pb.ScheduleAction(
                workflow=pb.ScheduledWorkflow(workflow_id=action.workflow_id, start=start)
            )
        case ScheduledJob():
            args = [RawValue(one) for one in action.args]  # which travel as they are
            job = NewJob[Any](action.task_name, args, action.options, Any)
            fields = job_fields(job, PayloadConverter.default, action.header)
            return pb.ScheduleAction(job=job_pb.NewJob(**fields))
        case _:
            assert_never(action)


def _action_from_message(message: pb.ScheduleAction) -> WireAction:
    match message.WhichOneof("action"):
        case "job":
            return _job_from_message(message.job)
        case "workflow":
            workflow = message.workflow
            return ScheduledWorkflow(workflow.workflow_id, _start_from_message(workflow.start))
        case _:
            raise RPCError(
                "the schedule has an action that this version does not know",
                RPCStatusCode.UNIMPLEMENTED,
            )


def _job_from_message(message: job_pb.NewJob) -> ScheduledJob:
    options: JobOptions = {
        "queue": message.task_queue,
        "user_id": message.user_id,
        "timeout": duration_from_ms(message.timeout_ms),
        "heartbeat_timeout": duration_from_ms(message.heartbeat_timeout_ms),
        "retry_policy": _retry_policy(message),
        "priority": Priority(priority_key=message.priority or None),
    }
    return ScheduledJob(
        message.task_name,
        payloads_from_bytes(message.input),
        options,
        fields_from_bytes(message.header),
    )


def _start_from_message(message: workflow_pb.StartWorkflowRequest) -> Start:
    return Start(
        namespace="",
        workflow_id="",
        workflow_type=message.workflow_type,
        task_queue=message.task_queue,
        input=payloads_from_bytes(message.input),
        request_id="",
        identity=message.identity,
        id_reuse_policy=WorkflowIdReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=WorkflowIdConflictPolicy.UNSPECIFIED,
        execution_timeout_ms=message.execution_timeout_ms,
        run_timeout_ms=message.run_timeout_ms,
        task_timeout_ms=message.task_timeout_ms,
        retry_policy=_retry_policy(message),
        memo=fields_from_bytes(message.memo),
        header=fields_from_bytes(message.header),
        start_delay_ms=0,
        priority=message.priority,
        static_summary=payload_from_bytes(message.static_summary),
        static_details=payload_from_bytes(message.static_details),
        search_attributes=attributes_from_messages(message.search_attributes),
        versioning_override=override_from_message(message.versioning_override),
    )


def _retry_policy(
    message: job_pb.NewJob | workflow_pb.StartWorkflowRequest,
) -> RetryPolicy | None:
    if not message.HasField("retry_policy"):
        return None
    return retry_policy_from_message(message.retry_policy)


def instant(instant_us: int) -> datetime:
    """Of a time that is always there, the epoch too."""
    return EPOCH + timedelta(microseconds=instant_us)


def _known(choices: Mapping[int, T], number: int) -> T:
    """A schedule that is shown otherwise than it is would be updated to what was shown."""
    choice = choices.get(number)
    if choice is None:
        raise RPCError(
            "the schedule has a policy that this version does not know", RPCStatusCode.UNIMPLEMENTED
        )
    return choice
