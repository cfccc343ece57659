"""A worker for the tests of the command line: `python lab.py`, with PERDURE_ADDRESS set."""

import asyncio
import os
from datetime import timedelta
from typing import Any

from perdure import activity, workflow
from perdure.client import Client
from perdure.common import SearchAttributeKey
from perdure.errors import ApplicationError
from perdure.worker import Worker

REGION = SearchAttributeKey.for_keyword("Region")
AMOUNT = SearchAttributeKey.for_int("Amount")
STEP = SearchAttributeKey.for_keyword("Step")


@workflow.defn
class Order:
    def __init__(self) -> None:
        self._tracking = ""
        self._notes: list[str] = []

    @workflow.run
    async def run(self, order: dict[str, int]) -> dict[str, Any]:
        await workflow.wait_condition(lambda: self._tracking != "")
        return {"order": order, "tracking": self._tracking}

    @workflow.signal
    def shipped(self, tracking: str) -> None:
        self._tracking = tracking

    @workflow.update
    def note(self, text: str) -> str:
        self._notes.append(text)
        return f"{len(self._notes)}: {text}"

    @note.validator
    def check_note(self, text: str) -> None:
        if not text:
            raise ApplicationError("nothing to note", type="Empty")

    @workflow.query
    def state(self) -> str:
        return self._tracking or "waiting"


@workflow.defn
class Failing:
    @workflow.run
    async def run(self) -> None:
        raise ApplicationError("no money", type="Refused")


@workflow.defn
class Labelled:
    """Shows itself in lists as it goes: waiting, then done."""

    def __init__(self) -> None:
        self._go = False

    @workflow.run
    async def run(self) -> str:
        known = workflow.info().typed_search_attributes
        workflow.upsert_search_attributes([STEP.value_set("waiting")])
        await workflow.wait_condition(lambda: self._go)
        workflow.upsert_search_attributes([STEP.value_set("done"), AMOUNT.value_unset()])
        return f"{known[REGION]} {known[AMOUNT]}"

    @workflow.signal
    def go(self) -> None:
        self._go = True


@workflow.defn
class Sleeping:
    @workflow.run
    async def run(self) -> None:
        await workflow.sleep(timedelta(hours=1))


@workflow.defn
class Echo:
    @workflow.run
    async def run(self, value: Any) -> Any:
        return value


@activity.defn
async def double(number: int) -> int:
    return number * 2


REFUSALS = iter(["the bank is closed"])


@activity.defn
async def refund(amount: int) -> None:
    for why in REFUSALS:
        raise ApplicationError(why, non_retryable=True)


@workflow.defn
class Buying:
    @workflow.run
    async def run(self) -> None:
        async with workflow.saga() as saga:
            saga.add(
                workflow.execute_activity, refund, 5, start_to_close_timeout=timedelta(seconds=30)
            )
            raise ApplicationError("sold out")


@workflow.defn
class Doubles:
    @workflow.run
    async def run(self, count: int) -> int:
        doubled = await workflow.map(
            double, range(count), start_to_close_timeout=timedelta(seconds=30)
        )
        return sum(doubled.values)


@workflow.entity
class Counter:
    def __init__(self) -> None:
        self.count = 0

    @workflow.entity_handler
    def add(self, number: int) -> int:
        if number < 0:
            raise ApplicationError("only up", type="Down")
        self.count += number
        return self.count

    @workflow.entity_reader
    def value(self) -> int:
        return self.count


WORKFLOWS = [Order, Failing, Labelled, Sleeping, Echo, Doubles, Buying, Counter]
ACTIVITIES = [double, refund]


async def main() -> None:
    async with await Client.connect(os.environ["PERDURE_ADDRESS"]) as client:
        await Worker(client, task_queue="lab", workflows=WORKFLOWS, activities=ACTIVITIES).run()


if __name__ == "__main__":
    asyncio.run(main())
