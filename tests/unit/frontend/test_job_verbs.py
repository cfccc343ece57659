"""Jobs that are there: looked for, waited for, changed, begun anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import shake_128
from typing import Any

import msgspec
import pytest
from tests.unit.frontend.fakes import (
    NAMESPACE_ID,
    OTHER_NAMESPACE_ID,
    FakeClock,
    Room,
    turn,
)

from perdure_engine.core import limits
from perdure_engine.core.audit import Action, Link
from perdure_engine.core.errors import Code, Rejected, not_found, unavailable
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.intents import (
    CancelJob,
    RedriveJob,
    RescheduleJob,
    ResumeJob,
    WaitJobs,
)
from perdure_engine.core.jobs.memory import BatchState
from perdure_engine.core.jobs.model import JobFailure, JobSpec, JobState, JobStatus
from perdure_engine.core.jobs.replies import EndedJob, JobAnswered, JobsEnded
from perdure_engine.frontend.handlers.cancel_job import cancel_job
from perdure_engine.frontend.handlers.count_jobs import count_jobs
from perdure_engine.frontend.handlers.get_job import get_job
from perdure_engine.frontend.handlers.get_job_batch import get_job_batch
from perdure_engine.frontend.handlers.get_job_results import GetJobResults, get_job_results
from perdure_engine.frontend.handlers.list_jobs import JobsPage, ListJobs, list_jobs
from perdure_engine.frontend.handlers.redrive_jobs import RedriveJobs, redrive_jobs
from perdure_engine.frontend.handlers.reschedule_job import reschedule_job
from perdure_engine.frontend.handlers.resume_job import resume_job
from perdure_engine.frontend.handlers.set_queue_limit import SetQueueLimit, set_queue_limit
from perdure_engine.frontend.new_jobs import shard_of_batch
from perdure_engine.ports.jobs import JobFilter, QueueLimitRow
from perdure_engine.ports.rows import JobBatchRow, JobRunRow
from perdure_engine.store.codec import MsgpackCodec

REQUEST_ID = "123e4567-e89b-12d3-a456-426614174000"
REQUEST_BYTES = bytes.fromhex(REQUEST_ID.replace("-", ""))
ALL = JobFilter(NAMESPACE_ID)
COMPLETED, FAILED = int(JobStatus.COMPLETED), int(JobStatus.FAILED)

CODEC = MsgpackCodec()


def job_id(number: int, shard_id: int = 1) -> bytes:
    return shard_id.to_bytes(4, "big") + number.to_bytes(12, "big")


def job_text(number: int, shard_id: int = 1) -> str:
    return uuid_text(job_id(number, shard_id))


def put(room: Room, number: int, shard_id: int = 1, failure: str = "", **columns: Any) -> JobRunRow:
    failed = Failure(FailureKind.APPLICATION, "no", type=failure)
    failures = (JobFailure(1, 5, "w", failed),) if failure else ()
    row = JobRunRow(
        shard_id=shard_id,
        job_id=job_id(number, shard_id),
        namespace_id=NAMESPACE_ID,
        bucket=1,
        task_name="mail",
        queue="mails",
        queue_no=1,
        user_id="",
        schedule_id="",
        concurrency_key="",
        batch_id="",
        status=FAILED if failure else COMPLETED,
        attempt=1,
        priority=3,
        created_us=1,
        scheduled_us=number // 2,
        closed_us=9,
        task_id=0,
        start_no=0,
        spec=CODEC.encode_job_spec(JobSpec(b"input")),
        state=CODEC.encode_job_state(JobState(due_us=7, failures=failures, reason="why")),
        result=b"result",
        version=1,
    )._replace(**columns)
    room.operations.tables.job_runs.put(row)
    return row


async def rejection(call: Awaitable[object]) -> Rejected:
    with pytest.raises(Rejected) as caught:
        await call
    return caught.value


# ---- ids


CALLS: list[Callable[[Room, str], Awaitable[object]]] = [
    lambda room, text: get_job(room.frontend, NAMESPACE_ID, text),
    lambda room, text: cancel_job(room.frontend, NAMESPACE_ID, text, REQUEST_ID),
    lambda room, text: reschedule_job(room.frontend, NAMESPACE_ID, text, REQUEST_ID, 0),
    lambda room, text: resume_job(room.frontend, NAMESPACE_ID, text, REQUEST_ID),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("text", ["", "x", job_text(1)[:-1], job_text(1) + "0", "g" * 36])
async def test_b4_what_is_no_job_id(call: Any, text: str) -> None:
    room = Room()
    refused = await rejection(call(room, text))

    assert (refused.code, refused.field) == (Code.INVALID_ARGUMENT, "job_id")
    assert not room.touched


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("shard_id", [0, 5, 2**32 - 1])
async def test_an_id_of_a_shard_that_there_is_not(call: Any, shard_id: int) -> None:
    room = Room()
    refused = await rejection(call(room, job_text(1, shard_id)))

    assert (refused.code, refused.reason) == (Code.NOT_FOUND, "JOB_NOT_FOUND")
    assert not room.touched


# ---- cancel, reschedule


async def test_acts_go_to_the_jobs_shard() -> None:
    room = Room()
    status = await cancel_job(room.frontend, NAMESPACE_ID, job_text(1, 3), REQUEST_ID, "why", "me")
    await reschedule_job(room.frontend, NAMESPACE_ID, job_text(2, 4), REQUEST_ID, 77, "me")
    await resume_job(room.frontend, NAMESPACE_ID, job_text(5, 1), REQUEST_ID, "mended", "me")

    assert status is JobStatus.CANCELLED
    assert room.history.jobs == [
        (
            3,
            CancelJob(
                namespace_id=NAMESPACE_ID,
                job_id=job_id(1, 3),
                request_id=REQUEST_BYTES,
                reason="why",
                identity="me",
            ),
        ),
        (
            4,
            RescheduleJob(
                namespace_id=NAMESPACE_ID,
                job_id=job_id(2, 4),
                request_id=REQUEST_BYTES,
                due_us=77,
                identity="me",
            ),
        ),
        (
            1,
            ResumeJob(
                namespace_id=NAMESPACE_ID,
                job_id=job_id(5, 1),
                request_id=REQUEST_BYTES,
                reason="mended",
                identity="me",
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((job_text(1), "no uuid"), "request_id"),
        ((job_text(1), ""), "request_id"),
        ((job_text(1), REQUEST_ID, "x" * 5_000), "reason"),
        ((job_text(1), REQUEST_ID, "", "a\nb"), "identity"),
    ],
)
@pytest.mark.parametrize("act", [cancel_job, resume_job])
async def test_bad_cancellations_and_resumptions(
    act: Any, arguments: tuple[Any, ...], field: str
) -> None:
    room = Room()
    assert (await rejection(act(room.frontend, NAMESPACE_ID, *arguments))).field == field
    assert not room.touched


@pytest.mark.parametrize("due_us", [-1, 253_402_300_800_000_000, 2**63 - 1])
async def test_b28_another_time_that_cannot_be(due_us: int) -> None:
    room = Room()
    call = reschedule_job(room.frontend, NAMESPACE_ID, job_text(1), REQUEST_ID, due_us)
    assert (await rejection(call)).field == "due_time_us"
    assert not room.touched


# ---- lists and counts


async def pages(room: Room, **asked: Any) -> list[JobsPage]:
    found: list[JobsPage] = []
    token = b""
    while not found or token:
        page = await list_jobs(room.frontend, ListJobs(where=ALL, page_token=token, **asked))
        found.append(page)
        token = page.next_page_token
    return found


def numbers(found: list[JobsPage]) -> list[list[int]]:
    return [[int.from_bytes(one.job_id[4:], "big") for one in page.jobs] for page in found]


@pytest.mark.parametrize(
    ("oldest_first", "expected"),
    [(False, [[7, 6, 5], [4, 3, 2], [1]]), (True, [[1, 2, 3], [4, 5, 6], [7]])],
)
async def test_pages_bring_every_job_once(oldest_first: bool, expected: list[list[int]]) -> None:
    room = Room()
    for number in range(1, 8):
        put(room, number, shard_id=1)

    assert numbers(await pages(room, page_size=3, oldest_first=oldest_first)) == expected


async def test_a_list_shows_what_is_kept_of_a_job() -> None:
    room = Room()
    put(room, 1, failure="Gone", user_id="ada", concurrency_key="c", batch_id="b")
    ((info,),) = [page.jobs for page in await pages(room)]

    assert (info.job_id, info.status, info.user_id) == (job_id(1), JobStatus.FAILED, "ada")
    assert (info.concurrency_key, info.batch_id, info.closed_us) == ("c", "b", 9)
    assert (info.spec.input, info.state.reason) == (b"input", "why")
    assert info.state.failures[0].failure.type == "Gone"


async def test_a_job_whose_specification_is_large_is_listed_without_it() -> None:
    room = Room()
    put(room, 1, spec=CODEC.encode_job_spec(JobSpec(shake_128(b"").digest(100_000))))
    ((info,),) = [page.jobs for page in await pages(room)]

    assert info.spec == JobSpec()


async def test_by_failure_type_a_page_goes_on_where_it_stopped_reading() -> None:
    room = Room()
    for number in range(1, 11):
        put(room, number, failure="Gone" if number % 3 == 0 else "Other")

    assert numbers(await pages(room, failure_type="Gone", page_size=2)) == [[9, 6], [3]]
    assert await count_jobs(room.frontend, ALL, "Gone") == [(FAILED, 3)]
    assert await count_jobs(room.frontend, ALL) == [(FAILED, 10)]


async def test_a3_a_page_that_looks_for_long_is_short_and_has_a_next() -> None:
    room = Room()
    for number in range(1, 1_201):
        put(room, number, task_name="rare" if number == 1 else "common")
    where = msgspec.structs.replace(ALL, task_name="rare")
    slow = msgspec.structs.replace(room.frontend, clock=SlowClock())

    found: list[JobsPage] = []
    token = b""
    while not found or token:
        found.append(await list_jobs(slow, ListJobs(where=where, page_token=token)))
        token = found[-1].next_page_token

    assert numbers(found) == [[], [], [1]]
    assert numbers([await list_jobs(room.frontend, ListJobs(where=where))]) == [[1]]


class SlowClock(FakeClock):
    """Whatever is asked between two looks at it has taken a second."""

    def monotonic(self) -> float:
        self.now_s += 1
        return self.now_s


@pytest.mark.parametrize(
    ("failure", "named"), [(Failure(FailureKind.TIMEOUT, "late"), "TIMEOUT"), (None, "")]
)
async def test_a_failure_without_a_type_has_its_kinds_name(
    failure: Failure | None, named: str
) -> None:
    room = Room()
    failures = () if failure is None else (JobFailure(1, 5, "w", failure),)
    put(room, 1, status=FAILED, state=CODEC.encode_job_state(JobState(failures=failures)))

    found = await list_jobs(room.frontend, ListJobs(where=ALL, failure_type="TIMEOUT"))
    assert bool(found.jobs) is (named == "TIMEOUT")


@pytest.mark.parametrize(
    "other",
    [
        ListJobs(where=JobFilter(OTHER_NAMESPACE_ID)),
        ListJobs(where=JobFilter(NAMESPACE_ID, user_id="ada")),
        ListJobs(where=ALL, oldest_first=True),
        ListJobs(where=ALL, failure_type="Gone"),
    ],
)
async def test_b20_a_page_token_belongs_to_its_list(other: ListJobs) -> None:
    room = Room()
    for number in (1, 2):
        put(room, number)
    token = (await list_jobs(room.frontend, ListJobs(where=ALL, page_size=1))).next_page_token

    for bad in (token, token[:-1] + b"\0", b"random"):
        asked = msgspec.structs.replace(other, page_token=bad)
        refused = await rejection(list_jobs(room.frontend, asked))
        assert (refused.code, refused.field) == (Code.INVALID_ARGUMENT, "page_token")


async def test_b21_page_sizes() -> None:
    room = Room()
    for number in range(1_002):
        put(room, number)

    default = await list_jobs(room.frontend, ListJobs(where=ALL))
    clamped = await list_jobs(room.frontend, ListJobs(where=ALL, page_size=10**9))
    refused = await rejection(list_jobs(room.frontend, ListJobs(where=ALL, page_size=-1)))

    assert (len(default.jobs), len(clamped.jobs)) == (100, 1_000)
    assert refused.field == "page_size"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"statuses": (1, 99)}, "filter.statuses[1]"),
        ({"task_name": "a\0"}, "filter.task_name"),
        ({"user_id": "x" * 501}, "filter.user_id"),
        ({"queue": "a\u202e"}, "filter.task_queue"),
        ({"schedule_id": "a\n"}, "filter.schedule_id"),
        ({"batch_id": "a\n"}, "filter.batch_id"),
        ({"from_us": -1}, "filter.start_time_us"),
        ({"to_us": 2**63 - 1}, "filter.end_time_us"),
    ],
)
async def test_bad_filters(changes: dict[str, Any], field: str) -> None:
    room = Room()
    where = msgspec.structs.replace(ALL, **changes)

    assert (await rejection(list_jobs(room.frontend, ListJobs(where=where)))).field == field
    assert (await rejection(count_jobs(room.frontend, where))).field == field


# ---- results


def asked(*texts: str, timeout_ms: int = 0) -> GetJobResults:
    return GetJobResults(namespace_id=NAMESPACE_ID, job_ids=texts, timeout_ms=timeout_ms)


async def test_without_waiting_the_store_says_what_has_ended() -> None:
    room = Room()
    put(room, 1)
    put(room, 2, shard_id=2, status=int(JobStatus.RETRY))
    put(room, 3, failure="Gone")
    put(room, 4, namespace_id=OTHER_NAMESPACE_ID)
    texts = [job_text(1), job_text(2, 2), job_text(3), job_text(4), job_text(5)]

    completed, failed, foreign, unknown = await get_job_results(room.frontend, asked(*texts))

    assert completed == EndedJob(job_id(1), JobStatus.COMPLETED, b"result", None, "why")
    assert failed.status is JobStatus.FAILED
    assert failed.failure is not None
    assert failed.failure.type == "Gone"
    assert (foreign.status, unknown.status) == (None, None)
    assert not room.history.jobs


async def test_a_wait_ends_with_the_first_shard_that_has_one() -> None:
    room = Room()
    texts = [job_text(1), job_text(2, 2), job_text(3), job_text(3)]
    waiting = asyncio.ensure_future(
        get_job_results(room.frontend, asked(*texts, timeout_ms=60_000))
    )
    await turn()
    await turn()
    assert room.history.jobs == [
        (1, WaitJobs(shard_id=1, namespace_id=NAMESPACE_ID, job_ids=[job_id(1), job_id(3)])),
        (2, WaitJobs(shard_id=2, namespace_id=NAMESPACE_ID, job_ids=[job_id(2, 2)])),
    ]

    first, second = room.history.futures
    ended = EndedJob(job_id(2, 2), JobStatus.COMPLETED)
    second.set_result(JobsEnded([ended]))  # type: ignore[arg-type]  # the fakes' futures are of replies to runs

    assert await waiting == [ended]
    assert first.cancelled()


async def test_a_wait_that_takes_too_long_is_answered_empty_and_forgotten() -> None:
    room = Room()
    assert await get_job_results(room.frontend, asked(job_text(1), timeout_ms=1)) == []
    assert room.history.futures[0].cancelled()


async def test_a_node_that_stops_answers_its_waits_empty() -> None:
    room = Room()
    waiting = asyncio.ensure_future(
        get_job_results(room.frontend, asked(job_text(1), timeout_ms=60_000))
    )
    await turn()
    await turn()
    room.frontend.parking.close()

    assert await waiting == []


async def test_a_shard_that_moved_is_told() -> None:
    room = Room()
    room.history.answer = lambda _: unavailable("SHARD_MOVED", "elsewhere")

    refused = await rejection(get_job_results(room.frontend, asked(job_text(1), timeout_ms=1_000)))
    assert refused.reason == "SHARD_MOVED"


async def test_ids_that_no_shard_made_are_answered_at_once() -> None:
    room = Room()
    found = await get_job_results(room.frontend, asked(job_text(1), job_text(2, 99), timeout_ms=9))

    assert found == [EndedJob(job_id(2, 99), None)]
    assert not room.history.jobs


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (asked(), "job_ids"),
        (asked(*[job_text(1)] * (limits.JOB_RESULTS_OF_CALL_MAX + 1)), "job_ids"),
        (asked(job_text(1), "nonsense"), "job_ids[1]"),
        (asked(job_text(1), timeout_ms=-1), "timeout_ms"),
    ],
)
async def test_bad_waits(request_: GetJobResults, field: str) -> None:
    room = Room()
    assert (await rejection(get_job_results(room.frontend, request_))).field == field
    assert not room.touched


# ---- redrive


def redrive(**changes: Any) -> RedriveJobs:
    fields: dict[str, Any] = {
        "namespace_id": NAMESPACE_ID,
        "request_id": REQUEST_BYTES,
        "where": ALL,
        "identity": "op",
        "reason": "mended",
    }
    return RedriveJobs(**{**fields, **changes})


def redriven(room: Room) -> list[bytes]:
    return [intent.job_id for _, intent in room.history.jobs]


async def test_all_failed_jobs_that_fit_begin_anew() -> None:
    room = Room()
    for number in range(1, 7):
        put(room, number, failure="Gone" if number % 2 else "Other", shard_id=1 + number % 2)
    put(room, 7)

    assert await redrive_jobs(room.frontend, redrive(failure_type="Gone")) == 3

    assert redriven(room) == [job_id(number, 2) for number in (1, 3, 5)]
    shard_id, intent = room.history.jobs[0]
    assert shard_id == 2
    assert isinstance(intent, RedriveJob)
    assert (intent.namespace_id, intent.reason, intent.identity) == (NAMESPACE_ID, "mended", "op")


@pytest.mark.parametrize(
    ("statuses", "found"), [((), [1, 2, 3]), ((9,), [2]), ((8, 5), [1, 3]), ((5,), [1])]
)
async def test_dead_letters_are_failed_poisoned_and_suspended_jobs(
    statuses: tuple[int, ...], found: list[int]
) -> None:
    room = Room()
    put(room, 1, failure="Gone")
    put(room, 2, status=JobStatus.POISONED, closed_us=None)
    put(room, 3, status=JobStatus.SUSPENDED, closed_us=None)
    for number, status in enumerate((JobStatus.PENDING, JobStatus.IN_PROGRESS), 4):
        put(room, number, status=status, closed_us=None)
    where = JobFilter(NAMESPACE_ID, statuses=statuses)

    assert await redrive_jobs(room.frontend, redrive(where=where)) == len(found)
    assert redriven(room) == [job_id(number) for number in found]
    assert await redrive_jobs(room.frontend, redrive(where=where, dry_run=True)) == len(found)
    texts = [job_text(number) for number in range(1, 6)]
    assert await redrive_jobs(room.frontend, redrive(job_ids=texts, dry_run=True)) == 3


async def test_more_than_a_page_and_more_than_are_sent_together() -> None:
    room = Room()
    for number in range(1_201):
        put(room, number, failure="Gone")

    assert await redrive_jobs(room.frontend, redrive()) == 1_201
    assert len(set(redriven(room))) == 1_201


async def test_a_repeat_asks_with_the_same_request_ids() -> None:
    room = Room()
    for number in (1, 2):
        put(room, number, failure="Gone")
    await redrive_jobs(room.frontend, redrive())
    await redrive_jobs(room.frontend, redrive())

    ids = [intent.request_id for _, intent in room.history.jobs]
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]


async def test_named_jobs_and_those_that_are_gone_meanwhile() -> None:
    room = Room()
    room.history.answer = lambda intent: (
        not_found("JOB", "no")
        if intent.job_id == job_id(2)
        else Rejected(Code.FAILED_PRECONDITION, "JOB_NOT_FAILED", "no")
        if intent.job_id == job_id(3)
        else JobAnswered(JobStatus.PENDING)
    )
    texts = [job_text(1), job_text(2), job_text(3), job_text(4, 77)]

    assert await redrive_jobs(room.frontend, redrive(job_ids=texts)) == 1


async def test_a_dry_run_counts_and_does_nothing() -> None:
    room = Room()
    for number in range(1, 4):
        put(room, number, failure="Gone" if number > 1 else "Other")
    put(room, 4)
    put(room, 6, failure="Gone", namespace_id=OTHER_NAMESPACE_ID)
    texts = [job_text(1), job_text(4), job_text(5), job_text(6)]

    assert await redrive_jobs(room.frontend, redrive(dry_run=True)) == 3
    assert await redrive_jobs(room.frontend, redrive(dry_run=True, failure_type="Gone")) == 2
    assert await redrive_jobs(room.frontend, redrive(dry_run=True, job_ids=texts)) == 1
    assert not room.history.jobs


async def test_what_is_not_about_one_job_breaks_it_off() -> None:
    room = Room()
    put(room, 1, failure="Gone")
    room.history.answer = lambda _: unavailable("SHARD_MOVED", "elsewhere")

    assert (await rejection(redrive_jobs(room.frontend, redrive()))).code is Code.UNAVAILABLE


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"job_ids": [job_text(1), "x"]}, "job_ids[1]"),
        ({"job_ids": [job_text(1)] * (limits.JOBS_OF_CALL_MAX + 1)}, "job_ids"),
        ({"job_ids": [job_text(1)], "where": JobFilter(NAMESPACE_ID, user_id="a")}, "filter"),
        ({"where": JobFilter(NAMESPACE_ID, task_name="\0")}, "filter.task_name"),
        ({"where": JobFilter(NAMESPACE_ID, statuses=(9, 4))}, "filter.statuses[1]"),
        ({"reason": "x" * 5_000}, "reason"),
        ({"identity": "a\nb"}, "identity"),
    ],
)
async def test_bad_redrives(changes: dict[str, Any], field: str) -> None:
    room = Room()
    assert (await rejection(redrive_jobs(room.frontend, redrive(**changes)))).field == field
    assert not room.touched


# ---- batches, limits


async def test_how_far_a_batch_is() -> None:
    room = Room()
    shard_id = shard_of_batch("b1", NAMESPACE_ID, 4)
    state = BatchState(completed=3, failed=1, callback_job_id=job_id(9))
    row = JobBatchRow(shard_id, NAMESPACE_ID, "b1", 5, 1, True, CODEC.encode_job_batch(state), 1)
    room.operations.tables.job_batches.put(row)

    found = await get_job_batch(room.frontend, NAMESPACE_ID, "b1")
    assert (found.total, found.open, found.sealed, found.state) == (5, 1, True, state)
    assert (
        await rejection(get_job_batch(room.frontend, NAMESPACE_ID, "b2"))
    ).code is Code.NOT_FOUND
    assert (await rejection(get_job_batch(room.frontend, NAMESPACE_ID, ""))).field == "batch_id"


def limited(rate: float, queue: str = "mails") -> SetQueueLimit:
    return SetQueueLimit(
        namespace_id=NAMESPACE_ID, queue=queue, rate_per_s=rate, identity="op", reason="too fast"
    )


async def test_a_queues_limit_is_saved_with_its_row_in_the_audit_log() -> None:
    room = Room()
    await set_queue_limit(room.frontend, limited(2.5))
    await set_queue_limit(room.frontend, limited(0))

    (row,) = await room.operations.list_queue_limits()
    assert row == QueueLimitRow(NAMESPACE_ID, "mails", 0.0, 2)
    links = [
        msgspec.msgpack.decode(audited.content, type=Link)
        for audited in room.operations.tables.audit.in_order(0)
    ]
    assert [(link.entry.action, link.entry.before, link.entry.after) for link in links] == [
        (Action.SET_QUEUE_LIMIT, "0", "2.5"),
        (Action.SET_QUEUE_LIMIT, "2.5", "0"),
    ]
    assert (links[0].entry.subject, links[0].entry.reason) == ("mails", "too fast")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (limited(-1.0), "rate_per_s"),
        (limited(float("nan")), "rate_per_s"),
        (limited(float("inf")), "rate_per_s"),
        (limited(1.0, ""), "task_queue"),
        (limited(1.0, "__x"), "task_queue"),
    ],
)
async def test_bad_limits(asked: SetQueueLimit, field: str) -> None:
    room = Room()
    assert (await rejection(set_queue_limit(room.frontend, asked))).field == field
    assert await room.operations.list_queue_limits() == []
