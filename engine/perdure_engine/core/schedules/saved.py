"""What callers are told of a schedule."""

from __future__ import annotations

import msgspec

from perdure_engine.core.errors import Rejected, not_found
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import ScheduleInfo, ScheduleSaved, Slot
from perdure_engine.core.schedules.model import (
    JobAction,
    Schedule,
    ScheduleState,
    SlotAction,
    SlotOrigin,
    SlotOutcome,
)


def saved(draft: ScheduleDraft) -> ScheduleSaved:
    state = draft.state
    firing = [slot_of_action(action) for action in state.actions if action.firing]
    return ScheduleSaved(draft.conflict_token, state.next_us, firing)


def slot_of_action(action: SlotAction) -> Slot:
    """One whose action has begun or is about to. What an outcome of the past says of it, nobody has asked for yet."""
    target = uuid_text(action.target)
    outcome = SlotOutcome.FIRED
    if action.firing:
        outcome = SlotOutcome.FIRING
    elif action.backfill:
        outcome = SlotOutcome.BACKFILLED
    return Slot(
        action.nominal_us,
        outcome,
        0,
        job_id="" if action.workflow_id else target,
        workflow_id=action.workflow_id,
        run_id=target if action.workflow_id else "",
        manual=action.origin is SlotOrigin.MANUAL,
    )


def slot_of_row(
    nominal_us: int, origin: int, outcome: int, acted_us: int, target_id: str, detail: str
) -> Slot:
    """A slot from the columns of its row. The detail of one that has started a workflow is the workflow's id."""
    begun = outcome in (SlotOutcome.FIRING, SlotOutcome.FIRED, SlotOutcome.BACKFILLED)
    workflow_id = detail if begun else ""
    return Slot(
        nominal_us,
        SlotOutcome(outcome),
        acted_us,
        job_id="" if workflow_id else target_id,
        workflow_id=workflow_id,
        run_id=target_id if workflow_id else "",
        detail="" if workflow_id else detail,
        manual=origin == SlotOrigin.MANUAL,
    )


def info_of(
    schedule_id: str, user_id: str, schedule: Schedule, state: ScheduleState
) -> ScheduleInfo:
    """A schedule as lists show it."""
    action = schedule.action
    name = action.task_name if isinstance(action, JobAction) else action.start.workflow_type
    return ScheduleInfo(
        schedule_id=schedule_id,
        user_id=user_id,
        paused=schedule.paused,
        note=schedule.note,
        created_us=state.created_us,
        updated_us=state.updated_us,
        next_us=state.next_us,
        last_nominal_us=state.last_us,
        last_outcome=state.last_outcome,
        action_name=name,
        schedule=msgspec.structs.replace(schedule, remaining_actions=state.remaining),
    )


def no_schedule(schedule_id: str) -> Rejected:
    return not_found("SCHEDULE", f"schedule {schedule_id!r} does not exist")


def require_exists(draft: ScheduleDraft) -> None:
    if not draft.exists:
        raise no_schedule(draft.record.schedule_id)
