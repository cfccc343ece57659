"""The worker of the torture tests, a process of its own, and the workflows that it runs.

    python -P -m tests.chaos.program --task-queue NAME --effects FILE --address HOST:PORT ...

Runs until SIGTERM or worse. With several addresses it has one worker for each node, and what a
worker says about a task reaches whichever node owns the task's shard by then.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from datetime import timedelta
from pathlib import Path

from tests.chaos.effects import Effects

from perdure import workflow
from perdure.bench.worker import loop_factory
from perdure.client import Client
from perdure.worker import Worker

STEP_TIMEOUT = timedelta(minutes=5)
NAP = timedelta(milliseconds=300)
PLACES = 1_000


@workflow.defn
class Recorded:
    """W1 with an effect outside."""

    @workflow.run
    async def run(self, number: int) -> int:
        return await workflow.execute_activity_method(
            Effects.record, number, start_to_close_timeout=STEP_TIMEOUT
        )


@workflow.defn
class Napping:
    """A timer between start and effect."""

    @workflow.run
    async def run(self, number: int) -> int:
        await workflow.sleep(NAP)
        return await workflow.execute_activity_method(
            Effects.record, number, start_to_close_timeout=STEP_TIMEOUT
        )


@workflow.defn
class Collecting:
    """Returns the numbers it was told, in order, once there are as many as it expects."""

    def __init__(self) -> None:
        self._seen: list[int] = []

    @workflow.run
    async def run(self, number: int, expected: int) -> list[int]:
        await workflow.execute_activity_method(
            Effects.record, number, start_to_close_timeout=STEP_TIMEOUT
        )
        await workflow.wait_condition(lambda: len(self._seen) >= expected)
        return self._seen

    @workflow.signal
    def tell(self, number: int) -> None:
        self._seen.append(number)

    @workflow.query
    def seen(self) -> list[int]:
        return self._seen


@workflow.defn
class Waiting:
    """Goes on until it is cancelled."""

    @workflow.run
    async def run(self, number: int) -> None:
        await workflow.wait_condition(lambda: False)


@workflow.defn
class Slow:
    """One activity that takes long."""

    @workflow.run
    async def run(self, number: int, seconds: float) -> int:
        return await workflow.execute_activity_method(
            Effects.work, number, seconds, start_to_close_timeout=STEP_TIMEOUT
        )


ALL = (Recorded, Napping, Collecting, Waiting, Slow)


def make_worker(client: Client, task_queue: str, effects: Effects) -> Worker:
    return Worker(
        client,
        task_queue=task_queue,
        workflows=ALL,
        activities=[
            *(effects.record, effects.work, effects.note, effects.toil, effects.stumble),
            *(effects.hang, effects.climb, effects.called_back),
        ],
        max_cached_workflows=2_000,
        max_concurrent_workflow_tasks=256,
        max_concurrent_activities=PLACES,
        graceful_shutdown_timeout=timedelta(seconds=5),
    )


async def serve(arguments: argparse.Namespace) -> None:
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    effects = Effects(arguments.effects)
    async with contextlib.AsyncExitStack() as stack:
        for address in arguments.address:
            client = await Client.connect(address, lazy=True)
            stack.push_async_callback(client.close)
            worker = make_worker(client, arguments.task_queue, effects)
            await stack.enter_async_context(worker)
        await asked.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", action="append", required=True)
    parser.add_argument("--task-queue", required=True)
    parser.add_argument("--effects", type=Path, required=True)
    arguments = parser.parse_args()
    if len(arguments.address) > 1:
        from tests.chaos import routed

        routed.install(arguments.address)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(arguments))


if __name__ == "__main__":
    main()
