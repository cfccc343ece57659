"""A workflow task comes back: its commands become events, what waited meanwhile gets its numbers.

Nothing stands between Started and Completed; a closing command with unseen events waiting is refused and the task
runs again; a bad command fails the task with its cause, never the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import limits
from perdure_engine.core.audit import Action
from perdure_engine.core.decide import (
    attempts,
    check_commands,
    next_run,
    reach_outside,
    settle_updates,
)
from perdure_engine.core.decide.activity_outcome import drop_activity_rows
from perdure_engine.core.decide.auditing import note
from perdure_engine.core.decide.crashes import drop_timers
from perdure_engine.core.decide.fail_workflow_task import fail_task, written_schedule
from perdure_engine.core.draft import Draft
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import CompleteWorkflowTask
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.retry import DEFAULT_ACTIVITY_RETRY
from perdure_engine.core.state import WORKFLOW_TASK_KEY, RunState
from perdure_engine.core.tasks import TaskKind, TaskRecord, TimerKind


def decide(draft: Draft, intent: CompleteWorkflowTask) -> None:
    record = attempts.current_workflow_task(draft, intent.token)
    refusal = check_commands.check(
        draft.state,
        draft.env.limits,
        intent.commands,
        intent.token.updates_to,
        intent.wake_rules,
    )
    if refusal is not None:
        fail_task(draft, refusal.cause, _bug(refusal.message), intent.identity)
        return
    carry_out(draft, record, intent)


def carry_out(draft: Draft, record: TaskRecord, intent: CompleteWorkflowTask) -> None:
    """What the task asked for, once its commands have been checked."""
    if record.attempt > limits.WORKFLOW_TASK_STUCK_ATTEMPTS:
        draft.listed = True  # as stuck no more
    closes = bool(intent.commands) and isinstance(intent.commands[-1], cmd.ClosingCommand)
    if closes and (draft.state.buffered or _unseen_updates(draft, intent)):
        _run_again(draft, record, intent)
        return
    scheduled_id, started_id = write_started(draft, intent.token.started_us, intent.identity)
    folded = draft.state.folded
    ran_on = folded.versioning
    completed_id, time_us = draft.stamp()
    draft.emit(
        ev.WorkflowTaskCompleted(
            completed_id,
            time_us,
            scheduled_id,
            started_id,
            intent.identity,
            intent.build_id,
            intent.wake_rules,
            intent.deployment_name,
            intent.behavior,
        )
    )
    if folded.versioning is not ran_on and folded.versioning != ran_on:
        draft.listed = True
    drop_workflow_task(draft, record)
    sticky = intent.cached and (record.aside is None or not record.isolated)
    draft.state.sticky_worker_id = intent.worker_id if sticky else b""
    for command in intent.commands:
        _PERFORM[type(command)](draft, command, completed_id, intent)
    if not draft.state.open:
        draft.drop_buffered()  # cancellations of what waited, asked for by this task itself
    elif draft.number_buffered() or intent.force_new_task or _unseen_updates(draft, intent):
        draft.schedule_workflow_task()


def _unseen_updates(draft: Draft, intent: CompleteWorkflowTask) -> bool:
    return draft.state.admitted is not None and settle_updates.unseen(
        draft.state, intent.token.updates_to
    )


def drop_workflow_task(draft: Draft, record: TaskRecord) -> None:
    """It is done: the next one is new, and has not crashed."""
    draft.drop_task(WORKFLOW_TASK_KEY)
    if record.aside is not None:
        # its worker was thought dead, and a timer may stand for its next attempt; or it was poisoned
        drop_timers(draft, WORKFLOW_TASK_KEY)


def write_started(draft: Draft, started_us: int, identity: str) -> tuple[int, int]:
    """Emit the (of a transient task, Scheduled and) Started event. Returns both ids."""
    suggest = suggest_continue_as_new(draft.state, draft.env.limits)
    scheduled_id = written_schedule(draft, started_us)
    folded = draft.state.folded
    started_id, _ = draft.stamp()
    time_us = max(started_us, folded.last_time_us)
    draft.emit(
        ev.WorkflowTaskStarted(
            started_id, time_us, scheduled_id, identity, draft.state.history_bytes, suggest
        )
    )
    return scheduled_id, started_id


def suggest_continue_as_new(state: RunState, run_limits: RunLimits) -> bool:
    """Whether the workflow should start afresh soon. The same at hand-out and at completion: nothing is numbered
    in between."""
    return (
        state.folded.next_event_id > run_limits.history_events_suggest
        or state.history_bytes > run_limits.history_bytes_suggest
        or (
            state.folded.updates is not None
            and len(state.folded.updates) >= run_limits.updates_max * limits.UPDATES_SUGGEST_SHARE
        )
    )


def _run_again(draft: Draft, record: TaskRecord, intent: CompleteWorkflowTask) -> None:
    """UNHANDLED_COMMAND: the workflow wanted to end without having seen what came in meanwhile."""
    scheduled_id, started_id = write_started(draft, intent.token.started_us, intent.identity)
    event_id, time_us = draft.stamp()
    cause = WorkflowTaskFailedCause.UNHANDLED_COMMAND
    draft.emit(
        ev.WorkflowTaskFailed(
            event_id, time_us, scheduled_id, started_id, cause, None, intent.identity
        )
    )
    drop_workflow_task(draft, record)
    draft.state.sticky_worker_id = b""
    draft.number_buffered()
    draft.schedule_workflow_task()


def _bug(message: str) -> Failure:
    return Failure(FailureKind.SERVER, message, non_retryable=True)


# ---- commands, in their order


def _schedule_activity(
    draft: Draft, command: cmd.ScheduleActivity, completed_id: int, _: Any
) -> None:
    event_id, time_us = draft.stamp()
    started = draft.state.folded.started
    queue = command.task_queue or started.task_queue
    priority = command.priority or started.priority
    to_close, to_start = command.schedule_to_close_timeout_ms, command.schedule_to_start_timeout_ms
    draft.emit(
        ev.ActivityTaskScheduled(
            event_id,
            time_us,
            command.activity_id,
            command.activity_type,
            queue,
            command.input,
            command.header,
            to_close,
            to_start,
            command.start_to_close_timeout_ms or to_close,
            command.heartbeat_timeout_ms,
            completed_id,
            command.retry_policy or DEFAULT_ACTIVITY_RETRY,
            priority,
            command.summary,
            command.version,
        )
    )
    record = draft.new_task(TaskKind.ACTIVITY, queue, event_id, event_id)
    record.priority = priority
    if to_start:
        draft.put_timer(TimerKind.SCHEDULE_TO_START, event_id, time_us + to_start * 1000)
    if to_close:
        draft.put_timer(TimerKind.SCHEDULE_TO_CLOSE, event_id, time_us + to_close * 1000)


def _request_cancel_activity(
    draft: Draft,
    command: cmd.RequestCancelActivity,
    completed_id: int,
    intent: CompleteWorkflowTask,
) -> None:
    activity = draft.state.folded.activities.get(command.scheduled_event_id)
    if activity is None or activity.cancel_requested_event_id:
        return
    event_id, time_us = draft.stamp()
    draft.emit(
        ev.ActivityTaskCancelRequested(event_id, time_us, command.scheduled_event_id, completed_id)
    )
    record = draft.state.tasks.get(command.scheduled_event_id)
    if record is None or record.running:
        return  # its outcome waits in the inbox, or a worker has it and hears of the request in its next heartbeat
    drop_activity_rows(draft, command.scheduled_event_id)
    draft.buffer(  # numbered behind the commands, as everything is that the workflow has not seen
        ev.ActivityTaskCanceled(
            0, time_us, b"", event_id, command.scheduled_event_id, 0, intent.identity
        )
    )


def _start_timer(draft: Draft, command: cmd.StartTimer, completed_id: int, _: Any) -> None:
    event_id, time_us = draft.stamp()
    draft.emit(
        ev.TimerStarted(
            event_id,
            time_us,
            command.timer_id,
            command.start_to_fire_ms,
            completed_id,
            command.summary,
        )
    )
    draft.put_timer(TimerKind.USER, event_id, time_us + command.start_to_fire_ms * 1000)


def _cancel_timer(
    draft: Draft, command: cmd.CancelTimer, completed_id: int, intent: CompleteWorkflowTask
) -> None:
    """A timer that fired unseen is canceled all the same: the workflow knows of one outcome only."""
    state = draft.state
    timer = state.folded.timers[command.timer_id]
    state.buffered = [
        event
        for event in state.buffered
        if not (
            isinstance(event, ev.TimerFired) and event.started_event_id == timer.started_event_id
        )
    ]
    event_id, time_us = draft.stamp()
    draft.emit(
        ev.TimerCanceled(
            event_id,
            time_us,
            command.timer_id,
            timer.started_event_id,
            completed_id,
            intent.identity,
        )
    )
    draft.drop_timer(TimerKind.USER, timer.started_event_id)
    if not state.buffered:
        draft.mark_inbox()


def _complete(draft: Draft, command: cmd.CompleteWorkflow, completed_id: int, _: Any) -> None:
    next_run.complete(draft, command.result, completed_id)


def _fail(draft: Draft, command: cmd.FailWorkflow, completed_id: int, _: Any) -> None:
    next_run.fail(draft, command.failure, completed_id)


def _cancel(draft: Draft, command: cmd.CancelWorkflow, completed_id: int, _: Any) -> None:
    event_id, time_us = draft.stamp()
    draft.close(ev.WorkflowExecutionCanceled(event_id, time_us, command.details, completed_id))


def _continue_as_new(draft: Draft, command: cmd.ContinueAsNew, completed_id: int, _: Any) -> None:
    next_run.continue_as_new(draft, command, completed_id)


def _record_marker(
    draft: Draft, command: cmd.RecordMarker, completed_id: int, intent: CompleteWorkflowTask
) -> None:
    compensation = command.compensation
    if compensation is not None:
        note(
            draft,
            Action.COMPENSATION,
            intent,
            subject=compensation.name,
            after=compensation.outcome,
            reason=compensation.reason,
        )
    event_id, time_us = draft.stamp()
    draft.emit(
        ev.MarkerRecorded(
            event_id,
            time_us,
            command.marker_name,
            command.details,
            completed_id,
            command.header,
            command.failure,
        )
    )


def _modify_properties(
    draft: Draft, command: cmd.ModifyProperties, completed_id: int, _: Any
) -> None:
    event_id, time_us = draft.stamp()
    draft.emit(
        ev.WorkflowPropertiesModified(event_id, time_us, completed_id, command.upserted_memo)
    )
    draft.listed = True


def _upsert_search_attributes(
    draft: Draft, command: cmd.UpsertSearchAttributes, completed_id: int, _: Any
) -> None:
    event_id, time_us = draft.stamp()
    draft.emit(
        ev.UpsertWorkflowSearchAttributes(
            event_id, time_us, command.search_attributes, completed_id
        )
    )
    draft.listed = True


_PERFORM: dict[type, Callable[[Draft, Any, int, CompleteWorkflowTask], None]] = {
    cmd.ScheduleActivity: _schedule_activity,
    cmd.RequestCancelActivity: _request_cancel_activity,
    cmd.StartTimer: _start_timer,
    cmd.CancelTimer: _cancel_timer,
    cmd.CompleteWorkflow: _complete,
    cmd.FailWorkflow: _fail,
    cmd.CancelWorkflow: _cancel,
    cmd.ContinueAsNew: _continue_as_new,
    cmd.AcceptUpdate: settle_updates.accept,
    cmd.RejectUpdate: settle_updates.reject,
    cmd.CompleteUpdate: settle_updates.complete,
    cmd.RecordMarker: _record_marker,
    cmd.ModifyProperties: _modify_properties,
    cmd.UpsertSearchAttributes: _upsert_search_attributes,
    cmd.StartChildWorkflow: reach_outside.start_child,
    cmd.RequestCancelExternalWorkflow: reach_outside.request_cancel_external,
    cmd.SignalExternalWorkflow: reach_outside.signal_external,
}
