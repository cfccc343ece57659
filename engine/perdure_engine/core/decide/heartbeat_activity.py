"""One attempt says that it lives and how far it has come, and is answered when that is saved.

By compare-and-set (invariant 33): only the holder of the attempt is heard, and what it says is never older than what
is saved already.
"""

from __future__ import annotations

from perdure_engine.core.decide.activity_outcome import keep_progress
from perdure_engine.core.decide.attempts import activity_of, holder, stops_for_pause
from perdure_engine.core.decide.crashes import take_back
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import HeartbeatActivity
from perdure_engine.core.poison import forgiven
from perdure_engine.core.replies import ActivityHeard
from perdure_engine.core.state import Activity
from perdure_engine.core.tasks import TaskKind, TaskRecord, TaskState


def decide(draft: Draft, intent: HeartbeatActivity) -> ActivityHeard:
    record = holder(draft, intent.token, TaskKind.ACTIVITY)
    activity = activity_of(draft, record.scheduled_event_id)
    details, version = intent.details, intent.progress_version
    if details is not None and version and version <= record.progress_version:
        if version < record.progress_version or details != record.progress:
            raise Rejected(
                Code.ABORTED, "PROGRESS_STALE", "newer progress of this attempt is saved already"
            )
        return heard(activity, record)  # said again: it is saved
    if details is not None:
        keep_progress(record, details, version)
        if record.crashes is not None:  # what it has come to is safe now: it gets on
            take_back(draft, record.scheduled_event_id, forgiven(record.crashes))
            record = draft.state.tasks[record.scheduled_event_id]
    if record.state is TaskState.ASYNC:
        record.set_aside(beat_us=draft.env.now_us)
    if record.handout is not None:
        record.handout.beat_us = max(record.handout.beat_us, draft.env.now_us)
    if details is not None or record.state is TaskState.ASYNC:
        draft.touch(record)
    return heard(activity, record)


def heard(activity: Activity, record: TaskRecord) -> ActivityHeard:
    return ActivityHeard(
        bool(activity.cancel_requested_event_id),
        stops_for_pause(activity, record),
        record.aside is not None and record.aside.reset,
    )
