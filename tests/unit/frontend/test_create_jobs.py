"""CreateJobs: each job's shard and id, each job's own answer, and what is refused before a shard hears of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, OTHER_NAMESPACE_ID, SHARDS, Room, plain_answer

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, invalid, not_found, unavailable
from perdure_engine.core.ids import shard_of, shard_of_job
from perdure_engine.core.jobs.decide.describe import info_of
from perdure_engine.core.jobs.intents import CreatedJob, CreateJobs, DescribeJob
from perdure_engine.core.jobs.memory import BatchState
from perdure_engine.core.jobs.model import (
    Concurrency,
    ConcurrencyPolicy,
    JobRun,
    JobSpec,
    JobStatus,
    NewJob,
    Unique,
    UniqueScope,
)
from perdure_engine.core.jobs.replies import JobDescription, JobsCreated
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.frontend.handlers.create_jobs import (
    AskedBatch,
    CreateJobsCall,
    Made,
    create_jobs,
)
from perdure_engine.frontend.new_jobs import AskedJob, JobOptions
from perdure_engine.ports.rows import JobBatchRow

REQUEST_ID = b"request-1" + bytes(7)
NOW_US = 2_000_000  # the fakes' time
PLAIN = JobOptions(task_name="mail", queue="mails")
SHARED = AskedJob(PLAIN, b"input")


def options(**changes: Any) -> JobOptions:
    return msgspec.structs.replace(PLAIN, **changes)


def call(*jobs: AskedJob | Rejected, **changes: Any) -> CreateJobsCall:
    fields: dict[str, Any] = {"namespace_id": NAMESPACE_ID, "request_id": REQUEST_ID, "jobs": jobs}
    return CreateJobsCall(**{**fields, **changes})


async def made(room: Room, *jobs: AskedJob | Rejected, **changes: Any) -> list[Made]:
    return await create_jobs(room.frontend, call(*jobs, **changes))


def intents(room: Room) -> list[tuple[int, CreateJobs]]:
    return room.history.jobs


def sent(room: Room) -> list[NewJob]:
    return [job for _, intent in intents(room) for job in intent.jobs]


async def refusal(room: Room, options: JobOptions, **changes: Any) -> Rejected:
    (answer,) = await made(room, AskedJob(options), **changes)
    assert isinstance(answer, Rejected)
    return answer


# ---- shards and ids


async def test_jobs_without_keys_go_to_shards_by_256_and_are_answered_in_their_order() -> None:
    room = Room()
    inputs = [b"%d" % number for number in range(600)]

    answers = await made(room, *(AskedJob(PLAIN, one) for one in inputs))

    sizes = Counter({shard_id: len(intent.jobs) for shard_id, intent in intents(room)})
    assert sorted(sizes.values()) == [88, 256, 256]
    by_id = {job.job_id: job.spec.input for job in sent(room)}
    assert [by_id[one.job_id] for one in answers if isinstance(one, CreatedJob)] == inputs
    assert all(shard_of_job(job.job_id) == shard for shard, i in intents(room) for job in i.jobs)


async def test_a_repeat_of_a_call_names_the_same_jobs_and_another_call_others() -> None:
    room, again, other = Room(), Room(), Room()
    jobs = [SHARED] * 300
    first = await made(room, *jobs)

    assert await made(again, *jobs) == first
    different = await made(other, *jobs, request_id=b"request-2" + bytes(7))
    ids = {one.job_id for one in (*first, *different) if isinstance(one, CreatedJob)}
    assert len(ids) == 600


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({"idempotency_key": "i"}, "idempotency:i"),
        ({"idempotency_key": "i", "concurrency": Concurrency("c")}, "concurrency:c"),
        ({"unique": Unique("u")}, "unique:u"),
        ({"unique": Unique("u"), "concurrency": Concurrency("c")}, "concurrency:c"),
    ],
)
async def test_a_key_decides_the_shard(changes: dict[str, Any], about: str) -> None:
    room = Room()
    await made(room, AskedJob(options(**changes)))

    ((shard_id, _),) = intents(room)
    assert shard_id == shard_of(NAMESPACE_ID, about, SHARDS)


async def test_an_idempotency_key_names_the_job_whatever_the_call() -> None:
    room = Room()
    keyed = AskedJob(options(idempotency_key="i"), b"1")
    await made(room, SHARED, keyed)
    await made(room, keyed, request_id=b"request-2" + bytes(7))
    await made(room, keyed, namespace_id=OTHER_NAMESPACE_ID)

    first, second, foreign = [job for job in sent(room) if job.spec.idempotency_key]
    assert first.job_id == second.job_id != foreign.job_id
    assert first.spec.body_hash == second.spec.body_hash != b""


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (AskedJob(options(idempotency_key="i"), b"2"), False),
        (AskedJob(options(idempotency_key="i", queue="else"), b"1"), False),
        (AskedJob(options(idempotency_key="i", due_us=5_000_000), b"1"), False),
        (AskedJob(options(idempotency_key="i"), b"encrypted anew", told=b"1"), True),
        (AskedJob(options(idempotency_key="i", header=b"of another trace"), b"1", told=b"1"), True),
    ],
)
async def test_b55_another_body_under_a_key_can_be_told(other: AskedJob, same: bool) -> None:
    room = Room()
    await made(room, AskedJob(options(idempotency_key="i"), b"1"))
    await made(room, other)

    first, second = sent(room)
    assert (first.spec.body_hash == second.spec.body_hash) is same


async def test_b55_jobs_without_a_key_carry_the_hash_of_their_call() -> None:
    room = Room()
    await made(room, SHARED, body=b"hash of all")

    assert sent(room)[0].spec.body_hash == b"hash of all"


# ---- what a job is made with


async def test_everything_that_is_asked_for_arrives() -> None:
    room = Room()
    asked = JobOptions(
        task_name="mail",
        queue="mails",
        header=b"h",
        due_us=9_000_000,
        user_id="ada",
        timeout_ms=1,
        heartbeat_timeout_ms=2,
        retry=RetryPolicy(7, 3.0, 70, 5, ("Gone",)),
        priority=1,
        idempotency_key="i",
        unique=Unique("u", UniqueScope.PERIOD, 60_000),
        concurrency=Concurrency("c", 4, ConcurrencyPolicy.CANCEL_NEWEST, 2.5),
        expire_us=9_500_000,
    )
    await made(room, AskedJob(asked, b"input"), identity="me@here")

    (job,) = sent(room)
    spec = job.spec
    assert (job.task_name, job.queue, job.due_us) == ("mail", "mails", 9_000_000)
    assert (job.user_id, job.priority, job.batch_id) == ("ada", 1, "")
    assert (spec.input, spec.header, spec.retry) == (b"input", b"h", asked.retry)
    assert (spec.timeout_ms, spec.heartbeat_timeout_ms, spec.expire_us) == (1, 2, 9_500_000)
    assert (spec.unique, spec.concurrency) == (asked.unique, asked.concurrency)
    assert (spec.idempotency_key, spec.identity) == ("i", "me@here")


async def test_a_delay_counts_from_the_engines_time() -> None:
    room = Room()
    await made(room, AskedJob(options(delay_ms=1_500)))

    assert sent(room)[0].due_us == NOW_US + 1_500_000


# ---- batches


async def test_a_batch_is_one_shards_with_its_callback() -> None:
    room = Room()
    batch = AskedBatch("b1", options(task_name="done"), sealed=True)
    await made(room, *[SHARED] * 600, batch=batch)
    await made(room, SHARED, batch=batch, request_id=b"request-2" + bytes(7))

    shards = {shard_id for shard_id, _ in intents(room)}
    assert shards == {shard_of(NAMESPACE_ID, "batch:b1", SHARDS)}
    assert {job.batch_id for job in sent(room)} == {"b1"}
    first, second = (intent.batch for _, intent in intents(room))
    assert first is not None
    assert second is not None
    assert first.sealed
    assert first.callback is not None
    assert second.callback is not None
    assert first.callback.task_name == "done"
    assert first.callback.batch_id == ""
    assert first.callback.job_id == second.callback.job_id
    assert first.callback.job_id not in {job.job_id for job in sent(room)}


async def test_a_batch_can_be_sealed_without_a_further_job() -> None:
    room = Room()
    assert await made(room, batch=AskedBatch("b1", None, sealed=True)) == []

    ((_, intent),) = intents(room)
    assert intent.batch is not None
    assert (intent.jobs, intent.batch.sealed) == ([], True)


@pytest.mark.parametrize("changes", [{"unique": Unique("u")}, {"concurrency": Concurrency("c")}])
async def test_a_job_of_a_batch_has_no_key_of_another_shard(changes: dict[str, Any]) -> None:
    batch = AskedBatch("b1", None, sealed=True)
    refused = await refusal(Room(), options(**changes), batch=batch)
    assert "in a batch" in refused.message

    room = Room()
    with pytest.raises(Rejected, match=r"batch\.callback"):
        await made(room, batch=AskedBatch("b1", options(**changes), sealed=True))
    assert not room.touched


class BatchStore:
    """Has one batch, or none."""

    def __init__(self, row: JobBatchRow | None) -> None:
        self._row = row

    async def load_job_batch(self, *asked: Any) -> JobBatchRow | None:
        return self._row


def with_batch(row: JobBatchRow | None) -> Room:
    room = Room()
    room.frontend = msgspec.structs.replace(room.frontend, jobs=BatchStore(row))
    return room


LATE_BATCH = AskedBatch("b1", options(task_name="done", expire_us=NOW_US), sealed=True)


async def test_b28_a_callback_whose_time_is_over_makes_no_batch() -> None:
    room = with_batch(None)
    with pytest.raises(Rejected) as refused:
        await made(room, SHARED, batch=LATE_BATCH)

    assert refused.value.code is Code.INVALID_ARGUMENT
    assert refused.value.field == "batch.callback.expire_time_us"
    assert intents(room) == []


async def test_a_repeat_whose_callback_is_late_by_now_is_answered_as_any_repeat() -> None:
    """The batch is there: the call came in time, and its answer was lost."""
    room = Room()
    state = room.frontend.codec.encode_job_batch(BatchState())
    room = with_batch(JobBatchRow(1, NAMESPACE_ID, "b1", 1, 1, True, state, 1))
    [again] = await made(room, SHARED, batch=LATE_BATCH)

    assert isinstance(again, CreatedJob)
    ((_, intent),) = intents(room)
    assert intent.batch is not None


# ---- what is refused


@pytest.mark.parametrize(
    ("row", "changes", "field"),
    [
        ("B3", {"task_name": "a\0b"}, "task_name"),
        ("B3", {"queue": "a\u202eb"}, "task_queue"),
        ("B3", {"user_id": "a\nb"}, "user_id"),
        ("B3", {"idempotency_key": "a\0"}, "idempotency_key"),
        ("B3", {"unique": Unique("a\x1b")}, "unique_key"),
        ("B3", {"concurrency": Concurrency("a\ud800")}, "concurrency.key"),
        ("B4", {"task_name": ""}, "task_name"),
        ("B4", {"task_name": "x" * 501}, "task_name"),
        ("B4", {"queue": "   "}, "task_queue"),
        ("B4", {"user_id": "x" * 501}, "user_id"),
        ("B4", {"idempotency_key": "é" * 251}, "idempotency_key"),
        ("B4", {"unique": Unique("x" * 501)}, "unique_key"),
        ("B4", {"concurrency": Concurrency("")}, "concurrency.key"),
        ("B5", {"queue": "__internal"}, "task_queue"),
        ("B5", {"idempotency_key": "__callback:b1"}, "idempotency_key"),
        ("B7", {"header": bytes(limits.HEADER_BYTES_MAX + 1)}, "header"),
        ("B25", {"timeout_ms": -1}, "timeout_ms"),
        ("B25", {"timeout_ms": limits.DURATION_MS_MAX + 1}, "timeout_ms"),
        ("B25", {"heartbeat_timeout_ms": -1}, "heartbeat_timeout_ms"),
        ("B25", {"delay_ms": -1}, "delay_ms"),
        ("B25", {"delay_ms": 2**62}, "delay_ms"),
        ("B25", {"unique": Unique("u", UniqueScope.PERIOD, -1)}, "unique_period_ms"),
        (
            "B25",
            {"concurrency": Concurrency("c", rate_per_s=float("nan"))},
            "concurrency.rate_per_s",
        ),
        ("B25", {"concurrency": Concurrency("c", rate_per_s=-1.0)}, "concurrency.rate_per_s"),
        (
            "B27",
            {"retry": RetryPolicy(backoff_coefficient=0.5)},
            "retry_policy.backoff_coefficient",
        ),
        ("B27", {"retry": RetryPolicy(initial_interval_ms=0)}, "retry_policy.initial_interval_ms"),
        ("B27", {"retry": RetryPolicy(9, 2.0, 8)}, "retry_policy.maximum_interval_ms"),
        ("B27", {"retry": RetryPolicy(maximum_attempts=-1)}, "retry_policy.maximum_attempts"),
        ("B28", {"due_us": 253_402_300_800_000_000}, "due_time_us"),
        ("B28", {"due_us": -1}, "due_time_us"),
        ("B28", {"expire_us": 2**63 - 1}, "expire_time_us"),
        ("B28", {"expire_us": 5_000_000, "due_us": 5_000_000}, "expire_time_us"),
        ("-", {"due_us": 5_000_000, "delay_ms": 1}, "delay_ms"),
        ("-", {"priority": 0}, "priority"),
        ("-", {"priority": 6}, "priority"),
        ("-", {"unique": Unique("u", UniqueScope.PERIOD)}, "unique_period_ms"),
        ("-", {"unique": Unique("u", UniqueScope.ACTIVE, 5)}, "unique_period_ms"),
        ("-", {"concurrency": Concurrency("c", 0)}, "concurrency.limit"),
        ("-", {"concurrency": Concurrency("c", 10**6)}, "concurrency.limit"),
        ("B48", {"task_name": "../../etc/passwd"}, "task_name"),
    ],
)
async def test_bad_options(row: str, changes: dict[str, Any], field: str) -> None:
    room = Room()
    refused = await refusal(room, options(**changes))

    assert (refused.code, refused.field) == (Code.INVALID_ARGUMENT, field)
    assert not room.touched


def find(room: Room, found: Any) -> None:
    """What the shard says of a job that is asked for: a refusal, or the hash of its body."""

    def answer(intent: Any) -> Any:
        if not isinstance(intent, DescribeJob):
            return plain_answer(intent)
        if isinstance(found, Rejected):
            return found
        job = JobRun(intent.job_id, NAMESPACE_ID, "mail", "mails", 1, JobSpec(body_hash=found))
        return JobDescription(info_of(job), b"")

    room.history.answer = answer


TOO_LATE = [{"expire_us": NOW_US}, {"expire_us": NOW_US + 500_000, "delay_ms": 600}]


@pytest.mark.parametrize("changes", TOO_LATE)
@pytest.mark.parametrize("found", [not_found("JOB", "no"), b"another body"])
async def test_b28_a_job_that_would_expire_before_it_is_due_is_not_made(
    changes: dict[str, Any], found: Any
) -> None:
    room = Room()
    find(room, found)
    first, refused = await made(room, SHARED, AskedJob(options(**changes)), body=b"body")

    assert isinstance(first, CreatedJob)
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.field) == (Code.INVALID_ARGUMENT, "expire_time_us")
    assert [job.spec.expire_us for _, i in intents(room)[:1] for job in i.jobs] == [0]


@pytest.mark.parametrize("changes", TOO_LATE)
@pytest.mark.parametrize("key", ["", "key"])
async def test_a_repeat_whose_time_is_over_by_now_is_answered_as_any_repeat(
    changes: dict[str, Any], key: str
) -> None:
    """The first answer was lost: the job is there, and to refuse it now would be a lie."""
    in_time, late = Room(), Room()
    job = AskedJob(options(idempotency_key=key, **changes))
    in_time.frontend = msgspec.structs.replace(in_time.frontend, db_now_us=lambda: 0)
    [before] = await made(in_time, job, body=b"body")
    find(late, sent(in_time)[0].spec.body_hash)
    [again] = await made(late, job, body=b"body")

    assert isinstance(before, CreatedJob)
    assert again == CreatedJob(before.job_id, False, JobStatus.PENDING)


async def test_of_what_is_late_nothing_is_said_while_its_shard_moves() -> None:
    room = Room()
    find(room, unavailable("SHARD_MOVED", "on its way"))
    [refused] = await made(room, AskedJob(options(**TOO_LATE[0])))

    assert isinstance(refused, Rejected)
    assert refused.code is Code.UNAVAILABLE


async def test_b7_an_input_over_the_limit_is_that_jobs_own_affair() -> None:
    room = Room()
    too_much = AskedJob(PLAIN, bytes(limits.PAYLOAD_BYTES_MAX + 1))
    first, second, third = await made(room, SHARED, too_much, SHARED)

    assert isinstance(second, Rejected)
    assert second.field == "input"
    assert isinstance(first, CreatedJob)
    assert isinstance(third, CreatedJob)
    assert len(sent(room)) == 2


async def test_a_refused_job_keeps_the_places_of_the_others() -> None:
    """A repeat without what was refused is another call; the ids of the others hang on their places."""
    room, whole = Room(), Room()
    unreadable = invalid("unique_scope", "is unknown")
    answers = await made(room, SHARED, unreadable, SHARED)
    all_three = await made(whole, SHARED, SHARED, SHARED)

    assert answers[1] is unreadable
    assert [answers[0], answers[2]] == [all_three[0], all_three[2]]


async def test_a_call_has_a_limit() -> None:
    room = Room()
    with pytest.raises(Rejected) as caught:
        await made(room, *[SHARED] * (limits.JOBS_OF_CALL_MAX + 1))

    assert caught.value.field == "jobs"
    assert not room.touched


async def test_b5_a_batch_has_a_name_of_its_own() -> None:
    room = Room()
    with pytest.raises(Rejected) as caught:
        await made(room, SHARED, batch=AskedBatch("__b", None, sealed=True))

    assert caught.value.field == "batch.batch_id"
    assert not room.touched


# ---- shards that do not answer


async def test_a_shard_that_does_not_take_its_jobs_fails_only_those() -> None:
    room = Room()
    moved = unavailable("SHARD_MOVED", "elsewhere")

    def answer(intent: CreateJobs) -> Any:
        if intent.shard_id == failing:
            return moved
        return JobsCreated([CreatedJob(j.job_id, True, JobStatus.PENDING) for j in intent.jobs])

    room.history.answer = answer
    failing = shard_of(NAMESPACE_ID, f"call:{REQUEST_ID.hex()}", SHARDS)
    answers = await made(room, *[SHARED] * 600)

    assert answers[:256] == [moved] * 256
    assert all(isinstance(one, CreatedJob) for one in answers[256:])


async def test_a_call_of_one_shard_fails_as_a_whole() -> None:
    """So that a single creation is answered with a status of its own."""
    room = Room()
    room.history.answer = lambda _: unavailable("SHARD_MOVED", "elsewhere")

    with pytest.raises(Rejected, match="elsewhere"):
        await made(room, SHARED)


async def test_what_a_shard_refuses_is_told_in_its_place() -> None:
    room = Room()
    refused = invalid("idempotency_key", "was used before with another job")

    def answer(intent: CreateJobs) -> Any:
        created = [CreatedJob(j.job_id, False, JobStatus.COMPLETED) for j in intent.jobs]
        return JobsCreated([created[0], refused])

    room.history.answer = answer
    first, second = await made(room, SHARED, SHARED)

    assert isinstance(first, CreatedJob)
    assert (first.created, first.status) == (False, JobStatus.COMPLETED)
    assert second is refused
