"""An order of three steps, each of which is undone when a later one fails.

    perdure dev                                  # in one terminal
    python sdk/examples/order_saga/order.py      # in another one

The first order arrives. The second is for an address where nobody lives: it is refused after the
card was charged, so that the money goes back and then the goods go back to the shelf. An order that
is cancelled on its way is undone in the same way.

Its tests: tests/e2e/examples/test_order_saga.py
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from datetime import timedelta

from perdure import activity, workflow
from perdure.client import Client, WorkflowFailureError
from perdure.errors import ApplicationError
from perdure.worker import Worker

TASK_QUEUE = "orders"
LIMIT = timedelta(seconds=30)


@dataclass
class Order:
    id: str
    item: str
    cents: int
    address: str


@dataclass
class Shop:
    """What stands for the services. Undoing what was not done is no error there: see `Saga.add`."""

    shelf: dict[str, int]
    charged: dict[str, int] = field(default_factory=dict)
    """By the idempotency key under which a payment service would remember it: asking twice charges
    once."""
    sent: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    _reserved: dict[str, str] = field(default_factory=dict)

    @activity.defn
    async def reserve(self, order: Order) -> None:
        if order.id in self._reserved:
            return
        if not self.shelf.get(order.item):
            raise ApplicationError(f"no {order.item} is left", type="SoldOut", non_retryable=True)
        self.shelf[order.item] -= 1
        self._reserved[order.id] = order.item

    @activity.defn
    async def release(self, order: Order) -> None:
        item = self._reserved.pop(order.id, None)
        if item is not None:
            self.shelf[item] += 1
            self.told.append(f"{order.id}: {item} back on the shelf")

    @activity.defn
    async def charge(self, order: Order) -> None:
        self.charged[order.id] = order.cents

    @activity.defn
    async def refund(self, order: Order) -> None:
        if self.charged.pop(order.id, None) is not None:
            self.told.append(f"{order.id}: {order.cents} cents refunded")

    @activity.defn
    async def send(self, order: Order) -> str:
        if order.address == "nowhere":
            raise ApplicationError("nobody lives there", type="Undeliverable", non_retryable=True)
        self.sent.append(order.id)
        return f"{order.item} on its way to {order.address}"


@workflow.defn
class OrderWorkflow:
    @workflow.run
    async def run(self, order: Order) -> str:
        # What undoes a step is added before the step: when it fails nobody knows what it has done.
        async with workflow.saga() as saga:
            saga.add(Shop.release, order, start_to_close_timeout=LIMIT)
            await workflow.execute_activity_method(
                Shop.reserve, order, start_to_close_timeout=LIMIT
            )
            saga.add(Shop.refund, order, start_to_close_timeout=LIMIT)
            await workflow.execute_activity_method(Shop.charge, order, start_to_close_timeout=LIMIT)
            return await workflow.execute_activity_method(
                Shop.send, order, start_to_close_timeout=LIMIT
            )


def make_worker(client: Client, shop: Shop) -> Worker:
    return Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[OrderWorkflow],
        activities=[shop.reserve, shop.release, shop.charge, shop.refund, shop.send],
    )


async def place(client: Client, order: Order) -> str:
    return await client.execute_workflow(
        OrderWorkflow.run, order, id=f"order-{order.id}", task_queue=TASK_QUEUE
    )


async def main() -> None:
    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    shop = Shop(shelf={"teapot": 2})
    async with await Client.connect(address) as client, make_worker(client, shop):
        run = os.urandom(3).hex()
        print(await place(client, Order(f"{run}-1", "teapot", 2500, "1 Sea Road")))
        try:
            await place(client, Order(f"{run}-2", "teapot", 2500, "nowhere"))
        except WorkflowFailureError as error:
            print(f"refused: {error.cause.__cause__}")
    for line in shop.told:
        print(line)


if __name__ == "__main__":
    asyncio.run(main())
