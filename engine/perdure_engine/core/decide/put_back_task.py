"""The worker that took a task is gone, or never got it: the task is ready again, and no attempt is counted."""

from __future__ import annotations

from perdure_engine.core.decide.activity_outcome import end_as_canceled, end_as_failed
from perdure_engine.core.decide.attempts import key_of, options_of, runs_as
from perdure_engine.core.decide.crash_task import (
    crash_activity,
    crash_workflow_task,
)
from perdure_engine.core.decide.crashes import suspend_in_time
from perdure_engine.core.draft import Draft
from perdure_engine.core.failures import RetryState, worker_lost_failure
from perdure_engine.core.intents import PutBackTask
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TaskKind, TaskRecord, TaskState


def decide(draft: Draft, intent: PutBackTask) -> None:
    key = key_of(intent.task_kind, intent.scheduled_event_id)
    record = draft.state.tasks.get(key)
    if record is None:
        return
    if intent.task_kind is TaskKind.WORKFLOW:
        _workflow_task(draft, record, intent)
    elif runs_as(record, intent.start_no):
        _activity(draft, record, intent)


def _is_crash(record: TaskRecord, intent: PutBackTask) -> bool:
    """Nobody dies twice: a worker that had died with the task before, and was not heard of since, never got it this
    time, but a poll of it was still open (invariant 35: an answer that gets lost is no crash)."""
    died = intent.crashed_worker_id
    known = record.crashes.worker_ids if record.crashes is not None else ()
    return bool(died) and died not in known


def _workflow_task(draft: Draft, record: TaskRecord, intent: PutBackTask) -> None:
    waited_for = (
        record.state is TaskState.READY and record.handout is None and bool(draft.state.buffered)
    )
    if not waited_for and not runs_as(record, intent.start_no):
        return
    if _is_crash(record, intent):
        lost = worker_lost_failure(record.identity)
        crash_workflow_task(draft, intent.crashed_worker_id, lost)
        return
    draft.state.sticky_worker_id = b""
    draft.ready_again(WORKFLOW_TASK_KEY)
    draft.number_buffered()
    suspend_in_time(draft, WORKFLOW_TASK_KEY)


def _activity(draft: Draft, record: TaskRecord, intent: PutBackTask) -> None:
    identity = record.identity
    if _is_crash(record, intent):
        lost = worker_lost_failure(identity)
        crash_activity(draft, record, intent.crashed_worker_id, lost, identity)
        return
    activity = draft.state.folded.activities[record.scheduled_event_id]
    if intent.worker_dead and options_of(activity, record).retry_policy.maximum_attempts == 1:
        once, lost = RetryState.MAXIMUM_ATTEMPTS_REACHED, worker_lost_failure(identity)
        end_as_failed(draft, record, activity, lost, identity, once)
    elif activity.cancel_requested_event_id:
        end_as_canceled(draft, record, activity, identity)
    else:
        draft.ready_again(record.scheduled_event_id)
        suspend_in_time(draft, record.scheduled_event_id)
