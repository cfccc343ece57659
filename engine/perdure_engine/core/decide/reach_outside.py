"""Commands that reach other runs: start a child, signal, ask to cancel. Each becomes its Initiated event and a saved
message; what the other run answers is decided by `answer_message` and `close_child`."""

from __future__ import annotations

from typing import Any

from perdure_engine.core import commands as cmd
from perdure_engine.core import outside_events as out
from perdure_engine.core.draft import Draft
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.state import RunState
from perdure_engine.core.transitions import ChildPhase


def start_child(draft: Draft, command: cmd.StartChildWorkflow, completed_id: int, _: Any) -> None:
    event_id, time_us = draft.stamp()
    started = draft.state.folded.started
    draft.emit(
        out.StartChildWorkflowExecutionInitiated(
            event_id,
            time_us,
            command.workflow_id,
            command.workflow_type,
            command.task_queue or started.task_queue,
            command.input,
            command.header,
            command.execution_timeout_ms,
            command.run_timeout_ms,
            command.task_timeout_ms,
            command.retry_policy,
            command.parent_close_policy,
            command.id_reuse_policy,
            command.cron_schedule,
            command.memo,
            command.search_attributes,
            command.priority or started.priority,
            command.static_summary,
            command.static_details,
            completed_id,
        )
    )
    draft.new_message(event_id, command.workflow_id)


def signal_external(
    draft: Draft, command: cmd.SignalExternalWorkflow, completed_id: int, _: Any
) -> None:
    event_id, time_us = draft.stamp()
    draft.emit(
        out.SignalExternalWorkflowExecutionInitiated(
            event_id,
            time_us,
            command.workflow_id,
            command.run_id,
            command.signal_name,
            command.input,
            command.header,
            command.child_workflow_only,
            completed_id,
        )
    )
    draft.new_message(event_id, command.workflow_id)


def request_cancel_external(
    draft: Draft, command: cmd.RequestCancelExternalWorkflow, completed_id: int, _: Any
) -> None:
    event_id, time_us = draft.stamp()
    draft.emit(
        out.RequestCancelExternalWorkflowExecutionInitiated(
            event_id,
            time_us,
            command.workflow_id,
            command.run_id,
            command.child_workflow_only,
            command.reason,
            completed_id,
        )
    )
    unsent = _unsent_start(draft, command) if command.child_workflow_only else 0
    if unsent:
        _take_back(draft, unsent, event_id, command)
    else:
        draft.new_message(event_id, command.workflow_id)


def _unsent_start(draft: Draft, command: cmd.RequestCancelExternalWorkflow) -> int:
    """The start of that child, if it cannot have been sent: its row was never saved. 0: there is none.

    One that was saved may have arrived, whether this owner has sent it or the one before: then the request goes to the
    child, behind its start.
    """
    state = draft.state
    for initiated_id, child in (state.folded.children or {}).items():
        start = state.tasks.get(initiated_id)
        if (
            child.initiated.workflow_id == command.workflow_id
            and child.phase is ChildPhase.INITIATED
            and start is not None
            and not start.version
        ):
            return initiated_id
    return 0


def _take_back(
    draft: Draft, initiated_id: int, event_id: int, command: cmd.RequestCancelExternalWorkflow
) -> None:
    """There is no child and there will be none. Numbered behind the commands, as all that the workflow has not seen."""
    draft.drop_task(initiated_id)
    children = draft.state.folded.children
    assert children is not None
    child = children[initiated_id].initiated
    now_us = draft.env.now_us
    draft.buffer(
        out.ExternalWorkflowExecutionCancelRequested(
            0, now_us, event_id, command.workflow_id, command.run_id
        )
    )
    draft.buffer(
        out.ChildWorkflowExecutionCanceled(
            0, now_us, initiated_id, 0, child.workflow_id, b"", child.workflow_type, b""
        )
    )


TOO_MANY: dict[type, WorkflowTaskFailedCause] = {
    cmd.StartChildWorkflow: WorkflowTaskFailedCause.PENDING_CHILD_WORKFLOWS_LIMIT_EXCEEDED,
    cmd.SignalExternalWorkflow: WorkflowTaskFailedCause.PENDING_SIGNALS_LIMIT_EXCEEDED,
    cmd.RequestCancelExternalWorkflow: WorkflowTaskFailedCause.PENDING_REQUEST_CANCEL_LIMIT_EXCEEDED,
}


class OutsideChecker:
    """Counts, along the commands of one task, what would be pending."""

    __slots__ = ("cancels", "children", "limits", "signals")

    def __init__(self, state: RunState, limits: RunLimits) -> None:
        self.limits = limits
        self.children = len(state.folded.children or ())
        externals = (state.folded.externals or {}).values()
        self.signals = sum(
            isinstance(one, out.SignalExternalWorkflowExecutionInitiated) for one in externals
        )
        self.cancels = len(externals) - self.signals

    def check(self, command: cmd.OutsideCommand) -> str | None:
        """What would be too many; its cause is in TOO_MANY."""
        match command:
            case cmd.StartChildWorkflow():
                self.children += 1
                most = self.limits.pending_children_max
                return f"more than {most} pending children" if self.children > most else None
            case cmd.SignalExternalWorkflow():
                self.signals += 1
                most = self.limits.pending_external_signals_max
                return f"more than {most} pending signals" if self.signals > most else None
            case cmd.RequestCancelExternalWorkflow():
                self.cancels += 1
                most = self.limits.pending_external_cancels_max
                return f"more than {most} pending cancels" if self.cancels > most else None
        return None
