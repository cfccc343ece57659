"""sdk/examples/order_saga"""

from __future__ import annotations

import asyncio

import pytest
from tests.e2e.examples.loading import load_example

from perdure import activity
from perdure.client import WorkflowFailureError
from perdure.errors import CancelledError
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker

order = load_example("order_saga/order.py")


async def test_an_order_arrives(workflow_environment: WorkflowEnvironment) -> None:
    client, shop = workflow_environment.client, order.Shop(shelf={"teapot": 1})
    async with order.make_worker(client, shop):
        said = await order.place(client, order.Order("1", "teapot", 2500, "1 Sea Road"))

    assert said == "teapot on its way to 1 Sea Road"
    assert (shop.shelf, shop.charged, shop.told) == ({"teapot": 0}, {"1": 2500}, [])


@pytest.mark.parametrize(
    ("item", "address", "told"),
    [
        ("teapot", "nowhere", ["1: 2500 cents refunded", "1: teapot back on the shelf"]),
        ("samovar", "1 Sea Road", []),
    ],
)
async def test_an_order_that_fails_leaves_everything_as_it_was(
    workflow_environment: WorkflowEnvironment, item: str, address: str, told: list[str]
) -> None:
    client, shop = workflow_environment.client, order.Shop(shelf={"teapot": 1})
    async with order.make_worker(client, shop):
        with pytest.raises(WorkflowFailureError):
            await order.place(client, order.Order("1", item, 2500, address))

    assert (shop.shelf, shop.charged, shop.sent, shop.told) == ({"teapot": 1}, {}, [], told)


async def test_an_order_that_is_cancelled_is_undone(
    workflow_environment: WorkflowEnvironment,
) -> None:
    client, shop = workflow_environment.client, order.Shop(shelf={"teapot": 1})
    sending = asyncio.Event()

    @activity.defn
    async def send(_: order.Order) -> None:
        sending.set()
        await asyncio.Event().wait()

    worker = Worker(
        client,
        task_queue=order.TASK_QUEUE,
        workflows=[order.OrderWorkflow],
        activities=[shop.reserve, shop.release, shop.charge, shop.refund, send],
    )
    async with worker:
        wanted = order.Order("1", "teapot", 2500, "1 Sea Road")
        placing = asyncio.ensure_future(order.place(client, wanted))
        await sending.wait()
        await client.get_workflow_handle("order-1").cancel()
        with pytest.raises(WorkflowFailureError) as failure:
            await placing

    assert isinstance(failure.value.cause, CancelledError)
    assert (shop.shelf, shop.charged) == ({"teapot": 1}, {})
    assert len(shop.told) == 2
