"""A run and its version: where it was last run, what pins it, what it hands on (semantics §8)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.core.scenario import (
    COMPLETE,
    NAMESPACE,
    Scenario,
    activity,
    continue_as_new,
    done,
    options,
    put_back,
    signal,
    start,
)

from perdure_engine.core import events as ev
from perdure_engine.core import search_attributes
from perdure_engine.core.decide.start_workflow import decide as decide_start
from perdure_engine.core.describe import describe
from perdure_engine.core.ids import queue_number
from perdure_engine.core.intents import CompleteWorkflowTask
from perdure_engine.core.state import pinned_version, version_ran_on, versioning_of
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.versions import (
    Behavior,
    Versioning,
    bucket,
    split_version,
    version_name,
)

PINNED = Behavior.PINNED
AUTO = Behavior.AUTO_UPGRADE
ONE = Versioning(PINNED, "shop", "1")


def turn(
    run: Scenario, *commands: Any, behavior: Behavior, build: str = "1", deployment: str = "shop"
) -> None:
    run.when(by_version(run, *commands, behavior=behavior, build=build, deployment=deployment))


def by_version(
    run: Scenario, *commands: Any, behavior: Behavior, build: str = "1", deployment: str = "shop"
) -> CompleteWorkflowTask:
    """A workflow task completed by a worker of the version."""
    return msgspec.structs.replace(
        done(run.hand_out(), *commands),
        build_id=build,
        deployment_name=deployment,
        behavior=behavior,
    )


def test_a_run_is_pinned_to_the_version_that_ran_it_if_its_code_says_so() -> None:
    run = Scenario(start())
    turn(run, activity("a"), behavior=PINNED)
    run.when(signal())

    completed = run.last(ev.WorkflowTaskCompleted)
    assert (completed.deployment_name, completed.build_id) == ("shop", "1")
    assert completed.behavior is PINNED
    assert pinned_version(run.state.folded) == "shop.1"
    assert run.task().pinned == run.task("a").pinned == "shop.1"


def test_tasks_of_a_pinned_run_are_paged_apart_from_all_others() -> None:
    """Invariant 15: a version without workers must not fill the credit of its queue."""
    run = Scenario(start())
    free = run.task().queue_no
    turn(run, activity("a"), behavior=PINNED)
    run.when(signal())

    queue = run.task().queue
    assert run.task().queue_no == queue_number(
        NAMESPACE, TaskKind.WORKFLOW, bucket(queue, "shop.1")
    )
    assert run.task().queue_no != free


def test_a_run_that_upgrades_is_pinned_to_nothing_and_knows_where_it_ran() -> None:
    run = Scenario(start())
    turn(run, activity("a"), behavior=AUTO)
    assert version_ran_on(run.state.folded) == "shop.1"

    run.when(signal())
    turn(run, behavior=AUTO, build="2")

    assert pinned_version(run.state.folded) == ""
    assert run.task("a").pinned == ""
    assert versioning_of(run.state.folded) == Versioning(AUTO, "shop", "2")


def test_workers_without_a_version_leave_no_trace() -> None:
    run = Scenario(start())
    turn(run, activity("a"), behavior=Behavior.UNSPECIFIED, deployment="")

    assert run.state.folded.versioning is None
    assert describe(run.state).info.versioning is None
    assert run.task("a").queue_no == queue_number(NAMESPACE, TaskKind.ACTIVITY, run.task("a").queue)


def test_a_run_that_goes_back_to_such_workers_forgets_its_version() -> None:
    run = Scenario(start())
    turn(run, behavior=AUTO)
    run.when(signal())
    turn(run, behavior=Behavior.UNSPECIFIED, deployment="")

    assert run.state.folded.versioning is None


def test_lists_hear_of_a_version_when_it_changes_and_only_then() -> None:
    """What costs a row is written once, not with each workflow task."""
    run = Scenario(start())
    listed = []
    for number, build in enumerate(("1", "1", "2")):
        run.decide(by_version(run, behavior=AUTO, build=build))
        assert run.draft is not None
        listed.append(run.draft.listed)
        run.commit()
        run.when(signal(number))

    assert listed == [True, False, True]


# ---- overrides


@pytest.mark.parametrize("said", [PINNED, AUTO])
def test_a_start_can_pin_a_run_whatever_its_code_says(said: Behavior) -> None:
    override = Versioning(PINNED, "shop", "7")
    run = Scenario(start(versioning_override=override))
    assert run.task().pinned == "shop.7"

    turn(run, activity("a"), behavior=said, build="7")

    assert run.task("a").pinned == "shop.7"
    assert describe(run.state).info.versioning == override
    assert describe(run.state).versioning_override == override


def test_a_start_can_have_a_pinned_run_upgrade() -> None:
    run = Scenario(start(versioning_override=Versioning(AUTO)))
    turn(run, activity("a"), behavior=PINNED)

    assert run.task("a").pinned == ""
    assert versioning_of(run.state.folded) == Versioning(AUTO, "shop", "1")


# ---- another override for an open run


TO_TWO = Versioning(PINNED, "shop", "2")


def test_what_is_ready_goes_where_the_override_says_and_nobody_is_woken() -> None:
    run = Scenario(start())
    turn(run, activity("a"), activity("b"), behavior=PINNED)
    run.hand_out("b")

    then = run.when(options(90, TO_TWO))

    assert then.events == ["7 WorkflowExecutionOptionsUpdated"]
    assert run.task("a").pinned == "shop.2"
    assert run.task("b").pinned == "shop.1", "a worker has it: it ends there"
    assert versioning_of(run.state.folded) == TO_TWO
    assert run.names.count("WorkflowTaskScheduled") == 1


def test_an_attempt_that_is_tried_again_goes_where_the_run_goes_by_then() -> None:
    run = Scenario(start())
    turn(run, activity("a"), behavior=PINNED)
    token = run.hand_out("a")
    run.when(options(90, TO_TWO))
    run.when(put_back(token))

    assert run.task("a").pinned == "shop.2"


def test_while_a_worker_has_the_workflow_task_the_override_waits() -> None:
    """Nothing stands between Started and Completed; then all that is ready moves."""
    run = Scenario(start())
    turn(run, activity("a"), behavior=PINNED)
    run.when(signal())
    intent = by_version(run, activity("b"), behavior=PINNED)

    waits = run.when(options(90, TO_TWO))
    run.when(intent)

    assert (waits.events, waits.buffered) == ([], ["WorkflowExecutionOptionsUpdated"])
    assert run.task("a").pinned == run.task("b").pinned == "shop.2"
    assert run.names[-1] == "WorkflowExecutionOptionsUpdated"


def test_an_override_can_be_taken_back_and_a_repeat_changes_nothing() -> None:
    run = Scenario(start())
    turn(run, activity("a"), behavior=PINNED)
    run.when(options(90, TO_TWO))
    run.when(options(91, None))
    again = run.when(options(90, TO_TWO))

    assert (again.events, again.refused) == ([], "")
    assert run.task("a").pinned == "shop.1"


def test_of_a_run_that_has_closed_nothing_moves() -> None:
    run = Scenario(start())
    run.turn(COMPLETE)

    assert run.when(options(90, TO_TWO)).refused == "NOT_FOUND WORKFLOW_NOT_FOUND"


# ---- the run that follows


def test_continue_as_new_hands_a_pinned_version_on() -> None:
    run = Scenario(start())
    turn(run, continue_as_new(), behavior=PINNED)

    following = run.next

    assert following.started.inherited_version == ONE
    assert following.task().pinned == "shop.1"


@pytest.mark.parametrize(
    ("behavior", "changes"), [(AUTO, {}), (PINNED, {"task_queue": "elsewhere"})]
)
def test_continue_as_new_hands_nothing_on(behavior: Behavior, changes: dict[str, Any]) -> None:
    """Of a run that upgrades; and to a queue of which nobody says that the version polls it."""
    run = Scenario(start())
    turn(run, continue_as_new(**changes), behavior=behavior)

    assert run.next.started.inherited_version is None
    assert run.next.task().pinned == ""


def test_an_override_counts_for_the_whole_chain() -> None:
    override = Versioning(PINNED, "shop", "7")
    run = Scenario(start(versioning_override=override))
    turn(run, continue_as_new(), behavior=AUTO, build="7")

    assert run.next.started.versioning_override == override
    assert run.next.task().pinned == "shop.7"


# ---- names


def test_a_name_reads_back() -> None:
    assert version_name("", "1") == ""
    assert split_version(version_name("shop", "2026.1.0")) == ("shop", "2026.1.0")
    assert bucket("q", "") == "q"


@pytest.mark.parametrize("behavior", list(Behavior))
def test_what_lists_know_of_a_version_reads_back_and_is_no_attribute_of_the_user(
    behavior: Behavior,
) -> None:
    versioning = Versioning(behavior, "shop", "1")
    own = (
        search_attributes.SearchAttribute("Region", search_attributes.AttributeType.KEYWORD, "eu"),
    )
    text = search_attributes.to_json(own + search_attributes.of_versioning(versioning), None)
    found, _ = search_attributes.from_json(text)

    assert search_attributes.split_versioning(found) == (own, versioning)
    assert search_attributes.split_versioning(own) == (own, None)


def test_a_start_keeps_the_override_in_its_first_event() -> None:
    override = Versioning(PINNED, "shop", "7")
    env = Scenario(start()).env()

    _, draft = decide_start(start(2, versioning_override=override), env, None)

    assert draft is not None
    assert draft.state.folded.started.versioning_override == override
