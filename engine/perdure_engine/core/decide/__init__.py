"""One module per intent: what it changes of a run, and what it is answered with.

`decide(draft, intent)` is the single door. Starting and resetting a run have their own (`start_workflow`,
`reset_workflow`), because they concern two runs and more: those that may exist and the one that begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure_engine.core import intents
from perdure_engine.core.decide import (
    activity_outcome,
    answer_message,
    ask_child,
    ask_run,
    came_back,
    cancel_workflow,
    close_child,
    complete_activity,
    complete_workflow_task,
    crash_task,
    delete_workflow,
    fail_workflow_task,
    fire_timer,
    hand_over_activity,
    heartbeat_activity,
    pause_activity,
    pause_workflow,
    put_back_task,
    read_message,
    report_activity,
    reset_activity,
    resume_workflow,
    save_progress,
    save_start,
    signal_workflow,
    terminate_workflow,
    time_out_task,
    unpause_activity,
    unpause_workflow,
    update_activity_options,
    update_workflow,
    update_workflow_options,
)
from perdure_engine.core.decide.history_limit import enforce_history_limit
from perdure_engine.core.draft import Draft
from perdure_engine.core.replies import Reply

_DECIDE: dict[type, Callable[[Draft, Any], Reply]] = {
    intents.SignalWorkflow: signal_workflow.decide,
    intents.CancelWorkflow: cancel_workflow.decide,
    intents.TerminateWorkflow: terminate_workflow.decide,
    intents.DeleteWorkflow: delete_workflow.decide,
    intents.CompleteWorkflowTask: complete_workflow_task.decide,
    intents.FailWorkflowTask: fail_workflow_task.decide,
    intents.CompleteActivity: complete_activity.decide,
    intents.FailActivity: activity_outcome.fail,
    intents.CancelActivity: activity_outcome.cancel,
    intents.FireTimer: fire_timer.decide,
    intents.SaveStart: save_start.decide,
    intents.SaveProgress: save_progress.decide,
    intents.PutBackTask: put_back_task.decide,
    intents.CrashTask: crash_task.decide,
    intents.CameBack: came_back.decide,
    intents.TimeOutTask: time_out_task.decide,
    intents.UpdateWorkflow: update_workflow.decide,
    intents.HandOverActivity: hand_over_activity.decide,
    intents.HeartbeatActivity: heartbeat_activity.decide,
    intents.ReportActivity: report_activity.decide,
    intents.PauseActivity: pause_activity.decide,
    intents.UnpauseActivity: unpause_activity.decide,
    intents.ResetActivity: reset_activity.decide,
    intents.UpdateActivityOptions: update_activity_options.decide,
    intents.ReadMessage: read_message.decide,
    intents.AnswerMessage: answer_message.decide,
    intents.CloseChild: close_child.decide,
    intents.AskChild: ask_child.decide,
    intents.AskRun: ask_run.decide,
    intents.PauseWorkflow: pause_workflow.decide,
    intents.UnpauseWorkflow: unpause_workflow.decide,
    intents.ResumeWorkflow: resume_workflow.decide,
    intents.UpdateWorkflowOptions: update_workflow_options.decide,
}


def decide(draft: Draft, intent: intents.Intent) -> Reply:
    """Change the draft's run as the intent asks. Raises Rejected before any change."""
    reply = _DECIDE[type(intent)](draft, intent)
    enforce_history_limit(draft)
    return reply
