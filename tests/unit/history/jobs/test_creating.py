"""Creation: made without a look whether it is there, by idempotency key and by unique key; repeated, and in halves."""

from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from tests.unit.history.jobs.work import (
    AT_ONCE,
    ONCE,
    Concurrency,
    JobStatus,
    Unique,
    UniqueScope,
    cancel,
    complete,
    create,
    create_named,
    describe,
    fail,
    id_of,
    names,
    new_job,
    poll,
    poll_one,
    redrive,
    reschedule,
    row_of,
    status,
)
from tests.unit.history.room import Room, codes, in_room, pass_time, refused, turns

from perdure_engine.core.audit import Link
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.decide import complete as completing
from perdure_engine.core.jobs.decide import ending
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable
from perdure_engine.store.memory import Moment


def made(created: Any) -> list[bool]:
    return [one.created for one in created.jobs]


@in_room()
async def test_a_repeated_call_makes_nothing_twice(room: Room) -> None:
    """Invariant 57: the same ids are the same jobs, whether memory knows them or only the database."""
    node = await room.node(1)
    assert made(await create_named(node, "a", "b")) == [True, True]
    assert made(await create_named(node, "a", "b", "c")) == [False, False, True]
    taker = await room.node()
    taker.holds.hold("load_ready_jobs_of_shard")  # its memory knows nothing
    await taker.take(1)
    again = await create_named(taker, "c", "a", "d")
    assert made(again) == [False, False, True]
    assert taker.alarms == []
    assert len(room.tables.job_runs.all()) == 4
    assert taker.holds.calls.count("commit") == 3, "an empty step, the guard, and once more"


@in_room()
async def test_a_repeat_does_not_make_its_neighbours_alone(room: Room) -> None:
    """The guard finds the repeat; what else was in the statement goes together again, not in halves."""
    node = await room.node(1, 2)
    await create_named(node, "a")
    taker = await room.node(1, 2)
    before = taker.holds.calls.count("commit")
    calls = [create_named(taker, "a"), create_named(taker, "b"), create_named(taker, "c")]
    other = create_named(taker, "x", shard_id=2)
    start = taker.start("order")
    assert [made(await one) for one in calls] == [[False], [True], [True]]
    assert made(await other) == [True]
    assert (await start).started
    assert taker.holds.calls.count("commit") - before <= 3
    assert taker.alarms == []


@in_room()
async def test_the_same_key_with_another_job_is_refused(room: Room) -> None:
    node = await room.node(1)
    fields: dict[str, Any] = {"idempotency_key": "k", "body_hash": b"1"}
    assert made(await create_named(node, "a", **fields)) == [True]
    assert made(await create_named(node, "a", **fields)) == [False]
    [other] = (await create_named(node, "a", **fields | {"body_hash": b"2"})).jobs
    assert isinstance(other, Rejected)
    assert (other.code, other.field) == (Code.INVALID_ARGUMENT, "idempotency_key")


@in_room()
async def test_an_idempotency_key_is_looked_up_first(room: Room) -> None:
    """Many in one read, and no statement is sent in vain."""
    node = await room.node(1)
    later = room.now_us + 3_600_000_000
    keyed = [new_job(name, idempotency_key=name, due_us=later) for name in "abc"]
    assert made(await create(node, *keyed)) == [True] * 3
    taker = await room.node(1)
    taker.holds.calls.clear()
    assert made(await create(taker, *keyed)) == [False] * 3
    assert taker.holds.calls.count("load_jobs") == 1
    assert made(await create(taker, new_job("d", idempotency_key="d"), *keyed)) == [
        *[True],
        *[False] * 3,
    ]
    assert [one.status for one in (await create(taker, *keyed)).jobs] == [JobStatus.PENDING] * 3


@in_room()
async def test_twice_in_one_call_is_made_once(room: Room) -> None:
    node = await room.node(1)
    same = new_job("a", idempotency_key="a")
    assert made(await create(node, same, same)) == [True, False]


# ---- unique keys


def unique(scope: UniqueScope = UniqueScope.ACTIVE, key: str = "u", period_ms: int = 0) -> Unique:
    return Unique(key, scope, period_ms)


@in_room()
async def test_invariant_57_a_unique_key_admits_one_live_job(room: Room) -> None:
    node = await room.node(1)
    key = unique()
    first, second = (await create_named(node, "a", "b", unique=key)).jobs
    assert (first.created, second.created, second.job_id) == (True, False, id_of("a"))
    task = await poll_one(node, room.worker())
    [third] = (await create_named(node, "c", unique=key)).jobs
    assert (third.created, third.status) == (False, JobStatus.IN_PROGRESS)
    await complete(node, task)
    assert made(await create_named(node, "d", unique=key)) == [True], "it has ended"
    taker = await room.node(1)
    [found] = (await create_named(taker, "e", unique=key)).jobs
    assert (found.created, found.job_id) == (False, id_of("d")), "a new owner reads who holds it"
    await cancel(taker, "d")
    assert made(await create_named(taker, "e", unique=key)) == [True]


@in_room()
async def test_of_a_pending_unique_key_one_job_has_not_started(room: Room) -> None:
    node = await room.node(1)
    key = unique(UniqueScope.PENDING)
    assert made(await create_named(node, "a", "b", unique=key)) == [True, False]
    await poll_one(node, room.worker())
    assert made(await create_named(node, "c", unique=key)) == [True], "a has started"
    assert made(await create_named(node, "d", unique=key)) == [False]


@in_room()
async def test_a_unique_key_of_a_period_holds_until_its_end(room: Room) -> None:
    node = await room.node(1)
    key = unique(UniqueScope.PERIOD, period_ms=10_000)
    await create_named(node, "a", unique=key)
    await cancel(node, "a")
    await pass_time(9)
    assert made(await create_named(node, "b", unique=key)) == [False]
    await pass_time(2)
    assert made(await create_named(node, "b", unique=key)) == [True]


@in_room()
async def test_beside_a_concurrency_key_a_unique_key_holds_among_its_jobs(room: Room) -> None:
    """Both decide the shard, and it can be only one's: the limit's, that no two owners may count."""
    node = await room.node(1)
    ada, bob = Concurrency("ada", limit=5), Concurrency("bob", limit=5)
    assert made(await create_named(node, "a", "b", unique=unique(), concurrency=ada)) == [
        True,
        False,
    ]
    assert made(await create_named(node, "c", unique=unique(), concurrency=bob)) == [True]
    assert made(await create_named(node, "d", unique=unique())) == [True]
    taker = await room.node(1)
    [found] = (await create_named(taker, "e", unique=unique(), concurrency=ada)).jobs
    assert (found.created, found.job_id) == (False, id_of("a"))


@in_room()
async def test_a_failed_job_does_not_begin_anew_beside_another_of_its_key(room: Room) -> None:
    """Invariant 57: a redrive is a creation too."""
    node = await room.node(1)
    key = unique()
    await create_named(node, "a", unique=key, retry=AT_ONCE)
    for _ in range(3):
        await fail(node, await poll_one(node, room.worker()))
    assert await status(node, "a") is JobStatus.FAILED
    await create_named(node, "b", unique=key)
    refusal = await refused(redrive(node, "a"))
    assert (refusal.code, refusal.reason) == (Code.FAILED_PRECONDITION, "UNIQUE_KEY_IN_USE")
    await cancel(node, "b")
    assert (await redrive(node, "a")).status is JobStatus.PENDING
    assert made(await create_named(node, "c", unique=key)) == [False]


# ---- what becomes of a statement


@pytest.mark.parametrize("moment", list(Moment))
def test_an_unknown_outcome_makes_no_job_twice_and_loses_none(moment: Moment) -> None:
    """Invariants 5, 25, 57."""

    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        node.faults.fail_next("commit", OutcomeUnknown("lost"), moment)
        assert made(await create_named(node, "a", "b")) == [True, True]
        tasks = await poll(node, room.worker())
        assert names(tasks) == ["a", "b"]
        node.faults.fail_next("commit", OutcomeUnknown("lost"), moment)
        assert (await complete(node, *tasks)).refused == []
        assert await status(node, "a") is JobStatus.COMPLETED
        assert row_of(room, "b").version == 2
        assert node.alarms == []
        assert len(node.shard().jobs.leases) == 0

    story()


@in_room()
async def test_a_database_that_is_away_refuses_a_creation_and_keeps_nothing_of_it(
    room: Room,
) -> None:
    node = await room.node(1)
    for _ in range(200):
        node.faults.fail_next("commit", StoreUnavailable("away"))
    assert await codes(create_named(node, "a")) == [Code.UNAVAILABLE]
    node.faults.forget("commit")
    assert not room.tables.job_runs.all()
    assert (await refused(describe(node, "a"))).code is Code.NOT_FOUND
    assert made(await create_named(node, "a")) == [True]


@in_room()
async def test_one_job_that_cannot_be_saved_is_found_among_hundreds(room: Room) -> None:
    """Its caller hears which; its neighbours of the call, and those of others, are made."""
    node = await room.node(1)
    bad = new_job("bad", user_id="not\0a text")
    many = [new_job(f"j{number}") for number in range(200)]
    whole = create(node, *many[:120], bad, *many[120:])
    other = create_named(node, "x")
    answers = (await whole).jobs
    wrong = [index for index, one in enumerate(answers) if isinstance(one, Rejected)]
    assert wrong == [120]
    assert answers[120].code is Code.INTERNAL
    assert made(await other) == [True]
    assert len(room.tables.job_runs.all()) == 201
    assert [one.job_id for one in answers[:3]] == [job.job_id for job in many[:3]]
    assert set(node.alarms) == {"intent_failed"}
    await pass_time(1)
    assert len(await poll(node, room.worker(), 300)) == 201


@in_room()
async def test_a_call_that_is_cut_is_answered_once_and_can_be_given_up(room: Room) -> None:
    node = await room.node(1)
    call = create(node, new_job("a"), new_job("bad", user_id="\0"), new_job("b"))
    await turns()
    call.cancel()
    await pass_time(1)
    assert await status(node, "a") is JobStatus.PENDING
    assert await status(node, "b") is JobStatus.PENDING


@in_room()
async def test_no_list_is_more_than_a_statement_takes(room: Room) -> None:
    """Thousands of jobs of one shard go in parts; the call is answered once, in its order."""
    node = await room.node(1)
    many = [new_job(f"j{number:05}") for number in range(5_000)]
    made_ = await create(node, *many)
    assert [one.job_id for one in made_.jobs] == [job.job_id for job in many]
    assert all(made(made_))
    assert node.holds.calls.count("commit") >= 5
    assert len(room.tables.job_runs.all()) == 5_000


@in_room()
async def test_b55_a_request_id_is_one_calls_and_no_other_is_lost_under_it(room: Room) -> None:
    """Else a cancellation would be answered as if it had been, and the job would run."""
    node = await room.node(1)
    await create_named(node, "a", due_us=room.now_us + 60_000_000)
    request_id = room.ids.new_id()
    due_us = room.now_us + 90_000_000
    for _ in range(2):
        await reschedule(node, "a", due_us, request_id=request_id)
    taker = await room.node(1)
    for other in (
        reschedule(taker, "a", due_us + 1, request_id=request_id),
        cancel(taker, "a", request_id=request_id),
        redrive(taker, "a", request_id=request_id),
    ):
        refusal = await refused(other)
        assert (refusal.code, refusal.reason, refusal.field) == (
            Code.INVALID_ARGUMENT,
            "REQUEST_ID_REUSED",
            "request_id",
        )
    assert (await describe(taker, "a")).info.scheduled_us == due_us
    assert (await cancel(taker, "a")).status is JobStatus.CANCELLED


@in_room()
async def test_what_an_operator_did_is_in_the_audit_log_once(room: Room) -> None:
    """In the statement that does it; a repeat adds nothing."""
    node = await room.node(1)
    await create_named(node, "a", "b", retry=ONCE)
    request_id = room.ids.new_id()
    for _ in range(2):
        await cancel(node, "a", reason="why", identity="op", request_id=request_id)
    await fail(node, await poll_one(node, room.worker()))
    await redrive(node, "b", identity="op")
    await reschedule(node, "b", room.now_us + 60_000_000, identity="op")
    entries = [
        msgspec.msgpack.decode(row.content, type=Link).entry
        for row in room.tables.audit.in_order(1)
    ]
    assert [(e.action, e.identity, e.reason, e.before, e.after) for e in entries] == [
        ("job.cancel", "op", "why", "PENDING", "CANCELLED"),
        ("job.redrive", "op", "", "FAILED", "PENDING"),
        ("job.reschedule", "op", "", "PENDING", "PENDING"),
    ]
    assert entries[0].subject == uuid_text(id_of("a"))


@in_room()
async def test_a_decision_that_breaks_off_costs_the_others_nothing(room: Room) -> None:
    """A bug: the job it is about is found among those of its list, its caller hears INTERNAL, and memory forgets what
    was half changed."""
    node = await room.node(1)
    await create_named(node, *"abcde")
    tasks = await poll(node, room.worker())

    def end_or_break(draft: JobDraft, run: JobRun, status: JobStatus, **fields: Any) -> None:
        if run.job_id == id_of("c"):
            run.status = JobStatus.SUSPENDED  # half done
            raise RuntimeError("a bug")
        ending.end(draft, run, status, **fields)

    with patch.object(completing, "end", end_or_break):
        answered = await complete(node, *tasks)
        [(index, refusal)] = answered.refused
        assert (index, refusal.code) == (2, Code.INTERNAL)
    assert [await status(node, name) for name in "abcde"] == [
        JobStatus.COMPLETED,
        JobStatus.COMPLETED,
        JobStatus.IN_PROGRESS,
        JobStatus.COMPLETED,
        JobStatus.COMPLETED,
    ]
    assert (await complete(node, tasks[2])).refused == []
    assert len(node.shard().jobs.leases) == 0


@in_room()
async def test_who_is_refused_after_a_second_read_keeps_nothing_in_memory(room: Room) -> None:
    """The first read brings the unique key, the second was to bring its holder."""
    node = await room.node(1)
    key = Unique("k", UniqueScope.ACTIVE)
    await create_named(node, "a", unique=key)
    taker = await room.node()
    taker.holds.hold("load_ready_jobs_of_shard")  # its memory knows nothing
    await taker.take(1)
    taker.faults.fail_next("load_jobs", StoreUnavailable("away"))
    assert (await refused(create_named(taker, "b", unique=key))).code is Code.UNAVAILABLE
    assert taker.shard().jobs.may_forget()
    assert made(await create_named(taker, "b", unique=key)) == [False]
