"""An attempt of an activity ends: completed, failed, canceled, timed out or lost with its worker.

Each outcome is applied at most once, for the attempt it was handed out for.
"""

from __future__ import annotations

from perdure_engine.core import events as ev
from perdure_engine.core.decide.attempts import (
    activity_failure,
    activity_of,
    close_by_us,
    holder,
    options_of,
)
from perdure_engine.core.decide.crashes import forgive, hand_on
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.failures import Failure, FailureKind, RetryState
from perdure_engine.core.intents import CancelActivity, CompleteActivity, FailActivity
from perdure_engine.core.retry import next_attempt
from perdure_engine.core.state import WORKFLOW_TASK_KEY, Activity
from perdure_engine.core.tasks import TaskKind, TaskRecord, TaskState, TimerKind

STOPPED_BY_PAUSE = "ActivityPause"  # type of the failure with which a worker says so


def complete(draft: Draft, intent: CompleteActivity) -> None:
    record = holder(draft, intent.token, TaskKind.ACTIVITY)
    end(
        draft,
        record,
        intent.identity,
        ev.ActivityTaskCompleted(
            0, draft.env.now_us, intent.result, record.scheduled_event_id, 0, intent.identity
        ),
    )


def fail(draft: Draft, intent: FailActivity) -> None:
    record = holder(draft, intent.token, TaskKind.ACTIVITY)
    activity = activity_of(draft, record.scheduled_event_id)
    if intent.progress:
        keep_progress(record, intent.progress, intent.progress_version)
    if stopped_by_pause(record, intent.failure):
        forgive(draft, record.scheduled_event_id)
        draft.ready_again(record.scheduled_event_id)
        return
    retry_state = retry_or_not(draft, record, activity, intent.failure)
    if retry_state is RetryState.IN_PROGRESS:
        return
    end_as_failed(draft, record, activity, intent.failure, intent.identity, retry_state)


def cancel(draft: Draft, intent: CancelActivity) -> None:
    record = holder(draft, intent.token, TaskKind.ACTIVITY)
    activity = activity_of(draft, record.scheduled_event_id)
    if not activity.cancel_requested_event_id:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "CANCEL_NOT_REQUESTED",
            "an activity can end as canceled only after the workflow asked for it",
        )
    end_as_canceled(draft, record, activity, intent.identity, intent.details)


def end_as_failed(
    draft: Draft,
    record: TaskRecord,
    activity: Activity,
    cause: Failure,
    identity: str,
    retry_state: RetryState,
) -> None:
    failure = activity_failure(activity, cause, identity, retry_state)
    now_us, key = draft.env.now_us, record.scheduled_event_id
    outcome = ev.ActivityTaskFailed(0, now_us, failure, key, 0, identity, retry_state)
    end(draft, record, identity, outcome)


def end_as_canceled(
    draft: Draft, record: TaskRecord, activity: Activity, identity: str, details: bytes = b""
) -> None:
    request_id, key = activity.cancel_requested_event_id, record.scheduled_event_id
    outcome = ev.ActivityTaskCanceled(0, draft.env.now_us, details, request_id, key, 0, identity)
    end(draft, record, identity, outcome)


def keep_progress(record: TaskRecord, progress: bytes, version: int) -> bool:
    """Compare and set: what is older than what is kept changes nothing. Version 0: from one who does not count."""
    if version and version <= record.progress_version:
        return False
    record.progress = progress
    record.progress_version = version or record.progress_version + 1
    return True


def stopped_by_pause(record: TaskRecord, failure: Failure) -> bool:
    """The code stopped because it was told of the pause: that is no attempt that failed."""
    return (
        failure.kind is FailureKind.APPLICATION
        and failure.type == STOPPED_BY_PAUSE
        and record.paused
    )


def retry_or_not(
    draft: Draft, record: TaskRecord, activity: Activity, failure: Failure
) -> RetryState:
    """Arrange the next attempt and return IN_PROGRESS, or say why there is none."""
    if activity.cancel_requested_event_id:
        return RetryState.CANCEL_REQUESTED
    policy = options_of(activity, record).retry_policy
    aside = record.aside
    afresh = aside is not None and aside.reset
    verdict = next_attempt(
        policy,
        0 if afresh else record.attempt,
        failure,
        draft.env.now_us,
        close_by_us(draft, activity, record),
    )
    if verdict.state is not RetryState.IN_PROGRESS:
        return verdict.state
    forgive(draft, record.scheduled_event_id)
    if afresh:
        record = begin_anew(draft, record)
    else:
        record.attempt += 1
    if draft.state.timer_rows:
        draft.drop_timer(TimerKind.ASYNC_TIMEOUT, record.scheduled_event_id)
    record.last_failure = failure
    record.handout = None
    if verdict.delay_ms == 0:
        if not afresh:
            draft.ready_again(record.scheduled_event_id)
        return verdict.state
    record.state = TaskState.BACKOFF
    record.worker_id, record.identity, record.started_us = b"", "", 0
    record.next_attempt_us = draft.env.now_us + verdict.delay_ms * 1000
    draft.touch(record)
    draft.put_timer(TimerKind.ACTIVITY_RETRY, record.scheduled_event_id, record.next_attempt_us)
    return verdict.state


def begin_anew(draft: Draft, record: TaskRecord) -> TaskRecord:
    """Count the attempts from 1 again, and no crashes, in a new row. A token of an earlier attempt 1 is older than its
    start number."""
    record.set_aside(reset=False, crashes=None)
    draft.ready_again(record.scheduled_event_id)
    anew = draft.state.tasks[record.scheduled_event_id]
    anew.attempt = 1
    anew.start_no = draft.env.new_number()
    return anew


def end(draft: Draft, record: TaskRecord, identity: str, outcome: ev.BufferedEvent) -> None:
    """Write Started (with what only the row knew: attempt and last failure) and the outcome together."""
    scheduled_event_id = record.scheduled_event_id
    drop_activity_rows(draft, scheduled_event_id)
    started = ev.ActivityTaskStarted(
        0, draft.env.now_us, scheduled_event_id, identity, record.attempt, record.last_failure
    )
    crashes = record.crashes
    if crashes is None:
        draft.record(started, outcome)
        return
    waited = WORKFLOW_TASK_KEY in draft.state.tasks
    draft.record(started, outcome)
    if not waited and WORKFLOW_TASK_KEY in draft.state.tasks:
        hand_on(draft, crashes)


def end_unstarted(draft: Draft, scheduled_event_id: int, outcome: ev.BufferedEvent) -> None:
    """The activity ends without a running attempt (canceled or timed out while it waited)."""
    drop_activity_rows(draft, scheduled_event_id)
    draft.record(outcome)


def drop_activity_rows(draft: Draft, scheduled_event_id: int) -> None:
    draft.drop_task(scheduled_event_id)
    if draft.state.timer_rows:
        for kind in (
            TimerKind.ACTIVITY_RETRY,
            TimerKind.SUSPENSION,
            TimerKind.SCHEDULE_TO_START,
            TimerKind.SCHEDULE_TO_CLOSE,
            TimerKind.ASYNC_TIMEOUT,
        ):
            draft.drop_timer(kind, scheduled_event_id)
