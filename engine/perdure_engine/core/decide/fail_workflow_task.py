"""A workflow task failed or timed out: the first time is written down, further attempts only count (semantics §3).

Between attempts 1 s, doubling to 10 minutes. The next attempt is transient: its Scheduled and Started events are
written when it succeeds. A deadlock is a crash as well (`core.poison`): the third one in a row poisons the task.
"""

from __future__ import annotations

from perdure_engine.core import events as ev
from perdure_engine.core import limits
from perdure_engine.core.decide import attempts
from perdure_engine.core.decide.crashes import count, forgive, is_counted, note_crash
from perdure_engine.core.draft import Draft
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.failures import Failure, FailureKind, TimeoutType
from perdure_engine.core.intents import FailWorkflowTask
from perdure_engine.core.poison import came_back, crashed
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TaskState, TimerKind

_DEADLOCK = Failure(FailureKind.SERVER, "the workflow's code did not come back")


def decide(draft: Draft, intent: FailWorkflowTask) -> None:
    record = attempts.current_workflow_task(draft, intent.token)
    crashes = record.crashes
    if crashes is not None and is_counted(record, intent.token):
        # its worker lives: that was no crash, whatever this is
        record.set_aside(crashes=came_back(crashes, crashes.worker_ids[-1]))
    fail_task(draft, intent.cause, intent.failure, intent.identity)


def fail_task(
    draft: Draft, cause: WorkflowTaskFailedCause, failure: Failure | None, identity: str
) -> None:
    record = draft.state.tasks[WORKFLOW_TASK_KEY]
    if record.scheduled_event_id:
        scheduled_id, started_id = _write_plain_started(draft, identity)
        event_id, time_us = draft.stamp()
        draft.emit(
            ev.WorkflowTaskFailed(
                event_id, time_us, scheduled_id, started_id, cause, failure, identity
            )
        )
    _next_attempt(draft, failure, deadlock=cause is WorkflowTaskFailedCause.DEADLOCK)


def time_out_task(draft: Draft, timeout_type: TimeoutType) -> None:
    record = draft.state.tasks[WORKFLOW_TASK_KEY]
    if record.scheduled_event_id:
        scheduled_id, started_id = _write_plain_started(draft, record.identity)
        event_id, time_us = draft.stamp()
        draft.emit(
            ev.WorkflowTaskTimedOut(event_id, time_us, scheduled_id, started_id, timeout_type)
        )
    _next_attempt(draft, record.last_failure)


def written_schedule(draft: Draft, started_us: int) -> int:
    """Id of the task's Scheduled event; a transient task's is written now, with the time its worker was told."""
    record = draft.state.tasks[WORKFLOW_TASK_KEY]
    if record.scheduled_event_id:
        return record.scheduled_event_id
    started = draft.state.folded.started
    event_id, _ = draft.stamp()
    time_us = max(started_us, draft.state.folded.last_time_us)
    draft.emit(
        ev.WorkflowTaskScheduled(
            event_id, time_us, started.task_queue, started.task_timeout_ms, record.attempt
        )
    )
    return event_id


def backoff_ms(attempt: int) -> int:
    """Delay after the failed attempt number `attempt`."""
    return min(
        limits.WORKFLOW_TASK_BACKOFF_MS_FIRST << min(attempt - 1, 20),
        limits.WORKFLOW_TASK_BACKOFF_MS_MAX,
    )


def _write_plain_started(draft: Draft, identity: str) -> tuple[int, int]:
    scheduled_id = draft.state.tasks[WORKFLOW_TASK_KEY].scheduled_event_id
    event_id, time_us = draft.stamp()
    draft.emit(
        ev.WorkflowTaskStarted(
            event_id, time_us, scheduled_id, identity, draft.state.history_bytes, False
        )
    )
    return scheduled_id, event_id


def _next_attempt(draft: Draft, failure: Failure | None, *, deadlock: bool = False) -> None:
    """`deadlock`: its code has taken the thread that ran it along, which counts as a crash."""
    record = draft.state.tasks[WORKFLOW_TASK_KEY]
    delay_ms = backoff_ms(record.attempt)
    record.attempt += 1
    if record.attempt == limits.WORKFLOW_TASK_STUCK_ATTEMPTS + 1:
        draft.listed = True
    record.scheduled_event_id = 0
    record.last_failure = failure
    draft.state.sticky_worker_id = b""
    if deadlock:
        crashes = crashed(record.crashes, b"", 0, failure or _DEADLOCK, draft.env.now_us)
        if crashes.is_poisoned:
            count(draft, WORKFLOW_TASK_KEY, crashes)
            draft.number_buffered()
            return
        record.set_aside(crashes=crashes)
        note_crash(draft, WORKFLOW_TASK_KEY, crashes)
    else:
        forgive(draft, WORKFLOW_TASK_KEY)
    record.handout = None
    record.worker_id, record.identity, record.started_us = b"", "", 0
    record.state = TaskState.BACKOFF
    record.next_attempt_us = draft.env.now_us + delay_ms * 1000
    draft.touch(record)
    draft.number_buffered()
    draft.put_timer(TimerKind.WORKFLOW_TASK_BACKOFF, 0, record.next_attempt_us)
