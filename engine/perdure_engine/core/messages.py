"""What a run has to say to other runs, made from its state and the key of the message's row (design §10).

A message's row is saved in the batch that initiates it and goes in the batch that writes down its answer; what it says
stands in the history, so that the row is small. Its key in `RunState.tasks`:

    the Initiated event's id     start this child, or ask it for its end; signal, or ask to cancel, that run
    minus a child's Initiated id apply the parent close policy to that child
    the closing event's id       tell the parent of the end

Request ids and a child's run id are derived from the key and the run that initiated (`core.lineage`): whoever is told
twice knows it, also when a reset has taken over what was under way.
"""

from __future__ import annotations

import msgspec

from perdure_engine.core.ids import child_run_id, message_request_id
from perdure_engine.core.intents import (
    AskChild,
    CancelWorkflow,
    CloseChild,
    DeliveredIntent,
    SignalWorkflow,
    StartWorkflow,
    TerminateWorkflow,
)
from perdure_engine.core.lineage import writer_of
from perdure_engine.core.outside_events import (
    SignalExternalWorkflowExecutionInitiated,
    StartChildWorkflowExecutionInitiated,
)
from perdure_engine.core.parents import ChildOf, Parent, ParentClosePolicy
from perdure_engine.core.state import Child, ExternalInitiated, RunState
from perdure_engine.core.transitions import ChildPhase

IDENTITY = "perdure-engine"


class Message(msgspec.Struct, frozen=True, gc=False):
    workflow_id: str  # whom it goes to
    intent: DeliveredIntent


def message_of(state: RunState, key: int, task_id: int) -> Message | None:
    """None: the message has its answer, or never was this run's."""
    record = state.tasks.get(key)
    if record is None or record.task_id != task_id:
        return None
    return Message(record.queue, _intent_of(state, key))


def _intent_of(state: RunState, key: int) -> DeliveredIntent:
    folded = state.folded
    children = folded.children or {}
    if key < 0:
        return _parent_closes(state, -key, children[-key])
    if folded.closed is not None and folded.closed.event_id == key:
        return _child_closes(state)
    if key in children:
        child = children[key]
        if child.phase is ChildPhase.INITIATED:
            return _start_child(state, key, child.initiated)
        return _ask_child(state, key, child)
    assert folded.externals is not None
    return _external(state, key, folded.externals[key])


def root_of(state: RunState) -> tuple[str, bytes]:
    """The first run above a child, or the run itself: workflow id and run id."""
    started = state.folded.started
    if started.parent is not None:
        return started.parent.root_workflow_id, started.parent.root_run_id
    return started.workflow_id, started.run_id


def _start_child(
    state: RunState, key: int, child: StartChildWorkflowExecutionInitiated
) -> StartWorkflow:
    started = state.folded.started
    run_id = writer_of(started, key)
    request_id = message_request_id(run_id, key)
    return StartWorkflow(
        namespace_id=started.namespace_id,
        workflow_id=child.workflow_id,
        run_id=child_run_id(run_id, key),
        request_id=request_id,
        body_hash=request_id,  # the same id is the same event: there is no other body
        workflow_type=child.workflow_type,
        task_queue=child.task_queue,
        input=child.input,
        header=child.header,
        memo=child.memo,
        execution_timeout_ms=child.execution_timeout_ms,
        run_timeout_ms=child.run_timeout_ms,
        task_timeout_ms=child.task_timeout_ms,
        retry_policy=child.retry_policy,
        identity=IDENTITY,
        id_reuse_policy=child.id_reuse_policy,
        priority=child.priority,
        static_summary=child.static_summary,
        static_details=child.static_details,
        cron_schedule=child.cron_schedule,
        search_attributes=child.search_attributes,
        parent=Parent(started.workflow_id, run_id, key, *root_of(state)),
        undone=started.lineage,
    )


def _ask_child(state: RunState, key: int, child: Child) -> AskChild:
    started = state.folded.started
    return AskChild(
        namespace_id=started.namespace_id,
        workflow_id=child.initiated.workflow_id,
        run_id=b"",
        child_of=ChildOf(writer_of(started, key), key),
    )


def _external(
    state: RunState, key: int, external: ExternalInitiated
) -> SignalWorkflow | CancelWorkflow:
    started = state.folded.started
    request_id = message_request_id(writer_of(started, key), key)
    # A child is named by its workflow id, whichever run of its chain is the current one.
    only = external.child_workflow_only
    run_id = b"" if only else external.run_id
    child_of = ChildOf(_starter_of(state, external.workflow_id)) if only else None
    if isinstance(external, SignalExternalWorkflowExecutionInitiated):
        return SignalWorkflow(
            namespace_id=started.namespace_id,
            workflow_id=external.workflow_id,
            run_id=run_id,
            signal_name=external.signal_name,
            request_id=request_id,
            body_hash=request_id,
            input=external.input,
            identity=IDENTITY,
            header=external.header,
            child_of=child_of,
        )
    return CancelWorkflow(
        namespace_id=started.namespace_id,
        workflow_id=external.workflow_id,
        run_id=run_id,
        request_id=request_id,
        body_hash=request_id,
        identity=IDENTITY,
        reason=external.reason,
        child_of=child_of,
    )


def _starter_of(state: RunState, child_workflow_id: str) -> bytes:
    """The run that started the child of that workflow id: this one, or one that was reset into it."""
    started = state.folded.started
    if started.lineage:
        for initiated_id, child in (state.folded.children or {}).items():
            if child.initiated.workflow_id == child_workflow_id:
                return writer_of(started, initiated_id)
    return started.run_id


def _parent_closes(
    state: RunState, initiated_id: int, child: Child
) -> TerminateWorkflow | CancelWorkflow:
    started = state.folded.started
    cancels = child.initiated.parent_close_policy is ParentClosePolicy.REQUEST_CANCEL
    kind = CancelWorkflow if cancels else TerminateWorkflow
    request_id = message_request_id(started.run_id, -initiated_id)
    return kind(
        namespace_id=started.namespace_id,
        workflow_id=child.initiated.workflow_id,
        run_id=b"",
        request_id=request_id,
        body_hash=request_id,
        identity=IDENTITY,
        reason="by parent close policy",
        child_of=ChildOf(writer_of(started, initiated_id), initiated_id),
    )


def _child_closes(state: RunState) -> CloseChild:
    started, closed = state.folded.started, state.folded.closed
    parent = started.parent
    assert parent is not None
    assert closed is not None
    return CloseChild(
        namespace_id=started.namespace_id,
        workflow_id=parent.workflow_id,
        run_id=parent.run_id,
        initiated_event_id=parent.initiated_event_id,
        child_workflow_id=started.workflow_id,
        child_run_id=started.run_id,
        child_workflow_type=started.workflow_type,
        closed=closed,
    )
