"""Workflows and activities for the tests of the environments."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from perdure import activity, workflow
from perdure.common import RetryPolicy
from perdure.errors import ActivityError, ApplicationError

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


@workflow.defn
class Sleeper:
    """Sleeps so many days, one after the other, and says when it woke up."""

    @workflow.run
    async def run(self, days: int) -> list[datetime]:
        woke = [workflow.now()]
        for _ in range(days):
            await workflow.sleep(DAY)
            woke.append(workflow.now())
        return woke


@workflow.defn
class Waiter:
    """Waits for a signal, so many seconds at most; then goes on for ever, if asked to."""

    def __init__(self) -> None:
        self._told: list[str] = []

    @workflow.run
    async def run(self, limit_s: float, linger: bool = False) -> str:
        try:
            await workflow.wait_condition(lambda: bool(self._told), timeout=limit_s)
        except TimeoutError:
            return "timed out"
        if linger:
            await workflow.wait_condition(lambda: len(self._told) > 1)
        return self._told[-1]

    @workflow.signal
    def tell(self, word: str) -> None:
        self._told.append(word)

    @workflow.query
    def told(self) -> list[str]:
        return self._told


@workflow.defn
class Racer:
    """An activity with a heartbeat timeout of an hour against a timer of a day."""

    @workflow.run
    async def run(self) -> str:
        work = workflow.start_activity(
            gated, start_to_close_timeout=HOUR * 2, heartbeat_timeout=HOUR
        )
        timer = asyncio.create_task(workflow.sleep(DAY))
        await asyncio.wait([work, timer], return_when=asyncio.FIRST_COMPLETED)
        return "timer" if timer.done() else str(await work)


@workflow.defn
class Retrier:
    """An activity that fails twice, with ten hours between its attempts."""

    @workflow.run
    async def run(self) -> int:
        return await workflow.execute_activity(
            third_time_lucky,
            start_to_close_timeout=HOUR,
            retry_policy=RetryPolicy(initial_interval=HOUR * 10, backoff_coefficient=1),
        )


@workflow.defn
class Unserved:
    """An activity on a queue that nobody polls."""

    @workflow.run
    async def run(self) -> str:
        try:
            await workflow.execute_activity(
                gated, task_queue="nobody-polls", schedule_to_close_timeout=HOUR
            )
        except ActivityError as error:
            return type(error.cause).__name__
        return "done"


@workflow.defn
class Broken:
    """Its workflow task fails again and again."""

    @workflow.run
    async def run(self) -> None:
        open("/dev/null")  # noqa: ASYNC230, SIM115 - the guard is to catch it


class Gate:
    """Where `gated` waits until a test lets it go on."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()


GATES: list[Gate] = []


@activity.defn
async def gated() -> str:
    gate = GATES[-1]
    gate.entered.set()
    await gate.opened.wait()
    return "activity"


@activity.defn
def third_time_lucky() -> int:
    if activity.info().attempt < 3:
        raise ApplicationError("not yet")
    return activity.info().attempt
