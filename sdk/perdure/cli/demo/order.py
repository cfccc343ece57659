"""The workflow of the demo: reserve, charge, wait until it is shipped, wait a little, notify."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from perdure import activity, workflow
from perdure.cli.demo.ledger import Ledger
from perdure.common import RetryPolicy
from perdure.errors import ApplicationError

STEPS = ("reserve", "charge", "notify")
RETURN_PERIOD = timedelta(seconds=2)
# Longer than it takes to notice that a worker is gone, so that this and no timeout is what shows.
STEP_TIMEOUT = timedelta(seconds=25)
RETRY = RetryPolicy(initial_interval=timedelta(milliseconds=200))
# How long the bank takes to answer once it has taken the money: time to be killed in.
BANK_ANSWERS_AFTER_S = 20.0


@dataclass(frozen=True)
class Order:
    order_id: str
    cents: int


@dataclass(frozen=True)
class Receipt:
    reservation: str
    payment: str
    tracking: str
    notice: str


def expected_receipt(order: Order, tracking: str) -> Receipt:
    return Receipt(
        reservation=f"reserve {order.order_id}",
        payment=f"charge {order.order_id}",
        tracking=tracking,
        notice=f"notify {order.order_id}",
    )


class Shop:
    """The activities. Each has one effect, under the key that Perdure gives all its attempts."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @activity.defn(name="reserve")
    async def reserve(self, order: Order) -> str:
        self._do("reserve")
        return f"reserve {order.order_id}"

    @activity.defn(name="charge")
    async def charge(self, order: Order) -> str:
        """Fails once before the money is taken, and once takes long to say that it was."""
        if activity.info().attempt == 1:
            self._attempt("charge")
            raise ApplicationError("the bank cannot be reached", type="BankUnreachable")
        if self._do("charge"):
            await asyncio.sleep(BANK_ANSWERS_AFTER_S)
        return f"charge {order.order_id}"

    @activity.defn(name="notify")
    async def notify(self, order: Order) -> str:
        self._do("notify")
        return f"notify {order.order_id}"

    def _do(self, step: str) -> bool:
        """False when it has happened before."""
        self._attempt(step)
        info = activity.info()
        return self._ledger.record_effect(step, info.idempotency_key, info.attempt)

    def _attempt(self, step: str) -> None:
        info = activity.info()
        self._ledger.record_attempt(step, info.idempotency_key, info.attempt)


@workflow.defn
class OrderWorkflow:
    def __init__(self) -> None:
        self._is_paid = False
        self._tracking: str | None = None

    @workflow.run
    async def run(self, order: Order) -> Receipt:
        reservation = await workflow.execute_activity_method(
            Shop.reserve, order, start_to_close_timeout=STEP_TIMEOUT, retry_policy=RETRY
        )
        payment = await workflow.execute_activity_method(
            Shop.charge, order, start_to_close_timeout=STEP_TIMEOUT, retry_policy=RETRY
        )
        self._is_paid = True
        await workflow.wait_condition(lambda: self._tracking is not None)
        await workflow.sleep(RETURN_PERIOD)
        notice = await workflow.execute_activity_method(
            Shop.notify, order, start_to_close_timeout=STEP_TIMEOUT, retry_policy=RETRY
        )
        assert self._tracking is not None
        return Receipt(reservation, payment, self._tracking, notice)

    @workflow.signal
    def shipped(self, tracking: str) -> None:
        self._tracking = tracking

    @workflow.query
    def is_paid(self) -> bool:
        return self._is_paid
