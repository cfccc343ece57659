"""An activity's worker is done with it, and its outcome will come from elsewhere (`raise_complete_async`).

From here on no lease watches the attempt: it is a state of the task's row, with a timer row for its start-to-close and
heartbeat timeouts, so that a take-over or a restart of the engine changes nothing for it.
"""

from __future__ import annotations

from perdure_engine.core import events as ev
from perdure_engine.core.decide.activity_outcome import end, keep_progress, retry_or_not
from perdure_engine.core.decide.attempts import activity_failure, activity_of, holder, options_of
from perdure_engine.core.decide.crashes import forgive
from perdure_engine.core.draft import Draft
from perdure_engine.core.failures import RetryState, TimeoutType, timeout_failure
from perdure_engine.core.intents import HandOverActivity
from perdure_engine.core.state import Activity
from perdure_engine.core.tasks import NO_ASIDE, TaskKind, TaskRecord, TaskState, TimerKind


def decide(draft: Draft, intent: HandOverActivity) -> None:
    token = intent.token
    record = holder(draft, token, TaskKind.ACTIVITY)
    activity = activity_of(draft, record.scheduled_event_id)
    if record.state is TaskState.ASYNC:
        return  # said again
    if intent.progress:
        keep_progress(record, intent.progress, intent.progress_version)
    forgive(draft, record.scheduled_event_id)
    record.state = TaskState.ASYNC
    record.handout = None
    record.start_no = token.start_no
    record.started_us = token.started_us
    record.identity = record.identity or intent.identity
    record.set_aside(deadline_us=token.deadline_us, beat_us=draft.env.now_us)
    draft.touch(record)
    watch(draft, activity, record)


def watch(draft: Draft, activity: Activity, record: TaskRecord) -> None:
    """A timer for the next instant at which a timeout may have passed, if there is any timeout."""
    dues = [due for due, _ in _timeouts(activity, record)]
    if dues:
        draft.put_timer(TimerKind.ASYNC_TIMEOUT, record.scheduled_event_id, min(dues))


def time_out_async(draft: Draft, scheduled_event_id: int) -> None:
    """The timer fired: a timeout has passed, or a heartbeat has come since and it is watched on."""
    record = draft.state.tasks.get(scheduled_event_id)
    if record is None or record.state is not TaskState.ASYNC:
        return
    activity = activity_of(draft, scheduled_event_id)
    for due, timeout_type in _timeouts(activity, record):
        if draft.env.now_us >= due:
            _time_out(draft, activity, record, timeout_type)
            return
    watch(draft, activity, record)


def _timeouts(activity: Activity, record: TaskRecord) -> list[tuple[int, TimeoutType]]:
    aside = record.aside or NO_ASIDE
    timeouts: list[tuple[int, TimeoutType]] = []
    if aside.deadline_us:
        timeouts.append((aside.deadline_us, TimeoutType.START_TO_CLOSE))
    heartbeat_ms = options_of(activity, record).heartbeat_timeout_ms
    if heartbeat_ms:
        timeouts.append((aside.beat_us + heartbeat_ms * 1000, TimeoutType.HEARTBEAT))
    return timeouts


def _time_out(
    draft: Draft, activity: Activity, record: TaskRecord, timeout_type: TimeoutType
) -> None:
    cause = timeout_failure(timeout_type, record.progress)
    retry_state = retry_or_not(draft, record, activity, cause)
    if retry_state is RetryState.IN_PROGRESS:
        return
    failure = activity_failure(activity, cause, record.identity, retry_state)
    outcome = ev.ActivityTaskTimedOut(
        0, draft.env.now_us, failure, record.scheduled_event_id, 0, retry_state
    )
    end(draft, record, record.identity, outcome)
