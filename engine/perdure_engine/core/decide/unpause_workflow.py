"""A run that was held back goes on: its tasks are ready again, but for activities that are paused themselves."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.auditing import note
from perdure_engine.core.decide.pending_activities import wait_anew
from perdure_engine.core.decide.requests import require_open, seen
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import WorkflowExecutionUnpaused
from perdure_engine.core.intents import UnpauseWorkflow
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TaskState


def decide(draft: Draft, intent: UnpauseWorkflow) -> None:
    if seen(draft, intent.request_id, intent.body_hash):
        return
    state = draft.state
    require_open(state)
    if state.folded.paused is None:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "WORKFLOW_NOT_PAUSED",
            f"workflow {state.folded.started.workflow_id!r} is not paused",
        )
    event_id, time_us = draft.stamp()
    draft.emit(
        WorkflowExecutionUnpaused(
            event_id, time_us, intent.reason, intent.identity, intent.request_id, intent.body_hash
        )
    )
    for key, record in list(state.tasks.items()):
        if record.state is TaskState.PAUSED and not record.paused:
            if key != WORKFLOW_TASK_KEY:
                wait_anew(draft, record)
            draft.ready_again(key)
    draft.listed = True
    note(draft, Action.UNPAUSE, intent, before="PAUSED", after="RUNNING")
