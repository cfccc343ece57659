"""What every schedule must satisfy, whatever the state. As `checks`, but for what a spec means, which `times` knows."""

from __future__ import annotations

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.id_policies import IdReusePolicy
from perdure_engine.core.intents import IdConflictPolicy, StartWorkflow
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

WIRE_NAMES = {"start_us": "start_time_us", "end_us": "end_time_us"}
# Stands where each slot's own workflow id would, which is made of names that were checked.
SLOTS_WORKFLOW_ID = "slot"


def check_schedule(
    frontend: Frontend, namespace_id: bytes, schedule: Schedule, field: str = "schedule"
) -> None:
    check_spec(frontend, schedule.spec, f"{field}.spec")
    _check_policies(f"{field}.policies", schedule.policies)
    checks.prose(f"{field}.note", schedule.note)
    if schedule.remaining_actions is not None:
        checks.not_negative(f"{field}.remaining_actions", schedule.remaining_actions)
    match schedule.action:
        case JobAction() as job:
            _check_job(f"{field}.action.job", job)
        case WorkflowAction() as workflow:
            _check_workflow(frontend, namespace_id, f"{field}.action.workflow", workflow)


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


def _check_workflow(
    frontend: Frontend, namespace_id: bytes, field: str, action: WorkflowAction
) -> None:
    if action.workflow_id:
        checks.schedule_id(f"{field}.workflow_id", action.workflow_id)
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
