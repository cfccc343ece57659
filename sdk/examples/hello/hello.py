"""The smallest whole program: a workflow, an activity, a worker, and a caller.

    perdure dev                            # in one terminal
    python sdk/examples/hello/hello.py     # in another one

Its test, in some milliseconds and without an engine beside it: tests/e2e/examples/test_hello.py
"""

from __future__ import annotations

import asyncio
import os
import uuid
from datetime import timedelta

from perdure import activity, workflow
from perdure.client import Client
from perdure.worker import Worker

TASK_QUEUE = "hello"


@activity.defn
async def compose_greeting(name: str) -> str:
    """Activities may do anything: call a service, write a file. This one is content with a text."""
    return f"Hello, {name}!"


@workflow.defn
class Greet:
    @workflow.run
    async def run(self, name: str) -> str:
        await workflow.sleep(1)  # a row in the database, not a sleeping process
        return await workflow.execute_activity(
            compose_greeting, name, start_to_close_timeout=timedelta(seconds=10)
        )


def make_worker(client: Client) -> Worker:
    return Worker(client, task_queue=TASK_QUEUE, workflows=[Greet], activities=[compose_greeting])


async def greet(client: Client, name: str) -> str:
    return await client.execute_workflow(
        Greet.run, name, id=f"hello-{uuid.uuid4()}", task_queue=TASK_QUEUE
    )


async def main() -> None:
    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    async with await Client.connect(address) as client, make_worker(client):
        print(await greet(client, "World"))


if __name__ == "__main__":
    asyncio.run(main())
