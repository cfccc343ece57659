"""Runs that follow each other: continue-as-new, retry, cron (semantics §2, §7)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.scenario import (
    CANCEL,
    CLOSED,
    COMPLETE,
    FAIL,
    HOUR_US,
    NOTHING,
    QUEUE,
    SECOND_US,
    START_US,
    Scenario,
    Then,
    activity,
    application,
    cancel,
    continue_as_new,
    done,
    request_id,
    run_id,
    signal,
    start,
    terminate,
    timer,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import limits
from perdure_engine.core.apply import apply, begin
from perdure_engine.core.decide.requests import handed_on, recent_ids
from perdure_engine.core.describe import describe
from perdure_engine.core.events import Initiator
from perdure_engine.core.failures import FailureKind, RetryState
from perdure_engine.core.ids import next_run_id
from perdure_engine.core.intents import IdConflictPolicy, IdReusePolicy, StartSignal
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TimerKind

TASK = ["3 WorkflowTaskStarted", "4 WorkflowTaskCompleted"]
RETRY = RetryPolicy(2_000, maximum_attempts=3)
DAY_US = limits.REQUEST_IDS_HANDED_US
BACKOFF = TimerKind.CRON_OR_RETRY_BACKOFF


# ---- continue-as-new


def test_a_run_continues_as_new() -> None:
    run = Scenario(start(memo=b"memo", retry_policy=RETRY, identity="me", priority=2))
    run.turn(activity("a"), timer("t"))
    run.when(signal())

    assert run.turn(continue_as_new()) == Then(
        events=[
            "9 WorkflowTaskStarted",
            "10 WorkflowTaskCompleted",
            "11 WorkflowExecutionContinuedAsNew",
        ],
        tasks=["workflow gone", "activity 5 gone"],
        timers=["USER 6 gone"],
    )
    assert run.state.folded.status is Status.CONTINUED_AS_NEW
    new = run.next
    assert new.begun == Then(
        events=["1 WorkflowExecutionStarted", "2 WorkflowTaskScheduled"],
        tasks=["workflow ready 1"],
    )
    started = new.started
    assert run.last(ev.WorkflowExecutionContinuedAsNew).new_run_id == started.run_id
    assert started.run_id != run_id(1)
    assert started.continued_from_run_id == started.first_run_id == run_id(1)
    assert started.initiator is Initiator.WORKFLOW
    assert (started.workflow_type, started.task_queue, started.input) == (
        "Order",
        QUEUE,
        b"carried on",
    )
    assert (started.memo, started.retry_policy, started.priority) == (b"memo", RETRY, 2)
    assert (started.attempt, started.request_id, started.last_failure) == (1, b"", None)


def test_what_the_command_names_is_different_in_the_next_run() -> None:
    run = Scenario(start(run_timeout_ms=60_000))
    policy = RetryPolicy(7_000)
    run.turn(
        continue_as_new(
            workflow_type="Other",
            task_queue="others",
            header=b"header",
            memo=b"other memo",
            run_timeout_ms=30_000,
            task_timeout_ms=5_000,
            retry_policy=policy,
        )
    )

    started = run.next.started
    assert (started.workflow_type, started.task_queue) == ("Other", "others")
    assert (started.header, started.memo) == (b"header", b"other memo")
    assert (started.run_timeout_ms, started.task_timeout_ms) == (30_000, 5_000)
    assert started.retry_policy == policy
    assert run.next.begun.timers == ["RUN_TIMEOUT 0 +30s"]
    assert run.next.task().queue == "others"


def test_a_chain_goes_on_and_remembers_its_first_run() -> None:
    run = Scenario(start())
    ids = [run_id(1)]
    for _ in range(3):
        run.turn(continue_as_new())
        run = run.next
        assert run.started.first_run_id == run_id(1)
        assert run.started.continued_from_run_id == ids[-1]
        ids.append(run.state.run_id)

    assert len(set(ids)) == 4


def test_commands_before_it_are_carried_out_and_none_may_follow() -> None:
    run = Scenario(start())
    assert run.turn(activity("a"), continue_as_new()).events == [
        *TASK,
        "5 ActivityTaskScheduled",
        "6 WorkflowExecutionContinuedAsNew",
    ]
    other = Scenario(start())
    other.turn(continue_as_new(), timer("t"))
    assert other.last(ev.WorkflowTaskFailed).cause is ev.WorkflowTaskFailedCause.BAD_COMMAND
    assert other.following is None


def test_a_run_does_not_continue_on_events_it_has_not_seen() -> None:
    """Invariant 41: the signal that came meanwhile is seen by this run before it may close."""
    run = Scenario(start())
    token = run.hand_out()
    run.when(signal())

    assert run.when(done(token, continue_as_new())).events == [
        "3 WorkflowTaskStarted",
        "4 WorkflowTaskFailed",
        "5 WorkflowExecutionSignaled",
        "6 WorkflowTaskScheduled",
    ]
    assert run.following is None
    assert run.turn(continue_as_new()).events[-1] == "9 WorkflowExecutionContinuedAsNew"


def test_the_request_to_cancel_is_the_old_runs() -> None:
    run = Scenario(start())
    run.when(cancel())
    run.turn(continue_as_new())

    assert not run.next.state.folded.cancel_requested
    assert run.next.when(cancel(201)).events == ["3 WorkflowExecutionCancelRequested"]


# ---- what a chain knows of its callers


def test_invariant_42_a_repeated_signal_finds_its_request_in_the_next_run() -> None:
    """The effect is once, whichever run of the chain the repeat meets."""
    run = Scenario(start())
    run.when(signal(100))
    run.turn(continue_as_new())
    new = run.next

    assert new.when(signal(100)) == NOTHING
    assert new.when(signal(100, body_hash=b"other")).refused == (
        "INVALID_ARGUMENT REQUEST_ID_REUSED"
    )
    assert new.when(signal(101)).events == ["3 WorkflowExecutionSignaled"]
    new.turn(continue_as_new())
    for number in (100, 101):
        assert new.next.when(signal(number)) == NOTHING
    assert new.next.state.folded.signals == 0


def test_request_ids_are_forgotten_a_day_after_and_not_before() -> None:
    run = Scenario(start())
    run.when(signal(100))
    run.turn(continue_as_new())
    first = run.next
    first.now_us += DAY_US - SECOND_US
    first.when(signal(101))
    first.turn(continue_as_new())
    second = first.next
    assert [one[0] for one in second.started.request_ids] == [request_id(100), request_id(101)]
    second.now_us += 2 * SECOND_US
    second.turn(continue_as_new())

    assert [one[0] for one in second.next.started.request_ids] == [request_id(101)]


def test_of_a_long_run_only_the_ids_of_the_last_day_are_handed_on() -> None:
    """Marks stand every 64 ids: an id counts as of the mark behind it, so none is dropped early."""
    folded = begin(Scenario(start()).started)
    for number in range(200):
        apply(folded, _signaled(folded.next_event_id, number, START_US + number * SECOND_US))
    now_us = START_US + DAY_US + 127 * SECOND_US

    known = handed_on(folded, now_us)

    assert [number for number, _, _ in known] == [n.to_bytes(16, "big") for n in range(128, 200)]
    assert recent_ids(folded, now_us) == 72
    for number, _, time_us in known:
        assert time_us >= START_US + int.from_bytes(number, "big") * SECOND_US
    assert recent_ids(folded, now_us - 1) == 72 + 64
    assert len(handed_on(folded, now_us - 1)) == 72 + 64


def test_a_chain_that_remembers_too_many_ids_refuses_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "REQUEST_IDS_HANDED_MAX", 3)
    run = Scenario(start())
    run.when(signal(100))
    run.when(signal(101))
    run.turn(continue_as_new())
    new = run.next
    new.when(signal(102))

    refused = "RESOURCE_EXHAUSTED TOO_MANY_REQUEST_IDS"
    assert new.when(signal(103)) == Then(refused=refused)
    assert new.when(signal(100)) == NOTHING
    assert new.when(cancel()).events == ["4 WorkflowExecutionCancelRequested"]
    new.now_us += DAY_US
    assert new.when(signal(104)).events == ["5 WorkflowExecutionSignaled"]


def _signaled(event_id: int, number: int, time_us: int) -> ev.WorkflowExecutionSignaled:
    return ev.WorkflowExecutionSignaled(
        event_id, time_us, "paid", b"", "", b"", number.to_bytes(16, "big"), b"hash"
    )


# ---- retry


def test_a_failed_run_is_tried_again_after_its_back_off() -> None:
    run = Scenario(start(retry_policy=RETRY, run_timeout_ms=60_000, input=b"input"))

    assert run.turn(FAIL).events == [*TASK, "5 WorkflowExecutionFailed"]
    failed = run.last(ev.WorkflowExecutionFailed)
    assert failed.retry_state is RetryState.IN_PROGRESS
    again = run.next
    assert failed.new_run_id == again.state.run_id
    assert again.begun == Then(
        events=["1 WorkflowExecutionStarted"],
        timers=["RUN_TIMEOUT 0 +62s", "CRON_OR_RETRY_BACKOFF 0 +2s"],
    )
    started = again.started
    assert (started.attempt, started.initiator, started.input) == (2, Initiator.RETRY, b"input")
    assert started.last_failure == failed.failure
    assert started.first_task_backoff_ms == 2_000
    assert describe(again.state).first_task_us == START_US + 2 * SECOND_US
    assert again.fire(BACKOFF) == Then(
        events=["2 WorkflowTaskScheduled"],
        tasks=["workflow ready 1"],
        timers=["CRON_OR_RETRY_BACKOFF 0 gone"],
    )
    again.turn(FAIL)
    assert again.next.begun.timers == ["RUN_TIMEOUT 0 +64s", "CRON_OR_RETRY_BACKOFF 0 +4s"]
    again.next.fire(BACKOFF)
    again.next.turn(FAIL)
    last = again.next.last(ev.WorkflowExecutionFailed)
    assert last.retry_state is RetryState.MAXIMUM_ATTEMPTS_REACHED
    assert (last.new_run_id, again.next.following) == (b"", None)


def test_an_attempt_without_a_delay_begins_at_once() -> None:
    run = Scenario(start(retry_policy=RETRY))
    run.turn(cmd.FailWorkflow(application(next_retry_delay_ms=0)))

    assert run.next.begun.events == ["1 WorkflowExecutionStarted", "2 WorkflowTaskScheduled"]


@pytest.mark.parametrize(
    ("options", "failure", "why"),
    [
        ({}, {}, RetryState.RETRY_POLICY_NOT_SET),
        ({"retry_policy": RETRY}, {"non_retryable": True}, RetryState.NON_RETRYABLE_FAILURE),
        (
            {"retry_policy": RetryPolicy(non_retryable_error_types=("ValueError",))},
            {},
            RetryState.NON_RETRYABLE_FAILURE,
        ),
        (
            {"retry_policy": RetryPolicy(maximum_attempts=1)},
            {},
            RetryState.MAXIMUM_ATTEMPTS_REACHED,
        ),
        ({"retry_policy": RETRY, "execution_timeout_ms": 2_000}, {}, RetryState.TIMEOUT),
    ],
    ids=["no policy", "non-retryable", "its type", "attempts", "the chain's end"],
)
def test_why_a_failed_run_is_not_tried_again(
    options: dict[str, Any], failure: dict[str, Any], why: RetryState
) -> None:
    run = Scenario(start(**options))
    run.turn(cmd.FailWorkflow(application(**failure)))

    assert run.last(ev.WorkflowExecutionFailed).retry_state is why
    assert run.following is None


def test_invariant_32_no_attempt_follows_a_request_to_cancel() -> None:
    run = Scenario(start(retry_policy=RETRY))
    run.when(cancel())
    run.turn(FAIL)

    assert run.last(ev.WorkflowExecutionFailed).retry_state is RetryState.CANCEL_REQUESTED
    assert run.following is None


@pytest.mark.parametrize("how", ["canceled", "terminated"])
@pytest.mark.parametrize("option", [{"retry_policy": RETRY}, {"cron_schedule": "hourly"}])
def test_what_was_stopped_stays_stopped(how: str, option: dict[str, Any]) -> None:
    run = Scenario(start(**option))
    if BACKOFF in {kind for kind, _ in run.state.timer_rows}:
        run.fire(BACKOFF)
    if how == "canceled":
        run.turn(CANCEL)
    else:
        run.when(terminate())

    assert not run.state.open
    assert run.following is None


def test_the_end_of_a_chain_is_set_by_its_first_run() -> None:
    run = Scenario(start(retry_policy=RETRY, execution_timeout_ms=10_000))
    run.wait(3)
    run.turn(FAIL)
    again = run.next
    assert again.started.execution_deadline_us == START_US + 10 * SECOND_US
    assert again.begun.timers == ["EXECUTION_TIMEOUT 0 +7s", "CRON_OR_RETRY_BACKOFF 0 +2s"]

    assert again.fire(TimerKind.EXECUTION_TIMEOUT) == Then(
        events=["2 WorkflowExecutionTimedOut"],
        timers=["EXECUTION_TIMEOUT 0 gone", "CRON_OR_RETRY_BACKOFF 0 gone"],
    )
    assert again.last(ev.WorkflowExecutionTimedOut).retry_state is RetryState.TIMEOUT
    assert again.following is None


def test_a_run_that_times_out_is_tried_again_and_unseen_signals_go_along() -> None:
    """Invariants 41 and 42: acknowledged, never seen, so the next attempt sees them, in order and once."""
    run = Scenario(start(retry_policy=RETRY, run_timeout_ms=30_000))
    run.when(signal(99))
    run.hand_out()
    run.when(signal(100))
    run.when(signal(101))
    run.fire(TimerKind.RUN_TIMEOUT)

    timed_out = run.last(ev.WorkflowExecutionTimedOut)
    again = run.next
    assert (timed_out.retry_state, timed_out.new_run_id) == (
        RetryState.IN_PROGRESS,
        again.state.run_id,
    )
    assert again.started.last_failure is not None
    assert again.started.last_failure.kind is FailureKind.TIMEOUT
    assert again.begun.events == [
        "1 WorkflowExecutionStarted",
        "2 WorkflowExecutionSignaled",
        "3 WorkflowExecutionSignaled",
    ]
    carried = [e for e in again.events if isinstance(e, ev.WorkflowExecutionSignaled)]
    assert [event.request_id for event in carried] == [request_id(100), request_id(101)]
    for number in (99, 100, 101):
        assert again.when(signal(number)) == NOTHING


# ---- while it waits for its time


def waiting() -> Scenario:
    run = Scenario(start(retry_policy=RETRY))
    run.turn(FAIL)
    return run.next


def test_a_signal_during_the_back_off_waits_for_its_end() -> None:
    run = waiting()

    assert run.when(signal()) == Then(events=["2 WorkflowExecutionSignaled"])
    assert run.fire(BACKOFF).events == ["3 WorkflowTaskScheduled"]


def test_a_cancellation_during_the_back_off_wakes_the_run() -> None:
    run = waiting()

    assert run.when(cancel()) == Then(
        events=["2 WorkflowExecutionCancelRequested", "3 WorkflowTaskScheduled"],
        tasks=["workflow ready 1"],
        timers=["CRON_OR_RETRY_BACKOFF 0 gone"],
    )
    assert run.turn(CANCEL).events[-1] == "6 WorkflowExecutionCanceled"


def test_a_termination_during_the_back_off_ends_the_run() -> None:
    run = waiting()

    assert run.when(terminate()) == Then(
        events=["2 WorkflowExecutionTerminated"], timers=["CRON_OR_RETRY_BACKOFF 0 gone"]
    )
    assert run.when(signal()) == CLOSED


def test_after_a_take_over_the_back_off_still_ends() -> None:
    run = waiting()
    run.reload()

    assert run.fire(BACKOFF).events == ["2 WorkflowTaskScheduled"]


# ---- cron


def test_a_cron_run_begins_at_the_next_time() -> None:
    run = Scenario(start(cron_schedule="hourly"), now_us=START_US + 600 * SECOND_US)

    assert run.begun.events == ["1 WorkflowExecutionStarted"]
    assert run.begun.timers == ["CRON_OR_RETRY_BACKOFF 0 +3000s"]


@pytest.mark.parametrize("closing", [COMPLETE, FAIL], ids=["completed", "failed"])
def test_the_next_cron_run_begins_when_one_has_closed(closing: cmd.Command) -> None:
    run = Scenario(start(cron_schedule="hourly"))
    run.fire(BACKOFF)
    run.wait(60)
    run.turn(closing)

    again = run.next
    assert again.begun.timers == ["CRON_OR_RETRY_BACKOFF 0 +3540s"]
    assert again.started.initiator is Initiator.CRON_SCHEDULE
    assert again.started.attempt == 1


def test_the_last_result_outlives_a_failure() -> None:
    run = Scenario(start(cron_schedule="hourly"))
    run.fire(BACKOFF)
    run.turn(COMPLETE)
    second = run.next
    assert (second.started.last_completion_result, second.started.last_failure) == (b"done", None)
    second.fire(BACKOFF)
    second.turn(FAIL)
    third = second.next
    assert third.started.last_completion_result == b"done"
    assert third.started.last_failure == FAIL.failure
    third.fire(BACKOFF)
    third.turn(continue_as_new())
    assert third.next.started.last_completion_result == b"done"
    assert third.next.started.cron_schedule == "hourly"


def test_attempts_come_before_the_next_cron_run() -> None:
    run = Scenario(
        start(cron_schedule="hourly", retry_policy=RetryPolicy(1_000, maximum_attempts=2))
    )
    run.fire(BACKOFF)
    run.turn(FAIL)
    assert run.next.begun.timers == ["CRON_OR_RETRY_BACKOFF 0 +1s"]
    run.next.fire(BACKOFF)
    run.next.turn(FAIL)

    failed = run.next.last(ev.WorkflowExecutionFailed)
    assert failed.retry_state is RetryState.MAXIMUM_ATTEMPTS_REACHED
    assert run.next.next.started.initiator is Initiator.CRON_SCHEDULE
    assert run.next.next.started.attempt == 1


def test_a_clock_that_lags_does_not_find_the_same_slot_again() -> None:
    """A run that was waked 400 ms early by this node's clock: its own time is not the next one."""
    run = Scenario(start(cron_schedule="hourly"))
    run.fire(BACKOFF)
    run.now_us -= 400_000
    run.turn(COMPLETE)

    again = run.next
    due_us = again.state.timer_rows[BACKOFF, 0].due_us
    assert due_us == START_US + 2 * HOUR_US


def test_a_cron_chain_ends_with_its_execution_timeout_and_when_it_is_canceled() -> None:
    run = Scenario(start(cron_schedule="hourly", execution_timeout_ms=3_600_000))
    run.fire(BACKOFF)
    run.turn(COMPLETE)
    assert run.following is None
    other = Scenario(start(cron_schedule="hourly"))
    other.when(cancel())
    other.turn(COMPLETE)
    assert (other.state.folded.status, other.following) == (Status.COMPLETED, None)


def test_a_schedule_that_never_fires_is_refused_and_terminates_nothing() -> None:
    run = Scenario(start())
    begun = run.start(
        start(2, cron_schedule="never", id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING)
    )

    assert begun.refused == "INVALID_ARGUMENT INVALID_ARGUMENT"
    assert run.rejected is not None
    assert run.rejected.field == "cron_schedule"
    assert run.state.open


# ---- the id's policies on a run that follows


def test_a_start_meets_the_run_that_is_open_now() -> None:
    new = waiting()
    assert new.start(start(2)).refused == "ALREADY_EXISTS WORKFLOW_ALREADY_STARTED"
    used = new.start(
        start(
            3,
            id_conflict_policy=IdConflictPolicy.USE_EXISTING,
            signal=StartSignal("paid", b""),
        )
    )
    assert used.old.events == ["2 WorkflowExecutionSignaled"]
    ended = new.start(start(4, id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING))
    assert ended.old.events == ["3 WorkflowExecutionTerminated"]
    assert ended.new.state.run_id == run_id(4)


def test_a_failed_chain_may_be_started_again_where_only_failures_may() -> None:
    run = waiting()
    run.fire(BACKOFF)
    run.turn(COMPLETE)
    policy = IdReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY

    assert run.start(start(2, id_reuse_policy=policy)).refused == (
        "ALREADY_EXISTS WORKFLOW_ALREADY_STARTED"
    )


def test_the_ids_of_runs_that_follow_are_uuids_and_differ() -> None:
    ids = {next_run_id(run_id(n), number) for n in range(4) for number in range(4)}

    assert len(ids) == 16
    assert {len(one) for one in ids} == {16}
    assert {one[6] >> 4 for one in ids} == {8}
