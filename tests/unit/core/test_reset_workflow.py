"""Reset: where to, what the new run begins with, what becomes of the old one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.core import invariants
from tests.unit.core.scenario import (
    COMPLETE,
    NAMESPACE,
    SECOND_US,
    START_US,
    WORKFLOW_ID,
    Scenario,
    Then,
    accept,
    activity,
    cancel,
    cancel_other,
    child,
    complete_update,
    completed,
    continue_as_new,
    done,
    failed,
    pause,
    request_id,
    reset,
    run_id,
    signal,
    signal_other,
    start,
    task_failed,
    timed_out,
    timer,
    update,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import outside_events as out
from perdure_engine.core.decide.attempts import close_by_us
from perdure_engine.core.describe import describe, reset_run
from perdure_engine.core.draft import Draft
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.intents import (
    AnswerMessage,
    AskChild,
    CloseChild,
    MessageOutcome,
    Reapply,
    ResetType,
    SaveProgress,
    StartWorkflow,
)
from perdure_engine.core.lineage import writer_of
from perdure_engine.core.parents import ChildOf, Parent
from perdure_engine.core.replies import Started
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TaskState, TimerKind

BOTH = frozenset(Reapply)


def checked(run: Scenario) -> Scenario:
    for check in invariants.CHECKS:
        check(run)
    return run


def reset_of(run: Scenario, event_id: int = 0, **changes: Any) -> Scenario:
    begun = run.reset(reset(event_id, **changes))
    assert begun.refused == ""
    assert begun.reply == Started(run_id(changes.get("number", 9)), True)
    return checked(begun.new)


# ---- the two runs


def test_the_open_run_ends_and_the_new_one_begins_with_its_history() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    run.wait(5)

    begun = run.reset(reset(4, reason="wrong price"))

    assert begun.old == Then(events=["6 WorkflowExecutionTerminated"], tasks=["activity 5 gone"])
    assert begun.then == Then(
        events=[
            "1 WorkflowExecutionStarted",
            "2 WorkflowTaskScheduled",
            "3 WorkflowTaskStarted",
            "4 WorkflowTaskFailed",
            "5 WorkflowTaskScheduled",
        ],
        tasks=["workflow ready 1"],
    )
    ended, new = run.last(ev.WorkflowExecutionTerminated), begun.new
    assert ended.reason == f"reset as run {uuid_text(run_id(9))}: wrong price"
    assert (ended.identity, ended.request_id) == ("me", request_id(9))
    assert reset_run(ended) == describe(run.state).reset_run_id == run_id(9)
    failed_task = new.last(ev.WorkflowTaskFailed)
    assert failed_task.cause is ev.WorkflowTaskFailedCause.RESET_WORKFLOW
    assert (failed_task.base_run_id, failed_task.new_run_id) == (run_id(1), run_id(9))
    assert (failed_task.fork_event_id, failed_task.time_us) == (3, START_US + 5 * SECOND_US)
    assert failed_task.failure is not None
    assert failed_task.failure.message == "wrong price"
    assert new.events[1:3] == run.events[1:3], "what was before the point is taken over as it is"
    said = describe(new.state)
    assert (said.original_run_id, said.reset_from_run_id) == (run_id(1), run_id(1))
    assert (said.first_run_id, said.continued_from_run_id) == (run_id(1), b"")
    checked(new).turn(COMPLETE)


def test_a_reset_of_a_reset_run_remembers_whose_start_it_was() -> None:
    run = Scenario(start())
    run.turn()
    first = reset_of(run)
    first.turn()
    second = reset_of(first, number=10)

    assert second.started.original_run_id == run_id(1)
    assert second.started.reset_from_run_id == run_id(9)
    assert second.names.count("WorkflowTaskFailed") == 2, "the first reset is a part of its history"


def test_a_run_that_follows_a_reset_one_has_a_start_of_its_own() -> None:
    """What is random in it comes from its own id: two runs must not make the same keys."""
    run = Scenario(start())
    run.turn()
    new = reset_of(run)
    new.turn(continue_as_new())

    following = checked(new.next).started
    assert (following.original_run_id, following.reset_from_run_id) == (b"", b"")
    assert (following.continued_from_run_id, following.first_run_id) == (run_id(9), run_id(1))


def test_a_closed_run_does_not_change_and_who_is_current_gives_way() -> None:
    run = Scenario(start())
    run.turn(COMPLETE)
    other = run.start(start(2)).new

    begun = run.reset(reset(), current=other)

    assert begun.old.events == ["3 WorkflowExecutionTerminated"]
    assert run.names[-1] == "WorkflowExecutionCompleted"
    assert "WorkflowExecutionCompleted" not in checked(begun.new).names


# ---- where to


def history_of_builds() -> Scenario:
    run = Scenario(start())
    run.turn(timer("t"))
    for build in ("build-2", "build-2", "build-3"):
        run.when(signal(100 + len(run.events)))
        token = run.hand_out()
        intent = done(token)
        run.when(type(intent)(token, [], False, b"", "", build))
    return run


@pytest.mark.parametrize(
    ("asked", "event_id"),
    [
        ({"reset_type": ResetType.FIRST_WORKFLOW_TASK}, 4),
        ({"reset_type": ResetType.LAST_WORKFLOW_TASK}, 17),
        ({"reset_type": ResetType.BUILD_ID, "build_id": "build-2"}, 9),
        ({"reset_type": ResetType.BUILD_ID, "build_id": "build-3"}, 17),
        ({"event_id": 9}, 9),
        ({"event_id": 8}, 9),  # Started: the same task
    ],
)
def test_the_point_is_the_end_of_a_workflow_task(asked: dict[str, Any], event_id: int) -> None:
    new = reset_of(history_of_builds(), **asked)

    [failed_task] = [e for e in new.events if isinstance(e, ev.WorkflowTaskFailed)]
    assert failed_task.event_id == event_id


def test_a_task_that_failed_or_timed_out_is_a_point_too() -> None:
    run = Scenario(start())
    run.when(task_failed(run.hand_out()))
    assert reset_of(run, 4).names[3] == "WorkflowTaskFailed"
    late = Scenario(start())
    late.when(timed_out(late.hand_out()))
    assert reset_of(late).last(ev.WorkflowTaskFailed).event_id == 4


@pytest.mark.parametrize("event_id", [1, 2, 5, 6, 7, 99])
def test_any_other_event_is_bad_input(event_id: int) -> None:
    """B56: the first event, one in the middle of a batch, one past the last."""
    run = Scenario(start())
    run.turn(timer("t"), activity("a"))

    assert run.reset(reset(event_id)).refused == "INVALID_ARGUMENT INVALID_ARGUMENT"
    assert run.rejected is not None
    assert run.rejected.field == "workflow_task_finish_event_id"


def test_a_run_without_such_a_task_cannot_be_reset() -> None:
    run = Scenario(start())
    assert run.reset(reset()).refused == "FAILED_PRECONDITION NO_RESET_POINT"
    run.turn()
    by_build = reset(reset_type=ResetType.BUILD_ID, build_id="build-9")
    assert run.reset(by_build).refused == "FAILED_PRECONDITION NO_RESET_POINT"


# ---- what waited at the point


def test_an_activity_is_scheduled_again_and_everything_of_it_counts_from_now_on() -> None:
    run = Scenario(start())
    run.turn(
        activity("a", schedule_to_start_timeout_ms=20_000, schedule_to_close_timeout_ms=30_000)
    )
    run.when(failed(run.hand_out("a")))
    run.wait(10)
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    old = run.hand_out("a")
    run.when(SaveProgress(old, b"half of it"))
    run.when(signal())
    run.turn()
    begun = run.reset(reset())

    assert begun.then.tasks == ["activity 5 ready 1", "workflow ready 1"]
    assert begun.then.timers == ["SCHEDULE_TO_START 5 +20s", "SCHEDULE_TO_CLOSE 5 +30s"]
    new = checked(begun.new)
    record = new.task("a")
    assert (record.attempt, record.progress, record.last_failure) == (1, b"", None)
    due_us = close_by_us(Draft(new.state, new.env()), new.state.folded.activities[5], record)
    assert due_us == new.now_us + 30 * SECOND_US
    new.reload()
    assert (
        close_by_us(Draft(new.state, new.env()), new.state.folded.activities[5], new.task("a"))
        == due_us
    )
    new.when(completed(new.hand_out("a")))
    checked(new)


def test_an_activity_that_was_asked_to_stop_has_stopped() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    run.hand_out("a")
    run.when(signal())
    run.turn(cmd.RequestCancelActivity(5))
    run.when(signal(101))
    run.turn()
    new = reset_of(run)

    assert new.names[-2:] == ["ActivityTaskCanceled", "WorkflowTaskScheduled"]
    assert not new.state.folded.activities


def test_timers_keep_the_time_at_which_they_are_due_and_the_run_gets_its_own_anew() -> None:
    run = Scenario(start(run_timeout_ms=60_000, execution_timeout_ms=90_000))
    run.turn(timer("t", 30), timer("gone", 5))
    run.fire(TimerKind.USER, 6)
    run.turn()
    run.wait(5)
    begun = run.reset(reset())

    assert begun.then.timers == ["RUN_TIMEOUT 0 +60s", "EXECUTION_TIMEOUT 0 +90s", "USER 5 +20s"]
    new = checked(begun.new)
    assert new.fire(TimerKind.USER, 5).events == ["12 TimerFired"]


def test_memo_attributes_markers_and_the_fold_are_those_of_the_point() -> None:
    run = Scenario(start())
    attribute = SearchAttribute("Stage", AttributeType.INT, 1)
    run.turn(cmd.UpsertSearchAttributes((attribute,)), cmd.RecordMarker("patch", b"", b"", None))
    run.when(signal())
    run.turn(cmd.UpsertSearchAttributes((SearchAttribute("Stage", AttributeType.INT, 2),)))
    new = reset_of(run)

    assert new.state.folded.search_attributes == (attribute,)
    assert "MarkerRecorded" in new.names
    begun = reset_of(new, 4, number=10)
    assert begun.state.folded.search_attributes == ()


def test_a_reset_run_is_not_paused() -> None:
    run = Scenario(start())
    run.turn(activity("a"))
    run.when(pause())
    new = reset_of(run, 4)
    assert new.task().state is TaskState.READY


# ---- what was sent after the point


def test_invariants_41_and_42_signals_go_along_in_order_and_none_is_taken_twice() -> None:
    """Those that stand in history, and those that wait because the workflow task is out."""
    run = Scenario(start())
    run.when(signal(100, signal_name="before"))
    run.turn()
    run.when(signal(101, signal_name="one"))
    run.turn()
    run.when(signal(102, signal_name="two"))
    run.hand_out()
    run.when(signal(103, signal_name="three"))
    run.wait(30)
    new = reset_of(run, 5)

    signals = [e for e in new.events if isinstance(e, ev.WorkflowExecutionSignaled)]
    assert [e.signal_name for e in signals] == ["before", "one", "two", "three"]
    assert [e.time_us for e in signals] == [START_US, *[START_US + 30 * SECOND_US] * 3]
    for number in range(100, 104):
        assert new.when(signal(number)) == Then()


def test_signals_can_be_left_out_and_are_still_not_taken_twice() -> None:
    run = Scenario(start())
    run.turn()
    run.when(signal())
    new = reset_of(run, reapply_exclude=frozenset({Reapply.SIGNAL}))

    assert "WorkflowExecutionSignaled" not in new.names
    assert new.when(signal()) == Then(), (
        "the call that is repeated was answered: it went to the old run"
    )


def test_a_cancellation_is_not_asked_for_again() -> None:
    """As Temporal: who resets a run that was canceled wants it to go on."""
    run = Scenario(start())
    run.turn()
    run.when(cancel())
    new = reset_of(run)

    assert not new.state.folded.cancel_requested
    assert new.when(cancel()) == Then()


def test_invariant_43_updates_wait_for_their_verdict_again() -> None:
    """Completed, accepted and admitted ones, in their order, each once."""
    run = Scenario(start())
    run.when(update("before"))
    run.turn(accept("before"), complete_update("before"))
    for update_id in ("completed", "accepted"):
        run.when(update(update_id))
        run.turn(accept(update_id))
    run.when(signal())
    run.turn(complete_update("completed"))
    run.when(update("admitted"))
    new = reset_of(run, 8, reapply_exclude=frozenset({Reapply.SIGNAL}))

    assert list(new.state.admitted or ()) == ["completed", "accepted", "admitted"]
    assert list(new.state.folded.updates or ()) == ["before"]
    assert new.when(update("completed")) == Then(), "who asks again joins"
    new.turn(*[accept(one) for one in ("completed", "accepted", "admitted")])
    checked(new)
    without = reset_of(new, 8, number=10, reapply_exclude=BOTH)
    assert without.state.admitted is None


def test_an_update_that_was_accepted_before_the_point_goes_on() -> None:
    run = Scenario(start())
    run.when(update())
    run.turn(accept())
    run.when(signal())
    run.turn(complete_update())
    new = reset_of(run)

    assert new.state.admitted is None
    new.turn(complete_update())
    checked(new)


def test_what_was_sent_to_the_runs_that_it_continued_as_goes_along() -> None:
    run = Scenario(start())
    run.turn()
    run.when(signal(100, signal_name="one"))
    run.turn(continue_as_new())
    last = run.next
    last.when(signal(101, signal_name="two"))
    last.when(update())
    begun = run.reset(reset(4), current=last, later=tuple(last.events))

    new = checked(begun.new)
    signals = [e.signal_name for e in new.events if isinstance(e, ev.WorkflowExecutionSignaled)]
    assert signals == ["one", "two"]
    assert list(new.state.admitted or ()) == ["u-1"]
    unrelated = Scenario(start())
    unrelated.turn(COMPLETE)
    other = unrelated.start(start(2)).new
    other.when(signal(102))
    alone = unrelated.reset(reset(), current=other).new
    assert "WorkflowExecutionSignaled" not in alone.names
    assert alone.when(signal(102)) == Then(), "it went to a run of this id"


def test_request_ids_stay_known_through_a_reset_and_what_follows_it() -> None:
    """Invariant 41, a day long: those of the base, those of the new run, in the order of their time."""
    run = Scenario(start())
    run.turn()
    for number in range(100, 240):
        run.wait(1)
        run.when(signal(number))
    run.turn()
    new = reset_of(run)
    new.when(signal(250))
    new.turn(continue_as_new())
    following = checked(new.next)

    times = [one[2] for one in following.started.request_ids]
    assert times == sorted(times)
    for number in (*range(100, 240), 250):
        assert following.when(signal(number)) == Then()
    following.turn()
    following.wait(24 * 3_600)
    assert reset_of(following, number=11).started.request_ids == (), (
        "a day later they are forgotten"
    )


# ---- children and other runs


def heard(run: Scenario) -> list[str]:
    return [name for name in run.names if name.startswith(("Child", "External", "StartChild"))]


def closes(run: Scenario, initiated_id: int, writer: int = 1) -> Then:
    """The child that run `writer` started by that event says that it has completed."""
    initiated = run.events[initiated_id - 1]
    assert isinstance(initiated, out.StartChildWorkflowExecutionInitiated)
    return run.when(
        CloseChild(
            namespace_id=NAMESPACE,
            workflow_id=WORKFLOW_ID,
            run_id=run_id(writer),
            initiated_event_id=initiated_id,
            child_workflow_id=initiated.workflow_id,
            child_run_id=request_id(99),
            child_workflow_type=initiated.workflow_type,
            closed=ev.WorkflowExecutionCompleted(9, START_US, b"done", 8),
        )
    )


def with_child(**changes: Any) -> Scenario:
    """Event 5 initiates the child "c", event 6 says that it has started, event 9 ends the next workflow task."""
    run = Scenario(start())
    run.turn(child("c", **changes))
    run.answer(5)
    run.turn()
    assert run.names[5] == "ChildWorkflowExecutionStarted"
    return run


def test_invariant_48_a_child_of_before_the_point_is_the_new_runs() -> None:
    """It is not told that its parent closed, and its end is heard by the run that has it now."""
    run = with_child()
    begun = run.reset(reset(9))
    new = checked(begun.new)

    assert begun.old.tasks == []
    assert list(new.state.folded.children or ()) == [5]
    assert 5 not in new.state.tasks, "its end will be told to the current run"
    assert closes(new, 5, writer=9) == Then(), "no child of that run has that number"
    closes(new, 5)
    assert heard(checked(new))[-1] == "ChildWorkflowExecutionCompleted"
    assert new.last(out.ChildWorkflowExecutionCompleted).started_event_id == 6
    assert closes(run, 5) == Then(), "invariant 47"


def test_what_the_base_has_heard_since_the_point_holds_for_the_new_run() -> None:
    """Also what was buffered; a start that was answered is not sent again."""
    run = Scenario(start())
    run.turn(child("c"), signal_other("x"), child("refused"))
    run.when(signal())
    run.turn()
    run.answer(5)
    run.answer(6)
    run.answer(7, MessageOutcome.ALREADY_EXISTS)
    run.hand_out()
    closes(run, 5)
    new = reset_of(run, 4 + 5 + 2)

    assert heard(new) == [
        "StartChildWorkflowExecutionInitiated",
        "StartChildWorkflowExecutionInitiated",
        "ChildWorkflowExecutionStarted",
        "ExternalWorkflowExecutionSignaled",
        "StartChildWorkflowExecutionFailed",
        "ChildWorkflowExecutionCompleted",
    ]
    assert new.last(out.ChildWorkflowExecutionCompleted).started_event_id == 12
    assert set(new.state.tasks) == {WORKFLOW_TASK_KEY}


def test_invariant_49_what_was_under_way_at_the_point_is_sent_again_by_its_old_ids() -> None:
    """A start, a signal and a cancellation that have no answer; the base does not send them any more."""
    run = Scenario(start())
    run.turn(child("c"), signal_other("x"), cancel_other("y"))
    run.when(signal())
    run.turn()
    before = [run.message(key) for key in (5, 6, 7)]
    begun = run.reset(reset(11))
    new = checked(begun.new)

    gone = [one for one in begun.old.tasks if one.startswith("message")]
    assert sorted(gone) == ["message 5 to c gone", "message 6 to x gone", "message 7 to y gone"]
    for key, was in zip((5, 6, 7), before, strict=True):
        now = new.message(key)
        assert now is not None
        assert was is not None
        assert now.intent.request_id == was.intent.request_id  # type: ignore[union-attr]
        assert now.intent.run_id == was.intent.run_id
    sent = new.message(5)
    assert sent is not None
    assert isinstance(sent.intent, StartWorkflow)
    assert sent.intent.parent is not None
    assert sent.intent.parent.run_id == run_id(1)
    new.answer(5)
    started = checked(new).last(out.ChildWorkflowExecutionStarted)
    assert started.run_id == sent.intent.run_id
    again = reset_of(new, 11, number=10)
    assert again.last(out.ChildWorkflowExecutionStarted).run_id == sent.intent.run_id


def test_the_children_of_undone_work_hear_of_it_and_give_way() -> None:
    """Their close policy applies; the new run's child of the same id takes the place of one that is still there."""
    run = with_child()
    run.when(signal())
    run.turn(child("later"))
    key = run.last(out.StartChildWorkflowExecutionInitiated).event_id
    theirs = run.message(key)
    run.answer(key)
    begun = run.reset(reset(9))
    new = checked(begun.new)

    assert f"message -{key} to later to_send 1" in begun.old.tasks
    new.turn(child("later"))
    mine = new.message(new.last(out.StartChildWorkflowExecutionInitiated).event_id)
    assert theirs is not None
    assert mine is not None
    assert isinstance(theirs.intent, StartWorkflow)
    assert isinstance(mine.intent, StartWorkflow)
    there = Scenario(theirs.intent)
    took_its_place = there.start(mine.intent)
    assert took_its_place.old.events[-1].endswith("WorkflowExecutionTerminated")
    assert took_its_place.reply == Started(mine.intent.run_id, True)
    stranger = Scenario(start())
    assert stranger.start(mine.intent).refused == "ALREADY_EXISTS WORKFLOW_ALREADY_STARTED"


def test_the_child_of_a_run_that_had_closed_is_asked_for_its_end() -> None:
    """Nobody listened when it told it: the answer is heard of the child itself, or that there is none any more."""
    run = with_child()
    run.when(signal())
    run.turn(COMPLETE)
    begun = run.reset(reset(9))
    new = checked(begun.new)

    assert begun.then.tasks == ["workflow ready 1", "message 5 to c to_send 1"]
    asked = new.message(5)
    assert asked is not None
    assert asked.intent == AskChild(
        namespace_id=NAMESPACE, workflow_id="c", run_id=b"", child_of=ChildOf(run_id(1), 5)
    )
    new.answer(5)
    assert heard(checked(new))[-1] == "ChildWorkflowExecutionStarted", "it is there, and will tell"
    gone = reset_of(run, 9, number=11)
    gone.answer(5, MessageOutcome.NOT_FOUND)
    assert heard(checked(gone))[-1] == "ChildWorkflowExecutionTerminated"


def test_a_child_that_is_asked_tells_its_parent_again() -> None:
    parent = Parent("order-0", run_id(5), 7, "order-0", run_id(5))
    run = Scenario(start(parent=parent))
    ask = AskChild(
        namespace_id=NAMESPACE, workflow_id=WORKFLOW_ID, run_id=b"", child_of=ChildOf(run_id(5), 7)
    )
    assert run.when(ask) == Then(), "it tells when it closes"
    run.turn(COMPLETE)
    key = run.events[-1].event_id
    run.answer(key)
    assert key not in run.state.tasks

    assert run.when(ask).tasks == [f"message {key} to order-0 to_send 1"]
    on_its_way = run.state.tasks[key].task_id
    run.when(ask)
    assert run.state.tasks[key].task_id != on_its_way, "it may have come to who did not listen"
    late = AnswerMessage(run.state.run_id, key, on_its_way, MessageOutcome.DONE)
    assert run.when(late) == Then()
    stranger = msgspec.structs.replace(ask, child_of=ChildOf(run_id(6), 7))
    assert run.when(stranger).refused == "NOT_FOUND WORKFLOW_NOT_FOUND"
    run.answer(key)
    again = run.start(start(parent=parent))
    assert again.old.tasks == [f"message {key} to order-0 to_send 1"], (
        "so does one that is started again"
    )


def test_a_reset_child_is_the_same_child() -> None:
    """Its parent does not hear of the run that the reset ended, only of how the new one ends."""
    parent = Parent("order-0", run_id(5), 7, "order-0", run_id(5))
    run = Scenario(start(parent=parent))
    run.turn(timer("t"))
    begun = run.reset(reset(4))
    new = checked(begun.new)

    assert [one for one in begun.old.tasks if "message" in one] == []
    new.turn(COMPLETE)
    told = new.message(new.events[-1].event_id)
    assert told is not None
    assert isinstance(told.intent, CloseChild)
    assert (told.intent.run_id, told.intent.initiated_event_id) == (run_id(5), 7)


def test_invariant_35_keys_are_those_of_the_run_that_did_the_work_through_two_resets() -> None:
    """The second reset goes to before the first one's point: what stands there is still the first run's."""
    run = with_child()
    run.when(signal())
    run.turn()
    first = reset_of(run, run.last(ev.WorkflowTaskCompleted).event_id)
    first.turn()
    second = reset_of(first, 9, number=10)

    assert second.started.lineage == ((8, run_id(1)), (8, run_id(9)))
    assert writer_of(second.started, 5) == run_id(1)
    assert writer_of(second.started, 9) == run_id(10)
    closes(second, 5)
    assert heard(checked(second))[-1] == "ChildWorkflowExecutionCompleted"
