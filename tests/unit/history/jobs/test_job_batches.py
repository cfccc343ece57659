"""Batches of jobs: counted, sealed, and followed by one callback in the statement that ends the last job."""

import asyncio
import json
from typing import Any

import pytest
from tests.unit.history.jobs.work import (
    AT_ONCE,
    JobStatus,
    cancel,
    complete,
    create,
    create_named,
    fail,
    id_of,
    names,
    new_job,
    poll,
    poll_one,
    redrive,
    row_of,
    status,
)
from tests.unit.history.room import NAMESPACE, Node, Room, in_room, refused

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.jobs.intents import Callback
from perdure_engine.core.jobs.memory import BatchState
from perdure_engine.ports.rows import JobBatchRow
from perdure_engine.ports.store import OutcomeUnknown
from perdure_engine.store.memory import Moment

S = 1_000_000
AFTER = new_job("after", queue="callbacks")


def batch(*, sealed: bool = True, callback: bool = True) -> Callback:
    return Callback("b", AFTER if callback else None, sealed)


def in_batch(node: Node, *named: str, said: Callback, **fields: Any) -> asyncio.Future[Any]:
    jobs = [new_job(name, batch_id="b", **fields) for name in named]
    return create(node, *jobs, batch=said)


def stored(room: Room) -> JobBatchRow:
    row = room.tables.job_batches.get(1, (NAMESPACE, "b"))
    assert row is not None
    return row


def state_of(room: Room) -> BatchState:
    return room.codec.decode_job_batch(stored(room).state)


@in_room()
async def test_the_callback_is_made_when_the_last_job_ends(room: Room) -> None:
    """In the same statement; its input counts what became of the jobs."""
    node = await room.node(1)
    await in_batch(node, *"abcd", said=batch(), retry=AT_ONCE)
    assert (stored(room).total, stored(room).open, stored(room).sealed) == (4, 4, True)
    tasks = await poll(node, room.worker())
    await complete(node, tasks[0], tasks[1])
    await cancel(node, "c")
    assert (await complete(node, tasks[3])).refused == []
    assert await poll(node, room.worker("w2"), queue="callbacks") == []
    before = node.holds.calls.count("commit")
    node.history.goodbye(room.worker(), [])  # it had c, which was asked to stop
    [after] = await poll(node, room.worker("w2"), queue="callbacks")
    assert await status(node, "c") is JobStatus.CANCELLED
    assert node.holds.calls.count("commit") == before + 1
    assert json.loads(after.job.spec.input) == {
        "batch_id": "b",
        "total": 4,
        "completed": 3,
        "failed": 0,
        "cancelled": 1,
        "skipped": 0,
    }
    assert state_of(room).callback_job_id == id_of("after")
    assert (stored(room).open, state_of(room).over, state_of(room).callback) == (0, True, None)


@in_room()
async def test_no_callback_before_the_batch_is_sealed(room: Room) -> None:
    """Calls follow each other; the last one seals, with jobs or without."""
    node = await room.node(1)
    await in_batch(node, "a", said=batch(sealed=False))
    await complete(node, await poll_one(node, room.worker()))
    await in_batch(node, "b", said=batch(sealed=False, callback=False))
    await complete(node, await poll_one(node, room.worker()))
    assert await poll(node, room.worker(), queue="callbacks") == []
    taker = await room.node(1)
    await in_batch(taker, said=batch(callback=False))
    [after] = await poll(taker, room.worker(), queue="callbacks")
    assert json.loads(after.job.spec.input)["completed"] == 2


@in_room()
async def test_a_sealed_batch_takes_no_further_jobs(room: Room) -> None:
    """A repeat of a call that it has taken is answered all the same."""
    node = await room.node(1)
    await in_batch(node, "a", said=batch())
    for _ in range(2):
        again = await in_batch(node, "a", "x", said=batch())
        known, refusal = again.jobs
        assert not known.created
        assert isinstance(refusal, Rejected)
        assert (refusal.code, refusal.reason) == (Code.FAILED_PRECONDITION, "BATCH_SEALED")
    await complete(node, await poll_one(node, room.worker()))
    assert len(await poll(node, room.worker(), queue="callbacks")) == 1
    assert stored(room).total == 1


@in_room()
async def test_a_repeat_of_a_sealed_call_is_answered_by_the_next_owner_too(room: Room) -> None:
    """The owner that sealed it died before it could answer. What it made is not in the memory of the next one."""
    first = await room.node(1)
    made = await in_batch(first, *"ab", said=batch())
    await complete(first, *await poll(first, room.worker()))
    second = await room.node(1)
    again = await in_batch(second, *"ab", said=batch())

    assert [one.job_id for one in again.jobs] == [one.job_id for one in made.jobs]
    assert not any(one.created for one in again.jobs)
    [late] = (await in_batch(second, "c", said=batch())).jobs
    assert (late.code, late.reason) == (Code.FAILED_PRECONDITION, "BATCH_SEALED")


@in_room()
async def test_an_empty_batch_is_over_at_once(room: Room) -> None:
    node = await room.node(1)
    await in_batch(node, said=batch())
    [after] = await poll(node, room.worker(), queue="callbacks")
    assert json.loads(after.job.spec.input)["total"] == 0


@pytest.mark.parametrize("moment", list(Moment))
def test_the_callback_is_made_once_whatever_becomes_of_the_statement(moment: Moment) -> None:
    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        await in_batch(node, "a", "b", said=batch())
        tasks = await poll(node, room.worker())
        node.faults.fail_next("commit", OutcomeUnknown("lost"), moment)
        await complete(node, tasks[0])
        node.faults.fail_next("commit", OutcomeUnknown("lost"), moment)
        await complete(node, tasks[1])
        taker = await room.node(1)
        await in_batch(taker, "a", "b", said=batch())
        assert names(await poll(taker, room.worker(), 9, queue="callbacks", timeout_s=5)) == [
            json_of(room)
        ]
        assert len(room.tables.job_runs.all()) == 3
        assert node.alarms == taker.alarms == []

    story()


def json_of(room: Room) -> str:
    return room.codec.decode_job_spec(row_of(room, "after").spec).input.decode()


@in_room()
async def test_one_bad_job_of_a_sealed_call_does_not_end_the_batch_early(room: Room) -> None:
    """The call is cut in two, and only the second half seals: even if the jobs of the first are over by then."""
    node = await room.node(1)
    good = [new_job(f"j{number}", batch_id="b") for number in range(20)]
    bad = new_job("bad", batch_id="b", user_id="\0")
    made = await create(node, *good, bad, batch=batch())
    assert sum(isinstance(one, Rejected) for one in made.jobs) == 1
    assert (stored(room).total, stored(room).open) == (20, 20)
    await complete(node, *await poll(node, room.worker()))
    [after] = await poll(node, room.worker(), queue="callbacks")
    assert json.loads(after.job.spec.input)["total"] == 20


@in_room()
async def test_a_failed_job_begins_anew_within_its_batch_and_after_its_end(room: Room) -> None:
    node = await room.node(1)
    await in_batch(node, "a", "b", said=batch(), retry=AT_ONCE)
    for _ in range(3):
        tasks = await poll(node, room.worker(), timeout_s=0.2)
        await fail(node, *[task for task in tasks if names([task]) == ["a"]])
    assert (stored(room).open, state_of(room).failed) == (1, 1)
    await redrive(node, "a")
    assert (stored(room).open, state_of(room).failed) == (2, 0)
    for _ in range(3):
        await fail(node, *await poll(node, room.worker(), timeout_s=0.2))
    await cancel(node, "b")
    node.history.goodbye(room.worker(), [])
    [after] = await poll(node, room.worker("w2"), queue="callbacks")
    assert json.loads(after.job.spec.input)["failed"] == 1
    await redrive(node, "a")
    await complete(node, *await poll(node, room.worker("w2")))
    assert await poll(node, room.worker("w2"), queue="callbacks") == []
    assert state_of(room).failed == 1, "the batch is over"


@in_room()
async def test_a_job_that_ends_as_it_is_made_counts(room: Room) -> None:
    node = await room.node(1)
    await in_batch(node, "a", said=batch(), expire_us=room.now_us, due_us=0)
    assert await status(node, "a") is JobStatus.SKIPPED
    [after] = await poll(node, room.worker(), queue="callbacks")
    assert json.loads(after.job.spec.input)["skipped"] == 1
    await create_named(node, "x")


@in_room()
async def test_a_batch_that_does_not_read_back_costs_only_its_jobs(room: Room) -> None:
    """Also when others are read together with it."""
    node = await room.node(1)
    await in_batch(node, "a", said=batch())
    await create_named(node, "x", due_us=room.now_us + 3_600_000_000)
    tasks = await poll(node, room.worker())
    room.tables.job_batches.put(stored(room)._replace(state=b"\xff"))
    taker = await room.node(1)
    done, other = complete(taker, *tasks), cancel(taker, "x")
    refusal = await refused(done)
    assert (refusal.code, refusal.reason) == (Code.DATA_LOSS, "JOBS_UNREADABLE")
    assert (await other).status is JobStatus.CANCELLED
    assert set(taker.alarms) == {"jobs_do_not_read_back"}
