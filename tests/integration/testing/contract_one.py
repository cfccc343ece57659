"""The code that made the histories of test_contract.py."""

from __future__ import annotations

from datetime import timedelta

from perdure import activity, workflow

MINUTE = timedelta(minutes=1)


@activity.defn(pure=True)
async def price(amount: int) -> int:
    return amount * 3


@activity.defn(pure=True)
def double(amount: int) -> int:
    return amount * 2


@activity.defn
async def charge(amount: int) -> str:
    return f"charged {amount}"


@workflow.defn
class Sale:
    @workflow.run
    async def run(self, amount: int) -> str:
        total = await workflow.execute_activity(price, amount, start_to_close_timeout=MINUTE)
        total = await workflow.execute_activity(double, total, start_to_close_timeout=MINUTE)
        return await workflow.execute_activity(charge, total, start_to_close_timeout=MINUTE)
