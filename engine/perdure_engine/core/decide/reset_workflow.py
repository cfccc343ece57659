"""Reset: a new run of the workflow id begins with the history of another one, up to the end of a workflow task.

The workflow task itself is written down as failed (RESET_WORKFLOW): what its code decided never happened in the new
run. What people sent after that point (signals, updates) is applied again, in order. The run that is open is terminated
by the same decision, so that at no moment the id has two open runs, or none while its work is to go on (invariant 5).

What waited at that point waits anew: activities are scheduled again, with attempts and timeouts counted from now on;
timers keep the time at which they are due. The new run's own timeouts begin with it. It is not paused: no workflow
task ends while a run is.

Children that were there at the point are the new run's: they are not told that their parent closed, and what the base
has heard of them since then holds for the new run too. Those that came after it belong to work that is undone: their
close policy applies, and one that the new run starts again takes their place. What was on its way to other runs at the
point is sent again, by ids that the receivers know (`core.lineage`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

import msgspec

from perdure_engine.core import events as ev
from perdure_engine.core import limits
from perdure_engine.core import outside_events as out
from perdure_engine.core.apply import fold
from perdure_engine.core.audit import Action
from perdure_engine.core.decide.auditing import note, status_of
from perdure_engine.core.decide.requests import handed_on
from perdure_engine.core.decide.terminate_workflow import terminate
from perdure_engine.core.draft import Draft, Env
from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import batch_request_id, uuid_text
from perdure_engine.core.intents import Reapply, ResetType, ResetWorkflow
from perdure_engine.core.lineage import after_reset
from perdure_engine.core.replies import Started
from perdure_engine.core.state import Activity, RunState
from perdure_engine.core.tasks import TaskKind, TimerKind
from perdure_engine.core.transitions import ChildPhase

RESET_BY_THE_JOB = "RESET_BY_THE_JOB"
"""The reason of a refusal that is no failure: the run is itself what the batch operation has made."""

EVENT_FIELD = "workflow_task_finish_event_id"
HEARD = get_args(out.HeardEvent)
REAPPLIED = (ev.WorkflowExecutionSignaled, ev.WorkflowExecutionUpdateAccepted)
ENDS = (ev.WorkflowTaskCompleted, ev.WorkflowTaskFailed, ev.WorkflowTaskTimedOut)

Admitted = ev.WorkflowExecutionUpdateAdmitted


def decide(
    intent: ResetWorkflow,
    env: Env,
    base: Draft,
    current: Draft | None,
    history: Sequence[ev.Event],
    later: Sequence[ev.Event] = (),
    *,
    continues: bool = False,
) -> tuple[Started, Draft]:
    """`history` is all of the base's, with what its draft has; `current` the draft of the id's current run, which may
    be the base. `later`: the events of the runs that the base continued as; `continues`: the current one is of them.

    Returns the answer and the draft of the new run. Raises Rejected before any change.
    """
    cut = _cut(intent, history)
    before, was_open = status_of(base), base.state.open
    after, of_others = list(history[cut:]), list(later)
    waiting: list[Admitted] = []
    if current is not None and current.state.open:
        unseen, unanswered = _terminate(intent, current)
        if current is base or continues:
            (after if current is base else of_others).extend(unseen)
            waiting = unanswered
    # what other runs of the id heard is of children and messages of their own
    sent = [*after, *(event for event in of_others if not isinstance(event, HEARD))]
    draft = _begin(intent, env, history[:cut], _known_ids(env, base, current))
    _wait_anew(draft, intent)
    _apply_again(draft, intent, sent, waiting)
    _take_over(draft, base, asks=not was_open)
    if current is not None:
        _leave_parent(draft, current)
    as_run = uuid_text(intent.new_run_id)
    to = f"reset to event {cut + 1}"
    note(draft, Action.RESET, intent, of=base, subject=as_run, before=before, after=to)
    return Started(intent.new_run_id, True), draft


def require_size(history_bytes: int) -> None:
    if history_bytes > limits.RESET_BYTES_MAX:
        raise Rejected(
            Code.RESOURCE_EXHAUSTED,
            "HISTORY_TOO_LARGE",
            f"a reset copies at most {limits.RESET_BYTES_MAX} bytes of history, the run has {history_bytes}",
        )


def require_target_of_job(intent: ResetWorkflow, base: RunState, current_run_id: bytes) -> None:
    """A batch operation resets each workflow id once: its newest run, and none that it began itself.

    The run that a reset begins has the start of its base, so the job's filter finds it like any other. An older run of
    an id would end the newer one, which the filter may not even find: that is for a person to ask for.
    """
    if not intent.job_id:
        return
    started = base.folded.started
    if started.reset_from_run_id and started.request_id == batch_request_id(
        intent.namespace_id, intent.job_id, started.reset_from_run_id
    ):
        raise Rejected(
            Code.FAILED_PRECONDITION,
            RESET_BY_THE_JOB,
            "the batch operation itself has begun this run",
        )
    if current_run_id and current_run_id != base.run_id:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "NOT_THE_NEWEST_RUN",
            f"workflow {started.workflow_id!r} has a newer run, which a reset of this one would end; "
            "a batch operation does not, `perdure workflow reset --run-id` does",
        )


# ---- where to


def _cut(intent: ResetWorkflow, history: Sequence[ev.Event]) -> int:
    """How many events the new run takes over: those before the end of the workflow task."""
    if not intent.event_id:
        return _of_type(intent, history).event_id - 1
    if intent.event_id > len(history):
        raise invalid(EVENT_FIELD, f"the run has {len(history)} events")
    event = history[intent.event_id - 1]
    if not isinstance(event, (*ENDS, ev.WorkflowTaskStarted)):
        raise invalid(
            EVENT_FIELD,
            f"event {intent.event_id} is {type(event).__name__}; a reset goes to the end of a workflow task",
        )
    return intent.event_id - 1


def _of_type(intent: ResetWorkflow, history: Sequence[ev.Event]) -> ev.Event:
    ends = [event for event in history if isinstance(event, ENDS)]
    completed = [event for event in ends if isinstance(event, ev.WorkflowTaskCompleted)]
    match intent.reset_type:
        case ResetType.BUILD_ID:
            points: Sequence[ev.Event] = [
                event for event in completed if event.build_id == intent.build_id
            ][:1]
        case ResetType.FIRST_WORKFLOW_TASK:
            points = (completed or ends)[:1]
        case ResetType.LAST_WORKFLOW_TASK:
            points = (completed or ends)[-1:]
    for event in points:
        return event
    what = f"by build {intent.build_id!r}" if intent.reset_type is ResetType.BUILD_ID else "yet"
    raise Rejected(
        Code.FAILED_PRECONDITION,
        "NO_RESET_POINT",
        f"no workflow task of the run was completed {what}",
    )


# ---- the run that is open


def _terminate(intent: ResetWorkflow, current: Draft) -> tuple[list[ev.Event], list[Admitted]]:
    """End it. Returns what waited in its inbox: events, which have their numbers now, and updates."""
    before = len(current.events)
    admitted = [one.event for one in (current.state.admitted or {}).values()]
    reason = f"reset as run {uuid_text(intent.new_run_id)}"
    if intent.reason:
        reason = f"{reason}: {intent.reason}"
    terminate(
        current,
        reason,
        b"",
        intent.identity,
        intent.request_id,
        intent.body_hash,
        intent.new_run_id,
    )
    return current.events[before:], admitted


def _known_ids(
    env: Env, base: Draft, current: Draft | None
) -> tuple[tuple[bytes, bytes, int], ...]:
    """What the base and the current run know, oldest first: whatever was sent to them is not taken twice."""
    known = handed_on(base.state.folded, env.now_us)
    if current is None or current is base:
        return known
    all_known = {one[0]: one for one in known}
    all_known |= {one[0]: one for one in handed_on(current.state.folded, env.now_us)}
    return tuple(sorted(all_known.values(), key=lambda one: one[2]))


# ---- the new run


def _begin(
    intent: ResetWorkflow,
    env: Env,
    copied: Sequence[ev.Event],
    known_ids: tuple[tuple[bytes, bytes, int], ...],
) -> Draft:
    """With the events of the base, and the workflow task that the reset ends."""
    first = copied[0]
    assert isinstance(first, ev.WorkflowExecutionStarted)
    deadline_us = first.execution_timeout_ms and env.now_us + first.execution_timeout_ms * 1000
    started = msgspec.structs.replace(
        first,
        run_id=intent.new_run_id,
        request_id=intent.request_id,  # a repeat of the reset is answered with this run
        body_hash=intent.body_hash,
        execution_deadline_us=deadline_us,
        request_ids=known_ids,
        original_run_id=first.original_run_id or first.run_id,
        reset_from_run_id=first.run_id,
        lineage=after_reset(first, len(copied)),
    )
    events = [started, *copied[1:]]
    draft = Draft(RunState(fold(events)), env, is_new=True)
    draft.events += events
    _fail_task(draft, intent, first.run_id, len(events))
    return draft


def _fail_task(draft: Draft, intent: ResetWorkflow, base_run_id: bytes, fork_event_id: int) -> None:
    folded = draft.state.folded
    scheduled_id = folded.workflow_task_scheduled_id
    if not folded.workflow_task_started_id:
        event_id, time_us = draft.stamp()
        draft.emit(
            ev.WorkflowTaskStarted(event_id, time_us, scheduled_id, intent.identity, 0, False)
        )
    started_id = folded.workflow_task_started_id
    event_id, time_us = draft.stamp()
    draft.emit(
        ev.WorkflowTaskFailed(
            event_id,
            time_us,
            scheduled_id,
            started_id,
            ev.WorkflowTaskFailedCause.RESET_WORKFLOW,
            Failure(FailureKind.SERVER, intent.reason or "reset"),
            intent.identity,
            base_run_id,
            intent.new_run_id,
            fork_event_id,
        )
    )


def _wait_anew(draft: Draft, intent: ResetWorkflow) -> None:
    """Everything that was pending at the point gets its rows: one place for each kind of thing that can wait."""
    folded = draft.state.folded
    now_us, started = folded.last_time_us, folded.started
    if started.run_timeout_ms:
        draft.put_timer(TimerKind.RUN_TIMEOUT, 0, now_us + started.run_timeout_ms * 1000)
    if started.execution_deadline_us:
        draft.put_timer(TimerKind.EXECUTION_TIMEOUT, 0, started.execution_deadline_us)
    for timer in folded.timers.values():
        draft.put_timer(TimerKind.USER, timer.started_event_id, timer.fire_us)
    for key, activity in list(folded.activities.items()):
        _schedule_again(draft, key, activity, intent.identity)


def _schedule_again(draft: Draft, key: int, activity: Activity, identity: str) -> None:
    """Its worker belongs to the other run. One that was asked to stop has stopped: nobody has it here."""
    if activity.cancel_requested_event_id:
        event_id, time_us = draft.stamp()
        draft.emit(
            ev.ActivityTaskCanceled(
                event_id, time_us, b"", activity.cancel_requested_event_id, key, 0, identity
            )
        )
        return
    scheduled = activity.scheduled  # its time is that of the reset (`apply`)
    record = draft.new_task(TaskKind.ACTIVITY, scheduled.task_queue, key, key)
    record.priority = scheduled.priority
    for kind, timeout_ms in (
        (TimerKind.SCHEDULE_TO_START, scheduled.schedule_to_start_timeout_ms),
        (TimerKind.SCHEDULE_TO_CLOSE, scheduled.schedule_to_close_timeout_ms),
    ):
        if timeout_ms:
            draft.put_timer(kind, key, scheduled.time_us + timeout_ms * 1000)


# ---- other runs


def _take_over(draft: Draft, base: Draft, *, asks: bool) -> None:
    """Children and messages that were pending at the point, and of which nothing was heard since then, are the new
    run's. `asks`: the base had closed before, and heard nothing any more: whether they have ended must be asked."""
    folded = draft.state.folded
    for key, external in (folded.externals or {}).items():
        if not asks:
            base.drop_task(key)
        draft.new_message(key, external.workflow_id)
    for key, child in (folded.children or {}).items():
        unanswered = asks or key in base.state.tasks or child.phase is ChildPhase.INITIATED
        if not asks:  # what it had to say to them, because this decision has closed it, is unsaid
            base.drop_task(key)
            base.drop_task(-key)
        if unanswered:
            draft.new_message(key, child.initiated.workflow_id)


def _leave_parent(draft: Draft, current: Draft) -> None:
    """The new run is the same child as the one that this decision has ended: that is no end to tell of."""
    closed, parent = current.state.folded.closed, current.state.folded.started.parent
    ended_now = current.events and closed is current.events[-1]
    if closed is not None and ended_now and parent == draft.state.folded.started.parent:
        current.drop_task(closed.event_id)


# ---- what was sent after the point


def _apply_again(
    draft: Draft, intent: ResetWorkflow, sent: Sequence[ev.Event], waiting: Sequence[Admitted]
) -> None:
    """Signals, and what was heard of other runs, are numbered at once; updates wait for the code's verdict, as they did
    before it was given."""
    signals = Reapply.SIGNAL not in intent.reapply_exclude
    for event in sent:
        if isinstance(event, ev.WorkflowExecutionSignaled):
            if signals:
                draft.emit_now(event)
        elif isinstance(event, HEARD) and _concerns(draft, event):
            draft.emit_now(event)
    draft.schedule_workflow_task()
    if Reapply.UPDATE not in intent.reapply_exclude:
        for update in (*_accepted(draft, sent), *waiting):
            state = draft.state
            if update.update_id not in (state.folded.updates or {}) and update.update_id not in (
                state.admitted or {}
            ):
                draft.admit(update)


def _concerns(draft: Draft, event: out.HeardEvent) -> bool:
    """Whether it is of something that the new run waits for. The end of a child whose start was taken back is not: the
    cancellation that did so is undone."""
    folded, key = draft.state.folded, event.initiated_event_id
    child = (folded.children or {}).get(key)
    if child is None:
        return key in (folded.externals or {})
    return not isinstance(event, out.ChildClosedEvent) or child.phase is ChildPhase.STARTED


def _accepted(draft: Draft, sent: Sequence[ev.Event]) -> Iterator[Admitted]:
    """As they were before their acceptance, which never happened here."""
    for event in sent:
        if isinstance(event, ev.WorkflowExecutionUpdateAccepted):
            yield Admitted(
                0,
                draft.env.now_us,
                event.update_id,
                event.update_name,
                event.input,
                event.header,
                event.identity,
                event.body_hash,
            )
