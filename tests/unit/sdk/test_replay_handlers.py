"""Handlers that take any name, handlers set while the code runs, and handlers that are cut off."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names, value_of

from perdure import workflow
from perdure._definitions import query_definition, signal_definition, startable_workflow
from perdure._failure_info import ApplicationInfo
from perdure._replay.messages import TaskSuccess
from perdure.common import RawValue
from perdure.workflow import HandlerUnfinishedPolicy, UnfinishedSignalHandlersWarning


def read(args: Sequence[RawValue]) -> list[Any]:
    return [workflow.payload_converter().from_payload(one.payload) for one in args]


@workflow.defn(dynamic=True)
class Anything:
    @workflow.init
    def __init__(self, args: Sequence[RawValue]) -> None:
        self.said: list[Any] = ["init", *read(args)]

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> list[Any]:
        self.said += ["run", *read(args)]
        await workflow.wait_condition(lambda: "end" in self.said)
        return self.said

    @workflow.signal(dynamic=True)
    async def hear(self, name: str, args: Sequence[RawValue]) -> None:
        self.said += [name, *read(args)]

    @workflow.signal
    def known(self, number: int) -> None:
        self.said.append(("known", number))

    @workflow.query(dynamic=True)
    def tell(self, name: str, args: Sequence[RawValue]) -> list[Any]:
        return [name, *read(args)]

    @workflow.query
    def size(self) -> int:
        return len(self.said)


def test_a_dynamic_workflow_and_its_handlers_take_raw_values() -> None:
    run = PocketEngine(Anything, 1, "two")
    run.signal("known", 3)
    run.signal("unknown", 4, 5)
    run.task()
    assert value_of(run.query("whatever", 6).result) == ["whatever", 6]
    assert value_of(run.query("size").result) == 10
    run.signal("end")

    expected = ["init", 1, "two", "unknown", 4, 5, "run", 1, "two", "end"]
    (command,) = run.task()
    assert [one for one in value_of(command.result) if one != ["known", 3]] == expected  # type: ignore[attr-defined]
    assert isinstance(run.replay_all(), TaskSuccess)


@pytest.mark.parametrize(
    ("define", "said"),
    [
        (lambda: workflow.signal(dynamic=True, name="x")(lambda self, name, args: None), "no name"),
        (lambda: workflow.signal(dynamic=True)(lambda self: None), "must take a name and"),
        (lambda: workflow.query(dynamic=True)(lambda self, a, b, c: None), "must take a name and"),
    ],
)
def test_what_cannot_be_dynamic(define: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        define()


def test_what_cannot_be_a_dynamic_workflow() -> None:
    class Two:
        @workflow.run
        async def run(self, one: int, two: int) -> None: ...

    class Both:
        @workflow.signal(dynamic=True)
        def one(self, name: str, args: Sequence[RawValue]) -> None: ...

        @workflow.signal(dynamic=True)
        def two(self, name: str, args: Sequence[RawValue]) -> None: ...

        @workflow.run
        async def run(self, args: Sequence[RawValue]) -> None: ...

    with pytest.raises(TypeError, match="takes one Sequence"):
        workflow.defn(dynamic=True)(Two)
    with pytest.raises(TypeError, match="has no name"):
        workflow.defn(dynamic=True, name="x")(Two)
    with pytest.raises(TypeError, match="two signals that are dynamic"):
        workflow.defn(dynamic=True)(Both)


def test_what_is_dynamic_is_called_by_a_name_of_the_callers() -> None:
    with pytest.raises(TypeError, match="start it by a name of your own"):
        startable_workflow(Anything.run)
    with pytest.raises(TypeError, match="is a dynamic signal"):
        signal_definition(Anything.hear)
    with pytest.raises(TypeError, match="is a dynamic query"):
        query_definition(Anything.tell)


@workflow.defn
class Setting:
    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.steps = 0

    @workflow.signal
    def own(self, word: str) -> None:
        self.heard.append(("own", word))

    @workflow.signal
    def step(self) -> None:
        self.steps += 1

    @workflow.query
    def told(self) -> list[Any]:
        return self.heard

    @workflow.run
    async def run(self) -> None:
        own = workflow.get_signal_handler("own")
        assert own is not None
        own("directly")
        assert workflow.get_signal_handler("late") is None
        assert workflow.get_dynamic_signal_handler() is None
        assert workflow.get_query_handler("told") is not None
        await self.until(1)

        async def late(word: str) -> None:
            self.heard.append(("late", word))

        workflow.set_signal_handler("late", late)
        assert workflow.get_signal_handler("late") is late
        workflow.set_signal_handler("own", None)
        await self.until(2)
        workflow.set_dynamic_signal_handler(self.any)
        workflow.set_query_handler("added", lambda: "an answer")
        workflow.set_query_handler("told", None)
        workflow.set_dynamic_query_handler(lambda name, args: f"any {name} {len(args)}")
        assert workflow.get_dynamic_query_handler() is not None
        await self.until(3)

    def any(self, name: str, args: Sequence[RawValue]) -> None:
        self.heard.append((name, *read(args)))

    async def until(self, steps: int) -> None:
        await workflow.wait_condition(lambda: self.steps >= steps)

    def answer(self) -> list[Any]:
        return self.heard


def test_handlers_set_while_the_code_runs() -> None:
    run = PocketEngine(Setting)
    run.signal("late", "early")
    run.task()
    assert value_of(run.query("told").result) == [["own", "directly"]]
    run.signal("own", "second")
    run.signal("step")
    run.task()
    assert value_of(run.query("told").result) == [
        ["own", "directly"],
        ["own", "second"],
        ["late", "early"],
    ]
    run.signal("own", "third")  # nobody takes it now
    run.signal("other", 1)
    run.signal("step")
    run.task()
    heard = run.instance._run.workflow.heard  # type: ignore[attr-defined]
    assert heard[3:] == [("own", "third"), ("other", 1)]
    assert value_of(run.query("added").result) == "an answer"
    assert value_of(run.query("told", 1, 2).result) == "any told 2"


def test_a_query_handler_that_waits_is_refused() -> None:
    @workflow.defn
    class Odd:
        @workflow.run
        async def run(self) -> None:
            async def wait() -> None: ...

            workflow.set_query_handler("q", wait)

    assert names(PocketEngine(Odd).task()) == ["FailWorkflow a query handler must not be async"]


@workflow.defn
class Unfinished:
    @workflow.run
    async def run(self, fails: bool) -> None:
        await workflow.sleep(0)  # the handlers begin
        if fails:
            raise ValueError("no")

    @workflow.signal
    async def slow(self) -> None:
        await asyncio.Event().wait()

    @workflow.signal(unfinished_policy=HandlerUnfinishedPolicy.ABANDON)
    async def careless(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_ends_warns_of_the_handlers_that_it_cuts_off(fails: bool) -> None:
    run = PocketEngine(Unfinished, fails)
    run.signal("slow")
    run.signal("slow")
    run.signal("careless")

    with pytest.warns(UnfinishedSignalHandlersWarning) as caught:
        run.task()
    assert '[{"name": "slow", "count": 2}]' in str(caught[0].message)
    assert "careless" not in str(caught[0].message)
    run.replay_all()  # says nothing: a warning would be an error here, and the log is not ours


def test_a_handler_that_may_be_cut_off_is_not_warned_of() -> None:
    run = PocketEngine(Unfinished, False)
    run.signal("careless")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert names(run.task()) == ["CompleteWorkflow None"]
    assert caught == []


def test_a_filter_that_makes_errors_of_warnings_does_not_keep_the_run_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = PocketEngine(Unfinished, False)
    run.signal("slow")

    assert names(run.task()) == ["CompleteWorkflow None"]
    assert "ended while signal handlers were still running" in caplog.text


def test_the_metadata_query_tells_of_handlers_and_details() -> None:
    @workflow.defn(name="Order")
    class Telling:
        @workflow.run
        async def run(self) -> None:
            workflow.set_current_details("packs **3** of 5")
            assert workflow.get_current_details() == "packs **3** of 5"
            workflow.set_signal_handler("added", print)
            await asyncio.Event().wait()

        @workflow.signal(description="pays for it")
        def pay(self) -> None: ...

        @workflow.update(description="before it is sent")
        def change(self) -> None: ...

        @workflow.query(dynamic=True)
        def any(self, name: str, args: Sequence[RawValue]) -> None:
            workflow.set_current_details("not from here")

    run = PocketEngine(Telling)
    run.task()

    assert value_of(run.query("__perdure_workflow_metadata").result) == {
        "definition": {
            "type": "Telling",
            "signal_definitions": [
                {"name": "added", "description": None},
                {"name": "pay", "description": "pays for it"},
            ],
            "query_definitions": [{"name": None, "description": None}],
            "update_definitions": [{"name": "change", "description": "before it is sent"}],
        },
        "current_details": "packs **3** of 5",
    }
    failure = run.query("anything").failure
    assert failure is not None
    assert isinstance(failure.info, ApplicationInfo)
    assert failure.info.type == "ReadOnlyContextError"
