"""Another run has answered what this one had it told. The message's row goes with the event that says so.

A run that has closed meanwhile takes no event any more: only the row goes.
"""

from __future__ import annotations

from perdure_engine.core import outside_events as out
from perdure_engine.core.draft import Draft
from perdure_engine.core.ids import child_run_id
from perdure_engine.core.intents import AnswerMessage, MessageOutcome
from perdure_engine.core.lineage import writer_of
from perdure_engine.core.state import Child, ExternalInitiated
from perdure_engine.core.transitions import ChildPhase

_EXTERNAL_CAUSES = {
    MessageOutcome.NOT_FOUND: out.ExternalFailedCause.NOT_FOUND,
    MessageOutcome.LIMIT: out.ExternalFailedCause.LIMIT,
}


def decide(draft: Draft, intent: AnswerMessage) -> None:
    state = draft.state
    record = state.tasks.get(intent.key)
    if record is None or record.task_id != intent.task_id:
        return
    draft.drop_task(intent.key)
    if not state.open:
        return
    children, externals = state.folded.children or {}, state.folded.externals or {}
    if intent.key not in children:
        draft.record(_of_external(draft, intent, externals[intent.key]))
    elif children[intent.key].phase is ChildPhase.INITIATED:
        draft.record(_of_start(draft, intent, children[intent.key]))
    elif intent.outcome is MessageOutcome.NOT_FOUND:
        draft.record(_is_gone(draft, intent.key, children[intent.key]))


def started(draft: Draft, initiated_event_id: int, child: Child) -> out.HeardEvent:
    """The child has begun. The id of its first run follows from the event that initiated it."""
    return out.ChildWorkflowExecutionStarted(
        0,
        draft.env.now_us,
        initiated_event_id,
        child.initiated.workflow_id,
        child_run_id(writer_of(draft.state.folded.started, initiated_event_id), initiated_event_id),
        child.initiated.workflow_type,
    )


def _of_start(draft: Draft, intent: AnswerMessage, child: Child) -> out.HeardEvent:
    if intent.outcome is MessageOutcome.DONE:
        return started(draft, intent.key, child)
    cause = out.StartChildFailedCause.UNSPECIFIED
    if intent.outcome is MessageOutcome.ALREADY_EXISTS:
        cause = out.StartChildFailedCause.ALREADY_EXISTS
    return out.StartChildWorkflowExecutionFailed(
        0,
        draft.env.now_us,
        intent.key,
        child.initiated.workflow_id,
        child.initiated.workflow_type,
        cause,
    )


def _is_gone(draft: Draft, initiated_event_id: int, child: Child) -> out.HeardEvent:
    """It was asked for its end and is not there any more, nor is what it ended as."""
    return out.ChildWorkflowExecutionTerminated(
        0,
        draft.env.now_us,
        initiated_event_id,
        child.started_event_id,
        child.initiated.workflow_id,
        child.run_id,
        child.initiated.workflow_type,
    )


def _of_external(
    draft: Draft, intent: AnswerMessage, external: ExternalInitiated
) -> out.HeardEvent:
    signals = isinstance(external, out.SignalExternalWorkflowExecutionInitiated)
    now_us, key = draft.env.now_us, intent.key
    if intent.outcome is MessageOutcome.DONE:
        kind = (
            out.ExternalWorkflowExecutionSignaled
            if signals
            else out.ExternalWorkflowExecutionCancelRequested
        )
        return kind(0, now_us, key, external.workflow_id, external.run_id)
    cause = _EXTERNAL_CAUSES.get(intent.outcome, out.ExternalFailedCause.UNSPECIFIED)
    failed = (
        out.SignalExternalWorkflowExecutionFailed
        if signals
        else out.RequestCancelExternalWorkflowExecutionFailed
    )
    return failed(0, now_us, key, external.workflow_id, external.run_id, cause)
