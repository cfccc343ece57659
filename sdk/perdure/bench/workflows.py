"""What the workloads run. See WORKLOADS: W1 and W3 OneStep, W2 TenSteps, W6 Waiting, W7 Sleeping,
W8 ManySteps, W9 Recorded, W10 FanOut, W11 Waiting, W12 MapOut."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from perdure import activity, workflow
from perdure.bench.effects import EffectLog

# Nothing here takes long; an attempt that was lost with its worker is noticed by other means.
STEP_TIMEOUT = timedelta(minutes=1)
STEPS_OF_W2 = 10
NAP = timedelta(hours=1)


@activity.defn
async def no_op() -> None:
    pass


@activity.defn
async def same(number: int) -> int:
    return number


@workflow.defn
class OneStep:
    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(no_op, start_to_close_timeout=STEP_TIMEOUT)


@workflow.defn
class TenSteps:
    @workflow.run
    async def run(self) -> None:
        for _ in range(STEPS_OF_W2):
            await workflow.execute_activity(no_op, start_to_close_timeout=STEP_TIMEOUT)


@workflow.defn
class Waiting:
    """Remembers the highest number signalled."""

    def __init__(self) -> None:
        self._seen = 0
        self._sum = 0
        self._finished = False

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_condition(lambda: self._finished)
        return self._seen

    @workflow.update
    def add(self, number: int) -> int:
        self._sum += number
        return self._sum

    @workflow.signal
    def tell(self, number: int) -> None:
        self._seen = max(self._seen, number)

    @workflow.signal
    def finish(self) -> None:
        self._finished = True

    @workflow.query
    def seen(self) -> int:
        return self._seen


@workflow.defn
class Sleeping:
    @workflow.run
    async def run(self) -> None:
        await workflow.sleep(NAP)


@workflow.defn
class ManySteps:
    """Runs its activities one after the other, then waits to be asked how many there were."""

    def __init__(self) -> None:
        self._done = 0
        self._finished = False

    @workflow.run
    async def run(self, steps: int) -> int:
        for _ in range(steps):
            await workflow.execute_activity(no_op, start_to_close_timeout=STEP_TIMEOUT)
            self._done += 1
        await workflow.wait_condition(lambda: self._finished)
        return self._done

    @workflow.signal
    def finish(self) -> None:
        self._finished = True

    @workflow.query
    def done(self) -> int:
        return self._done


@workflow.defn
class Recorded:
    """W1 whose activity leaves a trace outside."""

    @workflow.run
    async def run(self, number: int) -> int:
        return await workflow.execute_activity_method(
            EffectLog.record, number, start_to_close_timeout=STEP_TIMEOUT
        )


@workflow.defn
class FanOut:
    @workflow.run
    async def run(self, activities: int) -> int:
        done = await asyncio.gather(
            *(
                workflow.execute_activity(no_op, start_to_close_timeout=STEP_TIMEOUT)
                for _ in range(activities)
            )
        )
        return len(done)


@workflow.defn
class MapOut:
    """FanOut by `workflow.map`: woken when all are done."""

    @workflow.run
    async def run(self, activities: int) -> int:
        results = await workflow.map(same, range(activities), start_to_close_timeout=STEP_TIMEOUT)
        return len(results.values)


ALL = (OneStep, TenSteps, Waiting, Sleeping, ManySteps, Recorded, FanOut, MapOut)
