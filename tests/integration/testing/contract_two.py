"""The same program, changed: what it gives to `charge`, what it returns, and what `price` says."""

from __future__ import annotations

from datetime import timedelta

from perdure import activity, workflow

MINUTE = timedelta(minutes=1)


@activity.defn(pure=True)
async def price(amount: int) -> int:
    return amount * 4


@activity.defn(pure=True)
def double(amount: int) -> int:
    raise OverflowError("too much")


@activity.defn
async def charge(amount: int) -> str:
    raise AssertionError("it is not pure: nobody runs it again")


@workflow.defn
class Sale:
    @workflow.run
    async def run(self, amount: int) -> str:
        total = await workflow.execute_activity(price, amount, start_to_close_timeout=MINUTE)
        total = await workflow.execute_activity(double, total, start_to_close_timeout=MINUTE)
        told = await workflow.execute_activity(charge, total + 1, start_to_close_timeout=MINUTE)
        return told.upper()
