"""A timer row is due. Stale rows (their reason is over) change nothing; the shard marks them gone."""

from __future__ import annotations

from perdure_engine.core import events as ev
from perdure_engine.core.decide import crashes, next_run
from perdure_engine.core.decide.activity_outcome import end, end_unstarted
from perdure_engine.core.decide.attempts import activity_failure
from perdure_engine.core.decide.hand_over_activity import time_out_async
from perdure_engine.core.draft import Draft
from perdure_engine.core.failures import RetryState, TimeoutType, timeout_failure
from perdure_engine.core.intents import FireTimer
from perdure_engine.core.tasks import TaskState, TimerKind


def decide(draft: Draft, intent: FireTimer) -> None:
    state = draft.state
    record = state.timer_rows.get((intent.kind, intent.reference))
    if not state.open or record is None or record.timer_id != intent.timer_id:
        return
    draft.drop_timer(intent.kind, intent.reference)
    match intent.kind:
        case TimerKind.USER:
            _user_timer(draft, intent.reference)
        case TimerKind.RUN_TIMEOUT:
            next_run.time_out_run(draft)
        case TimerKind.EXECUTION_TIMEOUT:
            next_run.time_out_chain(draft)
        case TimerKind.START_DELAY | TimerKind.CRON_OR_RETRY_BACKOFF:
            draft.schedule_workflow_task()
        case TimerKind.WORKFLOW_TASK_BACKOFF | TimerKind.ACTIVITY_RETRY | TimerKind.SUSPENSION:
            _of_task(draft, intent.kind, intent.reference)  # what it refers to is the task's key
        case TimerKind.SCHEDULE_TO_START:
            _schedule_to_start(draft, intent.reference)
        case TimerKind.SCHEDULE_TO_CLOSE:
            _schedule_to_close(draft, intent.reference)
        case TimerKind.ASYNC_TIMEOUT:
            time_out_async(draft, intent.reference)


def _user_timer(draft: Draft, started_event_id: int) -> None:
    for timer in draft.state.folded.timers.values():
        if timer.started_event_id == started_event_id:
            draft.record(ev.TimerFired(0, draft.env.now_us, timer.timer_id, started_event_id))
            return


def _of_task(draft: Draft, kind: TimerKind, key: int) -> None:
    record = draft.state.tasks.get(key)
    if record is None:
        return
    if kind is TimerKind.SUSPENSION:
        crashes.out_of_time(draft, key)
    elif record.state is TaskState.BACKOFF:
        crashes.waited(draft, key)


def _schedule_to_start(draft: Draft, scheduled_event_id: int) -> None:
    record = draft.state.tasks.get(scheduled_event_id)
    if record is None or record.running:
        return
    if record.was_started or record.paused or record.state is TaskState.PAUSED:
        return  # it was started once: the timeout has done its duty; or nobody may start it now
    _timed_out(draft, scheduled_event_id, TimeoutType.SCHEDULE_TO_START, started=False)


def _schedule_to_close(draft: Draft, scheduled_event_id: int) -> None:
    record = draft.state.tasks.get(scheduled_event_id)
    if record is None:
        return
    _timed_out(draft, scheduled_event_id, TimeoutType.SCHEDULE_TO_CLOSE, started=record.running)


def _timed_out(draft: Draft, scheduled_event_id: int, kind: TimeoutType, *, started: bool) -> None:
    activity = draft.state.folded.activities[scheduled_event_id]
    record = draft.state.tasks[scheduled_event_id]
    cause = timeout_failure(kind, record.progress, record.last_failure)
    failure = activity_failure(activity, cause, record.identity, RetryState.TIMEOUT)
    outcome = ev.ActivityTaskTimedOut(
        0, draft.env.now_us, failure, scheduled_event_id, 0, RetryState.TIMEOUT
    )
    if started:
        end(draft, record, record.identity, outcome)
    else:
        end_unstarted(draft, scheduled_event_id, outcome)
