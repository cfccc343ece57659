"""Updates: admitted before they are acknowledged, one outcome per id, nothing left of a rejected one (semantics §6)."""

from __future__ import annotations

import pytest
from tests.unit.core.saved import CODEC
from tests.unit.core.scenario import (
    CLOSED,
    COMPLETE,
    NOTHING,
    START_US,
    Scenario,
    Then,
    accept,
    application,
    complete_update,
    done,
    put_back,
    reject,
    save_start,
    signal,
    start,
    task_failed,
    terminate,
    timed_out,
    timer,
    update,
)

from perdure_engine.core import events as ev
from perdure_engine.core import intents, update_status
from perdure_engine.core.intents import IdConflictPolicy, StartUpdate, UpdateStage
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.replies import Started
from perdure_engine.core.tasks import TimerKind

ADMITTED = ["WorkflowExecutionUpdateAdmitted"]
REUSED = Then(refused="INVALID_ARGUMENT UPDATE_ID_REUSED")
IN_FLIGHT = Then(refused="RESOURCE_EXHAUSTED TOO_MANY_UPDATES_IN_FLIGHT")
TOO_MANY = Then(refused="RESOURCE_EXHAUSTED TOO_MANY_UPDATES")
TASK = ["WorkflowTaskStarted", "WorkflowTaskCompleted"]


def names(then: Then) -> list[str]:
    return [text.partition(" ")[2] for text in then.events]


def waiting() -> Scenario:
    """A run whose first workflow task is over: it waits."""
    run = Scenario(start())
    run.turn()
    return run


# ---- admission


def test_an_admitted_update_is_saved_in_the_inbox_and_wakes_the_workflow() -> None:
    run = waiting()
    run.wait(2)

    then = run.when(update())

    assert then == Then(
        events=["5 WorkflowTaskScheduled"], buffered=ADMITTED, tasks=["workflow ready 1"]
    )
    (row,) = run.saved.inbox.values()
    assert CODEC.decode_buffered(row.payload) == ev.WorkflowExecutionUpdateAdmitted(
        0, START_US + 2_000_000, "u-1", "set address", b"args", b"h", "me", b"update"
    )
    assert update_status.stage_of(run.state, "u-1") is UpdateStage.ADMITTED


def test_an_update_meant_for_another_chain_does_not_reach_this_one() -> None:
    """The id was started anew: neither is it admitted, nor does it join one of the same id."""
    run = waiting()

    assert run.when(update(first_run_id=b"b" * 16)) == CLOSED
    first = run.state.folded.started.first_run_id
    assert run.when(update(first_run_id=first)).buffered == ADMITTED
    assert run.when(update(first_run_id=b"b" * 16)) == CLOSED
    assert run.when(update(first_run_id=first)) == NOTHING


def test_an_update_joins_a_workflow_task_that_waits() -> None:
    run = Scenario(start())

    assert run.when(update()) == Then(buffered=ADMITTED)


def test_an_update_does_not_wait_for_a_start_delay() -> None:
    run = Scenario(start(start_delay_ms=5_000))

    then = run.when(update())

    assert then.events == ["2 WorkflowTaskScheduled"]
    assert then.timers == ["START_DELAY 0 gone"]


@pytest.mark.parametrize("saved", [False, True], ids=["hand-out unsaved", "hand-out saved"])
def test_an_update_during_a_workflow_task_goes_out_with_the_next(saved: bool) -> None:
    run = Scenario(start())
    token = run.hand_out()
    if saved:
        run.when(save_start(token))

    assert run.when(update()) == Then(buffered=ADMITTED)
    assert names(run.when(done(token, timer("t")))) == [
        *TASK,
        "TimerStarted",
        "WorkflowTaskScheduled",
    ]
    assert names(run.turn(accept())) == [*TASK, "WorkflowExecutionUpdateAccepted"]


def test_a_signal_and_an_update_of_one_task_time_keep_their_own_ways() -> None:
    """Their rows lie mixed in the inbox: numbering one kind must neither lose nor revive the other."""
    run = Scenario(start())
    token = run.hand_out()
    run.when(update("u-1"))
    run.when(signal(1))
    run.when(update("u-2"))
    run.when(signal(2))

    then = run.when(done(token))

    assert names(then) == [
        *TASK,
        "WorkflowExecutionSignaled",
        "WorkflowExecutionSignaled",
        "WorkflowTaskScheduled",
    ]
    run.reload()
    assert list(run.state.admitted or ()) == ["u-1", "u-2"]
    assert run.state.buffered == []
    run.turn(reject("u-1"), accept("u-2"))
    assert run.state.inbox_done == run.state.inbox_seq == 4


# ---- verdicts


def test_an_accepted_update_is_an_event_with_its_whole_request() -> None:
    run = waiting()
    run.when(update())

    then = run.turn(accept())

    assert names(then) == [*TASK, "WorkflowExecutionUpdateAccepted"]
    assert run.last(ev.WorkflowExecutionUpdateAccepted) == ev.WorkflowExecutionUpdateAccepted(
        8, START_US, "u-1", "set address", b"args", b"h", "me", b"update", 7
    )
    assert run.state.admitted is None
    assert run.state.folded.updates_running == 1
    assert update_status.stage_of(run.state, "u-1") is UpdateStage.ACCEPTED


def test_an_update_may_complete_in_the_task_that_accepts_it_or_in_a_later_one() -> None:
    run = waiting()
    run.when(update("u-1"))
    run.when(update("u-2"))

    assert names(run.turn(accept("u-1"), accept("u-2"), complete_update("u-1")))[2:] == [
        "WorkflowExecutionUpdateAccepted",
        "WorkflowExecutionUpdateAccepted",
        "WorkflowExecutionUpdateCompleted",
    ]
    run.when(signal())
    run.turn(complete_update("u-2", b"", application()))

    assert run.last(ev.WorkflowExecutionUpdateCompleted) == ev.WorkflowExecutionUpdateCompleted(
        15, START_US, "u-2", 9, b"", application(), 14
    )
    assert run.state.folded.updates_running == 0


def test_invariant_43_a_rejected_update_leaves_no_event_and_no_live_row() -> None:
    run = waiting()
    run.when(update())

    then = run.turn(reject())

    assert names(then) == TASK
    assert run.rejected_updates == {"u-1": application("not now", "Refused")}
    assert run.state.inbox_done == run.state.inbox_seq
    assert run.state.folded.updates is None
    run.reload()
    assert run.state.admitted is None
    assert run.when(update()).buffered == ADMITTED, "as if it never had been"


def test_a_task_that_says_nothing_of_an_update_fails() -> None:
    """Or the update would wait for a task that nobody schedules."""
    run = waiting()
    run.when(update("u-1"))
    run.when(update("u-2"))

    run.turn(accept("u-1"))

    failed = run.last(ev.WorkflowTaskFailed)
    assert failed.cause is ev.WorkflowTaskFailedCause.BAD_UPDATE
    assert failed.failure is not None
    assert failed.failure.message == "update 'u-2' was neither accepted nor rejected"
    assert list(run.state.admitted or ()) == ["u-1", "u-2"]


@pytest.mark.parametrize(
    "commands",
    [
        [accept("?")],
        [reject("?")],
        [complete_update("?")],
        [complete_update("u-1"), accept("u-1")],
        [accept("u-1"), accept("u-1")],
        [accept("u-1"), reject("u-1")],
        [reject("u-1"), complete_update("u-1")],
        [accept("u-1"), complete_update("u-1"), complete_update("u-1")],
    ],
    ids=lambda commands: " ".join(type(one).__name__ for one in commands),
)
def test_a_verdict_that_makes_no_sense_fails_the_task_with_its_cause(
    commands: list[object],
) -> None:
    run = waiting()
    run.when(update())

    run.turn(*commands)  # type: ignore[arg-type]

    assert run.last(ev.WorkflowTaskFailed).cause is ev.WorkflowTaskFailedCause.BAD_UPDATE
    assert list(run.state.admitted or ()) == ["u-1"], "it comes again"


@pytest.mark.parametrize("fails", [task_failed, put_back, timed_out], ids=lambda f: f.__name__)
def test_an_update_goes_out_again_when_its_task_came_to_nothing(fails: object) -> None:
    run = waiting()
    run.when(update())
    run.when(fails(run.hand_out()))  # type: ignore[operator]
    if TimerKind.WORKFLOW_TASK_BACKOFF in {kind for kind, _ in run.state.timer_rows}:
        run.fire(TimerKind.WORKFLOW_TASK_BACKOFF)

    assert "WorkflowExecutionUpdateAccepted" in names(run.turn(accept()))


def test_an_accepted_update_outlives_the_worker_that_accepted_it() -> None:
    """Killed between acceptance and completion: the next worker replays it from its event and completes it."""
    run = waiting()
    run.when(update())
    run.turn(accept(), timer("t"))
    run.reload()
    run.fire(TimerKind.USER, run.last(ev.TimerStarted).event_id)
    token = run.hand_out()
    run.when(put_back(token))

    run.turn(complete_update())

    assert run.last(ev.WorkflowExecutionUpdateCompleted).result == b"updated"


# ---- once per id (invariant 43)


def test_invariant_43_a_repeat_joins_the_first_at_every_stage_and_after_a_restart() -> None:
    run = waiting()
    for commands in ([], [accept(), timer("t")], [complete_update()]):
        if commands:
            if "WORKFLOW" not in {one.kind.name for one in run.state.tasks.values()}:
                run.when(signal())
            run.turn(*commands)
        else:
            run.when(update())
        assert run.when(update(identity="another", header=b"other")) == NOTHING
        run.reload()
        assert run.when(update()) == NOTHING
        assert run.when(update(body_hash=b"other")) == REUSED
        assert run.rejected is not None
        assert run.rejected.field == "update_id"


def test_a_repeat_after_the_end_of_the_run_still_finds_it() -> None:
    run = waiting()
    run.when(update("u-1"))
    run.turn(accept("u-1"), complete_update("u-1"), COMPLETE)

    assert run.when(update("u-1")) == NOTHING
    assert run.when(update("u-2")) == CLOSED


def test_the_token_of_before_a_take_over_says_which_updates_its_worker_saw() -> None:
    """Invariant 43: an update admitted after the hand-out is not taken for seen, whoever owns the shard by now."""
    run = Scenario(start())
    run.when(update("u-1"))
    token = run.hand_out()
    run.when(update("u-2"))
    run.reload()

    then = run.when(done(token, accept("u-1")))

    assert names(then) == [*TASK, "WorkflowExecutionUpdateAccepted", "WorkflowTaskScheduled"]
    assert list(run.state.admitted or ()) == ["u-2"]


# ---- limits


def test_at_most_so_many_are_in_flight() -> None:
    run = Scenario(start(), limits=RunLimits(updates_in_flight_max=2))
    run.when(update("u-1"))
    run.when(update("u-2"))

    assert run.when(update("u-3")) == IN_FLIGHT
    run.turn(accept("u-1"), reject("u-2"))
    assert run.when(update("u-3")).buffered == ADMITTED
    assert run.when(update("u-4")) == IN_FLIGHT
    run.turn(accept("u-3"), complete_update("u-1"), complete_update("u-3"))
    assert run.when(update("u-4")).buffered == ADMITTED
    assert RunLimits().updates_in_flight_max == 10


def test_a_run_takes_so_many_in_all_and_is_told_to_continue_as_new_before() -> None:
    run = Scenario(start(), limits=RunLimits(updates_max=10))
    for number in range(10):
        run.when(update(f"u-{number}"))
        run.turn(accept(f"u-{number}"), complete_update(f"u-{number}"))
        suggested = run.last(ev.WorkflowTaskStarted).suggest_continue_as_new
        assert suggested == (number >= 9), number

    assert run.when(update("u-10")) == TOO_MANY
    assert run.when(update("u-3")) == NOTHING, "a repeat needs no room"
    assert RunLimits().updates_max == 2_000


# ---- the end of the run


def test_a_closing_command_with_an_unseen_update_runs_the_task_again() -> None:
    run = Scenario(start())
    token = run.hand_out()
    run.when(update())

    then = run.when(done(token, COMPLETE))

    assert names(then) == ["WorkflowTaskStarted", "WorkflowTaskFailed", "WorkflowTaskScheduled"]
    failed = run.last(ev.WorkflowTaskFailed)
    assert failed.cause is ev.WorkflowTaskFailedCause.UNHANDLED_COMMAND
    run.turn(accept(), complete_update(), COMPLETE)
    assert not run.state.open


def test_an_update_that_was_seen_does_not_hold_up_the_end() -> None:
    run = Scenario(start())
    run.when(update())

    run.turn(COMPLETE)

    assert not run.state.open
    assert run.state.admitted is None
    assert update_status.stage_of(run.state, "u-1") is None
    refusal = update_status.closed_before(run.state, "u-1")
    assert (refusal.code.name, refusal.reason) == ("NOT_FOUND", "WORKFLOW_CLOSED")


def test_invariant_44_an_accepted_update_of_a_closed_run_has_a_failure_for_its_outcome() -> None:
    run = waiting()
    run.when(update("u-1"))
    run.turn(accept("u-1"))
    run.when(update("u-2"))
    run.when(terminate())
    run.reload()

    assert update_status.stage_of(run.state, "u-1") is UpdateStage.COMPLETED
    status = update_status.status(run.state, "u-1", UpdateStage.COMPLETED)
    assert status.failure is not None
    assert status.failure.type == "AcceptedUpdateCompletedWorkflow"
    assert status.failure.non_retryable
    assert update_status.stage_of(run.state, "u-2") is None
    assert run.state.inbox_done == run.state.inbox_seq


# ---- with a start


def first(update_id: str = "u-1", body_hash: bytes = b"update") -> StartUpdate:
    return StartUpdate(update_id, "set address", b"args", b"h", body_hash, UpdateStage.COMPLETED)


def with_start(number: int = 1, **changes: object) -> intents.StartWorkflow:
    fields = {"update": first(), "id_conflict_policy": IdConflictPolicy.USE_EXISTING} | changes
    return start(number, **fields)


def test_update_with_start_admits_the_update_in_the_run_that_begins() -> None:
    run = Scenario(with_start())

    assert run.begun == Then(
        events=["1 WorkflowExecutionStarted", "2 WorkflowTaskScheduled"],
        buffered=ADMITTED,
        tasks=["workflow ready 1"],
        reply=Started(run.state.run_id, True),
    )
    assert names(run.turn(accept())) == [*TASK, "WorkflowExecutionUpdateAccepted"]


def test_update_with_start_admits_it_in_the_run_that_is_there() -> None:
    run = waiting()

    begun = run.start(with_start(2))

    assert begun.reply == Started(run.state.run_id, False)
    assert begun.old.buffered == ADMITTED
    again = run.start(with_start(3))
    assert (again.reply, again.old) == (Started(run.state.run_id, False), NOTHING)


def test_a_repeated_update_with_start_answers_the_same_and_reuse_is_refused() -> None:
    run = Scenario(with_start())

    again = run.start(with_start(1))
    other = run.start(with_start(2, update=first(body_hash=b"other")))

    assert (again.reply, again.old) == (Started(run.state.run_id, True), NOTHING)
    assert other.refused == "INVALID_ARGUMENT UPDATE_ID_REUSED"


def test_update_with_start_finds_the_outcome_in_a_run_that_has_closed() -> None:
    run = Scenario(with_start())
    run.turn(accept(), complete_update(), COMPLETE)

    begun = run.start(with_start(2))

    assert begun.reply == Started(run.state.run_id, False)
    assert begun.run is None


def test_update_with_start_with_no_room_starts_and_changes_nothing() -> None:
    run = Scenario(start(), limits=RunLimits(updates_in_flight_max=1))
    run.when(update("u-0"))

    assert run.start(with_start(2)).refused == "RESOURCE_EXHAUSTED TOO_MANY_UPDATES_IN_FLIGHT"
