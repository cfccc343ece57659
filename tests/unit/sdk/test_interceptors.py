"""Interceptors of workflows: what comes in to a run and what its code asks for, live and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from typing import Any, NoReturn

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names, value_of

from perdure import workflow
from perdure._client.interceptors import StartWorkflowInput, UpdateWithStartStartWorkflowInput
from perdure._client.options import StartOptions
from perdure._payload import Payload
from perdure._replay import messages as m
from perdure._replay.external_messages import SignalExternalWorkflow, StartChildWorkflow
from perdure._wire.commands import command_fields
from perdure._wire.payloads import fields_to_bytes
from perdure.common import RawValue
from perdure.converter import DataConverter
from perdure.errors import ApplicationError
from perdure.worker import (
    ContinueAsNewInput,
    ExecuteWorkflowInput,
    HandleQueryInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    SignalChildWorkflowInput,
    SignalExternalWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

SOON = timedelta(seconds=5)
CONVERTER = DataConverter.default.payload_converter
SENT = {"who": CONVERTER.to_payload("ada")}


class Noting(Interceptor):
    """Notes under its letter what passes, and sends a header along with all that goes out."""

    def __init__(self, letter: str = "a") -> None:
        self.letter = letter
        self.noted: list[str] = []

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        noted, letter = self.noted, self.letter
        input.unsafe_extern_functions[f"letter_{letter}"] = lambda: letter

        class Inbound(_Inbound):
            def __init__(self, next: WorkflowInboundInterceptor) -> None:
                super().__init__(next)
                self.noted, self.letter = noted, letter

        return Inbound

    def take(self) -> list[str]:
        noted = self.noted.copy()
        self.noted.clear()
        return noted


class _Inbound(WorkflowInboundInterceptor):
    noted: list[str]
    letter: str

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound, self))

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        self.noted.append(f"{self.letter}> {what}")
        yield
        self.noted.append(f"{self.letter}< {what}")

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        who = [CONVERTER.from_payload(one) for one in input.headers.values()]
        with self._noting(f"execute {input.type.__name__} {[*input.args]} {who}"):
            return await super().execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        with self._noting(f"signal {input.signal} {_shown(input.args)} {[*input.headers]}"):
            await super().handle_signal(input)

    async def handle_query(self, input: HandleQueryInput) -> Any:
        with self._noting(f"query {input.query} {[*input.args]} {[*input.headers]}"):
            return await super().handle_query(input)

    def handle_update_validator(self, input: HandleUpdateInput) -> None:
        with self._noting(f"validate {input.id} {input.update} {[*input.args]}"):
            super().handle_update_validator(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        with self._noting(f"update {input.id} {[*input.args]} {[*input.headers]}"):
            return await super().handle_update_handler(input)


class _Outbound(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor, inbound: _Inbound) -> None:
        super().__init__(next)
        self._inbound = inbound

    def _note(self, what: str, headers: Any) -> dict[str, Payload]:
        letter = self._inbound.letter
        self._inbound.noted.append(f"{letter} {what}")
        return {**headers, letter: CONVERTER.to_payload(letter)}

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        input.headers = self._note(f"continue {[*input.args]}", input.headers)
        super().continue_as_new(input)

    def info(self) -> workflow.Info:
        self._note("info", {})
        return super().info()

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        input.headers = self._note(f"activity {input.activity}", input.headers)
        return super().start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:
        input.headers = self._note(f"local {input.activity}", input.headers)
        return super().start_local_activity(input)

    async def start_child_workflow(
        self, input: StartChildWorkflowInput
    ) -> workflow.ChildWorkflowHandle[Any, Any]:
        input.headers = self._note(f"child {input.workflow} {input.id}", input.headers)
        return await super().start_child_workflow(input)

    async def signal_child_workflow(self, input: SignalChildWorkflowInput) -> None:
        what = f"signal {input.signal} {[*input.args]} to child {input.child_workflow_id}"
        input.headers = self._note(what, input.headers)
        await super().signal_child_workflow(input)

    async def signal_external_workflow(self, input: SignalExternalWorkflowInput) -> None:
        what = f"signal {input.signal} {[*input.args]} to {input.workflow_id} of {input.namespace}"
        input.headers = self._note(what, input.headers)
        await super().signal_external_workflow(input)


def _shown(args: Any) -> list[Any]:
    return [CONVERTER.from_payload(a.payload) if isinstance(a, RawValue) else a for a in args]


@workflow.defn
class Order:
    def __init__(self) -> None:
        self.told: list[str] = []

    @workflow.run
    async def run(self, amount: int) -> str:
        charged: str = await workflow.execute_activity(
            "charge", amount, start_to_close_timeout=SOON, result_type=str
        )
        await workflow.wait_condition(lambda: len(self.told) > 1)
        return f"{charged} {self.told}"

    @workflow.signal
    def tell(self, what: str) -> None:
        self.told.append(what)

    @workflow.signal(dynamic=True)
    async def any_signal(self, name: str, args: list[RawValue]) -> None:
        self.told.append(name)

    @workflow.query
    def so_far(self, more: int) -> int:
        return len(self.told) + more

    @workflow.update
    async def add(self, what: str) -> int:
        self.told.append(what)
        return len(self.told)

    @add.validator
    def check(self, what: str) -> None:
        if not what:
            raise ApplicationError("nothing")


def test_all_that_comes_in_and_goes_out_passes_and_on_replay_again() -> None:
    noting = Noting()
    run = PocketEngine(Order, 7, interceptors=[noting], started={"header": SENT})

    assert names(run.task()) == ["ScheduleActivity 1 charge"]
    assert noting.take() == ["a> execute Order [7] ['ada']", "a activity charge"]

    run.signal("tell", "x", header=SENT)
    run.task()
    assert noting.take() == ["a> signal tell ['x'] ['who']", "a< signal tell ['x'] ['who']"]

    answer = run.query("so_far", 2, header=SENT)
    assert value_of(answer.result) == 3
    assert noting.take() == ["a> query so_far [2] ['who']", "a< query so_far [2] ['who']"]

    run.update("u1", "add", "y", header=SENT)
    assert names(run.task()) == ["AcceptUpdate u1", "CompleteUpdate u1"]
    assert noting.take() == [
        "a> validate u1 add ['y']",
        "a< validate u1 add ['y']",
        "a> update u1 ['y'] ['who']",
        "a< update u1 ['y'] ['who']",
    ]

    run.complete("1", "paid")
    assert names(run.task()) == ["CompleteWorkflow paid ['x', 'y']"]
    assert noting.take() == ["a< execute Order [7] ['ada']"]

    run.replay_all()
    assert noting.take() == [
        "a> execute Order [7] ['ada']",
        "a activity charge",
        "a> signal tell ['x'] ['who']",
        "a< signal tell ['x'] ['who']",
        "a> update u1 ['y'] ['who']",  # what was accepted is not validated again
        "a< update u1 ['y'] ['who']",
        "a< execute Order [7] ['ada']",
    ]


def test_the_first_interceptor_is_the_outermost() -> None:
    first, second = Noting("a"), Noting("b")
    second.noted = first.noted

    run = PocketEngine(Order, 7, interceptors=[first, Interceptor(), second])
    (command,) = run.task()

    assert first.take() == [
        "a> execute Order [7] []",
        "b> execute Order [7] []",
        "b activity charge",  # outbound ones are wrapped from inside
        "a activity charge",
    ]
    assert isinstance(command, m.ScheduleActivity)
    assert set(command.header) == {"a", "b"}


def test_headers_of_what_goes_out_reach_the_wire() -> None:
    run = PocketEngine(Order, 7, interceptors=[Noting()])
    (command,) = run.task()

    expected = fields_to_bytes({"a": CONVERTER.to_payload("a")})
    assert command_fields(command)["schedule_activity"]["header"] == expected


@workflow.defn
class Chain:
    @workflow.run
    async def run(self) -> None:
        workflow.info()
        await workflow.execute_local_activity("look", start_to_close_timeout=SOON)
        workflow.continue_as_new("next")


def test_local_activities_continue_as_new_and_info() -> None:
    noting = Noting()
    run = PocketEngine(Chain, interceptors=[noting])
    outcome = run.run_task()
    assert isinstance(outcome, m.TaskSuccess)
    assert outcome.local is not None
    (local,) = outcome.local.start
    assert set(local.header) == {"a"}

    (_, command) = run.local("1").commands

    assert isinstance(command, m.ContinueAsNew)
    assert set(command.header) == {"a"}
    assert noting.take() == [
        "a> execute Chain [] []",
        "a info",
        "a local look",
        "a continue ['next']",
    ]


@workflow.defn
class Parent:
    @workflow.run
    async def run(self) -> str:
        other = workflow.get_external_workflow_handle("other")
        child = await workflow.start_child_workflow("Child", 1, id="c", result_type=str)
        await child.signal("hurry", "now")
        await other.signal("hurry")
        return await child


def test_children_and_signals_to_others() -> None:
    noting = Noting()
    run = PocketEngine(Parent, interceptors=[noting])
    (start,) = run.task()
    assert isinstance(start, StartChildWorkflow)
    assert set(start.header) == {"a"}
    run.child_started("c")
    (to_child,) = run.task()
    assert isinstance(to_child, SignalExternalWorkflow)
    assert to_child.child_workflow_only
    assert set(to_child.header) == {"a"}
    run.signal_delivered("c")
    (to_other,) = run.task()
    assert isinstance(to_other, SignalExternalWorkflow)
    assert set(to_other.header) == {"a"}

    assert noting.take() == [
        "a> execute Parent [] []",
        "a child Child c",
        "a signal hurry ['now'] to child c",
        "a signal hurry [] to other of default",
    ]


def test_a_dynamic_handler_gets_the_name_and_the_values() -> None:
    noting = Noting()
    run = PocketEngine(Order, 7, interceptors=[noting])
    run.signal("unknown", 5)
    run.task()

    assert "a> signal unknown [5] []" in noting.take()
    assert value_of(run.query("so_far", 0).result) == 1


class Changing(Interceptor):
    """Changes what passes, in both directions."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        return _ChangingInbound


class _ChangingInbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_ChangingOutbound(outbound))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        input.args = [input.args[0] * 2]
        return f"<{await super().execute_workflow(input)}>"

    async def handle_signal(self, input: HandleSignalInput) -> None:
        input.signal, input.args = "tell", [f"{input.signal}!"]
        await super().handle_signal(input)

    async def handle_query(self, input: HandleQueryInput) -> Any:
        return await super().handle_query(input) * 100

    def handle_update_validator(self, input: HandleUpdateInput) -> None:
        raise ApplicationError("not today")


class _ChangingOutbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        input.activity = "other"
        input.start_to_close_timeout = timedelta(seconds=99)
        return super().start_activity(input)


def test_interceptors_may_change_what_passes() -> None:
    run = PocketEngine(Order, 7, interceptors=[Changing()])
    (command,) = run.task()
    assert isinstance(command, m.ScheduleActivity)
    assert command.activity_type == "other"
    assert command.start_to_close_timeout_ms == 99_000
    assert value_of(command.input) == 14

    run.signal("any", 1)
    run.signal("more", 1)
    run.update("u1", "add", "y")
    assert names(run.task()) == ["RejectUpdate u1"]
    assert run.rejected["u1"].message == "not today"
    assert value_of(run.query("so_far", 0).result) == 200

    run.complete("1", "paid")
    assert names(run.task()) == ["CompleteWorkflow <paid ['any!', 'more!']>"]


class Waiting(Interceptor):
    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        class Inbound(WorkflowInboundInterceptor):
            async def handle_query(self, input: HandleQueryInput) -> Any:
                await workflow.wait_condition(lambda: False)

        return Inbound


def test_a_query_that_would_wait_is_refused_and_the_run_goes_on() -> None:
    run = PocketEngine(Order, 7, interceptors=[Waiting()])
    run.task()

    failure = run.query("so_far", 1).failure

    assert failure is not None
    run.complete("1", "paid")
    assert names(run.task()) == []


def test_queries_of_the_sdk_itself_do_not_pass() -> None:
    noting = Noting()
    run = PocketEngine(Order, 7, interceptors=[noting])
    run.task()
    noting.take()

    assert run.query("__stack_trace").failure is None
    assert noting.take() == []


class Broken(Interceptor):
    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                raise ValueError("cannot be made")

        return Inbound


def test_an_interceptor_that_cannot_be_made_fails_the_workflow_task_not_the_run() -> None:
    failure = PocketEngine(Order, 7, interceptors=[Broken()]).failed_task()

    assert failure.failure.message == "cannot be made"


@workflow.defn
class Externs:
    @workflow.run
    async def run(self) -> str:
        return str(workflow.extern_functions()["letter_a"]())


def test_extern_functions_are_found_from_inside() -> None:
    assert names(PocketEngine(Externs, interceptors=[Noting()]).task()) == ["CompleteWorkflow a"]


def test_without_interceptors_nothing_is_made() -> None:
    """The hot path: one None for what comes in, one for what goes out."""
    run = PocketEngine(Order, 7)
    (command,) = run.task()

    assert run.instance._run.inbound is None
    assert run.instance._run.outbound is None
    assert isinstance(command, m.ScheduleActivity)
    assert command.header is m.NO_HEADER


def test_an_evicted_run_is_no_longer_held_by_its_interceptors() -> None:
    run = PocketEngine(Order, 7, interceptors=[Noting()])
    run.task()
    run.instance.evict()

    assert run.instance._run.inbound is None
    assert run.instance._run.outbound is None


@pytest.mark.parametrize(
    ("options", "input", "renamed"),
    [
        (workflow.ActivityOptions, StartActivityInput, set()),
        (workflow.LocalActivityOptions, StartLocalActivityInput, set()),
        (workflow.ChildWorkflowOptions, StartChildWorkflowInput, set()),
        (StartOptions, StartWorkflowInput, set()),
        (
            StartOptions,
            UpdateWithStartStartWorkflowInput,
            {"start_signal", "start_signal_args"},  # either a signal or an update
        ),
    ],
)
def test_every_option_can_be_seen_by_an_interceptor(
    options: Any, input: Any, renamed: set[str]
) -> None:
    """A new option needs a field of that name, and its place in the RootOutbound beside it."""
    there = {one.name for one in fields(input)}

    assert set(options.__annotations__) - there == renamed
