"""Terminate wins over everything, needs no worker and reads no payload."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.auditing import asked_for_by_somebody, note, status_of
from perdure_engine.core.decide.requests import (
    require_chain,
    require_child,
    require_open,
    same_body,
)
from perdure_engine.core.draft import Draft
from perdure_engine.core.events import WorkflowExecutionTerminated
from perdure_engine.core.intents import TerminateWorkflow


def decide(draft: Draft, intent: TerminateWorkflow) -> None:
    require_child(draft.state, intent.child_of)
    closed = draft.state.folded.closed
    if isinstance(closed, WorkflowExecutionTerminated) and closed.request_id == intent.request_id:
        same_body(closed.body_hash, intent.body_hash)
        return
    require_chain(draft.state, intent.first_run_id)
    require_open(draft.state)
    before = status_of(draft)
    terminate(
        draft, intent.reason, intent.details, intent.identity, intent.request_id, intent.body_hash
    )
    if asked_for_by_somebody(intent):
        note(draft, Action.TERMINATE, intent, before=before, after=status_of(draft))


def terminate(
    draft: Draft,
    reason: str,
    details: bytes,
    identity: str,
    request_id: bytes,
    body_hash: bytes,
    reset_run_id: bytes = b"",
) -> None:
    """End an open run. What was acknowledged before stands in history before the end."""
    draft.number_buffered()
    event_id, time_us = draft.stamp()
    draft.close(
        WorkflowExecutionTerminated(
            event_id, time_us, reason, details, identity, request_id, body_hash, reset_run_id
        )
    )
