"""What each event of a history does to a run.

Two tables: what the world did (`HAPPENED`, told to the code when its workflow task is run) and what
the engine made of the run's own commands (`RECORDED`, as soon as it is read). An event in neither
is nothing to replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure._failures import failure_to_exception
from perdure._replay.activity_versions import remember_version
from perdure._replay.applying_others import OTHERS_HAPPENED, OTHERS_RECORDED
from perdure._replay.cancelled import end_cancelled
from perdure._replay.machines.activity import ActivityMachine, ActivityMove
from perdure._replay.machines.completion import CompletionMove, CompletionState
from perdure._replay.machines.timer import TimerMachine, TimerMove
from perdure._replay.markers import is_deprecated_patch
from perdure._replay.messages import (
    ActivityTaskCanceled,
    ActivityTaskCancelRequested,
    ActivityTaskCompleted,
    ActivityTaskFailed,
    ActivityTaskScheduled,
    Event,
    MarkerRecorded,
    TimerCanceled,
    TimerFired,
    TimerStarted,
    UpdateAccepted,
    UpdateCompleted,
    UpsertWorkflowSearchAttributes,
    WorkflowExecutionCancelRequested,
    WorkflowExecutionClosed,
    WorkflowExecutionSignaled,
    WorkflowExecutionStarted,
    WorkflowPropertiesModified,
)
from perdure._replay.run import WorkflowRun
from perdure.errors import HistoryError, PayloadDecodeError

_OUTSIDE = frozenset({"WorkflowExecutionTerminated", "WorkflowExecutionTimedOut"})


# --- what happened --------------------------------------------------------------------------------


def _started(run: WorkflowRun, event: WorkflowExecutionStarted) -> None:
    run.begin(event)


def _signaled(run: WorkflowRun, event: WorkflowExecutionSignaled) -> None:
    run.signals.deliver(event)


def _cancel_requested(run: WorkflowRun, event: WorkflowExecutionCancelRequested) -> None:
    run.request_cancel(event.reason)


def _activity_completed(run: WorkflowRun, event: ActivityTaskCompleted) -> None:
    machine = _resolve(run, event.scheduled_event_id)
    if not machine.handle.done():  # or cancelled, and not waited for
        machine.handle.set_result(_result(run, machine, event))
    machine.let_go()


def _result(run: WorkflowRun, machine: ActivityMachine, event: ActivityTaskCompleted) -> Any:
    if not event.result:
        return None
    try:
        return run.converter.from_payload(event.result[0], machine.result_hint)
    except PayloadDecodeError as error:
        raise error.at(
            f"event {event.event_id}, the result of activity {machine.activity_type!r}"
        ) from error.__cause__


def _activity_failed(run: WorkflowRun, event: ActivityTaskFailed) -> None:
    machine = _resolve(run, event.scheduled_event_id)
    if not machine.handle.done():
        machine.handle.set_exception(failure_to_exception(event.failure, run.converter))
    machine.let_go()


def _activity_canceled(run: WorkflowRun, event: ActivityTaskCanceled) -> None:
    machine = _resolve(run, event.scheduled_event_id)
    if not machine.handle.done():
        end_cancelled(machine, run.converter.from_payloads(event.details))
    machine.let_go()


def _resolve(run: WorkflowRun, scheduled_event_id: int) -> ActivityMachine:
    machine = run.activities.get(scheduled_event_id)
    if machine is None:
        raise HistoryError(f"no activity was scheduled, or is open, by event {scheduled_event_id}")
    machine.move(ActivityMove.RESOLVED)
    del run.activities[scheduled_event_id]
    return machine


def _timer_fired(run: WorkflowRun, event: TimerFired) -> None:
    machine = _timer(run, event.timer_id)
    machine.move(TimerMove.FIRED)
    del run.timers[event.timer_id]
    run.loop.fire(machine.handle)


def _timer(run: WorkflowRun, timer_id: str) -> TimerMachine:
    machine = run.timers.get(timer_id)
    if machine is None:
        raise HistoryError(f"no timer {timer_id!r} was started, or is open")
    return machine


# --- what became of the commands ------------------------------------------------------------------


def _activity_scheduled(run: WorkflowRun, event: ActivityTaskScheduled) -> None:
    machine = run.ledger.record(event).machine
    assert isinstance(machine, ActivityMachine)
    machine.move(ActivityMove.RECORDED)
    machine.entry = None
    machine.scheduled_event_id = event.event_id
    run.activities[event.event_id] = machine
    remember_version(run, event)


def _activity_cancel_recorded(run: WorkflowRun, event: ActivityTaskCancelRequested) -> None:
    machine = run.ledger.record(event).machine
    assert isinstance(machine, ActivityMachine)
    machine.move(ActivityMove.CANCEL_RECORDED)


def _timer_started(run: WorkflowRun, event: TimerStarted) -> None:
    machine = run.ledger.record(event).machine
    assert isinstance(machine, TimerMachine)
    machine.move(TimerMove.RECORDED)
    machine.entry = None


def _timer_canceled(run: WorkflowRun, event: TimerCanceled) -> None:
    machine = run.ledger.record(event).machine
    assert isinstance(machine, TimerMachine)
    machine.move(TimerMove.CANCEL_RECORDED)
    del run.timers[event.timer_id]


def _update_recorded(run: WorkflowRun, event: UpdateAccepted | UpdateCompleted) -> None:
    run.ledger.record(event)


def _marker_recorded(run: WorkflowRun, event: MarkerRecorded) -> None:
    if is_deprecated_patch(event) and not run.ledger.expects(event):
        return  # the code has forgotten the patch, as it was said that it would
    run.ledger.record(event)


def _properties_modified(run: WorkflowRun, event: WorkflowPropertiesModified) -> None:
    run.ledger.record(event)


def _search_attributes_upserted(run: WorkflowRun, event: UpsertWorkflowSearchAttributes) -> None:
    run.ledger.record(event)


def _closed(run: WorkflowRun, event: WorkflowExecutionClosed) -> None:
    outside = event.kind in _OUTSIDE
    if outside and run.completion.state is CompletionState.OPEN:
        run.completion.move(CompletionMove.CLOSED_OUTSIDE)
        run.loop.stop()
    else:
        run.ledger.record(event)
        run.completion.move(CompletionMove.RECORDED)


HAPPENED: dict[type[Event], Callable[[WorkflowRun, Any], None]] = {
    WorkflowExecutionStarted: _started,
    WorkflowExecutionSignaled: _signaled,
    WorkflowExecutionCancelRequested: _cancel_requested,
    ActivityTaskCompleted: _activity_completed,
    ActivityTaskFailed: _activity_failed,
    ActivityTaskCanceled: _activity_canceled,
    TimerFired: _timer_fired,
    **OTHERS_HAPPENED,
}
RECORDED: dict[type[Event], Callable[[WorkflowRun, Any], None]] = {
    ActivityTaskScheduled: _activity_scheduled,
    ActivityTaskCancelRequested: _activity_cancel_recorded,
    TimerStarted: _timer_started,
    TimerCanceled: _timer_canceled,
    WorkflowExecutionClosed: _closed,
    UpdateAccepted: _update_recorded,
    UpdateCompleted: _update_recorded,
    MarkerRecorded: _marker_recorded,
    WorkflowPropertiesModified: _properties_modified,
    UpsertWorkflowSearchAttributes: _search_attributes_upserted,
    **OTHERS_RECORDED,
}
