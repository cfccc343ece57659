"""What a slot starts: a job run of the schedule's own shard, in the same step; or a workflow, by a start that the step
saves as to be sent (`core.schedules.errands`)."""

from __future__ import annotations

import msgspec

from perdure_engine.core.ids import slot_job_id, slot_run_id
from perdure_engine.core.instants import instant_text
from perdure_engine.core.jobs.decide import create
from perdure_engine.core.jobs.decide.due import become_due
from perdure_engine.core.jobs.decide.ending import end
from perdure_engine.core.jobs.model import JobRun, JobStatus, NewJob
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.model import (
    JobAction,
    SlotAction,
    SlotOutcome,
    WaitingSlot,
    WorkflowAction,
)

ACTIONS_KEPT = 100
"""Of a schedule that lets its actions overlap, so many open ones are known; of the end of others nobody hears."""


def exhausted(draft: ScheduleDraft) -> bool:
    """Whether the schedule may start nothing more of itself."""
    return draft.state.remaining == 0


def begin(draft: ScheduleDraft, slot: WaitingSlot) -> SlotOutcome:
    """Start what the slot stands for, or have it started once this is saved."""
    state = draft.state
    if state.remaining and not slot.called_for:
        state.remaining -= 1
    action = draft.schedule.action
    if isinstance(action, JobAction):
        return _begin_job(draft, slot, action)
    return _begin_workflow(draft, slot, action)


def acted(*, backfill: bool) -> SlotOutcome:
    return SlotOutcome.BACKFILLED if backfill else SlotOutcome.FIRED


def track(draft: ScheduleDraft, action: SlotAction) -> None:
    """Keep an action until its end is heard of; of those that have begun, the latest."""
    actions = (*draft.state.actions, action)
    begun = sum(not known.firing for known in actions)
    if begun > ACTIONS_KEPT:
        oldest = [known for known in actions if not known.firing][: begun - ACTIONS_KEPT]
        actions = tuple(known for known in actions if known not in oldest)
    draft.state.actions = actions
    draft.changed = True


def keep_action(draft: ScheduleDraft) -> None:
    """The schedule gets another action: starts that are on their way go on with the one they were claimed with."""
    state = draft.state
    firing = [action.firing and not action.kept for action in state.actions]
    if any(firing):
        state.kept = (*state.kept, draft.schedule.action)
        state.actions = tuple(
            msgspec.structs.replace(action, kept=len(state.kept)) if claimed else action
            for action, claimed in zip(state.actions, firing, strict=True)
        )


# ---- jobs


def _begin_job(draft: ScheduleDraft, slot: WaitingSlot, action: JobAction) -> SlotOutcome:
    run = draft.jobs.memory.jobs.get(slot.job_id)
    if run is None or not run.held:
        run = _add_job(draft, slot.nominal_us, slot.nominal_us, action)
    become_due(draft.jobs, run)
    outcome = acted(backfill=slot.backfill)
    version = draft.put_slot(
        slot.nominal_us, slot.origin, outcome, target=run.job_id, version=slot.version
    )
    if run.open:
        begun = SlotAction(slot.nominal_us, slot.origin, run.job_id)
        track(draft, msgspec.structs.replace(begun, backfill=slot.backfill, version=version))
    return outcome


def make_next_job(draft: ScheduleDraft, nominal_us: int, due_us: int) -> None:
    """The run of the next slot: there before its time, for people to see, and held until then."""
    action = draft.schedule.action
    if isinstance(action, JobAction):
        draft.state.job_id = _add_job(draft, nominal_us, due_us, action).job_id


def end_held_job(draft: ScheduleDraft, job_id: bytes, status: JobStatus, reason: str) -> None:
    """Its slot starts nothing."""
    run = draft.jobs.memory.jobs.get(job_id)
    if run is not None and run.held:
        end(draft.jobs, run, status, reason=reason)


def _add_job(draft: ScheduleDraft, nominal_us: int, due_us: int, action: JobAction) -> JobRun:
    record = draft.record
    new = NewJob(
        job_id=slot_job_id(draft.shard_id, record.uid, draft.env.new_number()),
        task_name=action.task_name,
        queue=action.queue,
        spec=msgspec.structs.replace(action.spec, nominal_us=nominal_us),
        due_us=due_us,
        user_id=action.user_id or draft.user_id,
        priority=action.priority,
        schedule_id=record.schedule_id,
    )
    return create.add(draft.jobs, record.namespace_id, new, held=True)


# ---- workflows


def _begin_workflow(draft: ScheduleDraft, slot: WaitingSlot, action: WorkflowAction) -> SlotOutcome:
    nominal_us, origin = slot.nominal_us, slot.origin
    prefix = action.workflow_id or draft.record.schedule_id
    workflow_id = f"{prefix}-{instant_text(nominal_us)}"
    run_id = slot_run_id(draft.record.uid, nominal_us, origin)
    version = draft.put_slot(
        nominal_us,
        origin,
        SlotOutcome.FIRING,
        target=run_id,
        detail=workflow_id,
        version=slot.version,
    )
    action_of_slot = SlotAction(nominal_us, origin, run_id, workflow_id, firing=True)
    track(
        draft,
        msgspec.structs.replace(action_of_slot, backfill=slot.backfill, version=version),
    )
    return SlotOutcome.FIRING
