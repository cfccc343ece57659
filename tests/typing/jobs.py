"""What mypy and pyright make of jobs. Checked, never run.

Wrong calls carry an ignore, for both checkers: where one of them finds nothing wrong, it says that
the ignore is not needed.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from perdure import activity, job
from perdure.client import Client, JobCount, JobDescription, JobHandle, JobInfo
from perdure.common import Priority, RetryPolicy
from perdure.job import Concurrency, JobStatus, NewJob

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@dataclass
class Receipt:
    number: int


@job.defn
async def charge(amount: int, currency: str = "EUR") -> Receipt:
    return Receipt(amount)


@activity.defn(name="post")
def send(to: str) -> str:
    return to


@job.defn
async def nothing() -> None:
    assert_type(job.info().progress, Sequence[Any])
    job.heartbeat(1)


class Mail:
    @job.defn
    async def deliver(self, to: str, copies: int) -> bool:
        return True


async def right_calls(client: Client) -> None:
    jobs = client.jobs
    assert_type(await jobs.create(charge, 1), JobHandle[Receipt])
    assert_type(
        await jobs.create(
            charge,
            1,
            "USD",
            queue="money",
            run_at=NOON,
            user_id="ada",
            timeout=timedelta(seconds=5),
            retry_policy=RetryPolicy(maximum_attempts=1),
            priority=Priority(priority_key=1),
            idempotency_key="order-1",
            concurrency=Concurrency(key="ada"),
            rpc_timeout=timedelta(seconds=1),
        ),
        JobHandle[Receipt],
    )
    assert_type(await jobs.create(send, "bob", delay=timedelta(hours=1)), JobHandle[str])
    assert_type(await jobs.create(nothing), JobHandle[None])
    assert_type(await jobs.create(Mail().deliver, "bob", 2), JobHandle[bool])
    assert_type(await jobs.create(charge, args=[1, "USD"]), JobHandle[Receipt])
    assert_type(await jobs.create("charge", 1, result_type=Receipt), JobHandle[Receipt])
    assert_type(await jobs.create("charge", 1), JobHandle[Any])
    assert_type(await jobs.execute(charge, 1), Receipt)
    assert_type(await jobs.execute(send, "bob"), str)
    assert_type(await jobs.execute("charge", 1, result_type=Receipt), Receipt)


async def many(client: Client) -> None:
    one = job.new(charge, 1, queue="money")
    assert_type(one, NewJob[Receipt])
    assert_type(job.new(send, "bob"), NewJob[str])
    assert_type(job.new("charge", 1), NewJob[Any])
    handles = await client.jobs.create_many([one, job.new(charge, 2, "USD")])
    assert_type(handles, list[JobHandle[Receipt]])
    assert_type(await handles[0].result(), Receipt)
    batch = await client.jobs.batch("b1", [job.new(send, "bob")], callback=job.callback(charge))
    assert_type(batch, list[JobHandle[str]])


async def handles(client: Client) -> None:
    handle = client.jobs.get("id", result_type=int)
    assert_type(handle, JobHandle[Any])
    assert_type(await handle.describe(), JobDescription)
    assert_type(await handle.cancel(reason="why"), JobStatus | None)
    await handle.reschedule(NOON)
    assert_type(await handle.resume(reason="mended"), JobStatus | None)
    assert_type(await client.jobs.resume("id"), JobStatus | None)
    async for one in client.jobs.list(status=JobStatus.FAILED, user_id="ada"):
        assert_type(one, JobInfo)
    assert_type(await client.jobs.count(status=[JobStatus.FAILED]), JobCount)
    assert_type(await client.jobs.redrive(task_name="charge", dry_run=True), int)
    assert_type(await client.jobs.redrive(status=JobStatus.POISONED), int)


async def wrong_calls(client: Client) -> None:
    await client.jobs.create(charge, "one")  # type: ignore[arg-type]
    await client.jobs.create(charge)  # type: ignore[call-arg,arg-type]
    await client.jobs.create(send, "a", "b")  # type: ignore[call-arg,arg-type]
    await client.jobs.create(nothing, 1)  # type: ignore[arg-type]
    await client.jobs.create(charge, 1, timeout=10)  # type: ignore[call-overload]
    await client.jobs.create(charge, 1, que="money")  # type: ignore[call-overload]
    await client.jobs.execute(send, 1)  # type: ignore[arg-type]
    job.new(send, 1)  # type: ignore[arg-type]
    job.new(3)  # type: ignore[call-overload]
