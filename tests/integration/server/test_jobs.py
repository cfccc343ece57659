"""Jobs from end to end: client, gRPC, engine, PostgreSQL, worker."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest
from tests.engine_node import running_node
from tests.integration.server.calls import until

from perdure import activity, job
from perdure._definitions.parameters import object_of_parameters
from perdure.client import Client, JobHandle
from perdure.codecs import EncryptionCodec, KeyRing
from perdure.common import Priority, RawValue, RetryPolicy
from perdure.converter import DataConverter, PayloadConverter
from perdure.errors import (
    ApplicationError,
    JobCancelledError,
    JobFailedError,
    JobSkippedError,
    RPCError,
    RPCStatusCode,
    TimeoutError,
)
from perdure.job import Concurrency, ConcurrencyPolicy, JobStatus, UniqueScope
from perdure.worker import Worker

QUEUE = "jobs"
SOON = timedelta(milliseconds=300)
LATER = timedelta(hours=1)
FAST = RetryPolicy(initial_interval=timedelta(milliseconds=1), maximum_attempts=3)
PATIENCE_S = 20


@asynccontextmanager
async def working(
    dsn: str,
    *functions: Callable[..., Any],
    converter: DataConverter = DataConverter.default,
    **options: Any,
) -> AsyncIterator[Client]:
    async with (
        running_node(dsn) as node,
        await Client.connect(node.address, data_converter=converter) as client,
        Worker(
            client,
            task_queue=QUEUE,
            activities=list(functions),
            graceful_shutdown_timeout=timedelta(0),
            **options,
        ),
    ):
        yield client


@asynccontextmanager
async def nobody_works(dsn: str) -> AsyncIterator[Client]:
    async with running_node(dsn) as node, await Client.connect(node.address) as client:
        yield client


async def status(handle: JobHandle[Any], *wanted: JobStatus) -> None:
    """Returns when the job is in one of the states."""
    async with asyncio.timeout(PATIENCE_S):
        while (await handle.describe()).status not in wanted:
            pass


@dataclass
class Mail:
    to: str
    copies: int = 1


class Sent(TypedDict):
    to: str
    copies: int


@job.defn
async def mail(to: str, copies: int = 1) -> Sent:
    return {"to": to, "copies": copies}


@job.defn
async def of_object(mail: Mail) -> str:
    return f"{mail.copies} to {mail.to}"


@activity.defn(name="in_thread")
def an_activity(number: int) -> tuple[str, int]:
    return threading.current_thread().name, number


@activity.defn
def in_process(number: int) -> tuple[int, str, int]:
    activity.heartbeat(number)
    return os.getpid(), job.info().job_id, number


@job.defn
async def fails(kind: str) -> None:
    raise ApplicationError("no", kind, type="Gone", non_retryable=kind == "for good") from (
        ValueError("why")
    )


# ---- running


async def test_a_job_runs_and_its_result_comes_back(database_dsn: str) -> None:
    async with working(database_dsn, mail) as client:
        handle = await client.jobs.create(mail, "ada", 2, queue=QUEUE, user_id="u1")
        assert await handle.result() == {"to": "ada", "copies": 2}
        found = await handle.describe()

    assert handle.created
    assert (found.id, found.task_name, found.queue) == (handle.id, "mail", QUEUE)
    assert (found.status, found.attempt, found.user_id) == (JobStatus.COMPLETED, 1, "u1")
    assert (found.args, found.result, found.failures) == (
        ["ada", 2],
        {"to": "ada", "copies": 2},
        [],
    )
    assert found.create_time is not None
    assert found.start_time is not None
    assert found.close_time is not None
    assert found.create_time <= found.start_time <= found.close_time
    assert found.worker_identity == client.identity


async def test_an_activity_runs_as_a_job_without_change(database_dsn: str) -> None:
    async with working(database_dsn, an_activity) as client:
        thread, number = await client.jobs.execute(an_activity, 7, queue=QUEUE)

    assert number == 7
    assert thread != threading.main_thread().name


async def test_a_job_in_another_process(database_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its path is ours: it imports this module by its name.
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))  # type: ignore[no-untyped-call]  # pytest's
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        async with working(
            database_dsn, in_process, activity_executor=pool, max_concurrent_activities=1
        ) as client:
            handle = await client.jobs.create(in_process, 7, queue=QUEUE)
            pid, job_id, number = await handle.result()

    assert pid != os.getpid()
    assert (job_id, number) == (handle.id, 7)


async def test_what_its_code_knows(database_dsn: str) -> None:
    seen: list[job.Info] = []

    @job.defn
    async def look() -> None:
        seen.append(job.info())
        assert activity.info().workflow_id is None

    async with working(database_dsn, look) as client:
        handle = await client.jobs.create(
            look,
            queue=QUEUE,
            user_id="u1",
            timeout=timedelta(minutes=1),
            priority=Priority(priority_key=2),
            retry_policy=FAST,
        )
        await handle.result()
        described = await handle.describe()

    (info,) = seen
    assert (info.job_id, info.idempotency_key) == (handle.id, handle.id)
    assert (info.task_name, info.queue, info.namespace) == ("look", QUEUE, "default")
    assert (info.attempt, info.user_id, info.schedule_id) == (1, "u1", "")
    assert (info.timeout, info.heartbeat_timeout) == (timedelta(minutes=1), None)
    assert (info.retry_policy, info.priority) == (FAST, Priority(priority_key=2))
    assert (info.create_time, info.start_time) == (described.create_time, described.start_time)


@pytest.mark.parametrize(
    ("name", "given", "result"),
    [
        ("mail", {"copies": 3, "to": "ada"}, {"to": "ada", "copies": 3}),
        ("mail", {"to": "ada"}, {"to": "ada", "copies": 1}),
        ("of_object", {"to": "ada", "copies": 3}, "3 to ada"),
    ],
)
async def test_parameters_by_name(
    database_dsn: str, name: str, given: dict[str, Any], result: Any
) -> None:
    payload = object_of_parameters(PayloadConverter.default.to_payload(given))
    async with working(database_dsn, mail, of_object) as client:
        assert await client.jobs.execute(name, RawValue(payload), queue=QUEUE) == result


async def test_thousands_at_once(database_dsn: str) -> None:
    async with working(database_dsn, mail, max_concurrent_activities=1_000) as client:
        made = await client.jobs.create_many(
            [job.new(mail, f"user-{number}", queue=QUEUE) for number in range(3_000)]
        )
        results = await asyncio.gather(*(handle.result() for handle in made))
        counted = await client.jobs.count(queue=QUEUE)

    assert [one["to"] for one in results] == [f"user-{number}" for number in range(3_000)]
    assert (counted.count, counted.by_status) == (3_000, {JobStatus.COMPLETED: 3_000})


async def test_a_codec_sees_what_goes_in_and_what_comes_out(database_dsn: str) -> None:
    keys = KeyRing("k1", {"k1": bytes(32)})
    secret = DataConverter(payload_codec=EncryptionCodec(keys))
    async with working(database_dsn, mail, fails, converter=secret) as client:
        key = {"queue": QUEUE, "idempotency_key": "i"}
        handle = await client.jobs.create(mail, "ada", **key)  # type: ignore[arg-type]  # as a caller has them
        again = await client.jobs.create(mail, "ada", **key)  # type: ignore[arg-type]  # likewise
        assert await again.result() == {"to": "ada", "copies": 1}
        plain = (
            await (await Client.connect(client.core.connection.target))
            .jobs.get(handle.id)
            .describe()
        )
        with pytest.raises(JobFailedError) as caught:
            await client.jobs.execute(fails, "for good", queue=QUEUE)

    assert (again.id, again.created) == (handle.id, False)
    assert plain.args[0].encoding == plain.result.encoding == "binary/encrypted"
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.details == ("for good",)


# ---- failing


async def test_a13_three_attempts_and_every_failure_is_kept(database_dsn: str) -> None:
    async with working(database_dsn, fails) as client:
        handle = await client.jobs.create(fails, "again", queue=QUEUE, retry_policy=FAST)
        with pytest.raises(JobFailedError) as caught:
            await handle.result()
        found = await handle.describe()
        listed = [one async for one in client.jobs.list(failure_type="Gone")]

    assert isinstance(caught.value.cause, ApplicationError)
    assert (caught.value.cause.type, caught.value.cause.details) == ("Gone", ("again",))
    assert isinstance(caught.value.cause.cause, ApplicationError)
    assert caught.value.cause.cause.type == "ValueError"
    assert (found.status, found.attempt) == (JobStatus.FAILED, 3)
    assert [one.attempt for one in found.failures] == [1, 2, 3]
    assert {one.worker_identity for one in found.failures} == {client.identity}
    assert [(one.id, one.failure_type, one.failure_message) for one in listed] == [
        (handle.id, "Gone", "no")
    ]


async def test_what_no_attempt_can_mend_has_one(database_dsn: str) -> None:
    async with working(database_dsn, fails, mail) as client:
        for_good = await client.jobs.create(fails, "for good", queue=QUEUE)
        unknown = await client.jobs.create("nothing", queue=QUEUE, retry_policy=FAST)
        with pytest.raises(JobFailedError):
            await for_good.result()
        with pytest.raises(JobFailedError, match="not registered here; known: fails, mail"):
            await unknown.result()

        assert (await for_good.describe()).attempt == 1


async def test_parameters_that_do_not_fit_say_so(database_dsn: str) -> None:
    payload = object_of_parameters(PayloadConverter.default.to_payload({"too": "ada"}))
    once = RetryPolicy(maximum_attempts=1)
    async with working(database_dsn, mail) as client:
        with pytest.raises(JobFailedError, match="needs the parameter 'to'"):
            await client.jobs.execute("mail", RawValue(payload), queue=QUEUE, retry_policy=once)


async def test_an_attempt_that_takes_too_long(database_dsn: str) -> None:
    @job.defn
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(database_dsn, slow) as client:
        handle = await client.jobs.create(
            slow,
            queue=QUEUE,
            timeout=timedelta(milliseconds=50),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        with pytest.raises(JobFailedError) as caught:
            await handle.result()

    assert isinstance(caught.value.cause, TimeoutError)


async def test_the_next_attempt_finds_the_progress_of_the_last(database_dsn: str) -> None:
    @job.defn
    async def import_all(count: int) -> int:
        done = job.info().progress[0] if job.info().progress else 0
        if job.info().attempt == 1:
            await job.checkpoint(2)
            job.heartbeat(3)
            raise RuntimeError("crash")
        return count - int(done)

    async with working(database_dsn, import_all) as client:
        handle = await client.jobs.create(import_all, 10, queue=QUEUE, retry_policy=FAST)
        assert await handle.result() == 7
        assert (await handle.describe()).progress == [3]


async def test_a_job_is_not_completed_from_elsewhere(database_dsn: str) -> None:
    @job.defn
    async def hands_over() -> None:
        activity.raise_complete_async()

    async with working(database_dsn, hands_over) as client:
        with pytest.raises(JobFailedError, match="completed from elsewhere"):
            await client.jobs.execute(
                hands_over, queue=QUEUE, retry_policy=RetryPolicy(maximum_attempts=1)
            )


# ---- keys


async def test_a17_fifty_at_the_same_time_are_one_job(database_dsn: str) -> None:
    async with working(database_dsn, mail) as client:
        others = [await Client.connect(client.core.connection.target) for _ in range(5)]
        made = await asyncio.gather(
            *(
                others[number % 5].jobs.create(mail, "ada", queue=QUEUE, idempotency_key="order-1")
                for number in range(50)
            )
        )
        results = await asyncio.gather(*(handle.result() for handle in made))
        for other in others:
            await other.close()
        counted = await client.jobs.count()

    assert len({handle.id for handle in made}) == 1
    assert sum(handle.created is True for handle in made) == 1
    assert all(one == {"to": "ada", "copies": 1} for one in results)
    assert counted.count == 1


async def test_b55_a_key_with_another_body_is_refused(database_dsn: str) -> None:
    async with nobody_works(database_dsn) as client:
        await client.jobs.create(mail, "ada", queue=QUEUE, idempotency_key="order-1")
        with pytest.raises(RPCError) as caught:
            await client.jobs.create(mail, "eve", queue=QUEUE, idempotency_key="order-1")

    assert caught.value.status is RPCStatusCode.INVALID_ARGUMENT
    assert caught.value.field_violations[0][0] == "idempotency_key"


async def test_a_unique_key_admits_one_live_job(database_dsn: str) -> None:
    async with working(database_dsn, mail) as client:
        jobs = client.jobs
        nightly: Any = {"queue": QUEUE, "unique_key": "nightly"}
        first = await jobs.create(mail, "ada", delay=LATER, **nightly)
        second = await jobs.create(mail, "ada", **nightly)
        await first.cancel()
        third = await jobs.create(mail, "ada", **nightly)
        hourly: Any = {
            "queue": QUEUE,
            "unique_key": "hourly",
            "unique_scope": UniqueScope.PERIOD,
            "unique_period": LATER,
        }
        fourth = await jobs.create(mail, "ada", **hourly)
        await fourth.result()
        fifth = await jobs.create(mail, "ada", **hourly)

    assert (second.id, second.created) == (first.id, False)
    assert third.created
    assert (fifth.id, fifth.created) == (fourth.id, False)


async def test_a_concurrency_key_limits_how_many_run(database_dsn: str) -> None:
    running: list[int] = [0, 0]

    @job.defn
    async def counts() -> None:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0.01)
        running[0] -= 1

    async with working(database_dsn, counts) as client:
        limited = Concurrency(key="ada", limit=2)
        made = await client.jobs.create_many(
            [job.new(counts, queue=QUEUE, concurrency=limited) for _ in range(12)]
        )
        await asyncio.gather(*(handle.result() for handle in made))
        newest = Concurrency(key="eve", policy=ConcurrencyPolicy.CANCEL_NEWEST)
        one, two = await client.jobs.create_many(
            [job.new(counts, queue="nobody", concurrency=newest) for _ in range(2)]
        )
        with pytest.raises(JobCancelledError):
            await two.result()
        assert (await one.describe()).status is JobStatus.PENDING

    assert running[1] == 2


# ---- time


async def test_a_delay_and_a_date(database_dsn: str) -> None:
    async with working(database_dsn, mail) as client:
        begun = datetime.now(UTC)
        delayed = await client.jobs.create(mail, "ada", queue=QUEUE, delay=SOON)
        dated = await client.jobs.create(mail, "ada", queue=QUEUE, run_at=begun + SOON)
        past = await client.jobs.create(mail, "ada", queue=QUEUE, run_at=begun - LATER)
        await asyncio.gather(delayed.result(), dated.result(), past.result())
        found = [await handle.describe() for handle in (delayed, dated, past)]

    for one in found:
        assert one.start_time is not None
        assert one.scheduled_time is not None
        assert one.start_time >= one.scheduled_time
    assert found[0].create_time is not None
    assert found[0].scheduled_time is not None
    # Counted from the moment when the call was read, by the same clock.
    counted = found[0].scheduled_time - found[0].create_time
    assert timedelta(milliseconds=200) < counted <= SOON
    assert found[1].scheduled_time == begun + SOON
    assert found[2].scheduled_time == found[2].create_time


async def test_another_time_for_one_that_waits(database_dsn: str) -> None:
    async with working(database_dsn, mail) as client:
        handle = await client.jobs.create(mail, "ada", queue=QUEUE, delay=LATER)
        waits = await handle.describe()
        await handle.reschedule(datetime.now(UTC) + 2 * LATER)
        later = await handle.describe()
        await handle.reschedule(None)
        await handle.result()
        with pytest.raises(RPCError) as caught:
            await handle.reschedule(None)

    assert (waits.status, waits.next_attempt_time) == (JobStatus.PENDING, waits.scheduled_time)
    assert later.next_attempt_time is not None
    assert waits.next_attempt_time is not None
    assert later.next_attempt_time > waits.next_attempt_time
    assert caught.value.status is RPCStatusCode.FAILED_PRECONDITION


async def test_one_that_is_not_started_in_time_is_skipped(database_dsn: str) -> None:
    async with nobody_works(database_dsn) as client:
        handle = await client.jobs.create(
            mail, "ada", queue="nobody", expires_at=datetime.now(UTC) + SOON
        )
        with pytest.raises(JobSkippedError):
            await handle.result()
        assert (await handle.describe()).status is JobStatus.SKIPPED


# ---- stopping


async def test_cancelling_one_that_waits_and_one_that_runs(database_dsn: str) -> None:
    told: list[activity.CancellationDetails | None] = []

    @job.defn
    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told.append(job.cancellation_details())

    async with working(database_dsn, waits) as client:
        pending = await client.jobs.create(waits, queue=QUEUE, delay=LATER)
        assert await pending.cancel(reason="enough") is JobStatus.CANCELLED
        running = await client.jobs.create(waits, queue=QUEUE)
        await status(running, JobStatus.IN_PROGRESS)
        assert await running.cancel() is JobStatus.IN_PROGRESS
        for handle in (pending, running):
            with pytest.raises(JobCancelledError):
                await handle.result()
        with pytest.raises(RPCError) as caught:
            await running.cancel()
        found = await pending.describe()

    assert told == [activity.CancellationDetails(cancel_requested=True)]
    assert caught.value.status is RPCStatusCode.FAILED_PRECONDITION
    assert (found.status, found.reason) == (JobStatus.CANCELLED, "enough")


# ---- many


async def test_a_batch_and_what_follows_it(database_dsn: str) -> None:
    summaries: list[dict[str, Any]] = []

    @job.defn
    async def done(
        batch_id: str, total: int, completed: int, failed: int, cancelled: int, skipped: int
    ) -> int:
        summaries.append({"batch_id": batch_id, "total": total, "failed": failed})
        return completed

    async with working(database_dsn, mail, fails, done) as client:
        jobs = client.jobs
        some = [job.new(mail, "ada", queue=QUEUE) for _ in range(20)]
        await jobs.batch("b1", some, sealed=False)
        await jobs.batch(
            "b1",
            [job.new(fails, "for good", queue=QUEUE)],
            callback=job.callback(done, queue=QUEUE),
        )
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await jobs.describe_batch("b1")).callback_job_id:
                pass
        completed = await jobs.get(found.callback_job_id).result()
        with pytest.raises(RPCError) as caught:
            await jobs.batch("b1", some)
        members = [one.batch_id async for one in jobs.list(batch_id="b1")]

    assert (found.total, found.open, found.completed, found.failed) == (21, 0, 20, 1)
    assert found.sealed
    assert completed == 20
    assert summaries == [{"batch_id": "b1", "total": 21, "failed": 1}]
    assert caught.value.status is RPCStatusCode.FAILED_PRECONDITION
    assert members == ["b1"] * 21


async def test_a18_failed_jobs_begin_anew(database_dsn: str) -> None:
    mended = False

    @job.defn
    async def flaky(number: int) -> int:
        if not mended:
            raise ApplicationError("no", type="Gone" if number % 2 else "Other", non_retryable=True)
        return number

    async with working(database_dsn, flaky) as client:
        jobs = client.jobs
        made = await jobs.create_many([job.new(flaky, n, queue=QUEUE) for n in range(20)])
        await asyncio.gather(*(handle.result() for handle in made), return_exceptions=True)
        mended = True
        assert await jobs.redrive(task_name="flaky", failure_type="Gone", dry_run=True) == 10
        assert await jobs.redrive(task_name="flaky", failure_type="Gone", reason="mended") == 10
        odd = await asyncio.gather(*(handle.result() for handle in made[1::2]))
        assert await jobs.redrive([made[0].id, made[1].id]) == 1
        assert await made[0].result() == 0
        found = await made[1].describe()
        counted = await jobs.count()

    assert odd == list(range(1, 20, 2))
    assert (found.status, len(found.failures)) == (JobStatus.COMPLETED, 1)
    assert counted.by_status == {JobStatus.COMPLETED: 11, JobStatus.FAILED: 9}


async def test_a3_a_user_watches_their_own_jobs(database_dsn: str) -> None:
    async with nobody_works(database_dsn) as client:
        made = await client.jobs.create_many(
            [
                job.new(mail, "x", queue="nobody", user_id=f"u{number % 2}", delay=LATER * number)
                for number in range(1, 251)
            ]
        )
        mine = [one async for one in client.jobs.list(user_id="u1")]
        oldest = [one async for one in client.jobs.list(user_id="u1", oldest_first=True, limit=3)]
        until_noon = await client.jobs.count(
            user_id="u1", scheduled_time_max=datetime.now(UTC) + 10 * LATER
        )

    assert [one.id for one in mine] == [handle.id for handle in made[::2]][::-1]
    assert [one.id for one in oldest] == [handle.id for handle in made[:5:2]]
    assert until_noon.count == 5


async def test_a_list_shows_what_was_just_saved(database_dsn: str) -> None:
    async with nobody_works(database_dsn) as client:
        for number in range(20):
            await client.jobs.create(mail, "x", queue="nobody")
            assert (await client.jobs.count()).count == number + 1


# ---- who is served first


async def test_priorities(database_dsn: str) -> None:
    order: list[int] = []

    @job.defn
    async def record(number: int) -> None:
        order.append(number)

    async with running_node(database_dsn) as node, await Client.connect(node.address) as client:
        made = [
            await client.jobs.create(record, key, queue=QUEUE, priority=Priority(priority_key=key))
            for key in (5, 3, 1, 4, 2)
        ]
        worker = Worker(client, task_queue=QUEUE, activities=[record], max_concurrent_activities=1)
        async with worker:
            await asyncio.gather(*(handle.result() for handle in made))

    assert order == [1, 2, 3, 4, 5]


async def test_a_queues_limit_holds_until_it_is_lifted(database_dsn: str) -> None:
    """What a second holds is `tests/unit/matching`'s to say; here that each node hears of it, and of its end."""

    @job.defn
    async def call() -> None:
        pass

    async with working(database_dsn, call) as client:
        await client.jobs.set_queue_limit(QUEUE, 0.01)
        held = await first_that_waits(client, call)
        await client.jobs.set_queue_limit(QUEUE, None)
        async with asyncio.timeout(PATIENCE_S):
            await held.result()


async def first_that_waits(client: Client, call: Callable[[], Awaitable[None]]) -> JobHandle[None]:
    """One job after the other, until one is held back for longer than any takes here."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            handle = await client.jobs.create(call, queue=QUEUE)
            result = asyncio.ensure_future(handle.result())
            await asyncio.wait([result], timeout=1)
            if not result.done():
                result.cancel()
                return handle


async def test_jobs_of_one_namespace_are_not_anothers(database_dsn: str) -> None:
    async with nobody_works(database_dsn) as client:
        await client.operator.create_namespace("other")
        other = await Client.connect(client.core.connection.target, namespace="other")
        handle = await client.jobs.create(mail, "ada", queue="nobody", idempotency_key="i")
        twin = await other.jobs.create(mail, "ada", queue="nobody", idempotency_key="i")
        for call in (other.jobs.get(handle.id).describe(), other.jobs.cancel(handle.id)):
            with pytest.raises(RPCError) as caught:
                await call
            assert caught.value.status is RPCStatusCode.NOT_FOUND
        with pytest.raises(RPCError) as caught:
            await other.jobs.get(handle.id).result()
        counted = await other.jobs.count()
        await other.close()

    assert caught.value.status is RPCStatusCode.NOT_FOUND
    assert twin.id != handle.id
    assert counted.count == 1


async def test_a_worker_that_stops_gives_its_jobs_back(database_dsn: str) -> None:
    begun: list[int] = []

    @job.defn
    async def waits_at_first() -> int:
        begun.append(job.info().attempt)
        if len(begun) == 1:
            await asyncio.Event().wait()
        return len(begun)

    async with running_node(database_dsn) as node, await Client.connect(node.address) as client:
        handle = await client.jobs.create(waits_at_first, queue=QUEUE)
        for _ in range(2):
            worker = Worker(
                client,
                task_queue=QUEUE,
                activities=[waits_at_first],
                graceful_shutdown_timeout=timedelta(0),
            )
            async with worker:
                wanted = len(begun) + 1
                await until(lambda wanted=wanted: len(begun) == wanted, PATIENCE_S, "it runs")
                if wanted == 2:
                    assert await handle.result() == 2

    assert begun == [1, 1]  # the first attempt was not its own fault
