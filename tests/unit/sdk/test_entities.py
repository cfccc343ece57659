"""Entities: one handler at a time, a state that is saved or as before, readers beside it, and the end
of a key. The entity's run on a pocket engine; nothing outside of the SDK."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import (
    names,
    new_instance,
)
from tests.unit.sdk.entities_in_small import (
    Cart,
    ask,
    began,
    error_of,
    outcome_of,
    same_on_replay,
    turned,
)

from perdure import workflow
from perdure._definitions import (
    entity_definition,
)
from perdure._replay import messages as m
from perdure.common import (
    ENTITY_DESTROY,
)
from perdure.errors import ApplicationError, is_cancelled_exception

# --- one call ----------------------------------------------------------------------------------------


def test_a_call_changes_the_state_and_answers_in_one_task() -> None:
    run = began()
    run.update("c-1", "add", "apple", 2)
    run.update("c-2", "add", "apple")

    assert sorted(names(run.task())) == [
        "AcceptUpdate c-1",
        "AcceptUpdate c-2",
        "CompleteUpdate c-1",
        "CompleteUpdate c-2",
        "RecordMarker entity_state c-1",
        "RecordMarker entity_state c-2",
    ]
    assert (outcome_of(run, "c-1"), outcome_of(run, "c-2")) == (2, 3)
    assert ask(run, "total") == 3
    same_on_replay(run)


def test_a_key_at_rest_asks_for_nothing() -> None:
    """No task, no timer: after its calls the run has no command open."""
    run = began()
    run.update("c-1", "add", "apple")
    run.task()

    assert names(run.task()) == []
    assert not [one for one in run.events if isinstance(one, m.TimerStarted)]


def test_two_calls_never_interleave_and_keep_their_order() -> None:
    run = began()
    run.update("c-1", "pay", "apple")
    run.update("c-2", "add", "pear")
    run.update("c-3", "pay", "fig")
    assert names(run.task())[-1] == "ScheduleActivity 1 price"
    assert "c-2" not in run.outcomes

    run.complete("1", 7)
    assert sorted(names(run.task())) == [
        "CompleteUpdate c-1",
        "CompleteUpdate c-2",
        "RecordMarker entity_state c-1",
        "RecordMarker entity_state c-2",
        "ScheduleActivity 2 price",
    ]
    run.complete("2", 8)
    run.task()

    assert ask(run, "history") == [
        "begins",
        "ends after 1",
        "add pear",
        "begins",
        "ends after 1",
    ]
    same_on_replay(run)


def test_a_reader_sees_what_was_committed_while_a_handler_waits() -> None:
    run = began()
    run.update("c-1", "add", "apple")
    run.update("c-2", "pay", "apple")
    run.task()

    assert ask(run, "history") == ["add apple"]
    run.complete("1", 7)
    run.task()
    assert ask(run, "history", 1) == ["ends after 1"]


def test_what_a_reader_changes_is_gone() -> None:
    run = began()
    run.update("c-1", "add", "apple")
    run.task()

    assert ask(run, "history") == ask(run, "history") == ["add apple"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("why not", "why not"),
        ("state", r"Cart\.log would not come back as it is: .*`log: tuple`"),
        ("result", "a value of type builtins.object cannot be encoded"),
        ("continue", "an entity continues as new by itself"),
    ],
)
def test_a_handler_that_fails_leaves_the_state_as_it_was(how: str, said: str) -> None:
    """Invariant: a call's outcome and its change of the state are one; a failed one has no change."""
    run = began()
    run.update("c-1", "add", "apple")
    run.update("c-2", "go wrong", how)
    run.update("c-3", "add", "apple")
    run.task()

    error = error_of(run, "c-2")
    assert isinstance(error, ApplicationError)
    with pytest.raises(ApplicationError, match=said):
        raise error
    assert outcome_of(run, "c-3") == 2
    assert ask(run, "total") == 2
    same_on_replay(run)


def test_a_state_that_is_too_large_is_refused_to_the_call_that_makes_it_so() -> None:
    run = began()
    run.update("c-1", "grow", 1024 * 1024)
    run.update("c-2", "grow", 1024 * 1024 - 200)
    run.task()

    assert "the state of Cart would have" in str(error_of(run, "c-1"))
    assert run.outcomes["c-2"].failure is None


def test_a_handler_knows_its_key_and_its_call() -> None:
    run = began()
    run.update("c-1", "who")
    run.task()

    assert outcome_of(run, "c-1") == ["w-1", "c-1", "who"]


def test_a_call_that_nobody_knows_is_refused_without_a_trace() -> None:
    run = began()
    run.update("c-1", "steal")
    run.update("c-2", "add", 7, 8, 9)

    assert names(run.task()) == ["RejectUpdate c-1", "RejectUpdate c-2"]
    assert "no update 'steal'" in run.rejected["c-1"].message


def test_a_call_goes_on_in_another_worker_that_has_only_the_history() -> None:
    """The worker dies in a handler."""
    run = began()
    run.update("c-1", "pay", "apple")
    run.update("c-2", "add", "apple")
    run.task()
    run.complete("1", 7)
    run.instance.evict()
    run.instance = new_instance(Cart)
    run.sent = 0

    assert sorted(names(run.task()))[:2] == ["CompleteUpdate c-1", "CompleteUpdate c-2"]
    assert outcome_of(run, "c-1") == 7


def test_cancelling_the_run_cancels_the_handler_and_the_object_lives_on() -> None:
    run = began()
    run.update("c-1", "add", "apple")
    run.update("c-2", "pay", "apple")
    run.update("c-3", "add", "apple")
    run.task()
    run.cancel("stuck")

    commands = run.task()

    assert is_cancelled_exception(error_of(run, "c-2"))
    following = turned(commands)
    following.update("c-3", "add", "apple")
    following.task()
    assert outcome_of(following, "c-3") == 2
    assert ask(following, "history") == ["add apple", "add apple"]


def test_cancelling_a_key_at_rest_turns_it_over() -> None:
    run = began()
    run.update("c-1", "add", "apple")
    run.task()
    run.cancel()

    following = turned(run.task())
    following.task()
    assert ask(following, "total") == 1


# --- the end -----------------------------------------------------------------------------------------


def test_a_destroyed_key_is_fresh_and_its_run_completes() -> None:
    run = began()
    run.update("c-1", "add", "apple")
    run.update("d-1", ENTITY_DESTROY)

    commands = run.task()

    assert names(commands)[-2:] == ["CompleteUpdate d-1", "CompleteWorkflow None"]
    assert ask(run, "total") == 0
    same_on_replay(run)


def test_a_call_behind_the_end_begins_anew() -> None:
    run = began()
    run.update("c-1", "add", "apple", 5)
    run.update("d-1", ENTITY_DESTROY)
    run.update("c-2", "add", "apple")

    assert names(run.task())[-1] == "CompleteUpdate c-2"
    assert outcome_of(run, "c-2") == 1
    assert names(run.task()) == []


def test_a_failed_call_behind_the_end_does_not_keep_it() -> None:
    run = began()
    run.update("d-1", ENTITY_DESTROY)
    run.update("c-1", "go wrong", "why not")

    assert names(run.task())[-2:] == ["CompleteUpdate c-1", "CompleteWorkflow None"]


# --- definitions -------------------------------------------------------------------------------------


def test_arguments_by_name_travel_by_position() -> None:
    add = entity_definition(Cart).handlers["add"]

    assert add.positional(("apple",), {"n": 2}) == ["apple", 2]
    assert add.positional((), {"item": "apple"}) == ["apple"]
    with pytest.raises(TypeError, match=r"Cart\.add: got an unexpected keyword argument 'm'"):
        add.positional(("apple",), {"m": 2})
    with pytest.raises(TypeError, match=r"Cart\.add cannot take 3 argument"):
        add.positional(("apple", 1, 2), {})


def test_an_entity_can_be_used_without_any_engine() -> None:
    cart = Cart()

    assert cart.add("apple", 2) == 2
    assert cart.total() == 2


class Bare:
    pass


class NeedsArguments:
    def __init__(self, size: int) -> None: ...

    @workflow.entity_handler
    def set(self) -> None: ...


class Twice:
    @workflow.entity_handler(name="set")
    def one(self) -> None: ...

    @workflow.entity_handler(name="set")
    def two(self) -> None: ...


class Overrides(Cart):
    def add(self, item: str, n: int = 1) -> int:
        return 0


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (Bare, "Bare has no method with @workflow.entity_handler"),
        (NeedsArguments, r"NeedsArguments\(\) must need no arguments, and not 'size'"),
        (Twice, "Twice has two handlers named 'set'"),
        (Overrides, r"Overrides\.add overrides an entity's handler: decorate it too"),
    ],
)
def test_what_cannot_be_an_entity(cls: type, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        workflow.entity(cls)


def test_more_that_cannot_be_an_entity() -> None:
    async def read(self: Any) -> None: ...

    def keyword(self: Any, *, must: int) -> None: ...

    with pytest.raises(TypeError, match="must not be async"):
        workflow.entity_reader(read)
    with pytest.raises(TypeError, match="'must' must not be keyword-only"):
        workflow.entity_handler(keyword)
    with pytest.raises(TypeError, match="names that begin with perdure: are"):
        workflow.entity_handler(name=ENTITY_DESTROY)(read)
    with pytest.raises(ValueError, match="calls_per_run must be at least 1"):
        workflow.entity(calls_per_run=0)(Cart)
    with pytest.raises(RuntimeError, match="not in workflow code"):
        workflow.entity_key()
