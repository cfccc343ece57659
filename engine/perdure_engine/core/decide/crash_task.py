"""A task has crashed: its worker died with it in hand, or the process that it had to itself.

No attempt is counted, but a crash is (`core.poison`): in the decision that makes the task ready again, so that the
third one in a row poisons it there and then (invariant 37).
"""

from __future__ import annotations

from perdure_engine.core.decide.activity_outcome import end_as_canceled, end_as_failed
from perdure_engine.core.decide.attempts import (
    activity_of,
    current_workflow_task,
    holder,
    key_of,
    options_of,
    stale,
)
from perdure_engine.core.decide.crashes import count, is_counted
from perdure_engine.core.draft import Draft
from perdure_engine.core.failures import Failure, RetryState
from perdure_engine.core.intents import CrashTask
from perdure_engine.core.poison import Crashes, crashed, reported
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TaskKind, TaskRecord, TaskState


def decide(draft: Draft, intent: CrashTask) -> None:
    """Said again, it is refused as stale: what has died does not come back, and its start is over."""
    token = intent.token
    if token.kind is TaskKind.WORKFLOW:
        record = current_workflow_task(draft, token)
    else:
        record = holder(draft, token, TaskKind.ACTIVITY)
        if record.state is TaskState.ASYNC:
            raise stale()  # no process has it any more
    if is_counted(record, token):
        _mark_as_its_own(draft, record, intent.failure)
    elif token.kind is TaskKind.WORKFLOW:
        crash_workflow_task(draft, b"", intent.failure)
    else:
        crash_activity(draft, record, b"", intent.failure, intent.identity)
    again = draft.state.tasks.get(key_of(token.kind, token.scheduled_event_id))
    if again is not None:
        again.start_no = draft.env.new_number()


def _mark_as_its_own(draft: Draft, record: TaskRecord, failure: Failure) -> None:
    """Its worker says now that it was the process only."""
    crashes = record.crashes
    assert crashes is not None
    record.set_aside(crashes=reported(crashes, failure))
    draft.touch(record)


def crash_workflow_task(draft: Draft, worker_id: bytes, failure: Failure) -> None:
    record = draft.state.tasks[WORKFLOW_TASK_KEY]
    draft.state.sticky_worker_id = b""
    count(draft, WORKFLOW_TASK_KEY, one_more(draft, record, worker_id, failure))
    draft.number_buffered()


def crash_activity(
    draft: Draft, record: TaskRecord, worker_id: bytes, failure: Failure, identity: str
) -> None:
    """One that may run once fails with it. One that was asked to stop has stopped."""
    key = record.scheduled_event_id
    activity = activity_of(draft, key)
    if options_of(activity, record).retry_policy.maximum_attempts == 1:
        once = RetryState.MAXIMUM_ATTEMPTS_REACHED
        end_as_failed(draft, record, activity, failure, identity, once)
    elif activity.cancel_requested_event_id:
        end_as_canceled(draft, record, activity, identity)
    else:
        count(draft, key, one_more(draft, record, worker_id, failure))


def one_more(draft: Draft, record: TaskRecord, worker_id: bytes, failure: Failure) -> Crashes:
    return crashed(record.crashes, worker_id, record.start_no, failure, draft.env.now_us)
