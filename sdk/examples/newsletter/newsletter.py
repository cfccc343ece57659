"""Sends a newsletter by jobs, now and every Monday, and says when the last copy is out.

    perdure dev                                     # in one terminal
    python sdk/examples/newsletter/newsletter.py    # in another one
    perdure job list --queue newsletter
    curl -H 'content-type: application/json' localhost:8233/jobs \
        -d '{"task_id":"send_issue","queue":"newsletter","schedule":"0 8 * * MON","parameters":{"number":42}}'

One job makes a batch of jobs, one for each reader. A copy whose mail server is down is tried again.
When all have ended, the batch's callback says so, in the transaction that ends the last of them.
`send_issue` may run twice: the copies have idempotency keys, and are made once.

Its tests: tests/e2e/examples/test_newsletter.py
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import timedelta

from perdure import job
from perdure.client import Client, Schedule, ScheduleActionStartJob, ScheduleSpec
from perdure.common import RetryPolicy
from perdure.job import NewJob
from perdure.worker import Worker

QUEUE = "newsletter"
READERS = [
    f"{name}@{server}"
    for name in ("ada", "grace", "linus", "barbara")
    for server in ("example.org", "example.com")
]
PATIENT = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_attempts=5)


@dataclass
class Issue:
    number: int


@dataclass
class Copy:
    reader: str
    number: int


@dataclass
class Sent:
    """What a callback is told of its batch."""

    batch_id: str
    total: int
    completed: int
    failed: int
    cancelled: int
    skipped: int


class Mail:
    """Stands for the mail servers. One is down for the first copies that come."""

    def __init__(self, client: Client, down_for: int = 1) -> None:
        self.client = client
        self.down_for = down_for
        self.copies: dict[str, Copy] = {}
        """By the idempotency key of the job that sent it: what a mail server would look at."""
        self.finished: asyncio.Future[Sent] = asyncio.get_running_loop().create_future()

    @job.defn
    async def send_issue(self, issue: Issue) -> int:
        copies = [
            self._copy(Copy(reader, issue.number), job.info().idempotency_key) for reader in READERS
        ]
        done = job.callback(self.all_sent, queue=QUEUE)
        batch = f"issue-{issue.number}-{job.info().job_id}"
        await self.client.jobs.batch(batch, copies, callback=done)
        return len(copies)

    def _copy(self, copy: Copy, issue_key: str) -> NewJob[None]:
        return job.new(
            self.send_copy,
            copy,
            queue=QUEUE,
            idempotency_key=f"{issue_key}/{copy.reader}",
            retry_policy=PATIENT,
            timeout=timedelta(seconds=30),
        )

    @job.defn
    async def send_copy(self, copy: Copy) -> None:
        if self.down_for:
            self.down_for -= 1
            raise ConnectionError("the mail server is down")
        self.copies[job.info().idempotency_key] = copy

    @job.defn
    async def all_sent(self, sent: Sent) -> None:
        if not self.finished.done():
            self.finished.set_result(sent)


def make_worker(client: Client, mail: Mail) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        activities=[mail.send_issue, mail.send_copy, mail.all_sent],
    )


async def every_monday(client: Client, id: str) -> None:
    """The same job as a schedule's: from now on, also after every restart."""
    await client.create_schedule(
        id,
        Schedule(
            action=ScheduleActionStartJob("send_issue", Issue(1), queue=QUEUE),
            spec=ScheduleSpec(cron_expressions=["0 8 * * MON"], time_zone_name="Europe/Berlin"),
        ),
    )


async def main() -> None:
    address = os.environ.get("PERDURE_ADDRESS", "localhost:7233")
    async with await Client.connect(address) as client:
        mail = Mail(client)
        async with make_worker(client, mail):
            id = f"newsletter-{os.urandom(3).hex()}"
            await every_monday(client, id)
            await client.get_schedule_handle(id).trigger()
            sent = await mail.finished
            print(f"{sent.completed} of {sent.total} copies sent")
            await client.get_schedule_handle(id).delete()


if __name__ == "__main__":
    asyncio.run(main())
