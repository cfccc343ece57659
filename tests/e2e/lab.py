"""A worker for the tests of the command line: `python lab.py`, with PERDURE_ADDRESS set."""

import asyncio
import os
from datetime import timedelta
from typing import Any

from perdure import workflow
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

    @workflow.run
    async def run(self, order: dict[str, int]) -> dict[str, Any]:
        await workflow.wait_condition(lambda: self._tracking != "")
        return {"order": order, "tracking": self._tracking}

    @workflow.signal
    def shipped(self, tracking: str) -> None:
        self._tracking = tracking

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


async def main() -> None:
    async with await Client.connect(os.environ["PERDURE_ADDRESS"]) as client:
        await Worker(
            client, task_queue="lab", workflows=[Order, Failing, Labelled, Sleeping, Echo]
        ).run()


if __name__ == "__main__":
    asyncio.run(main())
