"""A thousand thumbnails, fifty at a time, and some may fail.

    perdure dev                                # in one terminal
    python sdk/examples/fan_out/fan_out.py     # in another one

`workflow.map` starts one activity for each item and wakes the workflow when there is something to
decide, not for every outcome. The rule says what counts as done.

Its tests: tests/e2e/examples/test_fan_out.py
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import timedelta

from perdure import activity, workflow
from perdure.client import Client
from perdure.common import RetryPolicy
from perdure.errors import ApplicationError
from perdure.worker import Worker

TASK_QUEUE = "fan-out"
AT_ONCE = 50


@dataclass
class Report:
    bytes_total: int
    broken: list[str]


@activity.defn
async def shrink(picture: str) -> int:
    """Where a picture would be read, made small and stored; returns the size of what came of it."""
    if picture.startswith("broken"):
        raise ApplicationError(f"{picture} is no picture", type="NoPicture", non_retryable=True)
    return 100 + len(picture)


@workflow.defn
class Thumbnails:
    @workflow.run
    async def run(self, pictures: list[str]) -> Report:
        done = await workflow.map(
            shrink,
            pictures,
            concurrency=AT_ONCE,
            rule=workflow.FanOutRule(tolerated_failure_share=0.01),
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=5),
        )
        return Report(sum(done.values), [pictures[index] for index in sorted(done.errors)])


def pictures(count: int, broken: int = 0) -> list[str]:
    return [f"{'broken' if index < broken else 'holiday'}-{index:04}" for index in range(count)]


def make_worker(client: Client) -> Worker:
    return Worker(client, task_queue=TASK_QUEUE, workflows=[Thumbnails], activities=[shrink])


async def shrink_all(client: Client, id: str, names: list[str]) -> Report:
    return await client.execute_workflow(Thumbnails.run, names, id=id, task_queue=TASK_QUEUE)


async def main() -> None:
    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    async with await Client.connect(address) as client, make_worker(client):
        report = await shrink_all(client, f"thumbnails-{os.urandom(3).hex()}", pictures(1000, 3))
        print(f"{report.bytes_total} bytes; could not be read: {', '.join(report.broken)}")


if __name__ == "__main__":
    asyncio.run(main())
