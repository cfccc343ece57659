"""Cancellation is asked for once; the run may clean up, or go on."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.auditing import asked_for_by_somebody, note, status_of
from perdure_engine.core.decide.requests import require_chain, require_child, require_open, seen
from perdure_engine.core.draft import Draft
from perdure_engine.core.events import WorkflowExecutionCancelRequested
from perdure_engine.core.intents import CancelWorkflow
from perdure_engine.core.tasks import TimerKind


def decide(draft: Draft, intent: CancelWorkflow) -> None:
    require_child(draft.state, intent.child_of)
    if seen(draft, intent.request_id, intent.body_hash):
        return
    require_chain(draft.state, intent.first_run_id)
    require_open(draft.state)
    if draft.state.folded.cancel_requested or any(
        isinstance(event, WorkflowExecutionCancelRequested) for event in draft.state.buffered
    ):
        return
    if asked_for_by_somebody(intent):
        note(draft, Action.CANCEL, intent, before=status_of(draft), after="CANCEL_REQUESTED")
    if draft.state.timer_rows:  # a run that waits for its time is waked: its code is to hear of it
        draft.drop_timer(TimerKind.CRON_OR_RETRY_BACKOFF, 0)
    draft.record(
        WorkflowExecutionCancelRequested(
            0, draft.env.now_us, intent.reason, intent.identity, intent.request_id, intent.body_hash
        )
    )
