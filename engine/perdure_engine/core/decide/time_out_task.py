"""A started attempt passed its start-to-close, heartbeat or workflow-task timeout."""

from __future__ import annotations

from perdure_engine.core import events as ev
from perdure_engine.core.decide import fail_workflow_task
from perdure_engine.core.decide.activity_outcome import end, retry_or_not
from perdure_engine.core.decide.attempts import activity_failure, key_of, runs_as
from perdure_engine.core.draft import Draft
from perdure_engine.core.failures import RetryState, timeout_failure
from perdure_engine.core.intents import TimeOutTask
from perdure_engine.core.tasks import TaskKind


def decide(draft: Draft, intent: TimeOutTask) -> None:
    key = key_of(intent.task_kind, intent.scheduled_event_id)
    record = draft.state.tasks.get(key)
    if record is None or not runs_as(record, intent.start_no):
        return
    if intent.task_kind is TaskKind.WORKFLOW:
        fail_workflow_task.time_out_task(draft, intent.timeout_type)
        return
    activity = draft.state.folded.activities[key]
    cause = timeout_failure(intent.timeout_type, record.progress)
    identity = record.identity
    retry_state = retry_or_not(draft, record, activity, cause)
    if retry_state is RetryState.IN_PROGRESS:
        return
    failure = activity_failure(activity, cause, identity, retry_state)
    end(
        draft,
        record,
        identity,
        ev.ActivityTaskTimedOut(0, draft.env.now_us, failure, key, 0, retry_state),
    )
