"""Children as their parent decides them: started, heard of, told when the parent closes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.invariants import CHECKS
from tests.unit.core.scenario import (
    CANCEL,
    COMPLETE,
    FAIL,
    NAMESPACE,
    NOTHING,
    WORKFLOW_ID,
    Scenario,
    Then,
    application,
    cancel_other,
    child,
    continue_as_new,
    done,
    run_id,
    signal,
    start,
    task_failed,
    terminate,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core import outside_events as out
from perdure_engine.core.describe import describe
from perdure_engine.core.errors import Rejected
from perdure_engine.core.explain import WaitKind, explain
from perdure_engine.core.failures import RetryState
from perdure_engine.core.ids import child_run_id, message_request_id
from perdure_engine.core.intents import MessageOutcome
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.parents import ChildOf, Parent, ParentClosePolicy
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TimerKind

INITIATED = 5  # the child's Initiated event in all of these
PARENT = Parent("parent", run_id(50), 5, "root", run_id(51))


def parent(*commands: cmd.Command, **options: Any) -> Scenario:
    """A run that has initiated `child-1`, and whose workflow task is over."""
    run = Scenario(start(**options))
    run.turn(*(commands or (child(),)))
    check(run)
    return run


def with_started_child(**changes: Any) -> Scenario:
    run = parent(child(**changes))
    run.answer(INITIATED)
    run.turn()
    check(run)
    return run


def check(run: Scenario) -> None:
    for invariant in CHECKS:
        invariant(run)


def closes(closed: ev.ClosingEvent, **changes: Any) -> intents.CloseChild:
    fields: dict[str, Any] = {
        "initiated_event_id": INITIATED,
        "child_workflow_id": "child-1",
        "child_run_id": run_id(77),
        "child_workflow_type": "Ship",
    }
    return intents.CloseChild(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=run_id(1),
        closed=closed,
        **(fields | changes),
    )


COMPLETED = ev.WorkflowExecutionCompleted(9, 1, b"shipped", 8)


# ---- the start


def test_a_child_is_initiated_with_the_message_that_starts_it() -> None:
    """Invariant 5: event and message in one batch."""
    run = Scenario(start())

    assert run.turn(child()) == Then(
        events=[
            "3 WorkflowTaskStarted",
            "4 WorkflowTaskCompleted",
            "5 StartChildWorkflowExecutionInitiated",
        ],
        tasks=["message 5 to child-1 to_send 1", "workflow gone"],
    )
    check(run)


def test_what_the_message_says_follows_from_the_history() -> None:
    """Invariant 48: whoever delivers it, and how often, it names the same run and the same request."""
    run = parent(child(task_queue="ships", cron_schedule="0 * * * *", priority=5))

    message = run.message(INITIATED)
    run.reload()

    assert message is not None
    assert message == run.message(INITIATED)
    intent = message.intent
    assert isinstance(intent, intents.StartWorkflow)
    assert (intent.workflow_id, intent.run_id) == ("child-1", child_run_id(run_id(1), INITIATED))
    assert intent.request_id == message_request_id(run_id(1), INITIATED)
    assert (intent.task_queue, intent.input, intent.priority) == ("ships", b"parcel", 5)
    assert intent.parent == Parent(WORKFLOW_ID, run_id(1), INITIATED, WORKFLOW_ID, run_id(1))


def test_what_a_child_leaves_open_is_as_in_its_parent() -> None:
    intent = _start_of(parent(priority=2))

    assert (intent.task_queue, intent.priority) == ("orders", 2)


def test_the_root_is_handed_down() -> None:
    intent = _start_of(parent(parent=PARENT))

    assert intent.parent is not None
    assert (intent.parent.root_workflow_id, intent.parent.root_run_id) == ("root", run_id(51))


def _start_of(run: Scenario) -> intents.StartWorkflow:
    message = run.message(INITIATED)
    assert message is not None
    assert isinstance(message.intent, intents.StartWorkflow)
    return message.intent


def test_the_answer_to_the_start_is_written_with_the_end_of_its_message() -> None:
    """Invariants 5, 48."""
    run = parent()

    assert run.answer(INITIATED) == Then(
        events=["6 ChildWorkflowExecutionStarted", "7 WorkflowTaskScheduled"],
        tasks=["workflow ready 1", "message 5 to child-1 gone"],
    )
    assert run.last(out.ChildWorkflowExecutionStarted).run_id == child_run_id(run_id(1), INITIATED)
    check(run)


def test_the_payloads_of_a_start_are_forgotten_once_it_has_happened() -> None:
    run = with_started_child(memo=b"memo", header=b"header")

    (pending,) = (run.state.folded.children or {}).values()
    assert (pending.initiated.input, pending.initiated.memo, pending.initiated.header) == (
        b"",
        b"",
        b"",
    )
    run.reload()
    assert run.state.folded.children == {INITIATED: pending}


def test_inv48_an_answer_counts_once() -> None:
    run = parent()
    task_id = run.state.tasks[INITIATED].task_id
    run.answer(INITIATED)

    again = intents.AnswerMessage(run_id(1), INITIATED, task_id, MessageOutcome.NOT_FOUND)
    assert run.when(again) == NOTHING


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        (MessageOutcome.ALREADY_EXISTS, out.StartChildFailedCause.ALREADY_EXISTS),
        (MessageOutcome.REFUSED, out.StartChildFailedCause.UNSPECIFIED),
    ],
)
def test_a_start_that_failed_ends_the_child(
    outcome: MessageOutcome, cause: out.StartChildFailedCause
) -> None:
    run = parent()

    assert run.answer(INITIATED, outcome) == Then(
        events=["6 StartChildWorkflowExecutionFailed", "7 WorkflowTaskScheduled"],
        tasks=["workflow ready 1", "message 5 to child-1 gone"],
    )
    assert run.last(out.StartChildWorkflowExecutionFailed).cause is cause
    assert run.state.folded.children is None
    check(run)


def test_an_answer_waits_while_a_worker_has_the_workflow_task() -> None:
    run = parent()
    run.when(signal())
    token = run.hand_out()

    assert run.answer(INITIATED) == Then(
        buffered=["ChildWorkflowExecutionStarted"], tasks=["message 5 to child-1 gone"]
    )
    check(run)
    then = run.when(done(token))
    assert then.events[-2:] == ["10 ChildWorkflowExecutionStarted", "11 WorkflowTaskScheduled"]
    check(run)


def test_a_child_whose_start_has_failed_unseen_does_not_end_as_well() -> None:
    """Both would be numbered, and the second would find no child."""
    run = parent()
    run.when(signal())
    token = run.hand_out()
    run.answer(INITIATED, MessageOutcome.ALREADY_EXISTS)

    assert run.when(closes(COMPLETED)) == Then()
    run.when(done(token))
    check(run)


def test_what_waits_survives_a_take_over_and_a_failed_task() -> None:
    """Invariant 4."""
    run = parent()
    run.when(signal())
    token = run.hand_out()
    run.answer(INITIATED)
    run.when(closes(COMPLETED))
    run.when(task_failed(token))

    started = run.last(out.ChildWorkflowExecutionStarted)
    assert run.last(out.ChildWorkflowExecutionCompleted).started_event_id == started.event_id
    check(run)


# ---- the end


FAILURE = application("lost")
ENDS: list[tuple[ev.ClosingEvent, type[out.ChildClosedEvent]]] = [
    (COMPLETED, out.ChildWorkflowExecutionCompleted),
    (
        ev.WorkflowExecutionFailed(9, 1, FAILURE, RetryState.MAXIMUM_ATTEMPTS_REACHED, 8),
        out.ChildWorkflowExecutionFailed,
    ),
    (ev.WorkflowExecutionCanceled(9, 1, b"details", 8), out.ChildWorkflowExecutionCanceled),
    (ev.WorkflowExecutionTimedOut(9, 1, RetryState.TIMEOUT), out.ChildWorkflowExecutionTimedOut),
    (
        ev.WorkflowExecutionTerminated(9, 1, "stop", b"", "", b"", b""),
        out.ChildWorkflowExecutionTerminated,
    ),
]


@pytest.mark.parametrize(("closed", "kind"), ENDS, ids=lambda value: getattr(value, "__name__", ""))
def test_the_end_of_a_child_is_its_parents_event(
    closed: ev.ClosingEvent, kind: type[out.ChildClosedEvent]
) -> None:
    run = with_started_child()

    then = run.when(closes(closed))

    assert then.events == [f"10 {kind.__name__}", "11 WorkflowTaskScheduled"]
    event = run.last(kind)
    assert (event.started_event_id, event.run_id) == (6, run_id(77))
    check(run)
    assert run.when(closes(closed)) == NOTHING, "told twice, written once"


def test_the_end_may_overtake_the_answer_to_the_start() -> None:
    """Invariant 48: Started and the end are written together; the late answer changes nothing."""
    run = parent()
    task_id = run.state.tasks[INITIATED].task_id

    assert run.when(closes(COMPLETED)) == Then(
        events=[
            "6 ChildWorkflowExecutionStarted",
            "7 ChildWorkflowExecutionCompleted",
            "8 WorkflowTaskScheduled",
        ],
        tasks=["workflow ready 1", "message 5 to child-1 gone"],
    )
    assert run.last(out.ChildWorkflowExecutionCompleted).started_event_id == 6
    check(run)
    late = intents.AnswerMessage(run_id(1), INITIATED, task_id, MessageOutcome.DONE)
    assert run.when(late) == NOTHING


def test_an_end_that_waits_is_not_taken_twice() -> None:
    run = with_started_child()
    run.when(signal())
    run.hand_out()

    assert run.when(closes(COMPLETED)).buffered == ["ChildWorkflowExecutionCompleted"]
    assert run.when(closes(COMPLETED)) == NOTHING
    check(run)


def test_a_chain_that_goes_on_and_a_stranger_tell_nothing() -> None:
    run = with_started_child()
    goes_on = ev.WorkflowExecutionContinuedAsNew(
        9, 1, run_id(78), "Ship", "q", b"", b"", b"", 0, 0, 8, ev.Initiator.WORKFLOW
    )

    assert run.when(closes(goes_on)) == NOTHING
    assert run.when(closes(COMPLETED, child_workflow_id="child-2")) == NOTHING
    assert run.when(closes(COMPLETED, initiated_event_id=4)) == NOTHING


def test_a_parent_that_has_closed_has_no_use_for_an_end() -> None:
    run = with_started_child()
    run.when(terminate())

    assert run.when(closes(COMPLETED)) == NOTHING


# ---- what a child tells its parent


@pytest.mark.parametrize("command", [COMPLETE, FAIL, CANCEL])
def test_a_child_that_closes_has_its_parent_told(command: cmd.Command) -> None:
    run = Scenario(start(parent=PARENT))

    assert run.turn(command).tasks == ["message 5 to parent to_send 1", "workflow gone"]
    message = run.message(5)
    assert message is not None
    intent = message.intent
    assert isinstance(intent, intents.CloseChild)
    assert (intent.workflow_id, intent.run_id) == ("parent", run_id(50))
    assert (intent.initiated_event_id, intent.child_run_id) == (5, run_id(1))
    assert intent.closed == run.state.folded.closed
    check(run)
    assert run.answer(5) == Then(tasks=["message 5 to parent gone"])


def test_only_the_last_run_of_a_chain_tells() -> None:
    """Continue-as-new and a retry go on as the same child."""
    run = Scenario(start(parent=PARENT, retry_policy=RetryPolicy(1_000, maximum_attempts=2)))

    assert run.turn(continue_as_new()).tasks == ["workflow gone"]
    second = run.next
    assert second.started.parent == PARENT
    assert second.turn(FAIL).tasks == ["workflow gone"]
    third = second.next
    assert third.started.parent == PARENT
    third.fire(TimerKind.CRON_OR_RETRY_BACKOFF)
    assert "to parent to_send" in third.turn(FAIL).tasks[0]


def test_a_child_that_is_terminated_or_times_out_has_its_parent_told() -> None:
    run = Scenario(start(parent=PARENT))
    assert "message 3 to parent to_send 1" in run.when(terminate()).tasks

    run = Scenario(start(parent=PARENT, run_timeout_ms=1_000))
    assert "message 3 to parent to_send 1" in run.fire(TimerKind.RUN_TIMEOUT).tasks


# ---- the parent close policy


CLOSES: list[cmd.Command] = [COMPLETE, FAIL, CANCEL, continue_as_new()]


@pytest.mark.parametrize("command", CLOSES, ids=lambda c: type(c).__name__)
def test_inv49_a_started_child_is_told_once_that_its_parent_closes(command: cmd.Command) -> None:
    """Also at continue-as-new: children are not carried along, as in Temporal."""
    run = with_started_child()
    run.when(signal())

    then = run.turn(command)

    assert then.tasks == ["message -5 to child-1 to_send 1", "workflow gone"]
    if run.following is not None:
        assert run.next.state.folded.children is None
    check(run)
    message = run.message(-INITIATED)
    assert message is not None
    assert message.intent == intents.TerminateWorkflow(
        namespace_id=NAMESPACE,
        workflow_id="child-1",
        run_id=b"",
        request_id=message_request_id(run_id(1), -INITIATED),
        body_hash=message_request_id(run_id(1), -INITIATED),
        identity="perdure-engine",
        reason="by parent close policy",
        child_of=ChildOf(run_id(1), INITIATED),
    )
    run.reload()
    assert run.message(-INITIATED) == message
    assert run.answer(-INITIATED) == Then(tasks=["message -5 to child-1 gone"])


def test_a_parent_that_is_terminated_applies_it_too() -> None:
    run = with_started_child()

    assert run.when(terminate()).tasks == ["message -5 to child-1 to_send 1"]


def test_request_cancel_asks_and_abandon_says_nothing() -> None:
    run = with_started_child(parent_close_policy=ParentClosePolicy.REQUEST_CANCEL)
    run.when(terminate())
    message = run.message(-INITIATED)
    assert message is not None
    assert isinstance(message.intent, intents.CancelWorkflow)
    assert message.intent.child_of == ChildOf(run_id(1), INITIATED)

    run = with_started_child(parent_close_policy=ParentClosePolicy.ABANDON)
    assert run.when(terminate()).tasks == []


def test_a_child_whose_start_may_be_under_way_is_told_behind_it() -> None:
    """Invariant 49: the start is not lost, and the child that it makes does not outlive its parent."""
    run = parent()

    assert run.when(terminate()).tasks == ["message -5 to child-1 to_send 1"]
    assert isinstance(_start_of(run), intents.StartWorkflow)
    check(run)
    run.answer(INITIATED)
    run.answer(-INITIATED)
    assert run.state.tasks == {}


def test_a_start_that_was_never_saved_is_dropped_with_its_parent() -> None:
    run = Scenario(start())

    assert run.turn(child(), COMPLETE).tasks == ["workflow gone"]
    check(run)


def test_a_child_that_is_abandoned_in_the_same_breath_is_started() -> None:
    run = Scenario(start())

    then = run.turn(child(parent_close_policy=ParentClosePolicy.ABANDON), COMPLETE)

    assert then.tasks == ["message 5 to child-1 to_send 1", "workflow gone"]
    assert isinstance(_start_of(run), intents.StartWorkflow)
    check(run)
    assert run.answer(INITIATED) == Then(tasks=["message 5 to child-1 gone"])


def test_a_child_that_has_ended_is_not_told() -> None:
    run = with_started_child()
    run.when(closes(COMPLETED))

    assert run.turn(COMPLETE).tasks == ["workflow gone"]


# ---- cancellation before the start


def test_a_start_of_the_same_task_is_taken_back() -> None:
    run = Scenario(start())

    then = run.turn(child(), cancel_other("child-1", child_workflow_only=True))

    assert then.events[2:] == [
        "5 StartChildWorkflowExecutionInitiated",
        "6 RequestCancelExternalWorkflowExecutionInitiated",
        "7 ExternalWorkflowExecutionCancelRequested",
        "8 ChildWorkflowExecutionCanceled",
        "9 WorkflowTaskScheduled",
    ]
    assert then.tasks == ["workflow ready 1", "workflow gone"], "no message was ever saved"
    assert run.last(out.ChildWorkflowExecutionCanceled).started_event_id == 0
    check(run)


def test_a_saved_start_is_not_taken_back_but_its_child_asked() -> None:
    """It may have arrived, sent by this owner or the one before."""
    run = parent()
    run.when(signal())
    run.reload()

    then = run.turn(cancel_other("child-1", child_workflow_only=True))

    assert then.tasks == ["message 10 to child-1 to_send 1", "workflow gone"]
    check(run)


# ---- whose child


@pytest.mark.parametrize(
    ("child_of", "known"),
    [
        (ChildOf(run_id(50), 5), True),
        (ChildOf(run_id(50)), True),
        (ChildOf(run_id(50), 6), False),
        (ChildOf(run_id(49), 5), False),
    ],
)
def test_what_is_said_to_a_child_reaches_only_that_child(child_of: ChildOf, known: bool) -> None:
    run = Scenario(start(parent=PARENT))

    then = run.when(signal(child_of=child_of))

    assert then.refused == ("" if known else "NOT_FOUND WORKFLOW_NOT_FOUND")


def test_a_run_without_a_parent_is_nobodys_child() -> None:
    run = Scenario(start())

    assert run.when(terminate(child_of=ChildOf(run_id(50)))).refused.startswith("NOT_FOUND")
    assert run.state.open


def test_a_start_that_is_repeated_finds_its_child() -> None:
    """Invariant 48."""
    intent = _start_of(parent())
    made = Scenario(intent)

    assert made.start(intent).reply == made.begun.reply
    made.turn(COMPLETE)
    assert made.start(intent).run is None, "also when it has closed: there is no second child"


# ---- limits, what people see


def test_too_many_children_fail_the_task_with_the_cause_named() -> None:
    """B36."""
    run = Scenario(start(), limits=RunLimits(pending_children_max=2))
    run.turn(child("a"), child("b"))
    run.when(signal())

    then = run.turn(child("c"))

    assert "WorkflowTaskFailed" in then.events[-1]
    cause = run.last(ev.WorkflowTaskFailed).cause
    assert cause is ev.WorkflowTaskFailedCause.PENDING_CHILD_WORKFLOWS_LIMIT_EXCEEDED
    assert len(run.state.folded.children or ()) == 2


def test_children_and_parents_are_described() -> None:
    run = parent(child("a"), child("b"), parent=PARENT)
    run.answer(INITIATED)

    described = describe(run.state)

    assert [(one.workflow_id, one.run_id) for one in described.children] == [
        ("a", child_run_id(run_id(1), INITIATED)),
        ("b", b""),
    ]
    assert described.parent == PARENT
    assert (described.root_workflow_id, described.root_run_id) == ("root", run_id(51))
    run.turn(COMPLETE)
    assert describe(run.state).children == []


def test_the_reasons_name_the_children() -> None:
    run = parent(child("a"), child("b"))
    run.answer(INITIATED)
    run.turn()

    reasons = [(reason.kind, reason.subject) for reason in explain(run.state).reasons]

    assert reasons == [(WaitKind.CHILD_WORKFLOW, "a"), (WaitKind.CHILD_WORKFLOW_START, "b")]


def test_a_message_that_is_not_the_runs_says_nothing() -> None:
    run = parent()

    assert run.when(intents.ReadMessage(run_id(1), INITIATED, 99)).reply is None
    read = intents.ReadMessage(run_id(1), INITIATED, run.state.tasks[INITIATED].task_id)
    assert run.when(read).reply == run.message(INITIATED)


def test_the_child_must_be_new_to_its_id() -> None:
    """ALREADY_EXISTS comes from the receiver, whose run is not that child."""
    intent = _start_of(parent())
    other = Scenario(start(9))

    assert other.start(intent).refused == "ALREADY_EXISTS WORKFLOW_ALREADY_STARTED"
    assert isinstance(other.rejected, Rejected)
