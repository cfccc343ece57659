"""Outcomes of activities that wake nobody before it is worth it, and everything else that wakes as ever."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.core.scenario import (
    Scenario,
    activity,
    application,
    cancel,
    completed,
    done,
    failed,
    put_back,
    signal,
    start,
)

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core.fan_out import WakeRule
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TimerKind

ONCE = RetryPolicy(maximum_attempts=1)


def fan_out(*rules: WakeRule, count: int = 4) -> Scenario:
    """A run with activities "0", "1", … of which `rules` say when they wake it."""
    run = Scenario(start())
    commands = [activity(str(number), retry_policy=ONCE) for number in range(count)]
    run.when(with_rules(done(run.hand_out(), *commands), *rules))
    return run


def with_rules(intent: object, *rules: WakeRule) -> object:
    return msgspec.structs.replace(intent, wake_rules=rules)  # type: ignore[type-var]


def awake(run: Scenario) -> bool:
    return WORKFLOW_TASK_KEY in run.state.tasks


def ends(run: Scenario, *activity_ids: str) -> list[bool]:
    """Whether the run is awake after each of them has completed."""
    found = []
    for activity_id in activity_ids:
        run.when(completed(run.hand_out(activity_id)))
        found.append(awake(run))
    return found


def rule(*activity_ids: str, **numbers: int) -> WakeRule:
    return WakeRule(list(activity_ids), **numbers)


def test_without_a_rule_every_outcome_wakes() -> None:
    assert ends(fan_out(), "0") == [True]


def test_when_all_have_ended_it_wakes() -> None:
    run = fan_out(rule("0", "1", "2", "3"))

    assert ends(run, "0", "1", "2", "3") == [False, False, False, True]
    assert [type(event).__name__ for event in run.events[-1:]] == ["WorkflowTaskScheduled"]


@pytest.mark.parametrize(
    ("numbers", "woken"),
    [
        ({"ended": 2}, [False, True]),
        ({"completed": 2}, [False, True]),
        ({"failed": 1}, [False, False]),
    ],
)
def test_a_number_that_is_reached_wakes(numbers: dict[str, int], woken: list[bool]) -> None:
    assert ends(fan_out(rule("0", "1", "2", "3", **numbers)), "0", "1") == woken


def test_a_failure_is_counted_when_it_is_final() -> None:
    run = Scenario(start())
    twice = activity("0", retry_policy=RetryPolicy(maximum_attempts=2))
    intent = done(run.hand_out(), twice, activity("1"))
    run.when(with_rules(intent, rule("0", "1", failed=1)))
    run.when(put_back(run.hand_out("0")))
    run.when(failed(run.hand_out("0")))
    assert not awake(run)
    run.wait(60)
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    run.when(failed(run.hand_out("0"), application("again")))
    assert awake(run)


def test_one_that_no_rule_names_wakes() -> None:
    assert ends(fan_out(rule("0", "1")), "0", "2") == [False, True]


def test_rules_are_counted_apart() -> None:
    assert ends(fan_out(rule("0", "1"), rule("2", "3")), "0", "2", "1") == [False, False, True]


@pytest.mark.parametrize("intent", [signal(), cancel()], ids=["signal", "cancel"])
def test_everything_else_wakes_as_ever_and_sees_what_happened(intent: object) -> None:
    run = fan_out(rule("0", "1", "2", "3"))
    ends(run, "0", "1")
    run.when(intent)  # type: ignore[arg-type]
    assert awake(run)
    assert [type(event).__name__ for event in run.events].count("ActivityTaskCompleted") == 2


def test_what_ends_while_the_workflow_task_is_out_is_counted_against_the_new_rule() -> None:
    """Invariants 4, 16: it waits in the inbox, is numbered behind the commands, and counts once."""
    run = fan_out(rule("0", "1", "2", "3", ended=1))
    ends(run, "0")
    token = run.hand_out()
    run.when(completed(run.hand_out("1")))
    run.when(with_rules(done(token), rule("1", "2", "3", ended=2)))
    assert not awake(run)
    assert ends(run, "2") == [True]


def test_the_next_workflow_task_takes_the_rules_away() -> None:
    run = fan_out(rule("0", "1", "2", "3"))
    run.when(signal())
    run.turn()
    assert ends(run, "0") == [True]


def test_invariant_4_a_restart_counts_on() -> None:
    run = fan_out(rule("0", "1", "2", "3", completed=3))
    ends(run, "0", "1")
    run.reload()
    assert ends(run, "2") == [True]


@pytest.mark.parametrize(
    "rules",
    [
        [rule()],
        [rule("9")],
        [rule("0", "0")],
        [rule("0"), rule("0", "1")],
        [rule("0", ended=-1)],
    ],
    ids=["names none", "not pending", "twice", "in two rules", "negative"],
)
def test_a_rule_that_could_never_be_met_fails_the_task(rules: list[WakeRule]) -> None:
    run = fan_out(*rules)

    failure = run.last(ev.WorkflowTaskFailed)
    assert failure.cause is ev.WorkflowTaskFailedCause.BAD_COMMAND
    assert failure.failure is not None
    assert "wake rule" in failure.failure.message
    assert not run.state.folded.activities


def test_a_closing_command_needs_no_rules() -> None:
    run = fan_out(rule("0", "1", "2", "3"))
    ends(run, "0", "1", "2", "3")
    run.turn(cmd.CompleteWorkflow(b"done"))
    assert not run.state.open
