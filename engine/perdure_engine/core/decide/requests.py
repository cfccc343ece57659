"""Checks that several client intents share: is the run open, was the request seen before."""

from __future__ import annotations

from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected, not_found
from perdure_engine.core.events import (
    BufferedEvent,
    WorkflowExecutionCancelRequested,
    WorkflowExecutionSignaled,
)
from perdure_engine.core.state import RunState


def require_open(state: RunState) -> None:
    if not state.open:
        started = state.folded.started
        raise not_found(
            "WORKFLOW", f"workflow {started.workflow_id!r} has closed: {state.folded.status.name}"
        )


def seen(draft: Draft, request_id: bytes, body_hash: bytes) -> bool:
    """Whether this request has been applied. The same id with another body is an error."""
    known = draft.state.folded.request_ids.get(request_id)
    if known is None and draft.state.buffered:
        known = _seen_in_buffer(draft.state.buffered, request_id)
    return known is not None and same_body(known, body_hash)


def _seen_in_buffer(buffered: list[BufferedEvent], request_id: bytes) -> bytes | None:
    for event in buffered:
        match event:
            case WorkflowExecutionSignaled() | WorkflowExecutionCancelRequested():
                if event.request_id == request_id:
                    return event.body_hash
            case _:
                pass
    return None


def same_body(known: bytes, body_hash: bytes) -> bool:
    if known != body_hash:
        raise Rejected(
            Code.INVALID_ARGUMENT,
            "REQUEST_ID_REUSED",
            "request_id: was used before with another request",
            field="request_id",
        )
    return True
