"""sdk/examples/shopping_cart"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.e2e.command_line import CommandLine
from tests.e2e.examples.loading import EXAMPLES, load_example

from perdure.client import WorkflowUpdateFailedError
from perdure.errors import ActivityError, ApplicationError
from perdure.testing import WorkflowEnvironment
from perdure.worker import Replayer

shopping = load_example("shopping_cart/cart.py")
Cart = shopping.Cart


@pytest.fixture
async def env(workflow_environment: WorkflowEnvironment) -> AsyncIterator[WorkflowEnvironment]:
    async with shopping.make_worker(workflow_environment.client):
        yield workflow_environment


@pytest.fixture
def cart(env: WorkflowEnvironment) -> Any:
    return shopping.cart_of(env.client, "ada")


async def test_what_is_in_the_cart_is_paid_for_once(cart: Any) -> None:
    assert await shopping.shop(cart) == "receipt over 430 cents"

    assert await cart.read(Cart.contents) == []
    assert await cart.read(Cart.total_cents) == 0


async def test_what_we_do_not_have_is_not_put_in(cart: Any) -> None:
    assert await cart.call(Cart.add, "pear") == 1

    with pytest.raises(WorkflowUpdateFailedError) as failed:
        await cart.call(Cart.add, "durian")

    assert isinstance(failed.value.cause, ActivityError)
    assert isinstance(failed.value.cause.cause, ApplicationError)
    assert failed.value.cause.cause.type == "NoSuchItem"
    assert await cart.read(Cart.contents) == [shopping.Line("pear", 1, 55)]


async def test_an_empty_cart_cannot_be_paid_for(cart: Any) -> None:
    with pytest.raises(WorkflowUpdateFailedError) as failed:
        await cart.call(Cart.check_out)

    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "Empty"


async def test_its_history_replays(env: WorkflowEnvironment, cart: Any) -> None:
    await shopping.shop(cart)

    history = await env.client.get_workflow_handle(cart.workflow_id).fetch_history()

    await Replayer(workflows=[Cart]).replay_workflow(history)


def test_it_runs_with_one_command(dev: CommandLine) -> None:
    program = dev.folder / "cart.py"
    program.write_text((EXAMPLES / "shopping_cart/cart.py").read_text("utf-8"), "utf-8")

    assert dev.start_program(program).wait(60) == 0

    lines = program.with_suffix(".log").read_text("utf-8").splitlines()
    assert lines[-2:] == ["NoSuchItem: we have no durian", "receipt over 430 cents"]
