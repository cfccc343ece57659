"""The next slot: its timer, and the job run that is made for it.

It follows from the nominal time of the slot before it, never from now (invariant 53).
"""

from __future__ import annotations

from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules.actions import end_held_job, exhausted, make_next_job
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.model import (
    CATCH_UP_WINDOW_MS_MIN,
    CatchUpPolicy,
    OverlapPolicy,
    SlotOrigin,
    SlotOutcome,
    WaitingSlot,
)
from perdure_engine.core.schedules.overlap import NO_MORE_ACTIONS, arrive, skip

LATE_US = CATCH_UP_WINDOW_MS_MIN * 1000
"""A slot that is later than this was missed, and it is the catch-up policy that says what becomes of it."""

SETTLED_MAX = 100
"""Slots that an update or a deletion writes down one by one; the record of the next one speaks for the rest."""


def plan(draft: ScheduleDraft, after_us: int) -> None:
    """Go on with the first slot past an instant."""
    draft.state.done_us = after_us
    plan_slot(draft, draft.next_us(after_us))


def plan_slot(draft: ScheduleDraft, nominal_us: int) -> None:
    """Go on with this slot; 0: there is none. The run of the one that was planned before has been seen to."""
    state = draft.state
    if exhausted(draft):
        nominal_us = 0
    state.next_us, state.job_over = nominal_us, False
    draft.changed = True
    if not nominal_us:
        draft.drop_wake()
        return
    due_us = draft.due_us(nominal_us)
    draft.wake_at(due_us)
    make_next_job(draft, nominal_us, due_us)


def stop_if_exhausted(draft: ScheduleDraft) -> None:
    """Nothing more may be started: no slot is planned."""
    if draft.state.next_us and exhausted(draft):
        drop_next_job(draft, NO_MORE_ACTIONS)
        plan_slot(draft, 0)


def advance(draft: ScheduleDraft) -> None:
    """The slot that was next is seen to, and the one after it is next. Not planned yet: several may be due."""
    state = draft.state
    state.done_us, state.job_over = state.next_us, False
    over = exhausted(draft)
    state.next_us = 0 if over else draft.next_us(state.done_us)


def is_due(draft: ScheduleDraft, nominal_us: int) -> bool:
    return bool(nominal_us) and draft.due_us(nominal_us) <= draft.env.now_us


def why_not(draft: ScheduleDraft, nominal_us: int) -> tuple[SlotOutcome, str] | None:
    """Why a slot that is due does not act, whatever is open. None: it may."""
    state, policies, now_us = draft.state, draft.schedule.policies, draft.env.now_us
    if draft.schedule.paused or nominal_us <= state.unpaused_us:
        return SlotOutcome.PAUSED, draft.schedule.note if draft.schedule.paused else ""
    if state.job_over:
        return SlotOutcome.SKIPPED, "its run was ended before its time"
    late_us = now_us - draft.due_us(nominal_us)
    if late_us <= LATE_US:
        state.late = 0
        return None
    if late_us > policies.catch_up_window_ms * 1000:
        return SlotOutcome.MISSED, "later than the catch-up window"
    if policies.catch_up is CatchUpPolicy.NONE:
        return SlotOutcome.MISSED, "catch-up policy: none"
    if policies.catch_up is CatchUpPolicy.LAST and is_due(
        draft, draft.times.next_us(draft.schedule.spec, nominal_us)
    ):
        return SlotOutcome.MISSED, "catch-up policy: last"
    if state.late >= policies.catch_up_most:
        return SlotOutcome.MISSED, f"catch-up policy: at most {policies.catch_up_most}"
    state.late += 1
    return None


def take_slot(draft: ScheduleDraft) -> WaitingSlot:
    """The next slot, with the run that was made for it."""
    state = draft.state
    job_id, state.job_id = state.job_id, b""
    overlap: OverlapPolicy = draft.schedule.policies.overlap
    now_us = draft.env.now_us
    return WaitingSlot(state.next_us, SlotOrigin.SPEC, overlap, now_us, job_id=job_id)


def drop_next_job(draft: ScheduleDraft, reason: str) -> None:
    """The next slot will not come, or with another run."""
    job_id, draft.state.job_id = draft.state.job_id, b""
    end_held_job(draft, job_id, JobStatus.CANCELLED, reason)


def act(draft: ScheduleDraft) -> None:
    """The next slot is due: it acts, or its record says why not."""
    refused = why_not(draft, draft.state.next_us)
    slot = take_slot(draft)
    if refused is not None:
        outcome, reason = refused
        skip(draft, slot, reason, outcome)
    else:
        arrive(draft, slot)


def leave_spec(draft: ScheduleDraft, reason: str, *, acts: bool) -> None:
    """The spec is no more. A slot of it whose time has come and that has not acted is written down as missed (or
    paused); but if it still `acts`, one that is on time does so."""
    state, now_us = draft.state, draft.env.now_us
    outcome = SlotOutcome.PAUSED if draft.schedule.paused else SlotOutcome.MISSED
    for _ in range(SETTLED_MAX):
        if not 0 < state.next_us <= now_us:
            break
        if acts and now_us - draft.due_us(state.next_us) <= LATE_US:
            act(draft)
        else:
            skip(draft, take_slot(draft), reason, outcome)
        advance(draft)
    if 0 < state.next_us <= now_us:
        rest = f"{reason}; this record is of all slots up to then"
        skip(draft, take_slot(draft), rest, outcome)
    drop_next_job(draft, reason)
