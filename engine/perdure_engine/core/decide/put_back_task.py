"""The worker that took a task is gone, or never got it: the task is ready again, and nothing is counted."""

from __future__ import annotations

from perdure_engine.core import events as ev
from perdure_engine.core.decide.activity_outcome import end
from perdure_engine.core.decide.attempts import activity_failure, key_of, options_of, runs_as
from perdure_engine.core.draft import Draft
from perdure_engine.core.failures import RetryState, worker_lost_failure
from perdure_engine.core.intents import PutBackTask
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TaskKind, TaskState


def decide(draft: Draft, intent: PutBackTask) -> None:
    key = key_of(intent.task_kind, intent.scheduled_event_id)
    record = draft.state.tasks.get(key)
    if record is None:
        return
    waited_for = (
        record.state is TaskState.READY and record.handout is None and bool(draft.state.buffered)
    )
    if intent.task_kind is TaskKind.WORKFLOW and (waited_for or runs_as(record, intent.start_no)):
        draft.state.sticky_worker_id = b""
        draft.ready_again(WORKFLOW_TASK_KEY)
        draft.number_buffered()
        return
    if intent.task_kind is TaskKind.WORKFLOW or not runs_as(record, intent.start_no):
        return
    activity = draft.state.folded.activities[key]
    if intent.worker_dead and options_of(activity, record).retry_policy.maximum_attempts == 1:
        identity = record.identity
        retry_state = RetryState.MAXIMUM_ATTEMPTS_REACHED
        failure = activity_failure(activity, worker_lost_failure(identity), identity, retry_state)
        end(
            draft,
            record,
            identity,
            ev.ActivityTaskFailed(0, draft.env.now_us, failure, key, 0, identity, retry_state),
        )
        return
    if activity.cancel_requested_event_id:
        end(
            draft,
            record,
            record.identity,
            ev.ActivityTaskCanceled(
                0,
                draft.env.now_us,
                b"",
                activity.cancel_requested_event_id,
                key,
                0,
                record.identity,
            ),
        )
        return
    draft.ready_again(key)
