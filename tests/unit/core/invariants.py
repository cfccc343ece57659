"""What must hold of a run after every step, by the numbers of the reliability notes (see `CHECKS`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import get_args

import msgspec
from tests.unit.core.saved import CODEC
from tests.unit.core.scenario import Scenario

from perdure_engine.core import events as ev
from perdure_engine.core import outside_events as out
from perdure_engine.core.apply import fold
from perdure_engine.core.ids import queue_number
from perdure_engine.core.state import WORKFLOW_TASK_KEY, Activity
from perdure_engine.core.tasks import TaskKind, TaskRecord, TaskState, TimerKind
from perdure_engine.core.transitions import ChildPhase
from perdure_engine.core.versions import bucket
from perdure_engine.history.loading import decode_history

DAY_US = 24 * 3_600 * 1_000_000
CLOSING = (
    ev.WorkflowExecutionCompleted,
    ev.WorkflowExecutionFailed,
    ev.WorkflowExecutionTimedOut,
    ev.WorkflowExecutionCanceled,
    ev.WorkflowExecutionTerminated,
    ev.WorkflowExecutionContinuedAsNew,
)
TASK_ENDED = (ev.WorkflowTaskCompleted, ev.WorkflowTaskFailed, ev.WorkflowTaskTimedOut)
ACTIVITY_ENDED = (
    ev.ActivityTaskCompleted,
    ev.ActivityTaskFailed,
    ev.ActivityTaskTimedOut,
    ev.ActivityTaskCanceled,
)
INITIATED = (
    out.StartChildWorkflowExecutionInitiated,
    out.SignalExternalWorkflowExecutionInitiated,
    out.RequestCancelExternalWorkflowExecutionInitiated,
)
CHILD_ENDED = (
    out.StartChildWorkflowExecutionFailed,
    *get_args(out.ChildClosedEvent),
)
EXTERNAL_ENDED = (
    out.SignalExternalWorkflowExecutionFailed,
    out.ExternalWorkflowExecutionSignaled,
    out.RequestCancelExternalWorkflowExecutionFailed,
    out.ExternalWorkflowExecutionCancelRequested,
)
TIMER_ENDED = (ev.TimerFired, ev.TimerCanceled)


def saved_events(run: Scenario) -> list[ev.Event]:
    rows = [row for _, row in sorted(run.saved.history.items())]
    return decode_history(rows, CODEC)


def invariant_1_event_ids_are_contiguous(run: Scenario) -> None:
    ids = [event.event_id for event in saved_events(run)]
    assert ids == list(range(1, len(ids) + 1))
    assert run.state.folded.next_event_id == len(ids) + 1
    assert run.saved.executions[run.state.run_id].next_event_id == len(ids) + 1


def invariant_2_events_never_change(run: Scenario) -> None:
    seen = run.seen
    now = [msgspec.msgpack.encode(event) for event in saved_events(run)]
    assert now[: len(seen)] == seen
    run.seen = now


def invariant_3_started_first_and_one_end_last(run: Scenario) -> None:
    events = run.events
    assert isinstance(events[0], ev.WorkflowExecutionStarted)
    assert sum(isinstance(event, ev.WorkflowExecutionStarted) for event in events) == 1
    ends = [event.event_id for event in events if isinstance(event, CLOSING)]
    assert ends == ([] if run.state.open else [events[-1].event_id])


def invariant_4_the_state_is_a_function_of_the_history(run: Scenario) -> None:
    refolded = CODEC.encode_snapshot(fold(saved_events(run)))
    assert refolded == CODEC.encode_snapshot(run.state.folded)


def invariant_6_what_is_pending_was_scheduled_and_is_not_over(run: Scenario) -> None:
    folded = run.state.folded
    scheduled: set[int] = set()
    started: set[tuple[str, int]] = set()
    for event in run.events:
        match event:
            case ev.ActivityTaskScheduled():
                scheduled.add(event.event_id)
            case ev.TimerStarted():
                started.add((event.timer_id, event.event_id))
            case _ if isinstance(event, ACTIVITY_ENDED):
                scheduled.remove(event.scheduled_event_id)
            case _ if isinstance(event, TIMER_ENDED):
                started.remove((event.timer_id, event.started_event_id))
            case _ if isinstance(event, CLOSING):
                scheduled, started = set(), set()
            case _:
                pass
    assert folded.activities.keys() == scheduled
    assert {(t.timer_id, t.started_event_id) for t in folded.timers.values()} == started


def invariant_6_what_goes_to_other_runs_was_initiated_and_is_not_over(run: Scenario) -> None:
    """A closed run keeps those that it had at its end."""
    pending: set[int] = set()
    for event in run.events:
        if isinstance(event, INITIATED):
            pending.add(event.event_id)
        elif isinstance(event, CHILD_ENDED + EXTERNAL_ENDED):
            pending.remove(event.initiated_event_id)
    folded = run.state.folded
    assert {*(folded.children or ()), *(folded.externals or ())} == pending


def invariant_7_time_never_decreases(run: Scenario) -> None:
    times = [event.time_us for event in run.events]
    assert times == sorted(times)
    assert run.state.folded.last_time_us == times[-1]


def invariant_13_no_work_is_lost(run: Scenario) -> None:
    """An open run has a task, or an activity or a timer with its row, or waits for what comes from outside."""
    state = run.state
    if not state.open:
        assert (state.timer_rows, state.buffered) == ({}, [])
        assert all(_is_message(run, key, record) for key, record in state.tasks.items())
        return
    heard = {getattr(event, "initiated_event_id", 0) for event in state.buffered}
    for key, child in (state.folded.children or {}).items():
        if child.phase is ChildPhase.INITIATED:
            assert (key in state.tasks) != (key in heard), "its start has a row or an answer"
    for key in state.folded.externals or {}:
        assert (key in state.tasks) != (key in heard), "it has a row or an answer"
    workflow_task = state.tasks.get(WORKFLOW_TASK_KEY)
    if workflow_task is not None:
        _task_wakes(run, WORKFLOW_TASK_KEY, workflow_task, TimerKind.WORKFLOW_TASK_BACKOFF, 0)
    else:
        assert not state.buffered, "what waits, waits for a workflow task"
        waits = (TimerKind.START_DELAY, TimerKind.CRON_OR_RETRY_BACKOFF)
        delayed = any((kind, 0) in state.timer_rows for kind in waits)
        assert delayed or _has_seen_all(run.events)
    waiting = {getattr(event, "scheduled_event_id", 0) for event in state.buffered}
    for key, activity in state.folded.activities.items():
        _activity_wakes(run, key, activity, key in waiting)
    fired = {e.started_event_id for e in state.buffered if isinstance(e, ev.TimerFired)}
    for timer in state.folded.timers.values():
        known = (TimerKind.USER, timer.started_event_id) in state.timer_rows
        assert known != (timer.started_event_id in fired)


def _is_message(run: Scenario, key: int, record: TaskRecord) -> bool:
    """A row that says something to another run, and can be read."""
    return record.kind is TaskKind.MESSAGE and run.message(key) is not None


def _activity_wakes(run: Scenario, key: int, activity: Activity, outcome_waits: bool) -> None:
    record = run.state.tasks.get(key)
    if record is None:
        assert outcome_waits
        return
    assert not outcome_waits
    _task_wakes(run, key, record, TimerKind.ACTIVITY_RETRY, key)
    if activity.scheduled.schedule_to_close_timeout_ms:
        runs = (TimerKind.SCHEDULE_TO_CLOSE, key) in run.state.timer_rows
        assert runs != is_suspended(run), "it stands still while the run is suspended"


def _task_wakes(
    run: Scenario, key: int, record: TaskRecord, backoff: TimerKind, reference: int
) -> None:
    row = run.saved.tasks[record.queue_no, record.task_id]
    assert row.state == record.state
    assert record.state is not TaskState.GONE
    timer = run.state.timer_rows.get((backoff, reference))
    if record.state is TaskState.BACKOFF:
        assert timer is not None
        assert timer.due_us == record.next_attempt_us
        assert record.handout is None
    else:
        assert timer is None, "a back-off that is over leaves no timer"


def is_suspended(run: Scenario) -> bool:
    pause = run.state.folded.paused
    return pause is not None and pause.suspended


def invariant_38_whose_polls_get_a_task_stands_in_its_key(run: Scenario) -> None:
    """A poisoned task is paged in a book of its own (invariant 40), and no other is in that book."""
    for record in run.state.tasks.values():
        if record.kind is not TaskKind.MESSAGE and record.state is TaskState.READY:
            name = bucket(record.queue, record.pinned, record.pool)
            known = queue_number(run.started.namespace_id, record.kind, name)
            assert record.handout is not None or record.queue_no == known


def invariant_39_the_timeouts_of_a_run_stand_still_while_it_is_suspended(run: Scenario) -> None:
    if not run.state.open:
        return
    for kind, is_set in (
        (TimerKind.RUN_TIMEOUT, run.started.run_timeout_ms),
        (TimerKind.EXECUTION_TIMEOUT, run.started.execution_timeout_ms),
    ):
        runs = (kind, 0) in run.state.timer_rows
        assert runs == (bool(is_set) and not is_suspended(run))


def invariant_39_what_is_poisoned_and_ready_has_a_timer_for_its_suspension(run: Scenario) -> None:
    """It is suspended also when nobody ever asks for it. Whoever has it may have outlived that timer."""
    state = run.state
    watched = {key for kind, key in state.timer_rows if kind is TimerKind.SUSPENSION}
    poisoned = {key: record for key, record in state.tasks.items() if record.pool}
    ready = {key for key, record in poisoned.items() if record.state is TaskState.READY}
    out = {key for key, record in poisoned.items() if record.state is TaskState.STARTED}
    assert ready <= watched <= ready | out
    for key in watched:
        crashes = poisoned[key].crashes
        assert crashes is not None
        row = state.timer_rows[TimerKind.SUSPENSION, key]
        assert row.due_us >= crashes.suspended_us, "never early"


def invariant_39_each_suspension_is_of_what_was_poisoned_for_24_hours(run: Scenario) -> None:
    suspended = [e for e in run.events if isinstance(e, ev.WorkflowExecutionPaused) and e.suspended]
    for event in suspended:
        [since] = re.findall(r"times in a row, for the first time at (\S+Z): ", event.reason)
        since_us = round(datetime.fromisoformat(since).timestamp()) * 1_000_000
        assert event.time_us >= since_us + DAY_US
    if is_suspended(run):
        assert run.state.folded.paused == suspended[-1]
        assert not any(
            record.state is TaskState.READY and record.kind is not TaskKind.MESSAGE
            for record in run.state.tasks.values()
        ), "nothing of it is handed out"


def _has_seen_all(events: list[ev.Event]) -> bool:
    """Whether nothing but the workflow's own commands stands after its last completed task."""
    for event in reversed(events):
        if isinstance(event, ev.WorkflowTaskCompleted):
            return True
        if isinstance(event, (ev.WorkflowExecutionPaused, ev.WorkflowExecutionUnpaused)):
            continue  # they are no concern of its code
        if isinstance(event, ev.WorkflowExecutionOptionsUpdated):
            continue  # it is nothing to the code
        if not hasattr(event, "workflow_task_completed_event_id"):
            return False
    return False


def invariant_18_workflow_tasks_are_serial(run: Scenario) -> None:
    before: ev.Event | None = None
    for event in run.events:
        if isinstance(before, ev.WorkflowTaskStarted):
            assert isinstance(event, TASK_ENDED), "nothing stands between Started and its end"
            assert event.started_event_id == before.event_id
        elif isinstance(event, TASK_ENDED):
            raise AssertionError("a workflow task ended that was not started")
        before = event
    assert not isinstance(before, ev.WorkflowTaskStarted)


def invariant_22_a_timer_has_one_outcome(run: Scenario) -> None:
    started: dict[int, ev.TimerStarted] = {}
    outcomes: dict[int, ev.TimerFired | ev.TimerCanceled] = {}
    for event in [*run.events, *run.state.buffered]:
        if isinstance(event, ev.TimerStarted):
            started[event.event_id] = event
        elif isinstance(event, TIMER_ENDED):
            assert event.started_event_id not in outcomes
            outcomes[event.started_event_id] = event
    for event_id, outcome in outcomes.items():
        due_us = started[event_id].time_us + started[event_id].start_to_fire_ms * 1000
        if isinstance(outcome, ev.TimerFired):
            assert outcome.time_us >= due_us, "never early (invariant 21)"


def invariant_30_an_attempt_has_one_outcome(run: Scenario) -> None:
    ended: set[int] = set()
    started: dict[int, int] = {}
    for event in [*run.events, *run.state.buffered]:
        if isinstance(event, ev.ActivityTaskStarted):
            assert event.scheduled_event_id not in started
            started[event.scheduled_event_id] = event.event_id
        elif isinstance(event, ACTIVITY_ENDED):
            key = event.scheduled_event_id
            assert key not in ended
            ended.add(key)
            if not isinstance(event, ev.ActivityTaskCanceled) or event.started_event_id:
                assert event.started_event_id == started.get(key, 0)


def invariant_47_nothing_of_a_closed_run_is_left(run: Scenario) -> None:
    if not run.state.open:
        live = run.saved.live_tasks(run.state.run_id).values()
        assert {row.state for row in live} <= {TaskState.TO_SEND}
        assert run.saved.live_timers(run.state.run_id) == {}
        assert run.saved.record(run.state.run_id).inbox == []


CHECKS: tuple[Callable[[Scenario], None], ...] = (
    invariant_1_event_ids_are_contiguous,
    invariant_2_events_never_change,
    invariant_3_started_first_and_one_end_last,
    invariant_4_the_state_is_a_function_of_the_history,
    invariant_6_what_is_pending_was_scheduled_and_is_not_over,
    invariant_6_what_goes_to_other_runs_was_initiated_and_is_not_over,
    invariant_7_time_never_decreases,
    invariant_13_no_work_is_lost,
    invariant_18_workflow_tasks_are_serial,
    invariant_22_a_timer_has_one_outcome,
    invariant_30_an_attempt_has_one_outcome,
    invariant_38_whose_polls_get_a_task_stands_in_its_key,
    invariant_39_the_timeouts_of_a_run_stand_still_while_it_is_suspended,
    invariant_39_what_is_poisoned_and_ready_has_a_timer_for_its_suspension,
    invariant_39_each_suspension_is_of_what_was_poisoned_for_24_hours,
    invariant_47_nothing_of_a_closed_run_is_left,
)
