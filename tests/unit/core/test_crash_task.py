"""Tasks that crash their workers (design §7): what is counted, what is forgiven, and when they may be tried again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.scenario import (
    COMPLETE,
    IDENTITY,
    NOTHING,
    SECOND_US,
    STALE,
    WORKER,
    Scenario,
    Then,
    activity,
    came_back,
    completed,
    crashed,
    died,
    done,
    failed,
    put_back,
    save_start,
    signal,
    start,
    task_failed,
    timed_out,
)
from tests.unit.core.test_activity_operations import pause, reset, unpause

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.describe import describe
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.explain import WaitKind, explain
from perdure_engine.core.failures import FailureKind
from perdure_engine.core.ids import queue_number
from perdure_engine.core.poison import SURGICAL
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskRecord, TaskState, TimerKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.core.versions import bucket

MINUTE_US = 60 * SECOND_US
OTHER = b"worker-2".ljust(16, b".")
ONCE = RetryPolicy(maximum_attempts=1)
both = pytest.mark.parametrize("name", ["", "a"], ids=["workflow task", "activity"])


def with_activity(**options: Any) -> Scenario:
    run = Scenario(start())
    run.turn(activity("a", **options))
    return run


def given(name: str) -> Scenario:
    return with_activity() if name else Scenario(start())


def backoff(run: Scenario, name: str) -> tuple[TimerKind, int]:
    return (
        (TimerKind.ACTIVITY_RETRY, run.key_of(name))
        if name
        else (TimerKind.WORKFLOW_TASK_BACKOFF, 0)
    )


def poison(run: Scenario, name: str = "a") -> None:
    """Three workers die with it in hand."""
    for _ in range(3):
        run.when(died(run.hand_out(name)))


def count(run: Scenario, name: str = "a") -> int:
    crashes = run.task(name).crashes
    return crashes.count if crashes is not None else 0


def in_pool(run: Scenario, record: TaskRecord, pool: str) -> bool:
    name = bucket(record.queue, "", pool)
    return record.queue_no == queue_number(run.started.namespace_id, record.kind, name)


# ---- counted


@both
def test_invariant_37_three_dead_workers_in_a_row_poison_it_in_the_same_decision(name: str) -> None:
    """The third one puts it aside; the first two are tried again at once, and use no attempt."""
    run = given(name)
    for number in (1, 2):
        run.when(died(run.hand_out(name)))
        record = run.task(name)
        assert (record.state, record.attempt, record.pool) == (TaskState.READY, 1, "")
        assert in_pool(run, record, "")
        assert count(run, name) == number
        assert record.isolated == (number == 2)

    then = run.when(died(run.hand_out(name)))

    kind = "activity 5" if name else "workflow"
    assert then.tasks == [f"{kind} backoff 1", f"{kind} gone"]
    timer, reference = backoff(run, name)
    assert then.timers == [f"{timer.name} {reference} +60s"]
    record = run.task(name)
    assert (record.pool, record.crashes is not None) == (SURGICAL, True)
    assert in_pool(run, record, SURGICAL), "a book of its own (invariant 40)"
    run.reload()
    assert count(run, name) == 3


@both
def test_invariant_37_delays_of_1_5_30_and_30_minutes_never_early(name: str) -> None:
    """Each by a timer row; nobody gets it before."""
    run = given(name)
    poison(run, name)
    for minutes in (1, 5, 30, 30, 30):
        record = run.task(name)
        assert record.state is TaskState.BACKOFF
        assert record.next_attempt_us == run.now_us + minutes * MINUTE_US
        row = run.state.timer_rows[backoff(run, name)]
        assert row.due_us == record.next_attempt_us
        assert row.wake_us >= row.due_us
        run.fire(*backoff(run, name))
        record = run.task(name)
        assert (record.state, record.pool) == (TaskState.READY, SURGICAL)
        assert in_pool(run, record, SURGICAL)
        run.when(died(run.hand_out(name)))


@both
def test_invariant_35_goodbyes_and_what_nobody_saw_are_not_counted(name: str) -> None:
    """A worker that says goodbye, that never got it, or that was lost with the engine: no crash."""
    run = given(name)
    for worker_dead in (False, True):
        token = run.hand_out(name)
        run.when(put_back(token, worker_dead=worker_dead))
    token = run.hand_out(name)
    run.when(save_start(token))
    run.reload()
    run.when(put_back(token))

    assert run.task(name).aside is None
    poison(run, name)
    run.fire(*backoff(run, name))
    run.when(put_back(run.hand_out(name), worker_dead=False))
    record = run.task(name)
    assert (record.state, record.pool, count(run, name)) == (TaskState.READY, SURGICAL, 3)


@both
def test_invariant_35_the_process_it_had_to_itself_has_died_and_says_so_once(name: str) -> None:
    run = given(name)
    token = run.hand_out(name)
    if name:
        run.when(intents.SaveProgress(token, b"half"))

    run.when(crashed(token))
    crashes = run.task(name).crashes
    assert crashes is not None
    assert (crashes.count, crashes.worker_ids) == (1, ())
    assert crashes.last is not None
    assert crashes.last.message == "killed by signal 11"
    assert run.when(crashed(token)) == STALE, "said again"
    assert run.when(put_back(token)) == NOTHING
    assert run.when(died(token)) == NOTHING
    assert count(run, name) == 1
    assert run.task(name).progress == (b"half" if name else b"")
    for _ in range(2):
        run.when(crashed(run.hand_out(name)))
    assert run.task(name).state is TaskState.BACKOFF


def test_what_waited_for_a_workflow_task_that_crashed_is_numbered() -> None:
    run = Scenario(start())
    run.turn(cached=True)
    run.when(signal())
    for _ in range(2):
        run.when(died(run.hand_out()))
        assert run.state.sticky_worker_id == b""
    token = run.hand_out()
    run.when(signal(101))

    then = run.when(crashed(token))

    assert then.events == ["7 WorkflowExecutionSignaled"]
    assert then.tasks == ["workflow backoff 1", "workflow gone"]
    assert run.when(signal(102)) == Then(events=["8 WorkflowExecutionSignaled"])
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    run.turn(COMPLETE)


def test_an_activity_that_may_run_once_fails_as_its_worker_was_lost() -> None:
    run = with_activity(retry_policy=ONCE)

    assert run.when(crashed(run.hand_out("a"))).events[1] == "7 ActivityTaskFailed"
    cause = run.last(ev.ActivityTaskFailed).failure.cause
    assert cause is not None
    assert (cause.kind, cause.message) == (FailureKind.WORKER_LOST, "killed by signal 11")
    run = with_activity(retry_policy=ONCE)
    assert run.when(died(run.hand_out("a"))).events[1] == "7 ActivityTaskFailed"


def test_one_that_was_asked_to_stop_has_stopped() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(signal())
    run.turn(cmd.RequestCancelActivity(5))

    assert run.when(crashed(token)).events[-2:] == [
        "12 ActivityTaskCanceled",
        "13 WorkflowTaskScheduled",
    ]


def test_an_activity_that_was_handed_over_has_no_process() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(intents.HandOverActivity(token, b"", IDENTITY))

    assert run.when(crashed(token)) == STALE


def test_invariant_35_a_deadlock_is_a_failure_and_a_crash() -> None:
    """Of a worker that lives: its mark is nobody's."""
    run = Scenario(start())
    for number in (1, 2):
        then = run.when(task_failed(run.hand_out(), WorkflowTaskFailedCause.DEADLOCK))
        assert then.timers == [f"WORKFLOW_TASK_BACKOFF 0 +{number}s"]
        assert count(run, "") == number
        run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    run.when(task_failed(run.hand_out(), WorkflowTaskFailedCause.DEADLOCK))

    record = run.task()
    assert record.crashes is not None
    assert (record.pool, record.crashes.worker_ids, record.attempt) == (SURGICAL, (), 4)
    assert record.next_attempt_us == run.now_us + MINUTE_US
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    assert in_pool(run, run.task(), SURGICAL)
    assert run.turn(COMPLETE).events[0] == "5 WorkflowTaskScheduled"


# ---- forgiven


@pytest.mark.parametrize("poisoned", [False, True], ids=["crashed twice", "poisoned"])
def test_invariant_35_a_raised_failure_breaks_the_row(poisoned: bool) -> None:
    """It follows its policy, in the normal pool; when it began to crash is remembered until it succeeds."""
    run = with_activity()
    run.when(died(run.hand_out("a")))
    first_us = run.now_us
    run.wait(7)
    run.when(died(run.hand_out("a")))
    if poisoned:
        run.when(died(run.hand_out("a")))
        run.fire(TimerKind.ACTIVITY_RETRY, 5)

    then = run.when(failed(run.hand_out("a")))
    assert then.timers == ["ACTIVITY_RETRY 5 +1s", *["SUSPENSION 5 gone"] * poisoned]
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    record = run.task("a")
    assert record.crashes is not None
    assert (record.crashes.count, record.crashes.first_us, record.pool) == (0, first_us, "")
    assert in_pool(run, record, "")
    run.when(died(run.hand_out("a")))
    assert (count(run), run.task("a").pool) == (1, "")


def test_invariant_35_a_timeout_breaks_the_row() -> None:
    run = with_activity()
    run.when(died(run.hand_out("a")))
    run.when(timed_out(run.hand_out("a")))
    assert count(run) == 0

    run = Scenario(start())
    run.when(died(run.hand_out()))
    run.when(timed_out(run.hand_out()))
    assert count(run, "") == 0


def test_invariant_35_a_workflow_task_that_fails_breaks_its_row() -> None:
    run = Scenario(start())
    poison(run, "")
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    run.when(task_failed(run.hand_out()))

    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    assert (count(run, ""), run.task().pool) == (0, "")
    assert in_pool(run, run.task(), "")


def test_invariant_35_a_checkpoint_breaks_the_row_and_plain_progress_does_not() -> None:
    run = with_activity()
    poison(run)
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    token = run.hand_out("a")
    run.when(intents.SaveProgress(token, b"said in a heartbeat"))
    assert count(run) == 3

    run.when(intents.HeartbeatActivity(token, None))
    assert count(run) == 3
    assert run.when(intents.HeartbeatActivity(token, b"saved")).tasks == ["activity 5 ready 1"]
    assert count(run) == 0
    run.when(put_back(token, worker_dead=False))
    assert in_pool(run, run.task("a"), "")


def test_invariant_35_success_ends_all_of_it() -> None:
    run = Scenario(start())
    poison(run, "")
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    run.when(done(run.hand_out(), activity("a"), cached=True))
    assert run.state.sticky_worker_id == b"", "the process that had it has gone"
    poison(run)
    run.fire(TimerKind.ACTIVITY_RETRY, 5)

    run.when(completed(run.hand_out("a")))
    assert run.task().aside is None
    run.when(done(run.hand_out(), cached=True))
    assert run.state.sticky_worker_id == WORKER


def test_a_reset_of_the_activity_forgets_its_crashes() -> None:
    run = with_activity()
    poison(run)
    assert run.when(reset()).timers == ["ACTIVITY_RETRY 5 gone"]
    record = run.task("a")
    assert (record.state, record.crashes) == (TaskState.READY, None)
    assert in_pool(run, record, "")

    run.when(died(run.hand_out("a")))
    run.hand_out("a")
    run.when(reset(161))
    assert run.task("a").crashes is None


# ---- who was thought dead and is not


def test_invariant_35_a_worker_that_comes_back_takes_its_marks_along() -> None:
    run = with_activity()
    first = run.hand_out("a", worker=OTHER)
    run.when(died(first, OTHER))
    others = [run.hand_out("a")]
    run.when(died(others[0]))
    others.append(run.hand_out("a"))
    run.when(died(others[1]))
    assert run.task("a").state is TaskState.BACKOFF

    assert run.when(came_back(first, OTHER)) == Then(
        tasks=["activity 5 ready 1", "activity 5 gone"], timers=["ACTIVITY_RETRY 5 gone"]
    )
    assert (count(run), run.task("a").pool) == (2, "")
    assert in_pool(run, run.task("a"), "")
    assert run.when(came_back(first, OTHER)) == NOTHING
    for token in others:
        assert run.when(came_back(token)).tasks == ["activity 5 ready 1"]
    assert run.task("a").aside is None


@both
def test_invariant_35_nobody_dies_twice(name: str) -> None:
    """A poll of a dead worker was still open, and got the task: the answer was lost, and nothing crashed."""
    run = given(name)
    run.when(died(run.hand_out(name), OTHER))
    again = run.hand_out(name)

    assert run.when(died(again, OTHER)).tasks[0].endswith("ready 1")
    assert count(run, name) == 1
    run.when(died(run.hand_out(name)))
    assert count(run, name) == 2


def test_invariant_35_one_that_runs_meanwhile_goes_on() -> None:
    run = Scenario(start())
    first = run.hand_out(worker=OTHER)
    run.when(died(first, OTHER))
    for _ in range(2):
        run.when(died(run.hand_out()))
    run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)
    token = run.hand_out()

    run.when(came_back(first, OTHER))
    assert (count(run, ""), run.task().handout is not None) == (2, True)
    run.when(put_back(token, worker_dead=False))
    assert in_pool(run, run.task(), "")


def test_a_mark_of_a_process_of_its_own_is_nobodys() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(crashed(token))

    assert run.when(came_back(token)) == NOTHING
    assert count(run) == 1


def poisoned_and_still_held(name: str) -> tuple[Scenario, TaskToken]:
    """Its third worker was thought dead, and has it in hand."""
    run = given(name)
    for _ in range(2):
        run.when(died(run.hand_out(name)))
    token = run.hand_out(name)
    run.when(died(token))
    return run, token


@both
def test_what_a_worker_that_was_thought_dead_has_done_counts(name: str) -> None:
    """Its outcome is taken, and no timer is left for another attempt."""
    run, token = poisoned_and_still_held(name)
    timer, reference = backoff(run, name)

    then = run.when(completed(token) if name else done(token))
    assert then.timers == [f"{timer.name} {reference} gone"]


def test_what_it_failed_with_follows_the_policy() -> None:
    run, token = poisoned_and_still_held("a")
    then = run.when(failed(token))

    assert sorted(then.timers) == ["ACTIVITY_RETRY 5 +1s", "ACTIVITY_RETRY 5 gone"]
    assert (run.task("a").attempt, count(run)) == (2, 0)


def test_what_it_hands_over_is_out_of_its_hands() -> None:
    run, token = poisoned_and_still_held("a")
    then = run.when(intents.HandOverActivity(token, b"", IDENTITY))

    assert (then.tasks, then.timers) == (["activity 5 async 1"], ["ACTIVITY_RETRY 5 gone"])
    assert count(run) == 0, "its code has returned"


def test_its_checkpoint_has_the_task_tried_again() -> None:
    run, token = poisoned_and_still_held("a")
    run.when(intents.HeartbeatActivity(token, b"saved"))

    record = run.task("a")
    assert (record.state, record.progress, count(run)) == (TaskState.READY, b"saved", 0)
    assert in_pool(run, record, "")


@both
def test_what_died_without_its_worker_is_counted_once_though_the_lease_had_ended(name: str) -> None:
    """The worker was thought dead, and says that it was the process only: a mark that nothing takes back."""
    run = given(name)
    token = run.hand_out(name, worker=OTHER)
    run.when(died(token, OTHER))

    run.when(crashed(token))
    crashes = run.task(name).crashes
    assert crashes is not None
    assert crashes.last is not None
    assert (crashes.count, crashes.last.message) == (1, "killed by signal 11")
    assert run.when(crashed(token)) == STALE
    assert run.when(came_back(token, OTHER)) == NOTHING
    assert (run.task(name).state, count(run, name)) == (TaskState.READY, 1)


@both
def test_what_was_put_back_uncounted_is_counted_when_its_worker_says_so(name: str) -> None:
    """After a take-over nobody claimed it in time. That another worker had died with it is another crash."""
    run = given(name)
    run.when(died(run.hand_out(name), OTHER))
    token = run.hand_out(name)
    run.when(put_back(token, worker_dead=True))

    run.when(crashed(token))
    crashes = run.task(name).crashes
    assert crashes is not None
    assert (crashes.count, crashes.worker_ids) == (2, (OTHER,))


@pytest.mark.parametrize("deaths", [1, 3], ids=["crashed", "poisoned"])
def test_invariant_35_a_deadlock_of_a_worker_thought_dead_is_one_crash(deaths: int) -> None:
    """The lease had ended, which was counted: it is the same one, and of a worker that lives."""
    run = Scenario(start())
    for _ in range(deaths - 1):
        run.when(died(run.hand_out()))
    token = run.hand_out(worker=OTHER)
    run.when(died(token, OTHER))

    run.when(task_failed(token, WorkflowTaskFailedCause.DEADLOCK))
    assert count(run, "") == deaths
    assert run.when(came_back(token, OTHER)) == NOTHING
    assert run.task().state is TaskState.BACKOFF


def test_what_a_take_over_knows_nothing_of_is_counted() -> None:
    """The start was not saved, and an earlier worker had died."""
    run = with_activity()
    run.when(died(run.hand_out("a")))
    token = run.hand_out("a")
    run.reload()

    run.when(crashed(token))
    assert count(run) == 2


# ---- what else is to wait


def test_schedule_to_start_has_done_its_duty_once_a_worker_had_it() -> None:
    run = with_activity(schedule_to_start_timeout_ms=20_000)
    run.when(died(run.hand_out("a")))

    assert run.fire(TimerKind.SCHEDULE_TO_START, 5) == Then(timers=["SCHEDULE_TO_START 5 gone"])


def test_an_activity_that_is_paused_waits_for_its_operator() -> None:
    run = with_activity()
    poison(run)
    run.when(pause())
    run.wait(24 * 3600)
    assert run.fire(TimerKind.ACTIVITY_RETRY, 5).tasks == ["activity 5 paused 1", "activity 5 gone"]
    assert run.state.folded.paused is None, "nobody gets it as it is: nothing to suspend"

    run.when(unpause())
    assert in_pool(run, run.task("a"), SURGICAL)


# ---- said of it


def test_describe_and_why_say_how_often_since_when_and_until_when() -> None:
    run = with_activity()
    first_us = run.now_us
    poison(run)
    (pending,) = describe(run.state).activities
    assert (pending.state, pending.crashes, pending.first_crash_us) == ("BACKING_OFF", 3, first_us)
    assert pending.last_crash is not None
    assert pending.last_crash.message == f"the worker {IDENTITY!r} is gone"
    assert pending.next_attempt_us == first_us + MINUTE_US
    (why,) = explain(run.state).reasons
    assert (why.kind, why.subject, why.since_us, why.until_us) == (
        WaitKind.POISONED,
        "a",
        first_us,
        first_us + MINUTE_US,
    )
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    (why,) = explain(run.state).reasons
    assert (why.kind, why.until_us) == (WaitKind.POISONED, 0)
    run.hand_out("a")
    assert explain(run.state).reasons[0].kind is WaitKind.ACTIVITY

    run = Scenario(start())
    poison(run, "")
    task = describe(run.state).workflow_task
    assert task is not None
    assert (task.crashes, task.first_crash_us, task.next_attempt_us) == (
        3,
        first_us,
        first_us + MINUTE_US,
    )
    (why,) = explain(run.state).reasons
    assert (why.kind, why.subject) == (WaitKind.POISONED, "")
