"""Another definition: it holds for every slot after the answer (invariant 56)."""

from __future__ import annotations

import msgspec

from perdure_engine.core.audit import Action
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.repeats import body_of
from perdure_engine.core.schedules.actions import exhausted, keep_action
from perdure_engine.core.schedules.auditing import note
from perdure_engine.core.schedules.decide.create import with_tzdata
from perdure_engine.core.schedules.decide.pause import turn
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import ScheduleSaved, UpdateSchedule
from perdure_engine.core.schedules.model import RequestMark, Schedule, SlotOutcome
from perdure_engine.core.schedules.overlap import drop_waiting
from perdure_engine.core.schedules.planning import drop_next_job, leave_spec, plan, plan_slot
from perdure_engine.core.schedules.saved import require_exists, saved

UPDATED = "the schedule was updated"


def decide(draft: ScheduleDraft, intent: UpdateSchedule) -> ScheduleSaved:
    require_exists(draft)
    if draft.mark_of(intent) is not None:
        return saved(draft)
    if intent.conflict_token not in (0, draft.conflict_token):
        raise Rejected(
            Code.ABORTED,
            "SCHEDULE_CHANGED",
            f"the schedule is at conflict token {draft.conflict_token} by now",
        )
    draft.answered(RequestMark(intent.request_id, body=body_of(intent)))
    before = draft.conflict_token
    _apply(draft, intent.schedule)
    note(
        draft,
        Action.UPDATE_SCHEDULE,
        intent,
        before=f"conflict token {before}",
        after=f"conflict token {draft.conflict_token}",
    )
    return saved(draft)


def _apply(draft: ScheduleDraft, new: Schedule) -> None:
    old, state = draft.schedule, draft.state
    spec = with_tzdata(draft, new.spec)
    same_spec = msgspec.structs.replace(old.spec, tzdata_version=spec.tzdata_version) == spec
    same_action = old.action == new.action
    was_exhausted = exhausted(draft)
    if not same_spec:
        leave_spec(draft, UPDATED, acts=True)
    if not (same_spec and same_action):
        drop_waiting(draft, UPDATED, SlotOutcome.SKIPPED, also_called_for=False)
        keep_action(draft)
    definition = {"action": new.action, "policies": new.policies, "note": new.note}
    turn(draft, paused=new.paused, spec=spec, **definition)
    state.remaining = new.remaining_actions
    if was_exhausted or not same_spec:
        plan(draft, draft.env.now_us)
    elif not same_action and state.next_us:
        drop_next_job(draft, UPDATED)
        plan_slot(draft, state.next_us)
