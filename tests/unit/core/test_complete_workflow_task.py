"""A workflow task comes back (semantics §3): its commands become events, what waited gets its numbers."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.core.scenario import (
    CANCEL,
    COMPLETE,
    FAIL,
    IDENTITY,
    NOTHING,
    SECOND_US,
    STALE,
    START_US,
    WORKER,
    Scenario,
    Then,
    activity,
    application,
    cancel,
    canceled,
    completed,
    done,
    failed,
    put_back,
    save_start,
    signal,
    start,
    task_failed,
    timed_out,
    timer,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.failures import FailureKind, RetryState
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.retry import DEFAULT_ACTIVITY_RETRY, RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TimerKind

TASK = ["3 WorkflowTaskStarted", "4 WorkflowTaskCompleted"]


# ---- without commands


def test_started_and_completed_are_written_together() -> None:
    run = Scenario(start())
    run.wait(1)
    token = run.hand_out()
    run.wait(2)

    assert run.when(done(token)) == Then(events=TASK, tasks=["workflow gone"])
    assert run.last(ev.WorkflowTaskStarted) == ev.WorkflowTaskStarted(
        3, START_US + SECOND_US, 2, IDENTITY, run.last(ev.WorkflowTaskStarted).history_bytes, False
    )
    assert run.last(ev.WorkflowTaskCompleted) == ev.WorkflowTaskCompleted(
        4, START_US + 3 * SECOND_US, 2, 3, IDENTITY, "build-1"
    )
    assert run.state.folded.previous_started_id == 3


def test_started_says_how_large_the_history_was_at_hand_out() -> None:
    run = Scenario(start())
    size = run.state.history_bytes
    run.turn()

    assert size > 0
    assert run.last(ev.WorkflowTaskStarted).history_bytes == size


def test_a_worker_that_keeps_the_workflow_is_remembered() -> None:
    run = Scenario(start())

    run.turn(cached=True)
    assert run.state.sticky_worker_id == WORKER
    run.when(signal())
    run.turn(cached=False)
    assert run.state.sticky_worker_id == b""


def test_invariant_7_time_does_not_decrease_when_the_clock_goes_back() -> None:
    run = Scenario(start())
    run.wait(-5)
    token = run.hand_out()
    run.wait(-5)
    run.when(signal())
    run.when(done(token, timer("t")))

    times = [event.time_us for event in run.events]
    assert times == [START_US] * 7


def test_invariant_7_a_start_is_not_dated_before_what_stands_in_front_of_it() -> None:
    """Whatever the owner that handed the task out took for the time."""
    run = Scenario(start())
    token = msgspec.structs.replace(run.hand_out(), started_us=START_US - SECOND_US)
    run.when(done(token))

    assert run.last(ev.WorkflowTaskStarted).time_us == START_US


# ---- commands, in their order


def test_commands_become_events_in_their_order() -> None:
    run = Scenario(start())

    assert run.turn(timer("t"), activity("a"), timer("u", 1)) == Then(
        events=[*TASK, "5 TimerStarted", "6 ActivityTaskScheduled", "7 TimerStarted"],
        tasks=["activity 6 ready 1", "workflow gone"],
        timers=["USER 5 +60s", "USER 7 +1s"],
    )


def test_an_activity_is_scheduled_as_asked() -> None:
    policy = RetryPolicy(maximum_attempts=3)
    run = Scenario(start(priority=4))
    run.turn(
        activity(
            "a",
            activity_type="refund",
            task_queue="cards",
            input=b"in",
            header=b"h",
            schedule_to_close_timeout_ms=60_000,
            schedule_to_start_timeout_ms=30_000,
            start_to_close_timeout_ms=20_000,
            heartbeat_timeout_ms=5_000,
            retry_policy=policy,
            priority=1,
        )
    )

    assert run.last(ev.ActivityTaskScheduled) == ev.ActivityTaskScheduled(
        5,
        START_US,
        "a",
        "refund",
        "cards",
        b"in",
        b"h",
        60_000,
        30_000,
        20_000,
        5_000,
        4,
        policy,
        1,
    )
    assert (run.task("a").queue, run.task("a").priority) == ("cards", 1)


def test_an_activity_is_scheduled_with_the_defaults() -> None:
    run = Scenario(start(priority=4))
    run.turn(activity("a", start_to_close_timeout_ms=0, schedule_to_close_timeout_ms=60_000))

    scheduled = run.last(ev.ActivityTaskScheduled)
    assert scheduled.task_queue == "orders"
    assert scheduled.start_to_close_timeout_ms == 60_000
    assert scheduled.retry_policy == DEFAULT_ACTIVITY_RETRY
    assert scheduled.priority == 4


def test_the_timeouts_of_an_activity_become_timers() -> None:
    run = Scenario(start())
    then = run.turn(
        activity("a", schedule_to_start_timeout_ms=5_000, schedule_to_close_timeout_ms=60_000)
    )

    assert then.timers == ["SCHEDULE_TO_START 5 +5s", "SCHEDULE_TO_CLOSE 5 +60s"]


def test_a_timer_is_started_as_asked() -> None:
    run = Scenario(start())
    run.turn(timer("t", 2.5))

    assert run.last(ev.TimerStarted) == ev.TimerStarted(5, START_US, "t", 2_500, 4)
    assert run.state.folded.timers["t"].fire_us == START_US + 2_500_000


def test_a_timer_is_canceled() -> None:
    run = Scenario(start())
    run.turn(timer("t"))
    run.when(signal())

    assert run.turn(cmd.CancelTimer("t")) == Then(
        events=["8 WorkflowTaskStarted", "9 WorkflowTaskCompleted", "10 TimerCanceled"],
        tasks=["workflow gone"],
        timers=["USER 5 gone"],
    )
    assert run.last(ev.TimerCanceled) == ev.TimerCanceled(10, START_US, "t", 5, 9, IDENTITY)


def test_a_timer_that_begins_and_ends_in_one_task_has_no_row() -> None:
    run = Scenario(start())

    assert run.turn(timer("t"), cmd.CancelTimer("t"), timer("t", 5)) == Then(
        events=[*TASK, "5 TimerStarted", "6 TimerCanceled", "7 TimerStarted"],
        tasks=["workflow gone"],
        timers=["USER 7 +5s"],
    )


def test_invariant_22_a_timer_that_fired_unseen_is_canceled_all_the_same() -> None:
    run = Scenario(start())
    run.turn(timer("t"))
    run.when(signal())
    token = run.hand_out()
    assert run.fire(TimerKind.USER, 5) == Then(buffered=["TimerFired"], timers=["USER 5 gone"])

    assert run.when(done(token, cmd.CancelTimer("t"))) == Then(
        events=["8 WorkflowTaskStarted", "9 WorkflowTaskCompleted", "10 TimerCanceled"],
        tasks=["workflow gone"],
    )
    run.reload()
    assert run.state.buffered == []


def test_invariant_22_only_the_canceled_timer_is_taken_from_what_waits() -> None:
    run = Scenario(start())
    run.turn(timer("t"), timer("u"))
    run.when(signal(1))
    token = run.hand_out()
    run.fire(TimerKind.USER, 5)
    run.fire(TimerKind.USER, 6)
    run.when(signal(2))

    assert run.when(done(token, cmd.CancelTimer("t"))).events[2:] == [
        "11 TimerCanceled",
        "12 TimerFired",
        "13 WorkflowExecutionSignaled",
        "14 WorkflowTaskScheduled",
    ]
    assert run.last(ev.TimerFired).timer_id == "u"


# ---- cancellation of an activity


def asked_to_cancel(run: Scenario) -> Then:
    if not run.state.folded.previous_started_id or not run.state.tasks.get(0):
        run.when(signal(99))
    return run.turn(cmd.RequestCancelActivity(5))


def test_an_activity_that_nobody_started_is_canceled_at_once() -> None:
    run = Scenario(start())
    run.turn(activity("a", schedule_to_close_timeout_ms=60_000))

    assert asked_to_cancel(run) == Then(
        events=[
            "8 WorkflowTaskStarted",
            "9 WorkflowTaskCompleted",
            "10 ActivityTaskCancelRequested",
            "11 ActivityTaskCanceled",
            "12 WorkflowTaskScheduled",
        ],
        tasks=["workflow ready 1", "workflow gone", "activity 5 gone"],
        timers=["SCHEDULE_TO_CLOSE 5 gone"],
    )
    assert run.last(ev.ActivityTaskCanceled) == ev.ActivityTaskCanceled(
        11, START_US, b"", 10, 5, 0, IDENTITY
    )


def test_an_activity_that_backs_off_is_canceled_at_once() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    run.when(failed(run.hand_out("a")))

    then = asked_to_cancel(run)

    assert then.events[2:4] == ["10 ActivityTaskCancelRequested", "11 ActivityTaskCanceled"]
    assert then.timers == ["ACTIVITY_RETRY 5 gone"]


@pytest.mark.parametrize("saved", [False, True], ids=["hand-out unsaved", "hand-out saved"])
def test_an_activity_that_runs_is_asked(saved: bool) -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    token = run.hand_out("a")
    if saved:
        run.when(save_start(token))
        run.reload()

    assert asked_to_cancel(run) == Then(
        events=[
            "8 WorkflowTaskStarted",
            "9 WorkflowTaskCompleted",
            "10 ActivityTaskCancelRequested",
        ],
        tasks=["workflow gone"],
    )
    assert run.when(canceled(token)).events[:2] == [
        "11 ActivityTaskStarted",
        "12 ActivityTaskCanceled",
    ]


def test_an_activity_is_asked_once() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    run.hand_out("a")
    asked_to_cancel(run)
    run.when(signal(98))

    assert run.turn(cmd.RequestCancelActivity(5)).events == [
        "13 WorkflowTaskStarted",
        "14 WorkflowTaskCompleted",
    ]


def test_an_activity_whose_outcome_waits_in_the_inbox_keeps_that_outcome() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    token = run.hand_out("a")
    run.when(signal())
    workflow = run.hand_out()
    run.when(completed(token))

    assert run.when(done(workflow, cmd.RequestCancelActivity(5))).events[2:] == [
        "10 ActivityTaskCancelRequested",
        "11 ActivityTaskStarted",
        "12 ActivityTaskCompleted",
        "13 WorkflowTaskScheduled",
    ]


def test_an_activity_whose_time_out_waits_in_the_inbox_was_never_started_and_stays_so() -> None:
    run = Scenario(start())
    run.turn(activity("a", schedule_to_start_timeout_ms=5_000))
    run.when(signal())
    workflow = run.hand_out()
    run.fire(TimerKind.SCHEDULE_TO_START, 5)

    assert run.when(done(workflow, cmd.RequestCancelActivity(5))).events[2:] == [
        "10 ActivityTaskCancelRequested",
        "11 ActivityTaskTimedOut",
        "12 WorkflowTaskScheduled",
    ]


def test_an_activity_that_is_over_cannot_be_asked_and_nothing_happens() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    run.when(completed(run.hand_out("a")))

    assert run.turn(cmd.RequestCancelActivity(5)).events == [
        "9 WorkflowTaskStarted",
        "10 WorkflowTaskCompleted",
    ]


def test_two_waiting_activities_are_canceled_in_one_task() -> None:
    run = Scenario(start())
    run.turn(activity("a"), activity("b"))
    run.when(signal(1))
    token = run.hand_out()
    run.when(signal(2))

    then = run.when(done(token, cmd.RequestCancelActivity(5), cmd.RequestCancelActivity(6)))

    assert sorted(name.split()[1] for name in then.events[2:]) == [
        "ActivityTaskCancelRequested",
        "ActivityTaskCancelRequested",
        "ActivityTaskCanceled",
        "ActivityTaskCanceled",
        "WorkflowExecutionSignaled",
        "WorkflowTaskScheduled",
    ]
    assert run.state.folded.activities == {}


# ---- the end


@pytest.mark.parametrize(
    ("command", "event", "status"),
    [
        (COMPLETE, "WorkflowExecutionCompleted", Status.COMPLETED),
        (FAIL, "WorkflowExecutionFailed", Status.FAILED),
        (CANCEL, "WorkflowExecutionCanceled", Status.CANCELED),
    ],
    ids=["complete", "fail", "cancel"],
)
def test_a_closing_command_ends_the_run_and_all_that_is_pending(
    command: cmd.ClosingCommand, event: str, status: Status
) -> None:
    run = Scenario(start(run_timeout_ms=600_000))
    run.turn(activity("a"), timer("t"))
    run.when(signal())

    assert run.turn(command) == Then(
        events=["9 WorkflowTaskStarted", "10 WorkflowTaskCompleted", f"11 {event}"],
        tasks=["workflow gone", "activity 5 gone"],
        timers=["RUN_TIMEOUT 0 gone", "USER 6 gone"],
    )
    assert run.state.folded.status is status


def test_the_end_says_how_it_came() -> None:
    ended = {command: Scenario(start()) for command in (COMPLETE, FAIL, CANCEL)}
    for command, run in ended.items():
        run.turn(command)

    assert ended[COMPLETE].events[-1] == ev.WorkflowExecutionCompleted(5, START_US, b"done", 4)
    assert ended[CANCEL].events[-1] == ev.WorkflowExecutionCanceled(5, START_US, b"cleaned up", 4)
    assert ended[FAIL].events[-1] == ev.WorkflowExecutionFailed(
        5, START_US, application("no stock", "OutOfStock"), RetryState.RETRY_POLICY_NOT_SET, 4
    )


def test_commands_before_the_closing_one_are_carried_out() -> None:
    run = Scenario(start())

    assert run.turn(activity("a"), COMPLETE) == Then(
        events=[*TASK, "5 ActivityTaskScheduled", "6 WorkflowExecutionCompleted"],
        tasks=["workflow gone"],
    )


def test_a_run_that_cancels_a_waiting_activity_and_ends_has_its_end_last() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    run.when(signal())

    run.turn(cmd.RequestCancelActivity(5), COMPLETE)

    assert run.names[-1] == "WorkflowExecutionCompleted"
    assert not run.state.open


# ---- buffering: what arrives while the task is out


def test_invariant_18_nothing_stands_between_started_and_completed() -> None:
    run = Scenario(start())
    run.turn(activity("a"), activity("b"), timer("t"))
    a, b = run.hand_out("a"), run.hand_out("b")
    run.when(signal(1))
    token = run.hand_out()
    assert run.when(completed(a)).buffered == ["ActivityTaskStarted", "ActivityTaskCompleted"]
    assert run.when(signal(2)).buffered == ["WorkflowExecutionSignaled"]
    assert run.fire(TimerKind.USER, 7).buffered == ["TimerFired"]
    assert run.when(cancel()).buffered == ["WorkflowExecutionCancelRequested"]
    assert run.when(failed(b, application(non_retryable=True))).buffered == [
        "ActivityTaskStarted",
        "ActivityTaskFailed",
    ]

    assert run.when(done(token, timer("u"))) == Then(
        events=[
            "10 WorkflowTaskStarted",
            "11 WorkflowTaskCompleted",
            "12 TimerStarted",
            "13 ActivityTaskStarted",
            "14 ActivityTaskCompleted",
            "15 WorkflowExecutionSignaled",
            "16 TimerFired",
            "17 WorkflowExecutionCancelRequested",
            "18 ActivityTaskStarted",
            "19 ActivityTaskFailed",
            "20 WorkflowTaskScheduled",
        ],
        tasks=["workflow ready 1", "workflow gone"],
        timers=["USER 12 +60s"],
    )


def test_a_buffered_outcome_learns_the_number_of_its_started_event() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    a = run.hand_out("a")
    run.when(signal())
    token = run.hand_out()
    run.when(completed(a))
    run.when(done(token))

    assert (
        run.last(ev.ActivityTaskCompleted).started_event_id
        == run.last(ev.ActivityTaskStarted).event_id
    )


def test_invariant_7_an_event_that_waited_is_not_dated_before_what_stands_in_front_of_it() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.wait(3)
    run.when(signal(1))
    run.wait(4)
    run.when(done(token))

    assert run.last(ev.WorkflowExecutionSignaled).time_us == START_US + 7 * SECOND_US


def test_events_decided_in_the_batch_of_the_completion_leave_no_inbox_row() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.decide(signal())
    run.decide(done(token))

    assert run.commit() == Then(
        events=[*TASK, "5 WorkflowExecutionSignaled", "6 WorkflowTaskScheduled"],
        tasks=["workflow ready 1", "workflow gone"],
    )
    assert run.saved.inbox == {}


# ---- UNHANDLED_COMMAND


@pytest.mark.parametrize("command", [COMPLETE, FAIL, CANCEL], ids=["complete", "fail", "cancel"])
def test_a_run_does_not_end_on_events_it_has_not_seen(command: cmd.ClosingCommand) -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(signal())

    assert run.when(done(token, timer("t"), command, cached=True)) == Then(
        events=[
            "3 WorkflowTaskStarted",
            "4 WorkflowTaskFailed",
            "5 WorkflowExecutionSignaled",
            "6 WorkflowTaskScheduled",
        ],
        tasks=["workflow ready 1", "workflow gone"],
    )
    assert run.last(ev.WorkflowTaskFailed) == ev.WorkflowTaskFailed(
        4, START_US, 2, 3, WorkflowTaskFailedCause.UNHANDLED_COMMAND, None, IDENTITY
    )
    assert run.state.sticky_worker_id == b""
    assert run.turn(COMPLETE).events[-1] == "9 WorkflowExecutionCompleted"


def test_a_run_that_was_stuck_and_ran_again_is_listed_as_stuck_no_more() -> None:
    """Lists are never stale: whatever ends a row of failed attempts takes `stuck` off the run's row."""
    run = stuck()
    token = run.hand_out()
    run.when(signal(50))
    assert "stuck" in run.saved.visibility[run.state.run_id].attrs

    run.when(done(token, COMPLETE))

    assert run.task().attempt == 1
    assert run.saved.visibility[run.state.run_id].attrs == "{}"


def test_a_run_that_was_stuck_and_went_on_is_listed_as_stuck_no_more() -> None:
    run = stuck()

    run.turn()

    assert run.saved.visibility[run.state.run_id].attrs == "{}"


def stuck() -> Scenario:
    run = Scenario(start())
    for _ in range(5):
        run.when(task_failed(run.hand_out()))
        run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    return run


# ---- transient attempts


def test_a_transient_attempt_writes_its_scheduled_event_when_it_succeeds() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    token = run.hand_out()
    assert (token.scheduled_event_id, token.started_event_id, token.attempt) == (0, 6, 2)

    assert run.when(done(token, timer("t"))) == Then(
        events=[
            "5 WorkflowTaskScheduled",
            "6 WorkflowTaskStarted",
            "7 WorkflowTaskCompleted",
            "8 TimerStarted",
        ],
        tasks=["workflow gone"],
        timers=["USER 8 +60s"],
    )
    assert run.last(ev.WorkflowTaskScheduled).attempt == 2
    assert run.last(ev.WorkflowTaskStarted).scheduled_event_id == 5


def test_the_history_of_a_transient_attempt_says_what_its_worker_saw() -> None:
    """The worker was shown Scheduled and Started with the time of the hand-out (history.handout): the workflow's
    `now()` must be the same when the history is replayed."""
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    token = run.hand_out()
    run.wait(3)
    run.when(done(token))

    assert run.last(ev.WorkflowTaskScheduled).time_us == token.started_us
    assert run.last(ev.WorkflowTaskStarted).time_us == token.started_us


def test_a_transient_attempt_that_may_not_end_the_run_is_written_as_failed() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    token = run.hand_out()
    run.when(signal())

    assert run.when(done(token, COMPLETE)).events == [
        "5 WorkflowTaskScheduled",
        "6 WorkflowTaskStarted",
        "7 WorkflowTaskFailed",
        "8 WorkflowExecutionSignaled",
        "9 WorkflowTaskScheduled",
    ]


def test_a_transient_attempt_buffers_what_arrives() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    token = run.hand_out()

    assert run.when(signal()) == Then(buffered=["WorkflowExecutionSignaled"])
    assert run.when(done(token)).events[3:] == [
        "8 WorkflowExecutionSignaled",
        "9 WorkflowTaskScheduled",
    ]


# ---- continue-as-new is suggested


@pytest.mark.parametrize(("suggest_at", "suggested"), [(2, True), (3, False)])
def test_invariant_8_continue_as_new_is_suggested_by_events(
    suggest_at: int, suggested: bool
) -> None:
    run = Scenario(start(), limits=RunLimits(history_events_suggest=suggest_at))
    run.turn()

    assert run.last(ev.WorkflowTaskStarted).suggest_continue_as_new is suggested


def test_invariant_8_continue_as_new_is_suggested_by_bytes() -> None:
    small = Scenario(start())
    size = small.state.history_bytes

    for limit, suggested in ((size, False), (size - 1, True)):
        run = Scenario(start(), limits=RunLimits(history_bytes_suggest=limit))
        run.turn()
        assert run.last(ev.WorkflowTaskStarted).suggest_continue_as_new is suggested


# ---- commands that cannot be carried out: the task fails, never the run (B36, B37)

LIMITS = RunLimits(pending_activities_max=3, pending_timers_max=3, commands_max=8)
BAD: dict[str, tuple[list[cmd.Command], str]] = {
    "B37: a command after the closing one": ([COMPLETE, timer("x")], "more commands follow it"),
    "B37: two closing commands": ([COMPLETE, COMPLETE], "more commands follow it"),
    "B37: an activity id that is pending": ([activity("a")], "'a' is pending already"),
    "B37: an activity id twice": ([activity("x"), activity("x")], "'x' is pending already"),
    "B37: a timer id that is pending": ([timer("t")], "'t' is pending already"),
    "B37: a timer id twice": ([timer("x"), timer("x")], "'x' is pending already"),
    "B37: an unknown timer canceled": ([cmd.CancelTimer("x")], "no timer 'x' is pending"),
    "B37: a timer canceled twice": (
        [cmd.CancelTimer("t"), cmd.CancelTimer("t")],
        "no timer 't' is pending",
    ),
    "an activity of event 0 canceled": (
        [cmd.RequestCancelActivity(0)],
        "no activity was scheduled by event 0",
    ),
    "an activity of the future canceled": (
        [cmd.RequestCancelActivity(99)],
        "no activity was scheduled by event 99",
    ),
    "B36: too many pending activities": (
        [activity("x"), activity("y"), activity("z")],
        "more than 3 pending activities",
    ),
    "B36: too many pending timers": (
        [timer("x"), timer("y"), timer("z")],
        "more than 3 pending timers",
    ),
    "B36: too many commands": ([timer(str(n)) for n in range(9)], "at most 8"),
}


def with_one_of_each(limits: RunLimits = LIMITS) -> Scenario:
    run = Scenario(start(), limits=limits)
    run.turn(activity("a"), timer("t"))
    run.when(signal())
    return run


@pytest.mark.parametrize("name", BAD)
def test_a_bad_command_fails_the_task_and_nothing_of_the_list_happens(name: str) -> None:
    commands, message = BAD[name]
    run = with_one_of_each()
    pending = msgspec.msgpack.encode([run.state.folded.activities, run.state.folded.timers])

    assert run.turn(timer("first"), *commands) == Then(
        events=["9 WorkflowTaskStarted", "10 WorkflowTaskFailed"],
        tasks=["workflow backoff 2"],
        timers=["WORKFLOW_TASK_BACKOFF 0 +1s"],
    )
    failure = run.last(ev.WorkflowTaskFailed)
    assert failure.cause is WorkflowTaskFailedCause.BAD_COMMAND
    assert failure.failure is not None
    assert message in failure.failure.message
    assert (failure.failure.kind, failure.failure.non_retryable) == (FailureKind.SERVER, True)
    assert pending == msgspec.msgpack.encode([run.state.folded.activities, run.state.folded.timers])
    assert run.state.open


@pytest.mark.parametrize("name", BAD)
def test_b37_a_task_with_a_bad_command_is_rescheduled_and_can_succeed(name: str) -> None:
    run = with_one_of_each()
    run.turn(timer("first"), *BAD[name][0])

    assert run.fire(TimerKind.WORKFLOW_TASK_BACKOFF).tasks == ["workflow ready 2", "workflow gone"]
    assert run.turn(COMPLETE).events[-1] == "14 WorkflowExecutionCompleted"


def test_b36_a_list_right_at_the_limits_is_carried_out() -> None:
    run = with_one_of_each()

    then = run.turn(
        activity("x"),
        activity("y"),
        timer("x"),
        timer("y"),
        cmd.CancelTimer("t"),
        timer("t"),
        cmd.RequestCancelActivity(5),
        cmd.RequestCancelActivity(5),
    )

    assert "10 WorkflowTaskCompleted" in then.events


def test_b36_ten_thousand_commands_fail_the_task() -> None:
    run = Scenario(start())

    then = run.turn(*[activity(str(number)) for number in range(10_000)])

    assert then.events == ["3 WorkflowTaskStarted", "4 WorkflowTaskFailed"]
    assert run.state.folded.activities == {}


def test_the_first_bad_command_is_named_by_its_place() -> None:
    run = with_one_of_each()
    run.turn(timer("first"), cmd.CancelTimer("x"), cmd.CancelTimer("y"))

    failure = run.last(ev.WorkflowTaskFailed).failure
    assert failure is not None
    assert failure.message.startswith("command 1 (CancelTimer): ")


def test_a_bad_command_does_not_lose_what_waits() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(signal())

    assert run.when(done(token, cmd.CancelTimer("x"))).events == [
        "3 WorkflowTaskStarted",
        "4 WorkflowTaskFailed",
        "5 WorkflowExecutionSignaled",
    ]


# ---- duplicates and stale tokens: NOT_FOUND, and nothing changes


def test_a_completion_counts_once() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(done(token))

    assert run.when(done(token)) == STALE
    assert run.when(task_failed(token)) == STALE
    assert run.when(timed_out(token)) == NOTHING
    assert run.when(put_back(token)) == NOTHING
    assert run.when(save_start(token)) == NOTHING


def test_a_completion_twice_in_one_batch_counts_once() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.decide(done(token, timer("t")))

    assert run.decide(done(token, timer("t"))) == (None, STALE.refused)
    assert run.commit().events == [*TASK, "5 TimerStarted"]


def test_a_completion_of_an_earlier_task_is_stale() -> None:
    run = Scenario(start())
    first = run.hand_out()
    run.when(done(first))
    run.when(signal())
    run.hand_out()

    assert run.when(done(first, COMPLETE)) == STALE


def test_a_completion_of_an_earlier_hand_out_is_stale() -> None:
    run = Scenario(start())
    first = run.hand_out()
    run.when(put_back(first))
    second = run.hand_out()

    assert run.when(done(first)) == STALE
    assert run.when(done(second)).events == TASK


def test_a_completion_of_an_earlier_attempt_is_stale() -> None:
    run = Scenario(start())
    first = run.hand_out()
    run.when(timed_out(first))

    assert run.when(done(first)) == STALE
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    assert run.when(done(first)) == STALE
    run.hand_out()
    assert run.when(done(first)) == STALE


def test_a_token_of_an_activity_does_not_complete_a_workflow_task() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    token = run.hand_out("a")

    assert run.when(done(token)) == STALE
