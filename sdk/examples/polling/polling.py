"""Asks a service again and again until it is ready, for as long as that takes.

    perdure dev                                # in one terminal
    python sdk/examples/polling/polling.py     # in another one

Two ways, each for its kind of waiting. Between questions that are seconds apart, let the activity
fail and its retry policy wait: retries leave nothing in the history. When something is to be decided
between them, or they are hours apart, wait in the workflow, and continue as new before the history
grows long; what the next run needs goes along as its argument.

Its tests: tests/e2e/examples/test_polling.py
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

TASK_QUEUE = "polling"
LIMIT = timedelta(seconds=10)
# Each question is some events. The engine's own suggestion comes at 4,096 of them: no need to wait
# for it, a short history is replayed quickly.
QUESTIONS_PER_RUN = 100


class Oven:
    """Stands for the service: it is ready when it was asked often enough."""

    def __init__(self, ready_after: int) -> None:
        self.asked = 0
        self.ready_after = ready_after

    @activity.defn
    async def temperature(self) -> int:
        self.asked += 1
        return 220 if self.asked > self.ready_after else 20

    @activity.defn
    async def check_hot(self) -> int:
        """For the short wait: not ready is a failure, which is tried again."""
        degrees = await self.temperature()
        if degrees < 200:
            raise ApplicationError(f"only {degrees} degrees", type="NotReady")
        return degrees


@workflow.defn
class WaitShortly:
    @workflow.run
    async def run(self) -> int:
        return await workflow.execute_activity_method(
            Oven.check_hot,
            start_to_close_timeout=LIMIT,
            schedule_to_close_timeout=timedelta(minutes=10),
            retry_policy=RetryPolicy(
                initial_interval=timedelta(seconds=2), backoff_coefficient=1.0
            ),
        )


@dataclass
class Wish:
    at_least: int
    ask_every: timedelta
    questions: int = 0
    """That the runs before this one have asked."""


@dataclass
class Answer:
    degrees: int
    questions: int


@workflow.defn
class WaitLong:
    @workflow.run
    async def run(self, wish: Wish) -> Answer:
        before = wish.questions
        while True:
            degrees = await workflow.execute_activity_method(
                Oven.temperature, start_to_close_timeout=LIMIT
            )
            wish.questions += 1
            if degrees >= wish.at_least:
                return Answer(degrees, wish.questions)
            await workflow.sleep(wish.ask_every)
            if wish.questions - before >= QUESTIONS_PER_RUN:
                workflow.continue_as_new(wish)


def make_worker(client: Client, oven: Oven) -> Worker:
    return Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[WaitShortly, WaitLong],
        activities=[oven.temperature, oven.check_hot],
    )


async def main() -> None:
    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    run = os.urandom(3).hex()
    async with await Client.connect(address) as client, make_worker(client, Oven(ready_after=3)):
        wish = Wish(at_least=200, ask_every=timedelta(milliseconds=500))
        answer = await client.execute_workflow(
            WaitLong.run, wish, id=f"polling-{run}", task_queue=TASK_QUEUE
        )
        print(f"{answer.degrees} degrees after {answer.questions} questions")


if __name__ == "__main__":
    asyncio.run(main())
