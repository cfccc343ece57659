"""A slot's time has come while actions of earlier slots may be open: whether it acts, waits or is skipped.

The end of a job is heard in the step that decides it. Of a workflow nothing is known between its start and the answer
to a question, so a slot that may have to be skipped waits for that answer first: none is skipped because of a run that
has ended.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from perdure_engine.core.jobs.decide.attempts import started
from perdure_engine.core.jobs.decide.cancel import stop as stop_job
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules.actions import begin, end_held_job, exhausted
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.model import (
    OverlapPolicy,
    SlotAction,
    SlotOutcome,
    Stop,
    WaitingSlot,
)

WAITING_MAX = 1_000
FIRING_MAX = 1_000  # starts on their way, of one schedule: its row names them all
OVERLAPS = "the action of an earlier slot is still open"
ONE_WAITS = "a slot waits already"
SUPERSEDED = "a later slot took its place"
NO_ROOM = f"{WAITING_MAX} slots wait already"
TOO_MANY_STARTS = f"{FIRING_MAX} starts are on their way already"
NO_MORE_ACTIONS = "no actions remain"


def arrive(draft: ScheduleDraft, slot: WaitingSlot) -> SlotOutcome:
    """Let a slot act now, or as soon as its policy allows, or not at all."""
    state = draft.state
    if sum(action.firing for action in state.actions) >= FIRING_MAX:
        return skip(draft, slot, TOO_MANY_STARTS)
    if slot.overlap is OverlapPolicy.ALLOW_ALL or not (state.actions or state.waiting):
        return begin(draft, slot)
    match slot.overlap:
        case OverlapPolicy.SKIP:
            if state.waiting or any(is_job(action) for action in state.actions):
                return skip(draft, slot, OVERLAPS)
            return wait(draft, slot)
        case OverlapPolicy.BUFFER_ONE:
            return skip(draft, slot, ONE_WAITS) if state.waiting else wait(draft, slot)
        case OverlapPolicy.BUFFER_ALL:
            full = len(state.waiting) >= WAITING_MAX
            return skip(draft, slot, NO_ROOM) if full else wait(draft, slot)
        case OverlapPolicy.CANCEL_OTHER:
            return _instead(draft, slot, Stop.CANCEL)
        case OverlapPolicy.TERMINATE_OTHER:
            return _instead(draft, slot, Stop.TERMINATE)
        case _:
            assert_never(slot.overlap)


def go_on(draft: ScheduleDraft) -> None:
    """Let those act that wait, as long as nothing before them is open."""
    state = draft.state
    while state.waiting and not state.actions:
        slot, state.waiting = state.waiting[0], state.waiting[1:]
        draft.changed = True
        if exhausted(draft) and not slot.called_for:
            skip(draft, slot, NO_MORE_ACTIONS)
        else:
            begin(draft, slot)


def skip(
    draft: ScheduleDraft,
    slot: WaitingSlot,
    reason: str,
    outcome: SlotOutcome = SlotOutcome.SKIPPED,
) -> SlotOutcome:
    """The slot starts nothing, and its record says why; so does that of the run that was made for it."""
    why = reason or outcome.name.lower()
    end_held_job(draft, slot.job_id, JobStatus.SKIPPED, why)
    draft.put_slot(
        slot.nominal_us,
        slot.origin,
        outcome,
        target=slot.job_id,
        detail=why,
        version=slot.version,
    )
    return outcome


def wait(draft: ScheduleDraft, slot: WaitingSlot) -> SlotOutcome:
    """A slot that may be skipped waits for an answer only, a moment: nothing is written down of it yet."""
    state = draft.state
    if slot.overlap is not OverlapPolicy.SKIP:
        version = draft.put_slot(
            slot.nominal_us, slot.origin, SlotOutcome.BUFFERED, version=slot.version
        )
        slot = msgspec.structs.replace(slot, version=version)
    state.waiting = (*state.waiting, slot)
    draft.changed = True
    return SlotOutcome.BUFFERED


def drop_waiting(
    draft: ScheduleDraft, reason: str, outcome: SlotOutcome, *, also_called_for: bool
) -> None:
    """The slots of the spec that wait wait no more; likewise, if so told, those that somebody has called for."""
    state = draft.state
    dropped = [slot for slot in state.waiting if also_called_for or not slot.called_for]
    if dropped:
        state.waiting = tuple(
            slot for slot in state.waiting if slot.called_for and not also_called_for
        )
        for slot in dropped:
            skip(draft, slot, reason, outcome)


def is_job(action: SlotAction) -> bool:
    return not action.workflow_id


def _instead(draft: ScheduleDraft, slot: WaitingSlot, how: Stop) -> SlotOutcome:
    """The slot takes the place of all before it."""
    state = draft.state
    drop_waiting(draft, SUPERSEDED, SlotOutcome.SKIPPED, also_called_for=True)
    actions = [_stopped(draft, action, how) for action in state.actions]
    state.actions = tuple(action for action in actions if action is not None)
    draft.changed = True
    if not state.actions:
        return begin(draft, slot)
    return wait(draft, slot)


def _stopped(draft: ScheduleDraft, action: SlotAction, how: Stop) -> SlotAction | None:
    """None: nothing has to be waited for. A job cannot be ended under its worker's hands: the one that is to be
    terminated is asked to stop, as the one that is to be cancelled, and not waited for."""
    if not is_job(action):
        if action.stop >= how:
            return action
        return msgspec.structs.replace(action, stop=how, told=False)
    run = draft.jobs.memory.jobs.get(action.target)
    if run is None or not run.open:
        return None
    runs = started(run)
    stop_job(draft.jobs, run, SUPERSEDED)
    return action if runs and how is Stop.CANCEL else None
