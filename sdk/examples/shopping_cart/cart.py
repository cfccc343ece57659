"""A shopping cart for each customer: a virtual object.

    perdure dev                                          # in one terminal
    python sdk/examples/shopping_cart/cart.py            # in another one

A cart begins to exist when something is put into it, has one change at a time, however many browser
tabs its customer has open, and costs nothing but its rows while nobody shops. Look at one with

    perdure entity read Cart customer-17 contents
    perdure entity call Cart customer-17 add -i '"apple"' -i 2

Its test: tests/e2e/examples/test_cart.py
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import timedelta

from perdure import activity, workflow
from perdure.client import Client, EntityHandle, WorkflowUpdateFailedError
from perdure.errors import ApplicationError
from perdure.worker import Worker

TASK_QUEUE = "carts"
CENTS = {"apple": 40, "pear": 55, "melon": 310}


@dataclass
class Line:
    item: str
    count: int
    cents_each: int


@activity.defn
async def look_up_price(item: str) -> int:
    """Where a catalogue would be asked."""
    if item not in CENTS:
        raise ApplicationError(f"we have no {item}", type="NoSuchItem", non_retryable=True)
    return CENTS[item]


@activity.defn
async def charge(customer: str, cents: int) -> str:
    """Where a payment service would be called. `activity.info().idempotency_key` is what it should
    get: this may be called again."""
    activity.logger.info("%s pays %d cents", customer, cents)
    return f"receipt over {cents} cents"


@workflow.entity
class Cart:
    # Declared here and not in __init__: by these hints they are read back.
    lines: dict[str, Line]
    receipts: list[str]

    def __init__(self) -> None:
        self.lines = {}
        self.receipts = []

    @workflow.entity_handler
    async def add(self, item: str, count: int = 1) -> int:
        """How many there are now. The price is that of the first one."""
        if item not in self.lines:
            cents = await workflow.execute_activity(
                look_up_price, item, start_to_close_timeout=timedelta(seconds=10)
            )
            self.lines[item] = Line(item, 0, cents)
        self.lines[item].count += count
        return self.lines[item].count

    @workflow.entity_handler
    async def check_out(self) -> str:
        """Empties the cart and pays for it, or does neither."""
        cents = self._cents()
        if not cents:
            raise ApplicationError("the cart is empty", type="Empty")
        self.lines.clear()
        receipt = await workflow.execute_activity(
            charge,
            args=[workflow.entity_key(), cents],
            start_to_close_timeout=timedelta(seconds=30),
        )
        self.receipts.append(receipt)
        return receipt

    @workflow.entity_reader
    def contents(self) -> list[Line]:
        return list(self.lines.values())

    @workflow.entity_reader
    def total_cents(self) -> int:
        return self._cents()

    def _cents(self) -> int:
        return sum(line.count * line.cents_each for line in self.lines.values())


def make_worker(client: Client) -> Worker:
    return Worker(
        client, task_queue=TASK_QUEUE, workflows=[Cart], activities=[look_up_price, charge]
    )


def cart_of(client: Client, customer: str) -> EntityHandle[Cart]:
    return client.entity(Cart, customer, task_queue=TASK_QUEUE)


async def shop(cart: EntityHandle[Cart]) -> str:
    """Two tabs at the same time; the button to pay is pressed twice, and paid for once."""
    await asyncio.gather(cart.call(Cart.add, "apple", 2), cart.call(Cart.add, "apple"))
    try:
        await cart.call(Cart.add, "durian")
    except WorkflowUpdateFailedError as error:
        print(error.cause.__cause__)
    await cart.tell(Cart.add, "melon")
    order = cart.with_options(id="order-1")
    first, second = await asyncio.gather(order.call(Cart.check_out), order.call(Cart.check_out))
    assert first == second
    return first


async def main() -> None:
    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    async with await Client.connect(address) as client, make_worker(client):
        print(await shop(cart_of(client, "customer-17")))


if __name__ == "__main__":
    asyncio.run(main())
