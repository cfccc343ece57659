"""A run has closed: what its children and its parent are to hear of it.

The parent close policy applies whenever the run closes, also when another one follows it: children are not carried
along, as in Temporal. A parent is told of the end of a child's chain only: continue-as-new, a retry and the next run
of a cron schedule go on as the same child.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from perdure_engine.core import events as ev
from perdure_engine.core.failures import Failure, FailureKind, TimeoutType
from perdure_engine.core.parents import ParentClosePolicy
from perdure_engine.core.transitions import ChildPhase

if TYPE_CHECKING:
    from perdure_engine.core.draft import Draft


def following(closed: ev.ClosingEvent | None) -> bytes:
    """The run that follows a closed one; b"": none."""
    match closed:
        case (
            ev.WorkflowExecutionCompleted()
            | ev.WorkflowExecutionFailed()
            | ev.WorkflowExecutionTimedOut()
            | ev.WorkflowExecutionContinuedAsNew()
        ):
            return closed.new_run_id
        case _:
            return b""


def closing_failure(closed: ev.ClosingEvent) -> Failure | None:
    """Why a run ended otherwise than with its result; None: it did not, or another run goes on for it."""
    match closed:
        case ev.WorkflowExecutionCompleted() | ev.WorkflowExecutionContinuedAsNew():
            return None
        case ev.WorkflowExecutionFailed():
            return closed.failure
        case ev.WorkflowExecutionTimedOut():
            return Failure(
                FailureKind.TIMEOUT,
                "workflow timed out",
                timeout_type=TimeoutType.START_TO_CLOSE,
            )
        case ev.WorkflowExecutionCanceled():
            return Failure(FailureKind.CANCELED, "workflow canceled", details=closed.details)
        case ev.WorkflowExecutionTerminated():
            reason = closed.reason or "workflow terminated"
            return Failure(FailureKind.TERMINATED, reason, details=closed.details)
        case _:
            assert_never(closed)


def tell_relatives(draft: Draft) -> None:
    """Put the messages into the draft; its run has just closed, and has children or a parent."""
    state = draft.state
    for initiated_id, child in (state.folded.children or {}).items():
        if child.initiated.parent_close_policy is ParentClosePolicy.ABANDON:
            continue
        start = state.tasks.get(initiated_id)
        if child.phase is ChildPhase.INITIATED and start is not None and not start.version:
            draft.drop_task(initiated_id)  # never saved, so never sent: there is no child
        else:  # behind its start, if that has no answer yet
            draft.new_message(-initiated_id, child.initiated.workflow_id)
    tell_parent(draft)


def tell_parent(draft: Draft) -> None:
    """Of a closed run, if it has a parent that is to hear of it. A message that is on its way already is said anew: it
    may have come to a parent that did not listen, with only its answer still to come."""
    state = draft.state
    parent, closed = state.folded.started.parent, state.folded.closed
    if parent is not None and closed is not None and not following(closed):
        draft.drop_task(closed.event_id)
        draft.new_message(closed.event_id, parent.workflow_id)
