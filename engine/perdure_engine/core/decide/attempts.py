"""Who may report on an attempt: only the holder of the highest accepted start number."""

from __future__ import annotations

from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Rejected, not_found
from perdure_engine.core.events import ActivityTaskScheduled
from perdure_engine.core.failures import Failure, FailureKind, RetryState
from perdure_engine.core.state import WORKFLOW_TASK_KEY, Activity
from perdure_engine.core.tasks import ActivityOptions, TaskKind, TaskRecord, TaskState
from perdure_engine.core.tokens import TaskToken


def key_of(kind: TaskKind, scheduled_event_id: int) -> int:
    return WORKFLOW_TASK_KEY if kind is TaskKind.WORKFLOW else scheduled_event_id


def stale() -> Rejected:
    return not_found("TASK", "the task is over, or its attempt has another owner")


def holder(draft: Draft, token: TaskToken, kind: TaskKind) -> TaskRecord:
    """The record that the token's hand-out is valid for. Raises NOT_FOUND: nothing changes.

    After a take-over the hand-out is not in memory: a token that is not older than the last accepted start
    adopts the task (design §6).
    """
    if token.kind is not kind:
        raise stale()
    record = draft.state.tasks.get(key_of(kind, token.scheduled_event_id))
    if record is None or record.kind is not token.kind or record.attempt != token.attempt:
        raise stale()
    if record.scheduled_event_id != token.scheduled_event_id:
        raise stale()
    if record.handout is not None:
        if record.handout.start_no != token.start_no:
            raise stale()
    elif token.start_no < record.start_no:
        raise stale()
    return record


def runs_as(record: TaskRecord, start_no: int) -> bool:
    """Whether a start is still out: handed out by this owner, or saved by the one before.

    What the lease book asks for (a time-out, a put-back) may come after the attempt has ended otherwise.
    """
    if record.handout is not None:
        return record.handout.start_no == start_no
    return record.state is TaskState.STARTED and record.start_no == start_no


def current_workflow_task(draft: Draft, token: TaskToken) -> TaskRecord:
    """The workflow task, handed out for exactly this state of the history (design §6). Raises NOT_FOUND."""
    record = holder(draft, token, TaskKind.WORKFLOW)
    expected = draft.state.folded.next_event_id + (0 if record.scheduled_event_id else 1)
    if token.started_event_id != expected:
        raise stale()
    return record


def activity_of(draft: Draft, scheduled_event_id: int) -> Activity:
    activity = draft.state.folded.activities.get(scheduled_event_id)
    if activity is None:
        raise stale()
    return activity


def activity_failure(
    activity: Activity, cause: Failure, identity: str, retry_state: RetryState
) -> Failure:
    """What the workflow sees: the activity's failure, with the reason as its cause."""
    scheduled = activity.scheduled
    return Failure(
        FailureKind.ACTIVITY,
        "activity error",
        cause=cause,
        type=scheduled.activity_type,
        scheduled_event_id=scheduled.event_id,
        identity=identity,
        activity_id=scheduled.activity_id,
        retry_state=retry_state,
    )


def options_of(activity: Activity, record: TaskRecord) -> ActivityTaskScheduled | ActivityOptions:
    """The options in force: an operator's, or those it was scheduled with."""
    aside = record.aside
    return activity.scheduled if aside is None or aside.options is None else aside.options


def close_by_us(draft: Draft, activity: Activity, record: TaskRecord) -> int:
    """Schedule-to-close as an instant; 0: none. While its run is suspended, time stands still."""
    timeout_ms = options_of(activity, record).schedule_to_close_timeout_ms
    if not timeout_ms:
        return 0
    pause = draft.state.folded.paused
    stood_us = draft.env.now_us - pause.time_us if pause is not None and pause.suspended else 0
    return activity.scheduled.time_us + timeout_ms * 1000 + stood_us


def stops_for_pause(activity: Activity, record: TaskRecord) -> bool:
    """Whether a paused attempt is asked to stop: not one that may not begin again."""
    return record.paused and options_of(activity, record).retry_policy.maximum_attempts != 1
