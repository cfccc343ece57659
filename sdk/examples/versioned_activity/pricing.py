"""Another way to compute a price, rolled out while orders are open.

    perdure dev                                           # in one terminal
    python sdk/examples/versioned_activity/pricing.py     # in another one

An order asks for its price twice: when it is made, and when it is paid. Both must come of the same
computation. So the new one is a second version of the activity, and not a change of the first: an
open order keeps the version that its history names, a new one takes the newest. The workflow has no
`if` for that. The old version is taken out when `price` is listed for no open order any more.

Its tests: tests/e2e/examples/test_versioned_activity.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from perdure import activity, workflow
from perdure.client import Client, WorkflowHandle
from perdure.worker import Worker

TASK_QUEUE = "pricing"
LIMIT = timedelta(seconds=10)


@activity.defn(name="price")
async def price_without_tax(cents: int) -> int:
    return cents


@activity.defn(name="price", version=2)
async def price_with_tax(cents: int) -> int:
    return cents + cents * 19 // 100


BEFORE = [price_without_tax]
AFTER = [price_without_tax, price_with_tax]
"""As long as an order is open that began before."""


@workflow.defn
class Order:
    def __init__(self) -> None:
        self._paid = False

    @workflow.signal
    def pay(self) -> None:
        self._paid = True

    @workflow.run
    async def run(self, cents: int) -> list[int]:
        # By its name: which version it is, the history says, or the worker for those that begin.
        first = await workflow.execute_activity(
            "price", cents, result_type=int, start_to_close_timeout=LIMIT
        )
        await workflow.wait_condition(lambda: self._paid)
        second = await workflow.execute_activity(
            "price", cents, result_type=int, start_to_close_timeout=LIMIT
        )
        return [first, second]

    @workflow.query
    def is_paid(self) -> bool:
        return self._paid


def make_worker(client: Client, activities: Sequence[Callable[..., Any]]) -> Worker:
    return Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[Order],
        activities=activities,
        graceful_shutdown_timeout=timedelta(),
    )


async def begin(client: Client, id: str, cents: int) -> WorkflowHandle[Order, list[int]]:
    """Returns when the order has its first price."""
    handle = await client.start_workflow(Order.run, cents, id=id, task_queue=TASK_QUEUE)
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.event_type == "ActivityTaskCompleted":
            break
    return handle


async def roll_out(client: Client, run: str) -> list[list[int]]:
    """The prices of an order from before the roll-out, and of one from after it."""
    async with make_worker(client, BEFORE):
        old = await begin(client, f"order-{run}-old", 1000)
    async with make_worker(client, AFTER):
        new = await begin(client, f"order-{run}-new", 1000)
        for order in (old, new):
            await order.signal(Order.pay)
        return [await old.result(), await new.result()]


async def main() -> None:
    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    async with await Client.connect(address) as client:
        old, new = await roll_out(client, os.urandom(3).hex())
    print(f"begun before: {old}, begun after: {new}")


if __name__ == "__main__":
    asyncio.run(main())
