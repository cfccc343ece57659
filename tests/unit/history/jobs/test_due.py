"""Time: jobs of later, retries, expiry, other times."""

import asyncio
import itertools
from functools import partial
from unittest.mock import patch

import msgspec
import pytest
from tests.unit.history.jobs.work import (
    AT_ONCE,
    FAILURE,
    ONCE,
    JobStatus,
    cancel,
    complete,
    create,
    create_named,
    describe,
    fail,
    names,
    new_job,
    poll,
    poll_one,
    redrive,
    reschedule,
    row_of,
    status,
)
from tests.unit.history.room import Node, Room, in_room, pass_time, refused, turns

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.decide.complete import jitter
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TimerKind
from perdure_engine.history.jobs.timers import FIRING_MAX
from perdure_engine.history.shard import Shard
from perdure_engine.history.work import Item
from perdure_engine.ports.store import Batch, OutcomeUnknown
from perdure_engine.store.memory import Moment

S = 1_000_000


@in_room()
async def test_invariant_21_a_job_of_later_starts_at_its_time_and_not_before(room: Room) -> None:
    """It has a row and a timer row; until then no worker gets it, and it is not in memory."""
    node = await room.node(1)
    due_us = room.now_us + 10 * S
    await create_named(node, "a", due_us=due_us)
    row = row_of(room, "a")
    assert (row.status, row.task_id, row.scheduled_us) == (JobStatus.PENDING, 0, due_us)
    [timer] = room.timers()
    assert (timer.kind, timer.run_id, timer.due_us) == (TimerKind.JOB_DUE, row.job_id, due_us)
    await pass_time(9.4)
    assert await poll(node, room.worker(), timeout_s=0.5) == []
    task = await poll_one(node, room.worker(), timeout_s=5)
    assert 0 <= task.started_us - due_us <= 10_000
    assert room.timers() == []
    await complete(node, task)
    assert row_of(room, "a").version == 3, "made, ready, ended"


@in_room()
async def test_invariant_57_a_job_of_later_is_started_by_the_next_owner(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", "b", due_us=room.now_us + 10 * S)
    taker = await room.node(1)
    tasks = await poll(taker, room.worker(), timeout_s=30)
    assert names(tasks) == ["a", "b"]
    assert taker.alarms == []


@pytest.mark.parametrize("moment", list(Moment))
def test_invariant_22_a_time_comes_once_whatever_becomes_of_the_statement(moment: Moment) -> None:
    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        await create_named(node, "a", "b", due_us=room.now_us + 2 * S)
        await pass_time(1)
        node.faults.fail_next("commit", OutcomeUnknown("lost"), moment)
        tasks = await poll(node, room.worker(), timeout_s=30)
        assert names(tasks) == ["a", "b"]
        assert await poll(node, room.worker(), timeout_s=5) == []
        assert node.alarms == []

    story()


@in_room()
async def test_those_of_one_moment_are_one_intent(room: Room) -> None:
    node = await room.node(1)
    await create(node, *[new_job(f"j{n}", due_us=room.now_us + 5 * S) for n in range(200)])
    await pass_time(4)
    node.holds.calls.clear()
    await pass_time(3)
    assert node.holds.calls == ["commit"]


@in_room()
async def test_many_of_one_second_leave_room_for_others(room: Room) -> None:
    """A mass wake-up is worked off in parts; a job that is made meanwhile does not wait for all of them."""
    node = await room.node(1)
    many = [new_job(f"j{n}", due_us=room.now_us + 5 * S, queue="mass") for n in range(5_000)]
    await create(node, *many)
    await pass_time(4.9)
    saved = statements_of(node)
    hold = node.holds.hold("commit")
    await hold.reached()
    made = create_named(node, "x")
    hold.release()
    await made
    [statement] = [index for index, queues in enumerate(saved) if "mail" in queues]
    assert statement <= 2, "it did not wait for all"
    await pass_time(5)
    assert sum(queues.count("mass") for queues in saved) == 5_000
    assert max(queues.count("mass") for queues in saved) <= 500
    assert room.timers() == []
    assert names(await poll(node, room.worker())) == ["x"]


@in_room()
async def test_the_last_of_those_that_are_due_does_not_wait_for_all_of_them(room: Room) -> None:
    """Invariants 19, 57: and none of those before it is forgotten."""
    node = await room.node(1)
    due_us = room.now_us + 5 * S
    many = [new_job(f"j{n}", due_us=due_us, queue="mass") for n in range(5_000)]
    await create(node, *many, new_job("x", due_us=due_us))
    saved = statements_of(node)
    await pass_time(10)
    before = list(itertools.takewhile(lambda queues: "mail" not in queues, saved))
    assert sum(map(len, before)) <= 1_000, "some of it"
    assert sum(queues.count("mass") for queues in saved) == 5_000
    assert room.timers() == []


def statements_of(node: Node) -> list[list[str]]:
    """The queues of the jobs that each statement saves from now on."""
    statements: list[list[str]] = []
    commit = node.store.commit

    async def commit_and_note(batch: Batch) -> int:
        now_us = await commit(batch)
        statements.append([queue_of(node, row.job_id) for row in batch.job_runs])
        return now_us

    node.rooms.store.commit = commit_and_note  # type: ignore[method-assign]  # looks on
    return statements


def queue_of(node: Node, job_id: bytes) -> str:
    row = node.store.tables.job_runs.get(1, job_id)
    assert row is not None
    return row.queue


# ---- retries


@in_room()
async def test_invariant_31_a_failed_attempt_is_tried_again_with_a_growing_delay(
    room: Room,
) -> None:
    """Three attempts, each failure kept, then FAILED; the delay is the policy's, and at most a fifth more."""
    node = await room.node(1)
    await create_named(node, "a")
    delays = []
    for attempt in (1, 2):
        task = await poll_one(node, room.worker(), timeout_s=30)
        assert task.token.attempt == attempt
        await fail(node, task)
        row = row_of(room, "a")
        assert (row.status, row.attempt, row.task_id) == (JobStatus.RETRY, attempt + 1, 0)
        [timer] = room.timers()
        delays.append(timer.due_us - room.now_us)
        share = jitter(row.job_id, attempt)
        assert delays[-1] == attempt * S + int(attempt * S * 0.2 * share)
    task = await poll_one(node, room.worker(), timeout_s=30)
    await fail(node, task)
    described = await describe(node, "a")
    assert described.info.status is JobStatus.FAILED
    failures = described.info.state.failures
    assert [(one.attempt, one.failure) for one in failures] == [
        (1, FAILURE),
        (2, FAILURE),
        (3, FAILURE),
    ]
    assert await poll(node, room.worker(), timeout_s=60) == []


@in_room()
async def test_invariant_31_an_error_that_is_not_to_be_retried_ends_the_job_at_once(
    room: Room,
) -> None:
    node = await room.node(1)
    policy = RetryPolicy(maximum_attempts=0, non_retryable_error_types=("Refused",))
    await create_named(node, "a", "b", retry=policy)
    first, second = await poll(node, room.worker())
    await fail(node, first)
    await fail(node, second, failure=Failure(FailureKind.APPLICATION, "no", non_retryable=True))
    assert await status(node, "a") is JobStatus.FAILED
    assert await status(node, "b") is JobStatus.FAILED


@in_room()
async def test_a_worker_may_say_when_to_try_again(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a")
    later = msgspec.structs.replace(FAILURE, next_retry_delay_ms=7_000)
    await fail(node, await poll_one(node, room.worker()), failure=later)
    [timer] = room.timers()
    assert timer.due_us == room.now_us + 7 * S


@in_room()
async def test_the_last_hundred_failures_are_kept(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", retry=RetryPolicy(initial_interval_ms=0, maximum_attempts=0))
    for _ in range(103):
        await fail(node, await poll_one(node, room.worker()))
    failures = (await describe(node, "a")).info.state.failures
    assert [one.attempt for one in failures] == list(range(4, 104))


@in_room()
async def test_invariant_33_the_next_attempt_has_the_last_progress(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", retry=AT_ONCE)
    task = await poll_one(node, room.worker())
    save = job.SaveJobProgress(1, task.token, b"one", 1)
    await node.history.submit_job(1, save)
    await node.history.submit_job(1, msgspec.structs.replace(save, details=b"stale"))
    await fail(node, task, progress=b"two", progress_version=2)
    again = await poll_one(node, room.worker())
    assert (again.job.progress, again.job.progress_version) == (b"two", 2)
    refusal = await refused(node.history.submit_job(1, save))
    assert refusal.code is Code.NOT_FOUND, "of an attempt that is over"


@in_room()
async def test_a_failed_job_begins_anew_when_somebody_says_so(room: Room) -> None:
    """With all its attempts; what failed stays on it, and a token of before is worth nothing."""
    node = await room.node(1)
    await create_named(node, "a", retry=AT_ONCE)
    first = await poll_one(node, room.worker())
    await fail(node, first)
    for _ in range(2):
        await fail(node, await poll_one(node, room.worker()))
    request_id = room.ids.new_id()
    answers = [await redrive(node, "a", request_id=request_id) for _ in range(2)]
    assert [answer.status for answer in answers] == [JobStatus.PENDING] * 2
    [refusal] = (await complete(node, first)).refused
    assert refusal[1].code is Code.NOT_FOUND
    task = await poll_one(node, room.worker())
    assert (task.token.attempt, len(task.job.failures)) == (1, 3)
    assert (await refused(redrive(node, "a"))).code is Code.FAILED_PRECONDITION
    await complete(node, task)
    assert await status(node, "a") is JobStatus.COMPLETED


@in_room()
async def test_a_token_of_before_a_redrive_is_worth_nothing(room: Room) -> None:
    """Invariant 30: though it is the newest that there was, of an attempt that has the same number."""
    node = await room.node(1)
    await create_named(node, "a", retry=ONCE)
    task = await poll_one(node, room.worker())
    await fail(node, task)
    await redrive(node, "a")
    [(_, refusal)] = (await complete(node, task)).refused
    assert refusal.code is Code.NOT_FOUND
    assert await status(node, "a") is JobStatus.PENDING


# ---- expiry and other times


@in_room()
async def test_a_job_that_has_not_started_by_its_expiry_is_skipped(room: Room) -> None:
    node = await room.node(1)
    expire_us = room.now_us + 5 * S
    await create_named(node, "a", "b", expire_us=expire_us)
    task = await poll_one(node, room.worker())
    await pass_time(6)
    described = await describe(node, "b")
    assert described.info.status is JobStatus.SKIPPED
    assert "expired" in described.info.state.reason
    assert await status(node, "a") is JobStatus.IN_PROGRESS, "it has started"
    assert await poll(node, room.worker()) == []
    await complete(node, task)
    assert room.timers() == []


@pytest.mark.parametrize("saved_s", [0.1, 2])
def test_invariant_57_a_job_whose_worker_died_after_its_expiry_had_started_in_time(
    saved_s: float,
) -> None:
    """It is ready again, and whoever polls has it: it must not wait for an expiry that has been."""

    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        await pass_time(1)
        await create_named(node, "a", expire_us=room.now_us + round(saved_s * S))
        await poll_one(node, room.worker("dead"))
        await pass_time(saved_s + 0.1)
        tasks = await poll(node, room.worker("w2"), timeout_s=20)
        assert names(tasks) == ["a"]
        await complete(node, *tasks)
        assert await status(node, "a") is JobStatus.COMPLETED

    story()


@in_room()
async def test_a_job_that_failed_and_begins_anew_has_started_in_time(room: Room) -> None:
    """Redriven after its expiry it runs: somebody wants it to."""
    node = await room.node(1)
    await create_named(node, "a", expire_us=room.now_us + 5 * S, retry=ONCE)
    await fail(node, await poll_one(node, room.worker()))
    await pass_time(6)
    assert (await redrive(node, "a")).status is JobStatus.PENDING
    await complete(node, await poll_one(node, room.worker()))
    assert await status(node, "a") is JobStatus.COMPLETED


@in_room()
async def test_a_job_that_is_due_after_its_expiry_is_skipped(room: Room) -> None:
    """Whichever of its two timers comes first."""
    node = await room.node(1)
    await create_named(node, "a", due_us=room.now_us + 5 * S, expire_us=room.now_us + 5 * S)
    await pass_time(6)
    assert await status(node, "a") is JobStatus.SKIPPED
    assert room.timers() == []


@in_room()
async def test_a_job_gets_another_time(room: Room) -> None:
    """Sooner or later; and now. The time that it had is over."""
    node = await room.node(1)
    await create_named(node, "a", due_us=room.now_us + 10 * S)
    due_us = room.now_us + 60 * S
    request_id = room.ids.new_id()
    for _ in range(2):
        assert (await reschedule(node, "a", due_us, request_id=request_id)).status == 1
    assert row_of(room, "a").scheduled_us == due_us
    assert [timer.due_us for timer in room.timers()] == [due_us]
    await pass_time(30)
    assert await poll(node, room.worker()) == []
    await reschedule(node, "a", 0)
    assert room.timers() == []
    task = await poll_one(node, room.worker())
    refusal = await refused(reschedule(node, "a", due_us))
    assert (refusal.code, refusal.reason) == (Code.FAILED_PRECONDITION, "JOB_STARTED")
    await complete(node, task)
    assert (await refused(reschedule(node, "a", due_us))).reason == "JOB_ENDED"


@in_room()
async def test_a_ready_job_that_gets_another_time_is_not_offered_any_more(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a")
    await reschedule(node, "a", room.now_us + 10 * S)
    assert await poll(node, room.worker()) == []
    assert list(node.shard().jobs.queues.offered()) == []
    await poll_one(node, room.worker(), timeout_s=30)


@in_room()
async def test_invariant_57_a_cancelled_job_never_starts(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", due_us=room.now_us + 5 * S)
    await create_named(node, "b")
    for name in "ab":
        assert (await cancel(node, name, reason="why not")).status is JobStatus.CANCELLED
    assert (await describe(node, "a")).info.state.reason == "why not"
    assert await poll(node, room.worker(), timeout_s=30) == []
    assert room.timers() == []
    refusal = await refused(cancel(node, "a"))
    assert (refusal.code, refusal.reason) == (Code.FAILED_PRECONDITION, "JOB_ENDED")
    assert (await refused(cancel(node, "c"))).code is Code.NOT_FOUND


@in_room()
async def test_a_time_that_comes_while_its_job_is_being_cancelled(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", due_us=room.now_us + 2 * S)
    await pass_time(1.5)
    hold = node.holds.hold("commit")
    cancelled = cancel(node, "a")
    await hold.reached()
    await pass_time(2)
    hold.release()
    assert (await cancelled).status is JobStatus.CANCELLED
    await turns(30)
    assert await status(node, "a") is JobStatus.CANCELLED
    await asyncio.gather(pass_time(1))
    assert node.alarms == []


@in_room(seeds=(0,))
async def test_lists_that_are_refused_in_part_leave_no_room_that_is_not_there(room: Room) -> None:
    """Of a list that was cut a half may be decided and the whole refused, in either order."""
    node = await room.node(1)
    timers, error = node.shard().jobs.timers, Rejected(Code.INTERNAL, "WRITE_REFUSED", "?")
    put: list[Item] = []
    with patch.object(Shard, "put", lambda _, item: put.append(item)):
        for number in range(9_000):
            job_id = number.to_bytes(16, "big")
            timers.add((room.now_us - 5, number, TimerKind.JOB_DUE, job_id))
        timers.ring()
        firing = sum(len(timers_of(item)) for item in put)
        assert firing == FIRING_MAX
        for number in range(20):
            item, before = put.pop(0), len(put)
            half = timers_of(item)[:125]
            told = [partial(timers.fired, half), partial(item.refuse, error)]
            for tell in told if number % 2 else reversed(told):
                tell()
            firing += sum(len(timers_of(one)) for one in put[before:]) - len(timers_of(item))
            assert firing < FIRING_MAX + len(timers_of(item))

    assert not node.alarms


@in_room(seeds=(0,))
async def test_the_oldest_is_known_though_it_came_last(room: Room) -> None:
    """One that is fired again, or was read late, is behind those that were due: the mark waits for it."""
    node = await room.node(1)
    timers, wake_us = node.shard().jobs.timers, room.now_us - 5 * S
    with patch.object(Shard, "put"):
        for number in range(FIRING_MAX * 2):
            timers.add((wake_us, number, TimerKind.JOB_DUE, number.to_bytes(16, "big")))
        timers.ring()
        oldest = (wake_us - 15 * S, -1, TimerKind.JOB_DUE, bytes(16))
        timers.add(oldest)
        timers.ring()
        assert timers.first_us() == oldest[0]


def timers_of(item: Item) -> list[tuple[int, int, int, bytes]]:
    assert isinstance(item.intent, job.FireJobTimers)
    return list(item.intent.timers)
