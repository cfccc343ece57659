"""What mypy and pyright make of entities and of calls to them. Checked, never run."""

from datetime import timedelta
from typing import Any, assert_type

from perdure import workflow
from perdure.client import Client, EntityHandle


@workflow.entity
class Cart:
    items: dict[str, int]

    def __init__(self) -> None:
        self.items = {}

    @workflow.entity_handler
    async def add(self, item: str, n: int = 1) -> int:
        return n

    @workflow.entity_handler
    def clear(self) -> None: ...

    @workflow.entity_handler(name="other")
    async def named(self) -> list[str]:
        return []

    @workflow.entity_reader
    def total(self) -> int:
        return 1

    @workflow.entity_reader(name="how many")
    def count(self, item: str) -> float:
        return 1.0


@workflow.entity(name="Wish list", calls_per_run=10)
class Wishes:
    @workflow.entity_handler
    def wish(self) -> None: ...


async def calls(client: Client) -> None:
    cart = client.entity(Cart, "ada", task_queue="carts")
    assert_type(cart, EntityHandle[Cart])
    assert_type(await cart.call(Cart.add, "apple"), int)
    assert_type(await cart.call(Cart.add, "apple", 2), int)
    assert_type(await cart.call(Cart.add, "apple", n=2), int)
    assert_type(await cart.call(Cart.named), list[str])
    await cart.call(Cart.clear)
    assert_type(await cart.call("add", "apple", 2), Any)
    await cart.tell(Cart.add, "apple")
    await cart.tell("add", "apple")
    assert_type(await cart.read(Cart.total), int)
    assert_type(await cart.read(Cart.count, "apple"), float)
    assert_type(await cart.read("total"), Any)
    once = cart.with_options(id="order-17", rpc_timeout=timedelta(seconds=1))
    assert_type(once, EntityHandle[Cart])
    assert_type(await once.call(Cart.add, "apple"), int)
    await cart.destroy()
    assert_type(cart.key, str)
    assert_type(client.entity("Cart", "ada", task_queue="carts"), EntityHandle[Any])
    assert_type(await Cart().add("apple"), int)
    assert_type(workflow.entity_key(), str)


async def wrong_calls(client: Client) -> None:
    cart = client.entity(Cart, "ada", task_queue="carts")
    await cart.call(Cart.add, 7)  # type: ignore[arg-type,call-overload]
    await cart.call(Cart.add)  # type: ignore[call-arg,call-overload]
    await cart.call(Cart.add, "apple", m=2)  # type: ignore[call-arg,call-overload]
    await cart.call(Wishes.wish)  # type: ignore[arg-type,call-overload]
    await cart.read(Cart.count, 7)  # type: ignore[arg-type,call-overload]
    await cart.tell(Cart.add, 7)  # type: ignore[arg-type,call-overload]
    client.entity(Cart, "ada")  # type: ignore[call-overload]
