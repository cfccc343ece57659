"""Entities whose code changes while their keys live."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import (
    PocketEngine,
    in_memory,
    names,
    new_instance,
    value_of,
)
from tests.unit.sdk.entities_in_small import (
    Cart,
    ask,
    began,
    outcome_of,
    same_on_replay,
    turned,
)

from perdure import workflow
from perdure._definitions import (
    workflow_definition,
)
from perdure._replay import messages as m
from perdure._replay.instance import WorkflowInstance
from perdure.converter import DataConverter
from perdure.errors import ApplicationError
from perdure.workflow import _entity_calls as entity_calls


@workflow.entity(name="Sum", calls_per_run=5)
class Sum:
    def __init__(self) -> None:
        self.sum = 0
        self.old = 0

    @workflow.entity_handler
    def add(self, n: int) -> int:
        self.sum += n
        return self.sum

    @workflow.entity_handler
    def refuse(self) -> None:
        raise ApplicationError("no")

    @workflow.entity_handler
    async def slowly(self, n: int) -> int:
        await workflow.sleep(1)
        self.sum += n
        return self.sum

    @workflow.entity_reader
    def value(self) -> list[int]:
        return [self.sum, self.old]


@workflow.entity(name="Sum", calls_per_run=100)
class NewSum:
    """Counts double, refuses what was taken and takes what was refused, has other attributes, and is
    to turn over at another time."""

    def __init__(self) -> None:
        self.sum = 0
        self.new = "new"

    @workflow.entity_handler
    def add(self, n: int) -> int:
        if n == 3:
            raise ApplicationError("not three")
        self.sum += 2 * n
        return self.sum

    @workflow.entity_handler
    def refuse(self) -> None:
        self.sum = -1

    @workflow.entity_handler
    async def slowly(self, n: int) -> int:
        await workflow.sleep(1)
        self.sum += 2 * n
        return self.sum

    @workflow.entity_reader
    def value(self) -> list[Any]:
        return [self.sum, self.new]


def with_code(run: PocketEngine, cls: type) -> None:
    """Another worker goes on."""
    run.cls = cls
    run.instance.evict()
    run.instance = new_instance(cls)
    run.sent = 0


def test_other_code_takes_over_the_state_that_the_old_one_has_answered() -> None:
    """Invariant: what was answered stays true, whatever the code says that it would do today."""
    run = began(Sum)
    run.update("c-1", "add", 3)
    run.update("c-2", "refuse")
    run.update("c-3", "slowly", 5)
    run.task()
    with_code(run, NewSum)
    run.fire("1")
    run.task()  # c-3 ends by the new code, on what c-1 has left

    assert outcome_of(run, "c-3") == 3 + 2 * 5
    assert ask(run, "value") == [13, "new"]
    same_on_replay(run)
    with_code(run, Sum)
    run.update("c-4", "add", 1)
    run.task()
    assert outcome_of(run, "c-4") == 14


def test_a_run_turns_over_when_its_beginning_said() -> None:
    run = began(Sum)
    for number in range(4):
        run.update(f"c-{number}", "add", 1)
    run.task()
    with_code(run, NewSum)
    run.update("c-4", "add", 1)

    following = turned(run.task(), NewSum)

    for number in range(6):
        following.update(f"d-{number}", "add", 1)
    assert names(following.task())[-1] == "CompleteUpdate d-5"


def test_a_key_that_was_begun_by_name_turns_over_after_a_fixed_number_of_calls() -> None:
    run = PocketEngine(Sum)
    for number in range(99):
        run.update(f"c-{number}", "add", 1)
    assert names(run.task())[-1] == "CompleteUpdate c-98"

    run.update("c-99", "add", 1)
    assert names(run.task())[-1] == "ContinueAsNew"


def test_only_what_has_changed_is_saved_with_a_call() -> None:
    run = began(Sum)
    run.update("c-1", "add", 1)
    run.update("c-2", "add", 0)
    run.update("c-3", "refuse")
    run.task()

    (first,) = [one for one in run.events if isinstance(one, m.MarkerRecorded)]
    assert first.marker_id == "c-1"
    assert json.loads(first.details[0].data) == {"id": "c-1", "changed": ["sum", "old"]}
    run.update("c-4", "slowly", 2)
    run.task()
    run.fire("1")
    run.task()
    *_, last = [one for one in run.events if isinstance(one, m.MarkerRecorded)]
    assert json.loads(last.details[0].data) == {"id": "c-4", "changed": ["sum"]}
    assert value_of(last.details[1:]) == 3


# --- the state's shape -------------------------------------------------------------------------------


def moved_to(cls: type, old: type) -> PocketEngine:
    """A key of `old` after a turn, whose next run has the code of `cls`."""
    run = began(old)
    for number in range(3):
        run.update(f"c-{number}", "set", number)
    return turned(run.task(), cls)


@workflow.entity(name="Thing", calls_per_run=3)
class Old:
    old: dict[str, int]

    def __init__(self) -> None:
        self.old = {}

    @workflow.entity_handler
    def set(self, n: int) -> None:
        self.old["n"] = n


@workflow.entity(name="Thing")
@dataclass(slots=True)
class Slotted:
    old: dict[str, int] = field(default_factory=dict)
    new: str = "default"

    @workflow.entity_handler
    def set(self, n: int) -> list[Any]:
        self.new += str(n)
        return [self.old, self.new]


@workflow.entity(name="Thing")
class Newer:
    def __init__(self) -> None:
        self.new = 1

    @workflow.entity_handler
    def set(self, n: int) -> list[str]:
        return sorted(vars(self))

    @workflow.entity_handler
    def drop(self) -> list[str]:
        del self.old  # type: ignore[attr-defined]
        return sorted(vars(self))


@workflow.entity(name="Thing")
class Other:
    old: list[str]

    @workflow.entity_handler
    def set(self, n: int) -> None: ...


def test_a_new_attribute_is_as_the_class_makes_it() -> None:
    run = moved_to(Slotted, Old)
    run.update("c-9", "set", 7)
    run.task()

    assert outcome_of(run, "c-9") == [{"n": 2}, "default7"]


def test_an_attribute_that_the_class_does_not_know_is_kept_until_it_is_deleted() -> None:
    """Old and new workers may take turns."""
    run = moved_to(Newer, Old)
    run.update("c-8", "set", 7)
    run.update("c-9", "drop")
    run.update("c-10", "set", 7)
    run.task()

    assert outcome_of(run, "c-8") == ["new", "old"]
    assert outcome_of(run, "c-9") == outcome_of(run, "c-10") == ["new"]


def test_a_class_that_does_not_fit_fails_the_task_and_not_the_run() -> None:
    """Invariant: a saved state is never lost by an error of code; the task waits for better code."""
    run = moved_to(Other, Old)
    run.update("c-9", "set", 7)

    failed = run.failed_task()

    assert failed.cause.name == "PAYLOAD_DECODE"
    assert "attribute 'old' of Other does not fit what is saved" in failed.failure.message


def test_a_state_outlives_a_worker_that_wants_exceptions_to_fail_runs() -> None:
    run = moved_to(Other, Old)
    run.instance = WorkflowInstance(
        workflow_definition(Other),
        namespace="default",
        data_converter=DataConverter.default,
        failure_exception_types=(Exception,),
    )
    in_memory.append(run.instance)
    run.update("c-9", "set", 7)

    assert run.failed_task().cause.name == "PAYLOAD_DECODE"


def test_a_state_outlives_a_mistake_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(*_: Any) -> None:
        raise KeyError("a mistake")

    run = began()
    run.update("c-1", "add", "apple")
    monkeypatch.setattr(entity_calls.Calls, "settle", settle)

    assert "the entity could not go on: KeyError('a mistake')" in run.failed_task().failure.message


def test_an_input_of_somebody_else_fails_the_task() -> None:
    run = PocketEngine(Cart, {"state": ["a", "b"]})

    assert "this is no entity's input: 1 of 3" in run.failed_task().failure.message
