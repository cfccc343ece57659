"""Messages about schedules to intents.

What is wrong by its form is refused here, by its value in the frontend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from perdure_api.v1 import schedule_service_pb2 as pb
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.schedules.intents import (
    BackfillSchedule,
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    PauseSchedule,
    TriggerSchedule,
    UpdateSchedule,
)
from perdure_engine.core.schedules.model import (
    CATCH_UP_MOST_DEFAULT,
    CATCH_UP_WINDOW_MS_DEFAULT,
    Action,
    CalendarRange,
    CalendarSpec,
    CatchUpPolicy,
    GapPolicy,
    IntervalSpec,
    OverlapPolicy,
    RepeatPolicy,
    Schedule,
    SchedulePolicies,
    ScheduleSpec,
    SlotOutcome,
    WorkflowAction,
)
from perdure_engine.frontend.checks import under, uuid_bytes
from perdure_engine.frontend.handlers.list_schedule_slots import ListScheduleSlots
from perdure_engine.frontend.handlers.list_schedules import ListSchedules
from perdure_engine.frontend.schedule_checks import scheduled_job
from perdure_engine.transport.grpc.convert.intents import scheduled_workflow
from perdure_engine.transport.grpc.convert.job_intents import asked_job

GAPS = {0: GapPolicy.RUN_AFTER, **{int(policy): policy for policy in GapPolicy}}
REPEATS = {0: RepeatPolicy.FIRST, **{int(policy): policy for policy in RepeatPolicy}}
OVERLAPS = {int(policy): policy for policy in OverlapPolicy}
CATCH_UPS = {0: CatchUpPolicy.ALL, **{int(policy): policy for policy in CatchUpPolicy}}
OUTCOMES = {int(outcome): outcome for outcome in SlotOutcome}

ChoiceT = TypeVar("ChoiceT")


def create_schedule(message: pb.CreateScheduleRequest, namespace_id: bytes) -> CreateSchedule:
    return CreateSchedule(
        namespace_id=namespace_id,
        schedule_id=message.schedule_id,
        schedule=schedule_of("schedule", message.schedule),
        request_id=uuid_bytes("request_id", message.request_id),
        identity=message.identity,
        user_id=message.user_id,
        trigger_immediately=message.trigger_immediately,
    )


def update_schedule(message: pb.UpdateScheduleRequest, namespace_id: bytes) -> UpdateSchedule:
    return UpdateSchedule(
        namespace_id=namespace_id,
        schedule_id=message.schedule_id,
        schedule=schedule_of("schedule", message.schedule),
        conflict_token=message.conflict_token,
        request_id=uuid_bytes("request_id", message.request_id),
        identity=message.identity,
    )


def delete_schedule(message: pb.DeleteScheduleRequest, namespace_id: bytes) -> DeleteSchedule:
    return DeleteSchedule(
        namespace_id=namespace_id,
        schedule_id=message.schedule_id,
        request_id=uuid_bytes("request_id", message.request_id),
        identity=message.identity,
        reason=message.reason,
    )


def pause_schedule(message: pb.PauseScheduleRequest, namespace_id: bytes) -> PauseSchedule:
    return _pause(message, namespace_id, paused=True)


def unpause_schedule(message: pb.UnpauseScheduleRequest, namespace_id: bytes) -> PauseSchedule:
    return _pause(message, namespace_id, paused=False)


def _pause(
    message: pb.PauseScheduleRequest | pb.UnpauseScheduleRequest,
    namespace_id: bytes,
    *,
    paused: bool,
) -> PauseSchedule:
    return PauseSchedule(
        namespace_id=namespace_id,
        schedule_id=message.schedule_id,
        paused=paused,
        note=message.note,
        request_id=uuid_bytes("request_id", message.request_id),
        identity=message.identity,
    )


def trigger_schedule(message: pb.TriggerScheduleRequest, namespace_id: bytes) -> TriggerSchedule:
    return TriggerSchedule(
        namespace_id=namespace_id,
        schedule_id=message.schedule_id,
        overlap=_overlap_or_none(message.overlap),
        request_id=uuid_bytes("request_id", message.request_id),
        identity=message.identity,
    )


def backfill_schedule(message: pb.BackfillScheduleRequest, namespace_id: bytes) -> BackfillSchedule:
    return BackfillSchedule(
        namespace_id=namespace_id,
        schedule_id=message.schedule_id,
        from_us=message.from_us,
        to_us=message.to_us,
        overlap=_overlap_or_none(message.overlap),
        dry_run=message.dry_run,
        request_id=uuid_bytes("request_id", message.request_id),
        identity=message.identity,
    )


def describe_schedule(message: pb.DescribeScheduleRequest, namespace_id: bytes) -> DescribeSchedule:
    return DescribeSchedule(namespace_id=namespace_id, schedule_id=message.schedule_id)


def list_schedules(message: pb.ListSchedulesRequest, namespace_id: bytes) -> ListSchedules:
    return ListSchedules(
        namespace_id=namespace_id,
        id_prefix=message.id_prefix,
        user_id=message.user_id,
        page_size=message.page_size,
        page_token=message.page_token,
    )


def list_schedule_slots(
    message: pb.ListScheduleSlotsRequest, namespace_id: bytes
) -> ListScheduleSlots:
    return ListScheduleSlots(
        namespace_id=namespace_id,
        schedule_id=message.schedule_id,
        outcomes=tuple(
            [
                _choice(f"outcomes[{index}]", number, OUTCOMES, "an outcome")
                for index, number in enumerate(message.outcomes)
            ]
        ),
        from_us=message.from_us,
        to_us=message.to_us,
        page_size=message.page_size,
        page_token=message.page_token,
    )


def schedule_of(field: str, message: pb.Schedule) -> Schedule:
    remaining = message.remaining_actions
    if remaining and not message.limited:
        raise invalid(f"{field}.remaining_actions", "counts with limited only")
    return Schedule(
        spec=spec_of(f"{field}.spec", message.spec),
        action=_action(f"{field}.action", message.action),
        policies=_policies(f"{field}.policies", message.policies),
        paused=message.paused,
        note=message.note,
        remaining_actions=remaining if message.limited else None,
    )


def spec_of(field: str, message: pb.ScheduleSpec) -> ScheduleSpec:
    return ScheduleSpec(
        cron=tuple(message.cron),
        intervals=tuple([IntervalSpec(one.every_ms, one.phase_ms) for one in message.intervals]),
        calendars=_calendars(message.calendars),
        dates_us=tuple(message.dates_us),
        exclude=_calendars(message.exclude),
        start_us=message.start_time_us,
        end_us=message.end_time_us,
        jitter_ms=message.jitter_ms,
        timezone=message.timezone or "UTC",
        seconds_first=message.seconds_first,
        gap=_choice(f"{field}.gap", message.gap, GAPS, "a policy"),
        repeat=_choice(f"{field}.repeat", message.repeat, REPEATS, "a policy"),
    )


def _calendars(messages: Sequence[pb.CalendarSpec]) -> tuple[CalendarSpec, ...]:
    return tuple(
        [
            CalendarSpec(
                second=_ranges(one.second),
                minute=_ranges(one.minute),
                hour=_ranges(one.hour),
                day_of_month=_ranges(one.day_of_month),
                month=_ranges(one.month),
                day_of_week=_ranges(one.day_of_week),
                year=_ranges(one.year),
                comment=one.comment,
            )
            for one in messages
        ]
    )


def _ranges(messages: Sequence[pb.CalendarRange]) -> tuple[CalendarRange, ...]:
    return tuple([CalendarRange(one.start, one.end, one.step or 1) for one in messages])


def _policies(field: str, message: pb.SchedulePolicies) -> SchedulePolicies:
    return SchedulePolicies(
        overlap=_overlap_or_none(message.overlap, f"{field}.overlap") or OverlapPolicy.SKIP,
        catch_up_window_ms=message.catch_up_window_ms or CATCH_UP_WINDOW_MS_DEFAULT,
        catch_up=_choice(f"{field}.catch_up", message.catch_up, CATCH_UPS, "a policy"),
        catch_up_most=message.catch_up_most or CATCH_UP_MOST_DEFAULT,
        pause_on_failure=message.pause_on_failure,
    )


def _action(field: str, message: pb.ScheduleAction) -> Action:
    which = message.WhichOneof("action")
    if which is None:
        raise invalid(field, "is not set, or unknown to this version")
    try:
        if which == "job":
            return scheduled_job(asked_job(message.job))
        return _workflow(message.workflow)
    except Rejected as rejected:
        raise under(f"{field}.{which}", rejected) from None


def _workflow(message: pb.ScheduledWorkflow) -> WorkflowAction:
    try:
        start = scheduled_workflow(message.start)
    except Rejected as rejected:
        raise under("start", rejected) from None
    return WorkflowAction(message.workflow_id, start)


def _overlap_or_none(number: int, field: str = "overlap") -> OverlapPolicy | None:
    return _choice(field, number, OVERLAPS, "a policy") if number else None


def _choice(field: str, number: int, choices: dict[int, ChoiceT], what: str) -> ChoiceT:
    choice = choices.get(number)
    if choice is None:
        raise invalid(field, f"is not {what}")
    return choice
