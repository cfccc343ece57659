"""What became of an activity, from one who knows its ids and has no token."""

from __future__ import annotations

from typing import assert_never

from perdure_engine.core.decide import activity_outcome, heartbeat_activity
from perdure_engine.core.decide.requests import require_open
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Rejected, not_found
from perdure_engine.core.intents import (
    ActivityCanceled,
    ActivityCompleted,
    ActivityFailed,
    ActivityLives,
    CancelActivity,
    CompleteActivity,
    FailActivity,
    HeartbeatActivity,
    ReportActivity,
)
from perdure_engine.core.replies import Reply
from perdure_engine.core.tasks import TaskKind, TaskRecord
from perdure_engine.core.tokens import TaskToken


def decide(draft: Draft, intent: ReportActivity) -> Reply:
    """A result is taken of an activity that waits as well: nothing is left to be run. All else is of an attempt."""
    require_open(draft.state)
    record = named(draft, intent.activity_id)
    report = intent.report
    known = record.aside.request_id if record.aside is not None else b""
    if intent.request_id and known == intent.request_id:
        return None  # said again: that attempt has failed, and another one may run by now
    if not record.running and not isinstance(report, ActivityCompleted):
        raise not_found("ACTIVITY", f"no attempt of activity {intent.activity_id!r} is running")
    token = _token(draft, record)
    match report:
        case ActivityCompleted():
            activity_outcome.complete(
                draft, CompleteActivity(token, report.result, intent.identity)
            )
        case ActivityFailed():
            failed = FailActivity(token, report.failure, report.progress, intent.identity)
            activity_outcome.fail(draft, failed)
            _remember(draft, record, intent.request_id)
        case ActivityCanceled():
            activity_outcome.cancel(draft, CancelActivity(token, report.details, intent.identity))
        case ActivityLives():
            return heartbeat_activity.decide(draft, HeartbeatActivity(token, report.details))
        case _:
            assert_never(report)
    return None


def named(draft: Draft, activity_id: str) -> TaskRecord:
    for key, activity in draft.state.folded.activities.items():
        if activity.scheduled.activity_id == activity_id:
            record = draft.state.tasks.get(key)
            if record is not None:
                return record
    raise no_such(activity_id)


def no_such(activity_id: str) -> Rejected:
    return not_found("ACTIVITY", f"no activity {activity_id!r} is pending")


def _remember(draft: Draft, record: TaskRecord, request_id: bytes) -> None:
    """An attempt that failed leaves the activity pending: the same report may come again while the next one runs."""
    pending = draft.state.tasks.get(record.scheduled_event_id)
    if pending is not None:
        pending.set_aside(request_id=request_id)


def _token(draft: Draft, record: TaskRecord) -> TaskToken:
    """Of the newest start, whoever has it."""
    started = draft.state.folded.started
    handout = record.handout
    return TaskToken(
        0,
        started.namespace_id,
        started.run_id,
        TaskKind.ACTIVITY,
        record.scheduled_event_id,
        record.attempt,
        record.start_no if handout is None else handout.start_no,
        record.started_us,
        0,
    )
