"""Workflow classes: what the decorators accept, and what they say when they do not."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import workflow
from perdure._definitions import query_definition, signal_definition, workflow_definition
from perdure.common import RawValue


class Base:
    @workflow.signal
    def inherited(self, number: int) -> None: ...


@workflow.defn(name="An order")
class Order(Base):
    @workflow.run
    async def run(self, number: int, note: str = "") -> bytes:
        return b""

    @workflow.signal(name="pay now")
    async def pay(self, amount: float) -> None: ...

    @workflow.query
    def status(self) -> str:
        return "open"


def test_a_definition_has_everything() -> None:
    definition = workflow_definition(Order)

    assert definition is workflow_definition(Order.run)
    assert definition.name == "An order"
    assert definition.signature.hints == (int, str)
    assert definition.signature.result is bytes
    assert list(definition.signals) == ["inherited", "pay now"]
    assert list(definition.queries) == ["status"]
    assert definition.signals["pay now"].signature.hints == (float,)
    assert signal_definition(Order.pay).name == "pay now"
    assert query_definition(Order.status).signature.result is str


def test_what_is_decorated_can_still_be_called() -> None:
    order = Order()

    assert asyncio.run(order.run(1)) == b""
    assert order.status() == "open"


@pytest.mark.parametrize("target", [int, print, None, Base])
def test_what_is_no_workflow(target: Any) -> None:
    with pytest.raises(TypeError, match=r"decorate its class with @workflow\.defn"):
        workflow_definition(target)


def test_a_class_derived_from_a_workflow_is_none_by_itself() -> None:
    class Derived(Order):
        pass

    with pytest.raises(TypeError, match="is not a workflow"):
        workflow_definition(Derived)


@pytest.mark.parametrize(
    ("get", "kind"), [(signal_definition, "signal"), (query_definition, "query")]
)
def test_what_is_no_handler(get: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"is not a {kind}"):
        get(Order.run)


def no_run() -> None:
    @workflow.defn
    class Odd:
        pass


def two_runs() -> None:
    @workflow.defn
    class Odd:
        @workflow.run
        async def one(self) -> None: ...

        @workflow.run
        async def two(self) -> None: ...


def inherited_run() -> None:
    @workflow.defn
    class Odd(Order):
        pass


def plain_run() -> None:
    class Odd:
        @workflow.run  # type: ignore[type-var]
        def run(self) -> None: ...


def keyword_only_run() -> None:
    class Odd:
        @workflow.run
        async def run(self, *, name: str) -> None: ...


def async_query() -> None:
    class Odd:
        @workflow.query
        async def ask(self) -> None: ...


def two_signals_of_one_name() -> None:
    @workflow.defn
    class Odd:
        @workflow.run
        async def run(self) -> None: ...

        @workflow.signal(name="x")
        def one(self) -> None: ...

        @workflow.signal(name="x")
        def two(self) -> None: ...


def overridden_without_decorator() -> None:
    @workflow.defn
    class Odd(Base):
        @workflow.run
        async def run(self) -> None: ...

        def inherited(self, number: int) -> None: ...


def init_of_another_shape() -> None:
    @workflow.defn
    class Odd:
        @workflow.init
        def __init__(self, number: int) -> None: ...

        @workflow.run
        async def run(self, text: str) -> None: ...


def init_elsewhere() -> None:
    class Odd:
        @workflow.init
        def prepare(self) -> None: ...


def async_config() -> None:
    class Odd:
        @workflow.dynamic_config  # type: ignore[arg-type]  # that is it
        async def config(self) -> workflow.DynamicWorkflowConfig: ...


def config_with_arguments() -> None:
    class Odd:
        @workflow.dynamic_config  # type: ignore[arg-type]  # that is it
        def config(self, what: str) -> workflow.DynamicWorkflowConfig: ...


def config_of_a_plain_workflow() -> None:
    @workflow.defn
    class Odd:
        @workflow.run
        async def run(self) -> None: ...

        @workflow.dynamic_config
        def config(self) -> workflow.DynamicWorkflowConfig:
            return workflow.DynamicWorkflowConfig()


def two_configs() -> None:
    @workflow.defn(dynamic=True)
    class Odd:
        @workflow.run
        async def run(self, args: Sequence[RawValue]) -> None: ...

        @workflow.dynamic_config
        def config(self) -> workflow.DynamicWorkflowConfig:
            return workflow.DynamicWorkflowConfig()

        @workflow.dynamic_config
        def another(self) -> workflow.DynamicWorkflowConfig:
            return workflow.DynamicWorkflowConfig()


def name_of_the_engine() -> None:
    class Odd:
        @workflow.query(name="__stack_trace")
        def ask(self) -> str:
            return ""


@pytest.mark.parametrize(
    ("define", "said"),
    [
        (no_run, r"one method of its own with @workflow\.run"),
        (two_runs, r"one method of its own with @workflow\.run"),
        (inherited_run, r"one method of its own with @workflow\.run"),
        (plain_run, "must be an async method"),
        (keyword_only_run, "must not be keyword-only"),
        (async_query, "must not be async"),
        (two_signals_of_one_name, "has two signals named 'x'"),
        (overridden_without_decorator, "overrides a signal: decorate it too"),
        (init_of_another_shape, r"must take what @workflow\.run takes"),
        (init_elsewhere, "belongs on __init__"),
        (name_of_the_engine, "engine's own"),
        (async_config, "must be a plain method"),
        (config_with_arguments, "takes only self"),
        (config_of_a_plain_workflow, "of dynamic workflows only"),
        (two_configs, "more than one"),
    ],
)
def test_what_is_refused_and_why(define: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        define()
