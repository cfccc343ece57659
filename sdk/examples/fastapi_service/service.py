"""A web service that starts workflows, changes them and looks at them.

    perdure dev                                              # in one terminal
    pip install fastapi uvicorn
    python sdk/examples/fastapi_service/service.py           # in another one

    curl -X POST localhost:8000/carts/c-1
    curl -X POST localhost:8000/carts/c-1/items -H 'content-type: application/json' -d '{"name": "tea", "cents": 450}'
    curl -X POST localhost:8000/carts/c-1/checkout
    curl localhost:8000/carts/c-1

A request that is sent again does nothing twice: the cart's id is the workflow's id, and the header
Idempotency-Key, when there is one, is the update's. The worker lives in the same process here; it
could be any other. Errors become statuses: what the workflow refuses is a 409, what is not there a
404, and while there is no engine a 503.

Its tests, in which no port is opened: tests/e2e/examples/test_fastapi_service.py
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from perdure import activity, workflow
from perdure.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from perdure.common import WorkflowIdConflictPolicy
from perdure.errors import ApplicationError, RPCError, RPCStatusCode
from perdure.worker import Worker

TASK_QUEUE = "carts"

Key = Annotated[str | None, Header(alias="Idempotency-Key")]


class Item(BaseModel):
    name: str = Field(min_length=1)
    cents: int = Field(gt=0)


class CartState(BaseModel):
    items: list[Item] = []
    paid: bool = False

    @property
    def total(self) -> int:
        return sum(item.cents for item in self.items)


@activity.defn
async def charge(cents: int) -> str:
    """Where the money would be asked for, under `activity.info().idempotency_key`."""
    return f"charged {cents} cents"


@workflow.defn
class Cart:
    def __init__(self) -> None:
        self._state = CartState()
        self._checking_out = False

    @workflow.run
    async def run(self) -> CartState:
        await workflow.wait_condition(lambda: self._state.paid)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self._state

    @workflow.update
    def add(self, item: Item) -> CartState:
        self._state.items.append(item)
        return self._state

    @add.validator
    def check_add(self, item: Item) -> None:
        if self._checking_out:
            raise ApplicationError("the cart is closed", type="Closed")

    @workflow.update
    async def check_out(self) -> str:
        self._checking_out = True
        receipt = await workflow.execute_activity(
            charge, self._state.total, start_to_close_timeout=timedelta(seconds=30)
        )
        self._state.paid = True
        return receipt

    @check_out.validator
    def check_check_out(self) -> None:
        if self._checking_out:
            raise ApplicationError("the cart is closed", type="Closed")
        if not self._state.items:
            raise ApplicationError("the cart is empty", type="Empty")

    @workflow.query
    def state(self) -> CartState:
        return self._state


def make_worker(client: Client) -> Worker:
    return Worker(client, task_queue=TASK_QUEUE, workflows=[Cart], activities=[charge])


def make_app(client: Client) -> FastAPI:
    """The service, on a client that somebody else connects and closes."""
    app = FastAPI(title="Carts")

    def cart(id: str) -> WorkflowHandle[Cart, CartState]:
        return client.get_workflow_handle_for(Cart.run, f"cart-{id}")

    @app.post("/carts/{id}", status_code=201)
    async def open_cart(id: str) -> dict[str, str | None]:
        handle = await client.start_workflow(
            Cart.run,
            id=f"cart-{id}",
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIdConflictPolicy.USE_EXISTING,
        )
        return {"run_id": handle.first_execution_run_id}

    @app.post("/carts/{id}/items")
    async def add_item(id: str, item: Item, key: Key = None) -> CartState:
        return await cart(id).execute_update(Cart.add, item, id=key)

    @app.post("/carts/{id}/checkout")
    async def check_out(id: str, key: Key = None) -> dict[str, str]:
        return {"receipt": await cart(id).execute_update(Cart.check_out, id=key)}

    @app.get("/carts/{id}")
    async def show(id: str) -> CartState:
        return await cart(id).query(Cart.state)

    @app.exception_handler(WorkflowUpdateFailedError)
    async def refused(request: Request, error: WorkflowUpdateFailedError) -> JSONResponse:
        cause: Any = error.cause
        return JSONResponse({"error": getattr(cause, "message", str(cause))}, 409)

    @app.exception_handler(RPCError)
    async def not_answered(request: Request, error: RPCError) -> JSONResponse:
        statuses = {RPCStatusCode.NOT_FOUND: 404, RPCStatusCode.INVALID_ARGUMENT: 400}
        return JSONResponse({"error": error.message}, statuses.get(error.status, 503))

    return app


@asynccontextmanager
async def serving(address: str) -> AsyncIterator[FastAPI]:
    async with await Client.connect(address) as client, make_worker(client):
        yield make_app(client)


async def main() -> None:
    import uvicorn

    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    async with serving(address) as app:
        await uvicorn.Server(uvicorn.Config(app, port=8000)).serve()


if __name__ == "__main__":
    asyncio.run(main())
