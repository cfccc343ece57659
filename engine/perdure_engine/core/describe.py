"""What a run looks like to people: read only."""

from __future__ import annotations

from perdure_engine.core import limits
from perdure_engine.core.closing import following as following
from perdure_engine.core.events import ClosingEvent, WorkflowExecutionTerminated
from perdure_engine.core.messages import root_of
from perdure_engine.core.poison import NO_CRASHES
from perdure_engine.core.replies import (
    Closed,
    Description,
    PendingActivity,
    PendingChild,
    PendingTimer,
    PendingWorkflowTask,
    RunInfo,
)
from perdure_engine.core.state import (
    WORKFLOW_TASK_KEY,
    Activity,
    RunState,
    memo_of,
    versioning_of,
)
from perdure_engine.core.tasks import NO_ASIDE, TaskRecord, TaskState, TimerKind


def describe(state: RunState) -> Description:
    folded, started = state.folded, state.folded.started
    task = state.tasks.get(WORKFLOW_TASK_KEY)
    waits = state.timer_rows.get((TimerKind.CRON_OR_RETRY_BACKOFF, 0)) or state.timer_rows.get(
        (TimerKind.START_DELAY, 0)
    )
    root_workflow_id, root_run_id = root_of(state)
    pause = folded.paused
    return Description(
        info=run_info(state),
        execution_timeout_ms=started.execution_timeout_ms,
        run_timeout_ms=started.run_timeout_ms,
        task_timeout_ms=started.task_timeout_ms,
        activities=[_activity(a, state.tasks.get(key)) for key, a in folded.activities.items()],
        timers=[PendingTimer(t.timer_id, t.fire_us) for t in folded.timers.values()],
        workflow_task=None if task is None else _workflow_task(task),
        cancel_requested=folded.cancel_requested,
        buffered_events=len(state.buffered),
        first_run_id=started.first_run_id,
        attempt=started.attempt,
        continued_from_run_id=started.continued_from_run_id,
        next_run_id=following(folded.closed),
        cron_schedule=started.cron_schedule,
        first_task_us=waits.due_us if waits is not None else 0,
        execution_deadline_us=_execution_deadline_us(state),
        children=_children(state),
        parent=started.parent,
        root_workflow_id=root_workflow_id,
        root_run_id=root_run_id,
        pause_us=pause.time_us if pause is not None else 0,
        pause_identity=pause.identity if pause is not None else "",
        pause_reason=pause.reason if pause is not None else "",
        suspended=pause is not None and pause.suspended,
        original_run_id=started.original_run_id,
        reset_from_run_id=started.reset_from_run_id,
        reset_run_id=reset_run(folded.closed),
        versioning_override=folded.versioning_override,
        static_summary=started.static_summary,
        static_details=started.static_details,
    )


def _execution_deadline_us(state: RunState) -> int:
    """Put off by the time that the run was suspended."""
    timer = state.timer_rows.get((TimerKind.EXECUTION_TIMEOUT, 0))
    return timer.due_us if timer is not None else state.folded.started.execution_deadline_us


def _children(state: RunState) -> list[PendingChild]:
    """Of an open run: a closed one waits for none."""
    if not state.open or state.folded.children is None:
        return []
    return [
        PendingChild(
            child.initiated.workflow_id,
            child.run_id,
            child.initiated.workflow_type,
            initiated_id,
            child.initiated.parent_close_policy,
        )
        for initiated_id, child in state.folded.children.items()
    ]


def run_info(state: RunState) -> RunInfo:
    folded, started = state.folded, state.folded.started
    task = state.tasks.get(WORKFLOW_TASK_KEY)
    stuck = task is not None and task.attempt > limits.WORKFLOW_TASK_STUCK_ATTEMPTS
    failure = task.last_failure if task is not None and stuck else None
    return RunInfo(
        workflow_id=started.workflow_id,
        run_id=started.run_id,
        workflow_type=started.workflow_type,
        task_queue=started.task_queue,
        status=folded.status,
        start_us=started.time_us,
        close_us=folded.closed.time_us if folded.closed is not None else 0,
        history_events=folded.next_event_id - 1,
        history_bytes=state.history_bytes,
        memo=memo_of(folded),
        stuck=stuck,
        stuck_reason=failure.message if failure is not None else "",
        search_attributes=folded.search_attributes,
        versioning=versioning_of(folded),
    )


def reset_run(closed: ClosingEvent | None) -> bytes:
    """The run of the reset that ended a run; b"": something else did, or it is open."""
    return closed.reset_run_id if isinstance(closed, WorkflowExecutionTerminated) else b""


def closed_reply(state: RunState) -> Closed:
    """The answer to whoever waits for the result of a closed run."""
    assert state.folded.closed is not None
    return Closed(state.run_id, state.folded.status, state.folded.closed)


def _activity(activity: Activity, record: TaskRecord | None) -> PendingActivity:
    scheduled = activity.scheduled
    aside = (record.aside if record is not None else None) or NO_ASIDE
    pause, options = aside.pause, aside.options or scheduled
    crashes = aside.crashes or NO_CRASHES
    if activity.cancel_requested_event_id:
        state = "CANCEL_REQUESTED"
    elif record is None or record.running:
        state = "PAUSE_REQUESTED" if pause is not None else "STARTED"
    elif pause is not None:
        state = "PAUSED"
    else:
        state = "BACKING_OFF" if record.state is TaskState.BACKOFF else "SCHEDULED"
    return PendingActivity(
        activity_id=scheduled.activity_id,
        activity_type=scheduled.activity_type,
        task_queue=options.task_queue,
        state=state,
        attempt=record.attempt if record is not None else 1,
        maximum_attempts=options.retry_policy.maximum_attempts,
        scheduled_us=scheduled.time_us,
        started_us=record.started_us if record is not None else 0,
        next_attempt_us=record.next_attempt_us if record is not None else 0,
        worker_identity=record.identity if record is not None else "",
        last_failure=record.last_failure if record is not None else None,
        progress=record.progress if record is not None else b"",
        paused=pause is not None,
        pause_us=pause.time_us if pause is not None else 0,
        pause_identity=pause.identity if pause is not None else "",
        pause_reason=pause.reason if pause is not None else "",
        options=aside.options,
        crashes=crashes.count,
        first_crash_us=crashes.first_us,
        last_crash=crashes.last,
    )


def _workflow_task(record: TaskRecord) -> PendingWorkflowTask:
    crashes = record.crashes or NO_CRASHES
    return PendingWorkflowTask(
        record.attempt,
        record.ready_us,
        record.started_us,
        record.identity,
        record.last_failure,
        crashes.count,
        crashes.first_us,
        crashes.last,
        record.next_attempt_us if record.state is TaskState.BACKOFF else 0,
    )
