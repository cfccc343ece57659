"""The programs after a careless change: the same names, other commands."""

from __future__ import annotations

from datetime import timedelta

from tests.integration.testing import programs

from perdure import workflow


@workflow.defn(name="Sleeper")
class TwoTimers:
    @workflow.run
    async def run(self, days: int) -> None:
        for _ in range(days):
            await workflow.execute_activity(  # the line that a failure must name
                programs.gated, start_to_close_timeout=timedelta(hours=1)
            )


@workflow.defn(name="Sleeper")
class OneDayLess:
    @workflow.run
    async def run(self, days: int) -> None:
        for _ in range(days - 1):
            await workflow.sleep(programs.DAY)


@workflow.defn(name="Sleeper")
class WrongInput:
    @workflow.run
    async def run(self, days: dict[str, int]) -> None:
        await workflow.sleep(programs.DAY)
