"""What is poisoned and ready, and no surgical worker ever asks for, is suspended all the same (invariant 39).

A timer of its own stands for that (`decide/crashes.py`): there while the task is ready, and gone with what it is for.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.core.scenario import (
    COMPLETE,
    IDENTITY,
    NOTHING,
    SECOND_US,
    Scenario,
    Then,
    activity,
    came_back,
    cancel,
    completed,
    died,
    done,
    failed,
    options,
    pause,
    put_back,
    resume,
    save_start,
    signal,
    start,
    task_failed,
    terminate,
    timed_out,
    unpause,
)
from tests.unit.core.test_activity_operations import pause as pause_activity
from tests.unit.core.test_activity_operations import reset as reset_activity
from tests.unit.core.test_activity_operations import unpause as unpause_activity
from tests.unit.core.test_activity_operations import update as update_options
from tests.unit.core.test_crash_task import backoff, both, given, poison, poisoned_and_still_held

from perdure_engine.core import commands as cmd
from perdure_engine.core import intents
from perdure_engine.core.describe import describe
from perdure_engine.core.explain import WaitKind, explain
from perdure_engine.core.poison import SURGICAL
from perdure_engine.core.tasks import TaskState, TimerKind, TimerRecord
from perdure_engine.core.tokens import TaskToken
from perdure_engine.core.versions import Behavior, Versioning

DAY_S = 24 * 3_600
HALF_AN_HOUR_S = 1_800


def poisoned(name: str) -> Scenario:
    """Ready in the surgical pool, a minute after its three crashes."""
    run = given(name)
    poison(run, name)
    run.fire(*backoff(run, name))
    return run


def key(run: Scenario, name: str) -> int:
    return run.key_of(name) if name else 0


def watch(run: Scenario, name: str) -> TimerRecord | None:
    return run.state.timer_rows.get((TimerKind.SUSPENSION, key(run, name)))


def left_s(run: Scenario, name: str) -> float:
    row = watch(run, name)
    assert row is not None
    return (row.due_us - run.now_us) / SECOND_US


def out_of_time(run: Scenario, name: str) -> Then:
    return run.fire(TimerKind.SUSPENSION, key(run, name))


def suspended(run: Scenario) -> bool:
    return describe(run.state).suspended


# ---- nobody asks for it


@both
def test_invariant_39_what_nobody_asks_for_is_suspended_after_24_hours_once(name: str) -> None:
    """Counted from its first crash, over a take-over; with one row in the audit log."""
    run = poisoned(name)
    assert left_s(run, name) == DAY_S - 60
    run.reload()
    row = watch(run, name)
    assert row is not None
    run.now_us = row.due_us
    fire = intents.FireTimer(run.state.run_id, row.kind, row.reference, row.wake_us, row.timer_id)

    run.decide(fire)
    assert run.draft is not None
    (entry,) = run.draft.audit or []
    then = run.commit()
    kind = "activity 5" if name else "workflow"
    assert [event.split()[1] for event in then.events] == ["WorkflowExecutionPaused"]
    assert then.tasks == [f"{kind} paused 1"]
    assert then.timers == [f"SUSPENSION {key(run, name)} gone"]
    assert (entry.action, entry.identity, entry.subject) == ("workflow.suspend", "perdure", name)
    assert "crashed 3 times in a row, for the first time at 2027-01-15T08:00:00Z" in entry.reason
    assert suspended(run)
    assert run.when(fire) == NOTHING, "once"


@both
def test_invariant_39_what_is_started_at_the_last_minute_and_completes_is_not(name: str) -> None:
    """While somebody has it its crash decides. That it is out is saved when the timer goes."""
    run = poisoned(name)
    run.wait(DAY_S - 120)
    token = run.hand_out(name)

    kind = "activity 5" if name else "workflow"
    assert out_of_time(run, name) == Then(
        tasks=[f"{kind} started 1"], timers=[f"SUSPENSION {key(run, name)} gone"]
    )
    run.wait(3_600)
    run.reload()
    then = run.when(completed(token) if name else done(token, COMPLETE))
    assert not then.refused
    assert not suspended(run)
    assert "WorkflowExecutionPaused" not in run.names


@both
def test_a_start_that_is_saved_already_is_left_as_it_is(name: str) -> None:
    run = poisoned(name)
    run.when(save_start(run.hand_out(name)))

    assert out_of_time(run, name) == Then(timers=[f"SUSPENSION {key(run, name)} gone"])


@both
@pytest.mark.parametrize("end", [died, put_back], ids=["its worker dies", "it is put back"])
def test_invariant_39_what_comes_back_after_24_hours_is_suspended_then(
    name: str, end: Callable[[TaskToken], intents.Intent]
) -> None:
    """Counted or not: nobody may get it any more."""
    run = poisoned(name)
    run.wait(DAY_S - 120)
    token = run.hand_out(name)
    run.when(signal())
    out_of_time(run, name)
    run.reload()

    assert run.when(end(token)).events[-1].endswith("WorkflowExecutionPaused")
    assert (suspended(run), run.task(name).state) == (True, TaskState.PAUSED)


@both
def test_what_is_put_back_before_has_its_timer_still(name: str) -> None:
    run = poisoned(name)
    before = watch(run, name)
    run.when(put_back(run.hand_out(name), worker_dead=False))
    assert watch(run, name) is before
    run.when(save_start(run.hand_out(name)))
    run.reload()
    out_of_time(run, name)
    assert not suspended(run), "it may be out"


# ---- the operator lets it go


@both
def test_invariant_39_to_resume_gives_24_hours_anew(name: str) -> None:
    run = poisoned(name)
    out_of_time(run, name)
    run.wait(7)
    run.when(resume())
    assert left_s(run, name) == DAY_S
    run.wait(5)
    run.when(resume(341))
    assert left_s(run, name) == DAY_S, "of one that is ready"
    run.hand_out(name)
    run.wait(5)
    run.when(resume(342))
    assert left_s(run, name) == DAY_S, "of one that is out"

    run.reload()
    out_of_time(run, name)
    assert suspended(run)


@both
def test_a_resume_of_one_whose_start_is_saved_counts_when_it_is_put_back(name: str) -> None:
    run = poisoned(name)
    token = run.hand_out(name)
    run.when(save_start(token))
    run.wait(DAY_S - 120)
    run.when(resume())
    assert watch(run, name) is None
    run.wait(3_600)

    run.when(put_back(token))
    assert left_s(run, name) == DAY_S - 3_600


@both
def test_what_an_operator_held_back_for_24_hours_is_offered_once_more(name: str) -> None:
    """For as long as the longest delay."""
    run = poisoned(name)
    held: list[tuple[intents.Intent, intents.Intent]] = [(pause(), unpause())]
    if name:
        held.append((pause_activity(), unpause_activity()))
    for hold, let_go in held:
        assert f"SUSPENSION {key(run, name)} gone" in run.when(hold).timers
        run.wait(2 * DAY_S)
        run.reload()
        run.when(let_go)
        assert (run.task(name).state, run.task(name).pool) == (TaskState.READY, SURGICAL)
        assert left_s(run, name) == HALF_AN_HOUR_S

    out_of_time(run, name)
    assert suspended(run)


@both
def test_what_was_held_back_for_less_is_suspended_at_its_time(name: str) -> None:
    run = poisoned(name)
    run.when(pause())
    run.wait(3_600)
    run.when(unpause())
    assert left_s(run, name) == DAY_S - 60 - 3_600


@both
def test_what_comes_back_while_it_is_held_back_waits_for_its_operator(name: str) -> None:
    run = poisoned(name)
    token = run.hand_out(name)
    run.when(pause_activity() if name else pause())
    run.wait(2 * DAY_S)
    run.when(put_back(token))

    assert run.task(name).state is TaskState.PAUSED
    assert (watch(run, name), suspended(run)) == (None, False)


def test_the_suspension_of_one_task_is_that_of_all() -> None:
    run = Scenario(start())
    run.turn(activity("a"), activity("b"))
    for name in ("a", "b"):
        poison(run, name)
        run.fire(*backoff(run, name))

    assert out_of_time(run, "a").timers == ["SUSPENSION 5 gone", "SUSPENSION 6 gone"]
    run.when(resume())
    assert left_s(run, "a") == left_s(run, "b") == DAY_S


# ---- the timer goes with what it is for


@both
@pytest.mark.parametrize("is_out", [False, True], ids=["ready", "out"])
def test_what_is_poisoned_no_longer_is_suspended_no_longer(name: str, is_out: bool) -> None:
    """Its workers were thought dead, and live."""
    run, token = poisoned_and_still_held(name)
    run.fire(*backoff(run, name))
    if is_out:
        run.hand_out(name)

    assert run.when(came_back(token)).timers == [f"SUSPENSION {key(run, name)} gone"]
    assert (run.task(name).pool, watch(run, name)) == ("", None)


REPORTS: dict[str, Callable[[TaskToken], intents.Intent]] = {
    "completed": completed,
    "failed": failed,
    "timed out": timed_out,
    "checkpoint": lambda token: intents.HeartbeatActivity(token, b"saved"),
    "handed over": lambda token: intents.HandOverActivity(token, b"", IDENTITY),
    "reset": lambda _: reset_activity(),
    "terminated": lambda _: terminate(),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize("is_saved", [False, True], ids=["start not saved", "start saved"])
def test_an_attempt_that_ends_or_gets_on_takes_the_timer_along(
    report: Callable[[TaskToken], intents.Intent], is_saved: bool
) -> None:
    run = poisoned("a")
    token = run.hand_out("a")
    if is_saved:
        run.when(save_start(token))

    assert "SUSPENSION 5 gone" in run.when(report(token)).timers
    assert (TimerKind.SUSPENSION, 5) not in run.state.timer_rows


@pytest.mark.parametrize("end", [done, task_failed, timed_out])
def test_so_does_a_workflow_task(end: Callable[[TaskToken], intents.Intent]) -> None:
    run = poisoned("")
    assert "SUSPENSION 0 gone" in run.when(end(run.hand_out())).timers


def test_an_activity_that_is_canceled_or_reset_while_it_is_ready_has_no_timer() -> None:
    run = poisoned("a")
    run.when(cancel())
    run.turn(cmd.RequestCancelActivity(5))
    assert (TimerKind.SUSPENSION, 5) not in run.state.timer_rows

    run = poisoned("a")
    assert run.when(reset_activity()).timers == ["SUSPENSION 5 gone"]


def test_another_queue_or_version_moves_the_task_and_leaves_the_timer() -> None:
    run = poisoned("a")
    before = watch(run, "a")
    assert run.when(update_options(task_queue="elsewhere")).timers == []
    assert run.task("a").queue == "elsewhere"
    run.when(options(60, Versioning(Behavior.PINNED, "shop", "1")))
    assert run.task("a").pinned
    assert watch(run, "a") is before


# ---- said of it


@both
def test_it_does_not_look_as_if_it_backed_off(name: str) -> None:
    run = poisoned(name)
    said = describe(run.state)
    if name:
        (pending,) = said.activities
        assert (pending.state, pending.next_attempt_us) == ("SCHEDULED", 0)
    else:
        assert said.workflow_task is not None
        assert said.workflow_task.next_attempt_us == 0
    (why,) = explain(run.state).reasons
    assert (why.kind, why.until_us) == (WaitKind.POISONED, 0)
