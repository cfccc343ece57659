"""sdk/examples/fastapi_service: the app in this process, and the engine as well"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.e2e.examples.loading import load_example

from perdure.testing import WorkflowEnvironment

pytest.importorskip("fastapi", reason="for this example only")
httpx = pytest.importorskip("httpx", reason="for this example only")

service = load_example("fastapi_service/service.py")
TEA = {"name": "tea", "cents": 450}


@pytest.fixture
async def web(workflow_environment: WorkflowEnvironment) -> AsyncIterator[httpx.AsyncClient]:
    client = workflow_environment.client
    transport = httpx.ASGITransport(service.make_app(client))
    async with (
        service.make_worker(client),
        httpx.AsyncClient(transport=transport, base_url="http://carts") as web,
    ):
        yield web


async def test_a_cart_from_its_first_item_to_the_receipt(web: httpx.AsyncClient) -> None:
    opened = await web.post("/carts/1")
    assert opened.status_code == 201
    assert (await web.post("/carts/1")).json() == opened.json()

    added = await web.post("/carts/1/items", json=TEA)
    assert added.json() == {"items": [TEA], "paid": False}
    assert (await web.post("/carts/1/checkout")).json() == {"receipt": "charged 450 cents"}
    assert (await web.get("/carts/1")).json() == {"items": [TEA], "paid": True}


async def test_a_request_that_is_sent_again_does_nothing_twice(web: httpx.AsyncClient) -> None:
    await web.post("/carts/1")
    key = {"Idempotency-Key": "k-1"}

    first = await web.post("/carts/1/items", json=TEA, headers=key)
    second = await web.post("/carts/1/items", json=TEA, headers=key)

    assert first.json() == second.json() == {"items": [TEA], "paid": False}
    assert (await web.get("/carts/1")).json()["items"] == [TEA]


async def test_what_is_refused(web: httpx.AsyncClient) -> None:
    missing = await web.post("/carts/none/items", json=TEA)
    assert missing.status_code == 404

    await web.post("/carts/1")
    empty = await web.post("/carts/1/checkout")
    assert (empty.status_code, empty.json()) == (409, {"error": "the cart is empty"})
    assert (await web.post("/carts/1/items", json={"name": "tea", "cents": 0})).status_code == 422
