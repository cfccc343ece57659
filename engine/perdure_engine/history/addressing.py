"""Which run an intent is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure_engine.core import intents
from perdure_engine.core.errors import not_found
from perdure_engine.history.run import Run


def require_same_workflow(run: Run, intent: Any) -> None:
    """A caller that names a run names its namespace and workflow too: another's run is none of theirs."""
    workflow_id = getattr(intent, "workflow_id", "")
    started = run.state.folded.started
    if workflow_id and (workflow_id, intent.namespace_id) != (
        started.workflow_id,
        started.namespace_id,
    ):
        raise not_found("WORKFLOW", f"workflow {workflow_id!r} has no such run")


def address_of(intent: Any) -> tuple[bytes, tuple[bytes, str] | None]:
    """(run id, None) or (b"", key of the current run): where the intent wants to go."""
    return _ADDRESS[type(intent)](intent)


def _by_token(intent: Any) -> tuple[bytes, None]:
    return intent.token.run_id, None


def _by_run(intent: Any) -> tuple[bytes, None]:
    return intent.run_id, None


def _by_workflow(intent: Any) -> tuple[bytes, tuple[bytes, str] | None]:
    if intent.run_id:
        return intent.run_id, None
    return b"", (intent.namespace_id, intent.workflow_id)


def _to_current(
    intent: intents.StartWorkflow | intents.CloseChild,
) -> tuple[bytes, tuple[bytes, str]]:
    return b"", (intent.namespace_id, intent.workflow_id)


_ADDRESS: dict[type, Callable[[Any], tuple[bytes, tuple[bytes, str] | None]]] = {
    **dict.fromkeys(
        (
            intents.CompleteWorkflowTask,
            intents.FailWorkflowTask,
            intents.CompleteActivity,
            intents.FailActivity,
            intents.CancelActivity,
            intents.CrashTask,
            intents.SaveProgress,
            intents.HandOverActivity,
            intents.HeartbeatActivity,
        ),
        _by_token,
    ),
    **dict.fromkeys(
        (
            intents.FireTimer,
            intents.SaveStart,
            intents.PutBackTask,
            intents.CameBack,
            intents.TimeOutTask,
            intents.ReadMessage,
            intents.AnswerMessage,
        ),
        _by_run,
    ),
    **dict.fromkeys(
        (
            intents.SignalWorkflow,
            intents.CancelWorkflow,
            intents.TerminateWorkflow,
            intents.DeleteWorkflow,
            intents.DescribeWorkflow,
            intents.ExplainWorkflow,
            intents.QueryWorkflow,
            intents.WaitResult,
            intents.WaitEvents,
            intents.UpdateWorkflow,
            intents.PollUpdate,
            intents.ReportActivity,
            intents.PauseActivity,
            intents.UnpauseActivity,
            intents.ResetActivity,
            intents.UpdateActivityOptions,
            intents.PauseWorkflow,
            intents.UnpauseWorkflow,
            intents.ResumeWorkflow,
            intents.ResetWorkflow,
            intents.UpdateWorkflowOptions,
            intents.AskChild,
            intents.AskRun,
        ),
        _by_workflow,
    ),
    intents.StartWorkflow: _to_current,
    intents.CloseChild: _to_current,  # whichever run has the child now
}
