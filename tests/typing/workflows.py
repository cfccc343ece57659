"""What mypy and pyright make of a workflow class and its helpers. Checked, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

import asyncio
import random  # noqa: TID251 - only the type
from datetime import datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

from perdure import workflow


@workflow.defn
class Order:
    @workflow.init
    def __init__(self, number: int) -> None:
        self.number = number

    @workflow.run
    async def run(self, number: int) -> str:
        assert_type(workflow.now(), datetime)
        assert_type(workflow.uuid4(), UUID)
        assert_type(workflow.random(), random.Random)
        assert_type(workflow.info().workflow_id, str)
        assert_type(workflow.memo_value("when", type_hint=datetime), datetime)
        assert_type(workflow.memo_value("what"), Any)
        await workflow.sleep(timedelta(days=1))
        await workflow.sleep(1.5)
        await workflow.wait_condition(lambda: self.number > 1, timeout=timedelta(hours=1))
        futures = [asyncio.ensure_future(workflow.sleep(1))]
        done, pending = await workflow.wait(futures, timeout=5)
        assert_type(len(done) + len(pending), int)
        for one in workflow.as_completed(futures):
            assert_type(await one, None)
        return "x"

    @workflow.signal
    async def pay(self, amount: float) -> None: ...

    @workflow.signal(name="stop now")
    def stop(self) -> None: ...

    @workflow.query
    def status(self) -> str:
        return "open"

    @workflow.query(name="how many")
    def count(self, of: str) -> int:
        return 1


@workflow.defn(name="Named", failure_exception_types=[ValueError])
class Named:
    @workflow.run
    async def run(self) -> None: ...


async def what_is_decorated_keeps_its_type() -> None:
    order = Order(1)
    assert_type(order, Order)
    assert_type(await order.run(2), str)
    assert_type(await order.pay(1.0), None)
    assert_type(order.status(), str)
    assert_type(order.count("x"), int)
    assert_type(Named(), Named)


async def what_came_before_and_what_follows(order: Order) -> None:
    assert_type(workflow.has_last_completion_result(), bool)
    assert_type(workflow.get_last_completion_result(int), int | None)
    assert_type(workflow.get_last_completion_result(), Any)
    assert_type(workflow.get_last_failure(), BaseException | None)
    assert_type(workflow.info().continued_run_id, str | None)
    if order.number == 1:
        workflow.continue_as_new(1, task_queue="others", memo={"step": 1})
    if order.number == 2:
        workflow.continue_as_new(1, workflow=Order.run, run_timeout=timedelta(days=1))
    if order.number == 3:
        workflow.continue_as_new(args=[1], workflow=Order.run)
    workflow.continue_as_new("one", workflow="by name")


async def wrong_ways_to_go_on(order: Order) -> None:
    if order.number == 1:
        workflow.continue_as_new("one", workflow=Order.run)  # type: ignore[arg-type,call-overload]
    workflow.continue_as_new(1, run_timeout=5)  # type: ignore[arg-type,call-overload]


class Wrong:
    @workflow.run  # type: ignore[type-var]
    def run(self) -> None: ...

    @workflow.signal  # type: ignore[type-var]
    def answer(self) -> int:
        return 1


async def wrong_calls(order: Order) -> None:
    await order.run("two")  # type: ignore[arg-type]
    await workflow.wait_condition(lambda: "text")  # type: ignore[arg-type,return-value]
    await workflow.sleep("long")  # type: ignore[arg-type]


workflow.defn(3)  # type: ignore[call-overload]
