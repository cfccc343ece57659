"""What a slot has started is over: those that waited for it may go on, and a failure may pause the schedule."""

from __future__ import annotations

from perdure_engine.core.ids import uuid_text
from perdure_engine.core.instants import instant_text
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules.decide.pause import turn
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.model import SlotAction
from perdure_engine.core.schedules.overlap import go_on
from perdure_engine.core.schedules.planning import stop_if_exhausted


def decide(draft: ScheduleDraft, action: SlotAction, failure: str) -> None:
    """`failure`: how it failed; "": it did not, or nobody knows."""
    state = draft.state
    state.actions = tuple(known for known in state.actions if known is not action)
    draft.changed = True
    if failure:
        pause_on_failure(draft, action, failure)
    go_on(draft)
    stop_if_exhausted(draft)


def job_ended(draft: ScheduleDraft, job_id: bytes, status: JobStatus | None) -> None:
    """`status` None: there is no such job any more. One that is none of the open ones changes nothing."""
    state = draft.state
    if job_id == state.job_id:  # somebody has ended the next slot's run before its time
        state.job_id, state.job_over, draft.changed = b"", True, True
        return
    for action in state.actions:
        if action.target == job_id:
            decide(draft, action, "FAILED" if status is JobStatus.FAILED else "")
            return


def pause_on_failure(draft: ScheduleDraft, action: SlotAction, failure: str) -> None:
    if not draft.schedule.policies.pause_on_failure or draft.schedule.paused:
        return
    name = action.workflow_id or f"job {uuid_text(action.target)}"
    when = instant_text(action.nominal_us)
    turn(draft, paused=True, note=f"paused because {name}, of {when}, ended as {failure}")
