"""Start, and signal-with-start (semantics §2): one open run per id, and the same answer to the same request."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.scenario import (
    CANCEL,
    COMPLETE,
    FAIL,
    NAMESPACE,
    NOTHING,
    START_US,
    WORKFLOW_ID,
    Begun,
    Scenario,
    Then,
    cancel,
    done,
    request_id,
    run_id,
    signal,
    start,
    terminate,
)

from perdure_engine.core import events as ev
from perdure_engine.core.decide import decide, start_workflow
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.intents import (
    CancelWorkflow,
    IdConflictPolicy,
    IdReusePolicy,
    SignalWorkflow,
    StartSignal,
    StartWorkflow,
)
from perdure_engine.core.limits import TASK_TIMEOUT_MS_DEFAULT
from perdure_engine.core.replies import Started
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TimerKind

PAID = StartSignal("paid", b"42")
FIRST_TASK = Then(
    events=["1 WorkflowExecutionStarted", "2 WorkflowTaskScheduled"], tasks=["workflow ready 1"]
)
ALREADY_STARTED = Begun(refused="ALREADY_EXISTS WORKFLOW_ALREADY_STARTED")


def running() -> Scenario:
    return Scenario(start(1))


def closed(status: Status) -> Scenario:
    run = running()
    match status:
        case Status.COMPLETED:
            run.turn(COMPLETE)
        case Status.FAILED:
            run.turn(FAIL)
        case Status.CANCELED:
            run.turn(CANCEL)
        case Status.TERMINATED:
            run.when(terminate())
        case _:
            run = Scenario(start(1, run_timeout_ms=1_000))
            run.fire(TimerKind.RUN_TIMEOUT)
    assert run.state.folded.status is status
    return run


# ---- a new run


def test_a_start_schedules_the_first_workflow_task() -> None:
    begun = Scenario(start(1)).begun

    assert begun == Then(FIRST_TASK.events, tasks=FIRST_TASK.tasks, reply=Started(run_id(1), True))


def test_the_started_event_keeps_all_that_was_asked() -> None:
    policy = RetryPolicy(2_000)
    run = Scenario(
        start(
            1,
            input=b"input",
            header=b"header",
            memo=b"memo",
            execution_timeout_ms=60_000,
            run_timeout_ms=30_000,
            task_timeout_ms=7_000,
            retry_policy=policy,
            identity="me",
            start_delay_ms=500,
            priority=2,
            static_summary=b"summary",
            static_details=b"details",
        )
    )

    assert run.last(ev.WorkflowExecutionStarted) == ev.WorkflowExecutionStarted(
        1,
        START_US,
        NAMESPACE,
        WORKFLOW_ID,
        run_id(1),
        run_id(1),
        "Order",
        "orders",
        b"input",
        b"header",
        b"memo",
        60_000,
        30_000,
        7_000,
        policy,
        1,
        "me",
        request_id(1),
        b"start",
        500,
        2,
        b"summary",
        b"details",
        execution_deadline_us=START_US + 60_500_000,
    )


def test_a_workflow_task_has_ten_seconds_unless_told_otherwise() -> None:
    run = running()

    assert run.last(ev.WorkflowExecutionStarted).task_timeout_ms == TASK_TIMEOUT_MS_DEFAULT
    assert run.last(ev.WorkflowTaskScheduled).task_timeout_ms == TASK_TIMEOUT_MS_DEFAULT


def test_the_priority_of_the_run_is_that_of_its_task() -> None:
    assert Scenario(start(1, priority=1)).task().priority == 1


def test_timeouts_become_timers() -> None:
    begun = Scenario(start(1, run_timeout_ms=30_000, execution_timeout_ms=60_000)).begun

    assert begun.timers == ["RUN_TIMEOUT 0 +30s", "EXECUTION_TIMEOUT 0 +60s"]


def test_a_default_run_has_no_timer_row() -> None:
    assert running().begun.timers == []


# ---- a delay


def test_a_delayed_run_has_no_task_until_its_time() -> None:
    run = Scenario(start(1, start_delay_ms=5_000))
    assert run.begun == Then(
        events=["1 WorkflowExecutionStarted"],
        timers=["START_DELAY 0 +5s"],
        reply=Started(run_id(1), True),
    )

    assert run.fire(TimerKind.START_DELAY) == Then(
        events=["2 WorkflowTaskScheduled"],
        tasks=["workflow ready 1"],
        timers=["START_DELAY 0 gone"],
    )


def test_timeouts_count_from_the_end_of_the_delay() -> None:
    begun = Scenario(start(1, start_delay_ms=5_000, run_timeout_ms=30_000)).begun

    assert begun.timers == ["RUN_TIMEOUT 0 +35s", "START_DELAY 0 +5s"]


@pytest.mark.parametrize(
    ("intent", "event"),
    [(signal(), "WorkflowExecutionSignaled"), (cancel(), "WorkflowExecutionCancelRequested")],
    ids=["signal", "cancel"],
)
def test_what_happens_to_a_delayed_run_wakes_it(
    intent: SignalWorkflow | CancelWorkflow, event: str
) -> None:
    run = Scenario(start(1, start_delay_ms=5_000))

    assert run.when(intent) == Then(
        events=[f"2 {event}", "3 WorkflowTaskScheduled"],
        tasks=["workflow ready 1"],
        timers=["START_DELAY 0 gone"],
    )


def test_a_delayed_run_can_be_terminated() -> None:
    run = Scenario(start(1, start_delay_ms=5_000))

    assert run.when(terminate()) == Then(
        events=["2 WorkflowExecutionTerminated"], timers=["START_DELAY 0 gone"]
    )


# ---- the same request (invariant 10)


@pytest.mark.parametrize("policy", IdConflictPolicy, ids=lambda p: p.name)
def test_invariant_10_the_same_request_gets_the_same_answer(policy: IdConflictPolicy) -> None:
    run = running()

    assert run.start(start(1, id_conflict_policy=policy)) == Begun(Started(run_id(1), True))


@pytest.mark.parametrize("reuse", IdReusePolicy, ids=lambda p: p.name)
def test_invariant_10_the_same_request_gets_the_same_answer_when_the_run_has_closed(
    reuse: IdReusePolicy,
) -> None:
    run = closed(Status.COMPLETED)

    assert run.start(start(1, id_reuse_policy=reuse)) == Begun(Started(run_id(1), True))


def test_invariant_10_the_same_request_after_a_take_over() -> None:
    run = running()
    run.reload()

    assert run.start(start(1)) == Begun(Started(run_id(1), True))


def test_invariant_10_a_delayed_start_twice_is_one() -> None:
    run = Scenario(start(1, start_delay_ms=5_000))

    assert run.start(start(1, start_delay_ms=5_000)) == Begun(Started(run_id(1), True))


def test_the_same_request_id_with_another_body_is_refused() -> None:
    run = running()

    assert run.start(start(1, body_hash=b"other")) == Begun(
        refused="INVALID_ARGUMENT REQUEST_ID_REUSED"
    )
    assert run.rejected is not None
    assert run.rejected.field == "request_id"


# ---- an open run with that id (invariants 9, 11)


@pytest.mark.parametrize("reuse", IdReusePolicy, ids=lambda p: p.name)
def test_invariant_9_a_second_start_fails_and_names_the_run(reuse: IdReusePolicy) -> None:
    run = running()

    assert run.start(start(2, id_reuse_policy=reuse)) == ALREADY_STARTED
    assert run.rejected is not None
    assert run.rejected.metadata == {"workflow_id": WORKFLOW_ID, "run_id": uuid_text(run_id(1))}


@pytest.mark.parametrize("reuse", IdReusePolicy, ids=lambda p: p.name)
def test_use_existing_answers_with_the_open_run(reuse: IdReusePolicy) -> None:
    run = running()
    second = start(2, id_conflict_policy=IdConflictPolicy.USE_EXISTING, id_reuse_policy=reuse)

    assert run.start(second) == Begun(Started(run_id(1), False))


@pytest.mark.parametrize("reuse", IdReusePolicy, ids=lambda p: p.name)
def test_invariant_11_terminate_existing_ends_the_open_run_in_the_same_batch(
    reuse: IdReusePolicy,
) -> None:
    run = running()
    second = start(
        2,
        id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING,
        id_reuse_policy=reuse,
        identity="me",
    )

    begun = run.start(second)

    assert begun.reply == Started(run_id(2), True)
    assert begun.old == Then(events=["3 WorkflowExecutionTerminated"], tasks=["workflow gone"])
    assert begun.then == FIRST_TASK
    ended = run.last(ev.WorkflowExecutionTerminated)
    assert (ended.identity, ended.request_id) == ("me", request_id(2))
    assert uuid_text(run_id(2)) in ended.reason


def test_invariant_42_terminate_existing_first_numbers_what_was_acknowledged() -> None:
    run = running()
    run.hand_out()
    run.when(signal())

    begun = run.start(start(2, id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING))

    assert begun.old.events == ["3 WorkflowExecutionSignaled", "4 WorkflowExecutionTerminated"]


def test_terminate_existing_twice_is_once() -> None:
    run = running()
    second = start(2, id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING)
    new = run.start(second).new

    assert new.start(second) == Begun(Started(run_id(2), True))


# ---- a closed run with that id

UNSUCCESSFUL = (Status.FAILED, Status.CANCELED, Status.TERMINATED, Status.TIMED_OUT)
ENDS = (Status.COMPLETED, *UNSUCCESSFUL)
ALLOWED = {
    IdReusePolicy.ALLOW_DUPLICATE: ENDS,
    IdReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY: UNSUCCESSFUL,
    IdReusePolicy.REJECT_DUPLICATE: (),
}


@pytest.mark.parametrize("conflict", IdConflictPolicy, ids=lambda p: p.name)
@pytest.mark.parametrize("reuse", IdReusePolicy, ids=lambda p: p.name)
@pytest.mark.parametrize("status", ENDS, ids=lambda s: s.name)
def test_invariant_11_the_reuse_policy_decides_after_the_end(
    status: Status, reuse: IdReusePolicy, conflict: IdConflictPolicy
) -> None:
    run = closed(status)

    begun = run.start(start(2, id_reuse_policy=reuse, id_conflict_policy=conflict))

    if status in ALLOWED[reuse]:
        assert begun.reply == Started(run_id(2), True)
        assert (begun.old, begun.then) == (NOTHING, FIRST_TASK)
    else:
        assert begun == ALREADY_STARTED


# ---- signal-with-start


def test_signal_with_start_writes_the_signal_before_the_first_task() -> None:
    run = Scenario(start(1, signal=PAID, identity="me", header=b"h"))

    assert run.begun.events == [
        "1 WorkflowExecutionStarted",
        "2 WorkflowExecutionSignaled",
        "3 WorkflowTaskScheduled",
    ]
    assert run.last(ev.WorkflowExecutionSignaled) == ev.WorkflowExecutionSignaled(
        2, START_US, "paid", b"42", "me", b"h", request_id(1), b"start"
    )


def test_signal_with_start_keeps_the_delay() -> None:
    begun = Scenario(start(1, signal=PAID, start_delay_ms=5_000)).begun

    assert begun.events == ["1 WorkflowExecutionStarted", "2 WorkflowExecutionSignaled"]
    assert begun.timers == ["START_DELAY 0 +5s"]


def test_invariant_41_signal_with_start_twice_is_one_signal() -> None:
    run = Scenario(start(1, signal=PAID))

    assert run.start(start(1, signal=PAID)) == Begun(Started(run_id(1), True))


def use_existing(number: int = 2, **changes: Any) -> StartWorkflow:
    return start(number, signal=PAID, id_conflict_policy=IdConflictPolicy.USE_EXISTING, **changes)


def test_signal_with_start_signals_the_open_run() -> None:
    run = running()
    run.turn()

    begun = run.start(use_existing())

    assert begun.reply == Started(run_id(1), False)
    assert begun.run is None
    assert begun.old == Then(
        events=["5 WorkflowExecutionSignaled", "6 WorkflowTaskScheduled"],
        tasks=["workflow ready 1"],
    )
    assert run.last(ev.WorkflowExecutionSignaled).input == b"42"


def test_signal_with_start_is_buffered_while_the_workflow_task_is_out() -> None:
    run = running()
    run.hand_out()

    begun = run.start(use_existing())

    assert begun == Begun(
        Started(run_id(1), False), old=Then(buffered=["WorkflowExecutionSignaled"])
    )


def test_invariant_41_signal_with_start_of_the_open_run_twice_is_one_signal() -> None:
    run = running()
    run.start(use_existing())

    assert run.start(use_existing()) == Begun(Started(run_id(1), False))


def test_invariant_41_signal_with_start_again_after_the_run_it_signaled_has_closed() -> None:
    """A run knows the ids of all requests it took: the answer is the same, the effect is once (semantics §1)."""
    run = running()
    run.start(use_existing())
    run.turn(COMPLETE)

    assert run.start(use_existing()) == Begun(Started(run_id(1), False))


def test_signal_with_start_with_another_body_is_refused() -> None:
    run = running()
    run.start(use_existing())

    assert run.start(use_existing(body_hash=b"other")) == Begun(
        refused="INVALID_ARGUMENT REQUEST_ID_REUSED"
    )


def test_signal_with_start_terminates_the_existing_and_signals_the_new_run() -> None:
    run = running()

    begun = run.start(start(2, signal=PAID, id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING))

    assert begun.old.events == ["3 WorkflowExecutionTerminated"]
    assert begun.then.events == [
        "1 WorkflowExecutionStarted",
        "2 WorkflowExecutionSignaled",
        "3 WorkflowTaskScheduled",
    ]


# ---- in one batch


def test_a_run_that_begins_and_ends_in_one_batch_leaves_no_task_row() -> None:
    """What is made and ended within one batch is not written at all (design §3)."""
    run = Scenario()
    reply, draft = start_workflow.decide(start(1), run.env(), None)
    assert draft is not None
    decide(draft, terminate())

    assert run._adopt(draft, reply) == Then(
        events=[
            "1 WorkflowExecutionStarted",
            "2 WorkflowTaskScheduled",
            "3 WorkflowExecutionTerminated",
        ],
        reply=Started(run_id(1), True),
    )


def test_the_first_task_is_handed_out_for_what_comes_next() -> None:
    run = running()
    token = run.hand_out()

    assert token.started_event_id == 3
    assert run.when(done(token)).events == ["3 WorkflowTaskStarted", "4 WorkflowTaskCompleted"]
