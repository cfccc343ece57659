"""One module per verb: what it changes of one schedule, and what callers are answered with.

`decide(draft, intent)` is the door of callers' intents (but of a backfill, which needs to know the slots that have a
record: `backfill.decide`), `hear` that of answers to errands. What job runs of a schedule a decision may touch must be
in memory (`job_ids`): the one that is made for the next slot, those of slots that wait, and those that are open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, assert_never

from perdure_engine.core.schedules import intents
from perdure_engine.core.schedules.decide import (
    create,
    delete,
    describe,
    pause,
    run_heard,
    start_answered,
    stop_answered,
    trigger,
    update,
)
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.errands import ErrandKind, action_of
from perdure_engine.core.schedules.intents import ScheduleReply
from perdure_engine.core.schedules.model import OverlapPolicy, ScheduleRecord, ScheduleState
from perdure_engine.core.schedules.overlap import is_job
from perdure_engine.core.schedules.planning import stop_if_exhausted

TAKES_PLACE = (OverlapPolicy.CANCEL_OTHER, OverlapPolicy.TERMINATE_OTHER)

_DECIDE: dict[type, Callable[[ScheduleDraft, Any], ScheduleReply]] = {
    intents.CreateSchedule: create.decide,
    intents.UpdateSchedule: update.decide,
    intents.DeleteSchedule: delete.decide,
    intents.PauseSchedule: pause.decide,
    intents.TriggerSchedule: trigger.decide,
    intents.DescribeSchedule: describe.decide,
}


def decide(draft: ScheduleDraft, intent: intents.ScheduleIntent) -> ScheduleReply:
    """Raises Rejected before any change."""
    reply = _DECIDE[type(intent)](draft, intent)
    stop_if_exhausted(draft)
    return reply


def hear(draft: ScheduleDraft, heard: intents.Heard) -> None:
    """One that was answered before, or whose action is over, changes nothing."""
    action = action_of(draft.state, heard.errand)
    if action is None:
        return
    match heard.errand.kind:
        case ErrandKind.START:
            start_answered.decide(draft, action, heard.refused)
        case ErrandKind.STOP:
            stop_answered.decide(draft, action, heard.refused)
        case ErrandKind.ASK:
            run_heard.decide(draft, action, heard.status, heard.asked_us)
        case _:
            assert_never(heard.errand.kind)
    stop_if_exhausted(draft)


def job_ids(
    record: ScheduleRecord | ScheduleDraft, overlap: OverlapPolicy | None = None
) -> Iterator[bytes]:
    """Of job runs that must be in memory. `overlap`: of the intent, if it says another one than the schedule does."""
    yield from held_jobs(record.state)
    if (overlap or record.schedule.policies.overlap) in TAKES_PLACE:
        yield from open_jobs(record.state)


def held_jobs(state: ScheduleState) -> Iterator[bytes]:
    if state.job_id:
        yield state.job_id
    for slot in state.waiting:
        if slot.job_id:
            yield slot.job_id


def open_jobs(state: ScheduleState) -> Iterator[bytes]:
    for action in state.actions:
        if is_job(action):
            yield action.target
