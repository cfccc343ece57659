"""Schedules: bodies to the model, and what they are and did to bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec import UNSET

from perdure_engine.core.errors import invalid
from perdure_engine.core.schedules.intents import ScheduleInfo, ScheduleSaved, Slot
from perdure_engine.core.schedules.model import (
    CATCH_UP_WINDOW_MS_DEFAULT,
    Action,
    CalendarRange,
    CalendarSpec,
    CatchUpPolicy,
    GapPolicy,
    IntervalSpec,
    JobAction,
    OverlapPolicy,
    RepeatPolicy,
    Schedule,
    SchedulePolicies,
    ScheduleSpec,
    WorkflowAction,
)
from perdure_engine.frontend.handlers.describe_schedule import DescribedSchedule
from perdure_engine.frontend.new_jobs import AskedJob
from perdure_engine.frontend.schedule_checks import scheduled_job
from perdure_engine.transport.http.rest.bodies import jobs, schedules
from perdure_engine.transport.http.rest.bodies.fields import name_of
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.jobs import concurrency_body, options_of
from perdure_engine.transport.http.rest.convert.times import (
    instant,
    instant_or_unset,
    seconds_or_none,
    to_ms,
    to_seconds,
    to_us,
    to_us_or_zero,
)
from perdure_engine.transport.http.rest.convert.workflows import (
    retry_body,
    scheduled_workflow,
    settings_of,
)


def schedule_of(body: schedules.Schedule) -> Schedule:
    return Schedule(
        spec=spec_of(body.spec),
        action=_action(body.action),
        policies=_policies(body.policies),
        paused=body.paused,
        note=body.note,
        remaining_actions=body.remaining_actions,
    )


def spec_of(body: schedules.Spec) -> ScheduleSpec:
    return ScheduleSpec(
        cron=tuple(body.cron),
        intervals=tuple(
            [IntervalSpec(to_ms(one.every), round(one.phase * 1_000)) for one in body.intervals]
        ),
        calendars=_calendars(body.calendars),
        dates_us=tuple([to_us(one) for one in body.dates]),
        exclude=_calendars(body.exclude),
        start_us=to_us_or_zero(body.start_time),
        end_us=to_us_or_zero(body.end_time),
        jitter_ms=round(body.jitter * 1_000),
        timezone=body.timezone or "UTC",
        seconds_first=body.seconds_first,
        gap=GapPolicy[body.gap],
        repeat=RepeatPolicy[body.repeat],
    )


def overlap_or_none(name: str | None) -> OverlapPolicy | None:
    return None if name is None else OverlapPolicy[name]


def _calendars(bodies: Sequence[schedules.Calendar]) -> tuple[CalendarSpec, ...]:
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
            for one in bodies
        ]
    )


def _ranges(bodies: Sequence[schedules.Range]) -> tuple[CalendarRange, ...]:
    return tuple([CalendarRange(one.start, one.end, one.step) for one in bodies])


def _policies(body: schedules.Policies) -> SchedulePolicies:
    return SchedulePolicies(
        overlap=OverlapPolicy[body.overlap],
        catch_up_window_ms=to_ms(body.catch_up_window) or CATCH_UP_WINDOW_MS_DEFAULT,
        catch_up=CatchUpPolicy[body.catch_up],
        catch_up_most=body.catch_up_most,
        pause_on_failure=body.pause_on_failure,
    )


def _action(body: schedules.Action) -> Action:
    if body.job is not None and body.workflow is None:
        job = body.job
        return scheduled_job(AskedJob(options_of(job), payloads.from_parameters(job.parameters)))
    if body.workflow is not None and body.job is None:
        workflow = body.workflow
        return WorkflowAction(workflow.workflow_id, scheduled_workflow(workflow))
    raise invalid("action", "is one of job and workflow")


# ---- what is told


def schedule_body(schedule: Schedule) -> schedules.Schedule:
    return schedules.Schedule(
        spec=_spec_body(schedule.spec),
        action=_action_body(schedule.action),
        policies=schedules.Policies(
            overlap=name_of(schedule.policies.overlap),
            catch_up_window=seconds_or_none(schedule.policies.catch_up_window_ms),
            catch_up=name_of(schedule.policies.catch_up),
            catch_up_most=schedule.policies.catch_up_most,
            pause_on_failure=schedule.policies.pause_on_failure,
        ),
        paused=schedule.paused,
        note=schedule.note,
        remaining_actions=schedule.remaining_actions,
    )


def _spec_body(spec: ScheduleSpec) -> schedules.Spec:
    return schedules.Spec(
        cron=list(spec.cron),
        intervals=[
            schedules.Interval(every=to_seconds(one.every_ms), phase=to_seconds(one.phase_ms))
            for one in spec.intervals
        ],
        calendars=_calendar_bodies(spec.calendars),
        dates=[instant(one) for one in spec.dates_us],
        exclude=_calendar_bodies(spec.exclude),
        start_time=instant(spec.start_us) if spec.start_us else None,
        end_time=instant(spec.end_us) if spec.end_us else None,
        jitter=to_seconds(spec.jitter_ms),
        timezone=spec.timezone,
        seconds_first=spec.seconds_first,
        gap=name_of(spec.gap),
        repeat=name_of(spec.repeat),
    )


def _calendar_bodies(calendars: Sequence[CalendarSpec]) -> list[schedules.Calendar]:
    return [
        schedules.Calendar(
            second=_range_bodies(one.second),
            minute=_range_bodies(one.minute),
            hour=_range_bodies(one.hour),
            day_of_month=_range_bodies(one.day_of_month),
            month=_range_bodies(one.month),
            day_of_week=_range_bodies(one.day_of_week),
            year=_range_bodies(one.year),
            comment=one.comment,
        )
        for one in calendars
    ]


def _range_bodies(ranges: Sequence[CalendarRange]) -> list[schedules.Range]:
    return [schedules.Range(start=one.start, end=one.end, step=one.step) for one in ranges]


def _action_body(action: Action) -> schedules.Action:
    match action:
        case JobAction():
            return schedules.Action(job=_job_body(action))
        case WorkflowAction():
            return schedules.Action(
                workflow=schedules.ScheduledWorkflow(
                    workflow_id=action.workflow_id, **settings_of(action.start)
                )
            )
        case _:
            assert_never(action)


def _job_body(action: JobAction) -> jobs.JobSettings:
    spec = action.spec
    unique = spec.unique
    return jobs.JobSettings(
        task_id=action.task_name,
        parameters=payloads.parameters_of(spec.input) or {},
        user_id=action.user_id,
        queue=action.queue,
        timeout=seconds_or_none(spec.timeout_ms),
        heartbeat_timeout=seconds_or_none(spec.heartbeat_timeout_ms),
        retry=retry_body(spec.retry),
        priority=action.priority,
        unique_key="" if unique is None else unique.key,
        unique_scope="ACTIVE" if unique is None else name_of(unique.scope),
        unique_period=None if unique is None else seconds_or_none(unique.period_ms),
        concurrency=concurrency_body(spec.concurrency) or None,
    )


def saved_body(schedule_id: str, saved: ScheduleSaved) -> schedules.ScheduleSaved:
    return schedules.ScheduleSaved(
        schedule_id=schedule_id,
        next_time=instant_or_unset(saved.next_us),
        firing=slot_bodies(saved.firing),
    )


def description_body(found: DescribedSchedule) -> schedules.ScheduleDescription:
    return schedules.ScheduleDescription(
        info=info_body(found.info, found.description),
        schedule=schedule_body(found.info.schedule),
        next_times=[instant(one) for one in found.next_times_us],
        recent=slot_bodies(found.recent),
        open=slot_bodies(found.open),
        tzdata_version=found.tzdata_version,
    )


def info_body(info: ScheduleInfo, description: str) -> schedules.ScheduleInfo:
    outcome = info.last_outcome
    return schedules.ScheduleInfo(
        schedule_id=info.schedule_id,
        user_id=info.user_id,
        paused=info.paused,
        note=info.note,
        create_time=instant(info.created_us),
        update_time=instant_or_unset(info.updated_us),
        next_time=instant_or_unset(info.next_us),
        last_time=instant_or_unset(info.last_nominal_us),
        last_outcome=UNSET if outcome is None else outcome.name,
        action_name=info.action_name,
        description=description,
    )


def slot_bodies(slots: Sequence[Slot]) -> list[schedules.Slot]:
    return [
        schedules.Slot(
            nominal_time=instant(slot.nominal_us),
            outcome=slot.outcome.name,
            acted_time=instant_or_unset(slot.acted_us),
            job_id=slot.job_id or UNSET,
            workflow_id=slot.workflow_id or UNSET,
            run_id=slot.run_id or UNSET,
            detail=slot.detail,
            manual=slot.manual,
        )
        for slot in slots
    ]
