"""A child's chain has ended: its parent's history says so, once, however often it is told.

The end may overtake the answer to the start; then that is written down first. A parent that has closed has no use for
it.
"""

from __future__ import annotations

from typing import assert_never, get_args

from perdure_engine.core import events as ev
from perdure_engine.core import outside_events as out
from perdure_engine.core.decide.answer_message import started
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import CloseChild
from perdure_engine.core.lineage import writer_of
from perdure_engine.core.transitions import ChildPhase

_OVER = (out.StartChildWorkflowExecutionFailed, *get_args(out.ChildClosedEvent))


def decide(draft: Draft, intent: CloseChild) -> None:
    state, initiated_id = draft.state, intent.initiated_event_id
    child = (state.folded.children or {}).get(initiated_id)
    if not state.open or child is None or child.initiated.workflow_id != intent.child_workflow_id:
        return
    if writer_of(state.folded.started, initiated_id) != intent.run_id:
        return  # of the same number, but of another run: a child that a reset has undone
    if any(
        isinstance(event, _OVER) and event.initiated_event_id == initiated_id
        for event in state.buffered
    ):
        return
    closed = _closed(draft, intent)
    if closed is None:
        return
    unanswered = child.phase is ChildPhase.INITIATED and initiated_id in state.tasks
    draft.drop_task(initiated_id)
    if unanswered:
        draft.record(started(draft, initiated_id, child), closed)
    else:
        draft.record(closed)


def _closed(draft: Draft, intent: CloseChild) -> out.ChildClosedEvent | None:
    """None: the chain goes on, and its last run will tell."""
    head = (0, draft.env.now_us, intent.initiated_event_id, 0)
    of = (intent.child_workflow_id, intent.child_run_id, intent.child_workflow_type)
    match intent.closed:
        case ev.WorkflowExecutionCompleted(result=result):
            return out.ChildWorkflowExecutionCompleted(*head, *of, result)
        case ev.WorkflowExecutionFailed(failure=failure, retry_state=state):
            return out.ChildWorkflowExecutionFailed(*head, *of, failure, state)
        case ev.WorkflowExecutionCanceled(details=details):
            return out.ChildWorkflowExecutionCanceled(*head, *of, details)
        case ev.WorkflowExecutionTimedOut(retry_state=state):
            return out.ChildWorkflowExecutionTimedOut(*head, *of, state)
        case ev.WorkflowExecutionTerminated():
            return out.ChildWorkflowExecutionTerminated(*head, *of)
        case ev.WorkflowExecutionContinuedAsNew():
            return None
        case _:
            assert_never(intent.closed)
