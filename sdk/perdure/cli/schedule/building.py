"""Schedules as the command line says them. What was not said stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure._schedules.definition import (
    Schedule,
    ScheduleAction,
    ScheduleCatchUpPolicy,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleState,
)
from perdure._schedules.times import (
    ScheduleGapPolicy,
    ScheduleRepeatPolicy,
    ScheduleSpec,
)
from perdure.cli.durations import parse_duration, parse_time
from perdure.cli.errors import UsageError
from perdure.cli.inputs import read_inputs
from perdure.cli.schedule.calendars import parse_calendar, parse_exclusions, parse_interval
from perdure.cli.schedule.said import Said

if TYPE_CHECKING:
    from perdure.converter import Payload
    from perdure.schedule import ScheduleActionStartJob, ScheduleActionStartWorkflow


def new_schedule(said: Said) -> Schedule:
    """Raises UsageError, as the next two."""
    if not said.has_times:
        raise UsageError("say when: --cron, --interval, --calendar or --date")
    schedule = Schedule(action=_action(said, None), spec=ScheduleSpec())
    _change_but_action(schedule, said)
    return schedule


def change(schedule: Schedule, said: Said) -> None:
    schedule.action = _action(said, schedule.action)
    _change_but_action(schedule, said)


def check(said: Said) -> None:
    """For what is wrong whatever the schedule is that will be changed."""
    _change_but_action(Schedule(action=ScheduleAction(), spec=ScheduleSpec()), said)
    if said.parameters is not None:
        _parameters(said.parameters)
    if said.has_inputs:
        _ = said.inputs


def _change_but_action(schedule: Schedule, said: Said) -> None:
    _change_spec(schedule.spec, said)
    _change_policy(schedule.policy, said)
    _change_state(schedule.state, said)


def _change_spec(spec: ScheduleSpec, said: Said) -> None:
    """--cron, --interval, --calendar and --date together replace all times that there were."""
    if said.has_times:
        spec.cron_expressions = list(said.cron or ())
        spec.intervals = [parse_interval(one) for one in said.interval or ()]
        spec.dates = [parse_time(one) for one in said.date or ()]
        spec.calendars = [parse_calendar(one) for one in said.calendar or ()]
    if said.exclude:
        spec.skip = parse_exclusions(said.exclude)
    if said.timezone is not None:
        spec.time_zone_name = said.timezone
    if said.jitter is not None:
        spec.jitter = parse_duration(said.jitter)
    if said.start is not None:
        spec.start_at = parse_time(said.start)
    if said.end is not None:
        spec.end_at = parse_time(said.end)
    if said.seconds_first is not None:
        spec.seconds_first = said.seconds_first
    if said.gap is not None:
        spec.gap = ScheduleGapPolicy[said.gap.name]
    if said.repeated is not None:
        spec.repeat = ScheduleRepeatPolicy[said.repeated.name]


def _change_policy(policy: SchedulePolicy, said: Said) -> None:
    if said.overlap is not None:
        policy.overlap = ScheduleOverlapPolicy[said.overlap.name]
    if said.catch_up_window is not None:
        policy.catchup_window = parse_duration(said.catch_up_window)
    if said.catch_up is not None:
        policy.catchup = ScheduleCatchUpPolicy[said.catch_up.name]
    if said.catch_up_most is not None:
        policy.catchup_most = said.catch_up_most
    if said.pause_on_failure is not None:
        policy.pause_on_failure = said.pause_on_failure


def _change_state(state: ScheduleState, said: Said) -> None:
    if said.remaining_actions is not None:
        state.limited_actions = True
        state.remaining_actions = said.remaining_actions
    if said.note is not None:
        state.note = said.note


def _action(said: Said, there: ScheduleAction | None) -> ScheduleAction:
    """--task and --workflow-type begin a new one; without them the one that is there is changed."""
    from perdure.schedule import ScheduleActionStartJob, ScheduleActionStartWorkflow

    if said.task is not None and said.workflow_type is not None:
        raise UsageError("give --task or --workflow-type, not both")
    if said.task is not None:
        there = ScheduleActionStartJob(said.task)
    elif said.workflow_type is not None:
        if said.task_queue is None:
            raise UsageError("--workflow-type needs --task-queue")
        there = ScheduleActionStartWorkflow(said.workflow_type, task_queue=said.task_queue)
    match there:
        case ScheduleActionStartJob():
            _change_job(there, said)
        case ScheduleActionStartWorkflow():
            _change_workflow(there, said)
        case _:
            raise UsageError("say what to run: --task or --workflow-type")
    return there


def _change_job(job: ScheduleActionStartJob, said: Said) -> None:
    if said.has_inputs or said.workflow_id is not None:
        raise UsageError("--input and --workflow-id are for workflows; a job has --parameters")
    if said.parameters is not None:
        job.args = [_parameters(said.parameters)]
    if said.task_queue is not None:
        job.queue = said.task_queue
    if said.timeout is not None:
        job.timeout = parse_duration(said.timeout)


def _change_workflow(workflow: ScheduleActionStartWorkflow, said: Said) -> None:
    if said.parameters is not None:
        raise UsageError("--parameters are a job's; a workflow has --input")
    if said.has_inputs:
        workflow.args = said.inputs
    if said.workflow_id is not None:
        workflow.id = said.workflow_id
    if said.task_queue is not None:
        workflow.task_queue = said.task_queue
    if said.timeout is not None:
        workflow.run_timeout = parse_duration(said.timeout)


def _parameters(text: str) -> Payload:
    from perdure._definitions.parameters import object_of_parameters
    from perdure.cli.showing import SHOWING

    (value,) = read_inputs((text,), ())
    if not isinstance(value, dict):
        raise UsageError('--parameters must be a JSON object: {"to": "ada@example.org"}')
    return object_of_parameters(SHOWING.payload_converter.to_payload(value))
