"""The run that follows another one of its workflow id: continue-as-new, retry, cron (semantics §2, §7).

It begins in the decision that closes the run before it, and both are saved by one statement: there is no moment at
which the id has two open runs, or none while its chain goes on. `draft.next_run` hands it to the shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core.apply import begin
from perdure_engine.core.decide.requests import handed_on
from perdure_engine.core.draft import Draft, Env
from perdure_engine.core.events import Initiator, WorkflowExecutionSignaled
from perdure_engine.core.failures import Failure, FailureKind, RetryState, TimeoutType
from perdure_engine.core.ids import next_run_id
from perdure_engine.core.retry import next_attempt
from perdure_engine.core.state import Folded, RunState, memo_of
from perdure_engine.core.tasks import TimerKind
from perdure_engine.core.versions import Behavior, Versioning

TIMED_OUT = Failure(
    FailureKind.TIMEOUT, "workflow timed out", timeout_type=TimeoutType.START_TO_CLOSE
)

Signals = Sequence[WorkflowExecutionSignaled]
Updates = Sequence[ev.WorkflowExecutionUpdateAdmitted]


def begin_run(
    event: ev.WorkflowExecutionStarted, env: Env, signals: Signals = (), updates: Updates = ()
) -> Draft:
    """A new run with what it starts with: its timers, signals that its code sees first, admitted updates, its task."""
    draft = Draft(RunState(begin(event)), env, is_new=True)
    draft.events.append(event)
    delay_ms = event.start_delay_ms + event.first_task_backoff_ms
    begins_us = event.time_us + delay_ms * 1000
    if event.run_timeout_ms:
        draft.put_timer(TimerKind.RUN_TIMEOUT, 0, begins_us + event.run_timeout_ms * 1000)
    if event.execution_deadline_us:
        draft.put_timer(TimerKind.EXECUTION_TIMEOUT, 0, event.execution_deadline_us)
    for signal in signals:
        event_id, time_us = draft.stamp()
        draft.emit(msgspec.structs.replace(signal, event_id=event_id, time_us=time_us))
    if delay_ms:
        kind = TimerKind.START_DELAY
        if event.first_task_backoff_ms:
            kind = TimerKind.CRON_OR_RETRY_BACKOFF
        draft.put_timer(kind, 0, begins_us)
    else:
        draft.schedule_workflow_task()
    for update in updates:
        draft.admit(update)
    return draft


def deadline_us(state: RunState) -> int:
    """When the whole chain must be over; 0: never. The first run says so (one of before it did not write it down); its
    timer says it of one that stood still for a while."""
    if state.timer_rows:
        timer = state.timer_rows.get((TimerKind.EXECUTION_TIMEOUT, 0))
        if timer is not None:
            return timer.due_us
    started = state.folded.started
    if started.execution_deadline_us or not started.execution_timeout_ms:
        return started.execution_deadline_us
    return started.time_us + (started.start_delay_ms + started.execution_timeout_ms) * 1000


# ---- how a run closes


def continue_as_new(draft: Draft, command: cmd.ContinueAsNew, completed_id: int) -> None:
    """Close the run as the code asked; what the command leaves open is as it was."""
    started = draft.state.folded.started
    changes: dict[str, Any] = {
        "workflow_type": command.workflow_type or started.workflow_type,
        "task_queue": command.task_queue or started.task_queue,
        "input": command.input,
        "header": command.header,
        "memo": command.memo or memo_of(draft.state.folded),
        "run_timeout_ms": command.run_timeout_ms or started.run_timeout_ms,
        "task_timeout_ms": command.task_timeout_ms or started.task_timeout_ms,
        "retry_policy": command.retry_policy or started.retry_policy,
    }
    if changes["task_queue"] != started.task_queue:
        changes["inherited_version"] = None  # nobody says that the version is served there
    following = _follow(draft, Initiator.WORKFLOW, 0, **changes)
    begun = following.state.folded.started
    event_id, time_us = draft.stamp()
    draft.close(
        ev.WorkflowExecutionContinuedAsNew(
            event_id,
            time_us,
            begun.run_id,
            begun.workflow_type,
            begun.task_queue,
            begun.input,
            begun.header,
            begun.memo,
            begun.run_timeout_ms,
            begun.task_timeout_ms,
            completed_id,
            begun.initiator,
        )
    )
    draft.next_run = following


def complete(draft: Draft, result: bytes, completed_id: int) -> None:
    started = draft.state.folded.started
    following = None
    if started.cron_schedule and not draft.state.folded.cancel_requested:
        following = _next_of_cron(draft, (), last_completion_result=result)
    event_id, time_us = draft.stamp()
    draft.close(
        ev.WorkflowExecutionCompleted(event_id, time_us, result, completed_id, _run_id(following))
    )
    draft.next_run = following


def fail(draft: Draft, failure: Failure, completed_id: int) -> None:
    retry_state, following = _after_failure(draft, failure, ())
    event_id, time_us = draft.stamp()
    draft.close(
        ev.WorkflowExecutionFailed(
            event_id, time_us, failure, retry_state, completed_id, _run_id(following)
        )
    )
    draft.next_run = following


def time_out_run(draft: Draft) -> None:
    """The run timeout has passed. What waited unseen stands in this history, and goes along to the next attempt."""
    unseen = [one for one in draft.state.buffered if isinstance(one, WorkflowExecutionSignaled)]
    draft.number_buffered()
    retry_state, following = _after_failure(draft, TIMED_OUT, unseen)
    event_id, time_us = draft.stamp()
    draft.close(ev.WorkflowExecutionTimedOut(event_id, time_us, retry_state, _run_id(following)))
    draft.next_run = following


def time_out_chain(draft: Draft) -> None:
    """The execution timeout has passed: nothing follows."""
    draft.number_buffered()
    event_id, time_us = draft.stamp()
    draft.close(ev.WorkflowExecutionTimedOut(event_id, time_us, RetryState.TIMEOUT))


def _run_id(following: Draft | None) -> bytes:
    return following.state.run_id if following is not None else b""


# ---- what follows


def _after_failure(
    draft: Draft, failure: Failure, unseen: Signals
) -> tuple[RetryState, Draft | None]:
    """IN_PROGRESS and the next attempt; or why there is none, and the next run of a cron chain, if there is one."""
    folded = draft.state.folded
    started = folded.started
    if started.retry_policy is None and not started.cron_schedule:
        return RetryState.RETRY_POLICY_NOT_SET, None
    if folded.cancel_requested:
        return RetryState.CANCEL_REQUESTED, None
    state = RetryState.RETRY_POLICY_NOT_SET
    if started.retry_policy is not None:
        verdict = next_attempt(
            started.retry_policy,
            started.attempt,
            failure,
            draft.env.now_us,
            deadline_us(draft.state),
        )
        state = verdict.state
        if state is RetryState.IN_PROGRESS:
            changes: dict[str, Any] = {"attempt": started.attempt + 1, "last_failure": failure}
            return state, _follow(draft, Initiator.RETRY, verdict.delay_ms, unseen, **changes)
    return state, _next_of_cron(draft, unseen, last_failure=failure)


def _next_of_cron(draft: Draft, unseen: Signals, **changes: Any) -> Draft | None:
    """None: there is no schedule, or its next time is never, or past the chain's end."""
    started = draft.state.folded.started
    if not started.cron_schedule:
        return None
    _, now_us = draft.stamp()  # never before this run's own time, even by a clock that lags
    end_us = deadline_us(draft.state)
    next_us = draft.env.next_fire_us(started.cron_schedule, now_us)
    if not next_us or (end_us and next_us >= end_us):
        return None
    return _follow(draft, Initiator.CRON_SCHEDULE, backoff_ms(next_us, now_us), unseen, **changes)


def backoff_ms(next_us: int, now_us: int) -> int:
    """Until the next time of a schedule: never early, and at least 1, since 0 means none."""
    return max(1, -((now_us - next_us) // 1000))


def _inherited(folded: Folded, initiator: Initiator) -> Versioning | None:
    """A run that is pinned by its code hands its version on; each time of a cron schedule chooses anew."""
    if folded.versioning is None or initiator is Initiator.CRON_SCHEDULE:
        return None
    return folded.versioning if folded.versioning.behavior is Behavior.PINNED else None


def _follow(
    draft: Draft, initiator: Initiator, delay_ms: int, unseen: Signals = (), **changes: Any
) -> Draft:
    """Begin the next run: as this one began, but for `changes` and what makes it another one.

    What was acknowledged and this run's code has not dealt with goes along: `unseen` signals, admitted updates.
    """
    folded = draft.state.folded
    started = folded.started
    _, time_us = draft.stamp()
    own: dict[str, Any] = {
        "time_us": time_us,
        "run_id": next_run_id(started.run_id, draft.env.new_number()),
        "continued_from_run_id": started.run_id,
        "initiator": initiator,
        "attempt": 1,
        "last_failure": None,
        "request_id": b"",  # nobody's: a repeat of the first start is not answered with this run
        "body_hash": b"",
        "start_delay_ms": 0,
        "first_task_backoff_ms": delay_ms,
        "execution_deadline_us": deadline_us(draft.state),
        "request_ids": handed_on(folded, time_us),
        "search_attributes": folded.search_attributes,  # as they are now
        "original_run_id": b"",  # its start is its own, also behind a run that was reset
        "reset_from_run_id": b"",
        "versioning_override": folded.versioning_override,
        "inherited_version": _inherited(folded, initiator),
    }
    event = msgspec.structs.replace(started, **(own | changes))
    admitted = draft.state.admitted
    updates = () if admitted is None else tuple(one.event for one in admitted.values())
    return begin_run(event, draft.env, unseen, updates)
