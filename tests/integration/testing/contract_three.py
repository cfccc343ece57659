"""The same program, in another order: its runs cannot go on with it."""

from __future__ import annotations

from datetime import timedelta

from perdure import workflow


@workflow.defn
class Sale:
    @workflow.run
    async def run(self, amount: int) -> str:
        return await workflow.execute_activity(
            "charge", amount, start_to_close_timeout=timedelta(minutes=1), result_type=str
        )
