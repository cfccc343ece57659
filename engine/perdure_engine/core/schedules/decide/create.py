"""Create a schedule. What was left of a deleted one with its id goes on being told to the world."""

from __future__ import annotations

import msgspec

from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.repeats import body_of, require_same
from perdure_engine.core.schedules.actions import keep_action
from perdure_engine.core.schedules.decide import trigger
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import CreateSchedule, ScheduleSaved
from perdure_engine.core.schedules.model import ScheduleSpec, ScheduleState
from perdure_engine.core.schedules.planning import plan
from perdure_engine.core.schedules.saved import saved


def decide(draft: ScheduleDraft, intent: CreateSchedule) -> ScheduleSaved:
    record, now_us = draft.record, draft.env.now_us
    if draft.exists:
        if draft.state.created_by == intent.request_id:
            require_same(draft.state.created_body, intent)
            return msgspec.structs.replace(saved(draft), repeated=True)
        raise Rejected(
            Code.ALREADY_EXISTS, "SCHEDULE_EXISTS", f"schedule {intent.schedule_id!r} exists"
        )
    schedule = intent.schedule
    if not draft.times.next_us(schedule.spec, now_us):
        raise invalid("schedule.spec", "never fires again: all of its times are over")
    keep_action(draft)
    before = draft.state
    draft.state = ScheduleState(
        created_us=now_us,
        created_by=intent.request_id,
        updated_us=now_us,
        done_us=now_us,
        manual_us=before.manual_us,
        remaining=schedule.remaining_actions,
        actions=before.actions,
        kept=before.kept,
        created_body=body_of(intent),
    )
    draft.user_id = intent.user_id
    draft.schedule = msgspec.structs.replace(schedule, spec=with_tzdata(draft, schedule.spec))
    draft.conflict_token = record.conflict_token + (record.version > 0)
    draft.gone, draft.changed, draft.defined = False, True, True
    plan(draft, now_us)
    if intent.trigger_immediately:
        trigger.act(draft, None, intent)
    return saved(draft)


def with_tzdata(draft: ScheduleDraft, spec: ScheduleSpec) -> ScheduleSpec:
    return msgspec.structs.replace(spec, tzdata_version=draft.times.tzdata_version)
