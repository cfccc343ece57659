"""What every schedule must satisfy, whatever the state. As `checks`, but for what a spec means, which `times` knows."""

from __future__ import annotations

from typing import assert_never

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.id_policies import IdReusePolicy
from perdure_engine.core.intents import IdConflictPolicy, StartWorkflow
from perdure_engine.core.jobs.model import JobSpec
from perdure_engine.core.schedules.model import (
    CATCH_UP_WINDOW_MS_MIN,
    JobAction,
    Schedule,
    SchedulePolicies,
    ScheduleSpec,
    WorkflowAction,
)
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.start_workflow import check_start
from perdure_engine.frontend.new_jobs import AskedJob, JobOptions, check_options

WIRE_NAMES = {"start_us": "start_time_us", "end_us": "end_time_us"}
# Stands where each slot's own workflow id would, which is made of names that were checked.
SLOTS_WORKFLOW_ID = "slot"


def check_schedule(frontend: Frontend, namespace_id: bytes, schedule: Schedule) -> None:
    check_spec(frontend, schedule.spec, "schedule.spec")
    _check_policies("schedule.policies", schedule.policies)
    checks.prose("schedule.note", schedule.note)
    if schedule.remaining_actions is not None:
        checks.not_negative("schedule.remaining_actions", schedule.remaining_actions)
    match schedule.action:
        case JobAction() as job:
            _check_job(frontend, "schedule.action.job", job)
        case WorkflowAction() as workflow:
            _check_workflow(frontend, namespace_id, "schedule.action.workflow", workflow)
        case _:
            assert_never(schedule.action)


def check_spec(frontend: Frontend, spec: ScheduleSpec, field: str) -> None:
    fault = frontend.times.fault(spec)
    if fault:
        where, _, why = fault.partition(": ")
        raise invalid(f"{field}.{WIRE_NAMES.get(where, where)}", why)


def _check_policies(field: str, policies: SchedulePolicies) -> None:
    window_ms = policies.catch_up_window_ms
    if not CATCH_UP_WINDOW_MS_MIN <= window_ms <= limits.DURATION_MS_MAX:
        raise invalid(
            f"{field}.catch_up_window_ms",
            f"must lie between {CATCH_UP_WINDOW_MS_MIN} and {limits.DURATION_MS_MAX} ms",
        )
    if not 1 <= policies.catch_up_most <= limits.SCHEDULE_CATCH_UP_MOST_MAX:
        raise invalid(
            f"{field}.catch_up_most",
            f"must lie between 1 and {limits.SCHEDULE_CATCH_UP_MOST_MAX}",
        )


def scheduled_job(asked: AskedJob) -> JobAction:
    """A job as it is asked for, as what a schedule makes at each of its times. Raises INVALID_ARGUMENT."""
    options = asked.options
    for field, given in (
        ("due_time_us", options.due_us),
        ("delay_ms", options.delay_ms),
        ("idempotency_key", options.idempotency_key),
        ("expire_time_us", options.expire_us),
    ):
        if given:
            raise invalid(field, "is each slot's own")
    spec = JobSpec(
        input=asked.input,
        header=options.header,
        retry=options.retry,
        timeout_ms=options.timeout_ms,
        heartbeat_timeout_ms=options.heartbeat_timeout_ms,
        unique=options.unique,
        concurrency=options.concurrency,
    )
    return JobAction(options.task_name, options.queue, spec, options.priority, options.user_id)


def _check_job(frontend: Frontend, field: str, action: JobAction) -> None:
    spec = action.spec
    options = JobOptions(
        task_name=action.task_name,
        queue=action.queue,
        header=spec.header,
        user_id=action.user_id,
        timeout_ms=spec.timeout_ms,
        heartbeat_timeout_ms=spec.heartbeat_timeout_ms,
        retry=spec.retry,
        priority=action.priority,
        unique=spec.unique,
        concurrency=spec.concurrency,
    )
    try:
        checks.size("input", spec.input)
        check_options(options, in_batch=False)
        _check_keys(spec)
    except Rejected as rejected:
        raise checks.under(field, rejected) from None


def _check_keys(spec: JobSpec) -> None:
    """A key's jobs are of one shard, which it decides; a schedule's are of the schedule's own."""
    why = "is not for a schedule's jobs: its overlap policy says what becomes of those that meet"
    if spec.unique is not None:
        raise invalid("unique_key", why)
    if spec.concurrency is not None:
        raise invalid("concurrency.key", why)


def _check_workflow(
    frontend: Frontend, namespace_id: bytes, field: str, action: WorkflowAction
) -> None:
    if action.workflow_id:
        checks.key(f"{field}.workflow_id", action.workflow_id)
    start = action.start
    try:
        _check_own(start)
        check_start(
            frontend,
            msgspec.structs.replace(
                start, namespace_id=namespace_id, workflow_id=SLOTS_WORKFLOW_ID
            ),
        )
    except Rejected as rejected:
        raise checks.under(f"{field}.start", rejected) from None


def _check_own(start: StartWorkflow) -> None:
    """What each slot's start has of its own, or what the schedule says already."""
    if start.id_reuse_policy is not IdReusePolicy.ALLOW_DUPLICATE:
        raise invalid("id_reuse_policy", "has no meaning: each slot's run has an id of its own")
    if start.id_conflict_policy is not IdConflictPolicy.FAIL:
        raise invalid("id_conflict_policy", "has no meaning: each slot's run has an id of its own")
    if start.cron_schedule:
        raise invalid("cron_schedule", "cannot be used within a schedule")
    if start.start_delay_ms:
        raise invalid("start_delay_ms", "cannot be used within a schedule")
