"""Started jobs: leases, verdicts, put-back, start numbers, and what a new owner makes of them."""

from typing import Any

import pytest
from tests.unit.history.jobs.work import (
    AT_ONCE,
    ONCE,
    JobStatus,
    cancel,
    complete,
    create_named,
    describe,
    fail,
    names,
    poll,
    poll_one,
    row_of,
    run_of,
    status,
    stop,
)
from tests.unit.history.room import Node, Room, beats, codes, in_room, pass_time, refused, turns

from perdure_engine.core.errors import Code
from perdure_engine.core.failures import FailureKind, TimeoutType
from perdure_engine.ports.history import HandedJobTask, HeldVerdict
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable
from perdure_engine.store.memory import Moment

LOST = HeldVerdict(lost=True, cancel_requested=False)
CANCEL = HeldVerdict(lost=False, cancel_requested=True)


async def stale(node: Node, task: HandedJobTask) -> bool:
    """Whether a completion of the attempt is refused, and changes nothing."""
    before = row_of(node.room, task.job.spec.input.decode())
    refused_ = (await complete(node, task)).refused
    return bool(refused_) and row_of(node.room, task.job.spec.input.decode()) == before


async def started(room: Room, node: Node, *named: str, **fields: Any) -> list[HandedJobTask]:
    await create_named(node, *named, **fields)
    return await poll(node, room.worker())


@in_room()
async def test_a_start_is_saved_after_a_second_and_not_before(room: Room) -> None:
    node = await room.node(1)
    await started(room, node, "a", "b")
    await pass_time(0.9)
    assert row_of(room, "a").status == JobStatus.PENDING
    await pass_time(0.7)
    row = row_of(room, "a")
    assert (row.status, row.task_id) == (JobStatus.IN_PROGRESS, 0)
    assert (await describe(node, "b")).info.state.worker_identity == "w1"
    assert node.holds.calls.count("commit") == 3, "the starts of both go together"


@in_room()
async def test_invariant_57_a_dead_workers_job_goes_to_another_uncounted(room: Room) -> None:
    """A14: after the lease, and the late completion of the dead changes nothing (16, 30)."""
    node = await room.node(1)
    [task] = await started(room, node, "a")
    await pass_time(7)
    assert await poll(node, room.worker("w2")) == []
    other = await poll_one(node, room.worker("w2"), timeout_s=2)
    assert (other.token.attempt, other.job.failures) == (1, ())
    assert other.token.start_no > task.token.start_no
    assert await stale(node, task)
    assert node.beat(room.worker(), task.token) == [LOST]
    await complete(node, other)
    assert await status(node, "a") is JobStatus.COMPLETED


@in_room()
async def test_a_worker_that_beats_keeps_its_job(room: Room) -> None:
    node = await room.node(1)
    [task] = await started(room, node, "a")
    assert await beats(node, room.worker(), 40, task.token) == [None]
    assert await poll(node, room.worker("w2")) == []
    assert (await complete(node, task)).refused == []


@in_room()
async def test_invariant_30_an_outcome_is_applied_once(room: Room) -> None:
    node = await room.node(1)
    [task] = await started(room, node, "a")
    twice = [complete(node, task), fail(node, task)]
    assert (await twice[0]).refused == []
    [(index, refusal)] = (await twice[1]).refused
    assert (index, refusal.code) == (0, Code.NOT_FOUND)
    assert row_of(room, "a").version == 2


@in_room()
async def test_of_a_list_only_what_is_stale_is_refused(room: Room) -> None:
    node = await room.node(1)
    tasks = await started(room, node, "a", "b", "c")
    await complete(node, tasks[1])
    answered = await complete(node, *tasks)
    assert [index for index, _ in answered.refused] == [1]
    assert await status(node, "c") is JobStatus.COMPLETED


@in_room()
async def test_invariant_17_what_a_living_worker_does_not_list_it_never_got(room: Room) -> None:
    """It keeps its turn: nothing of its row has changed."""
    node = await room.node(1)
    task, other = await started(room, node, "a", "b", retry=ONCE)
    await pass_time(2.1)
    assert node.beat(room.worker(), task.token) == [None]
    found = await poll_one(node, room.worker("w2"))
    assert found.job.job_id == other.job.job_id
    assert await stale(node, other)


@in_room()
async def test_a_goodbye_gives_back_what_the_worker_holds(room: Room) -> None:
    node = await room.node(1)
    first, _ = await started(room, node, "a", "b")
    version = row_of(room, "a").version
    node.history.goodbye(room.worker(), [])
    tasks = await poll(node, room.worker("w2"))
    assert names(tasks) == ["a", "b"], "in their order"
    assert row_of(room, "a").version == version, (
        "a start that was not saved is taken back in memory"
    )
    assert await stale(node, first)


@in_room()
async def test_a_broken_connection_shortens_the_lease(room: Room) -> None:
    node = await room.node(1)
    await started(room, node, "a")
    node.history.poll_broken(room.worker().worker_id)
    assert names(await poll(node, room.worker("w2"), timeout_s=5)) == ["a"]


@in_room()
async def test_an_abandoned_poll_has_taken_nothing(room: Room) -> None:
    """Invariant 17: it is offered again at once."""
    node = await room.node(1)
    await create_named(node, "a")
    polled = node.polling(room.worker(), queue="mail", timeout_s=5)
    await turns(1)
    polled.cancel()
    await turns()
    assert names(await poll(node, room.worker("w2"))) == ["a"]


# ---- policies of one attempt


@in_room()
async def test_a_job_of_one_attempt_is_saved_as_started_before_a_worker_has_it(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", retry=ONCE)
    hold = node.holds.hold("commit")
    polled = node.polling(room.worker(), queue="mail", timeout_s=5)
    await hold.reached()
    await turns(20)
    assert not polled.done()
    hold.release()
    [task] = (await polled).job_tasks
    assert row_of(room, "a").status == JobStatus.IN_PROGRESS
    await pass_time(9)
    described = await describe(node, "a")
    assert described.info.status is JobStatus.FAILED
    [failure] = described.info.state.failures
    assert failure.failure.kind is FailureKind.WORKER_LOST
    assert await stale(node, task)


@in_room()
async def test_a_start_that_cannot_be_saved_is_given_back(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", retry=ONCE)
    for _ in range(300):
        node.faults.fail_next("commit", StoreUnavailable("away"))
    polled = node.polling(room.worker(), queue="mail", timeout_s=8)
    await pass_time(7)
    node.faults.forget("commit")
    await pass_time(1.5)
    tasks = (await polled).job_tasks or await poll(node, room.worker(), timeout_s=10)
    assert names(tasks) == ["a"]


# ---- timeouts


@pytest.mark.parametrize("kind", [TimeoutType.START_TO_CLOSE, TimeoutType.HEARTBEAT])
def test_invariant_24_an_attempt_times_out_once(kind: TimeoutType) -> None:
    fields = (
        {"timeout_ms": 5_000}
        if kind is TimeoutType.START_TO_CLOSE
        else {"heartbeat_timeout_ms": 5_000}
    )

    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        [task] = await started(room, node, "a", retry=AT_ONCE, **fields)
        node.beat(room.worker(), task.token, details=b"half")
        if kind is TimeoutType.START_TO_CLOSE:
            await beats(node, room.worker(), 4, task.token)
        else:
            await pass_time(4)
        assert await status(node, "a") is JobStatus.IN_PROGRESS
        again = await poll_one(node, room.worker("w2"), timeout_s=3)
        assert (again.token.attempt, again.job.progress) == (2, b"half")
        [failure] = again.job.failures
        assert (failure.failure.kind, failure.failure.timeout_type) == (FailureKind.TIMEOUT, kind)
        assert await stale(node, task)

    story()


@pytest.mark.parametrize("timeout", ["heartbeat_timeout_ms", "timeout_ms"])
def test_invariant_35_a_dead_workers_job_has_crashed_though_its_time_was_shorter(
    timeout: str,
) -> None:
    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        await started(room, node, "a", retry=AT_ONCE, **{timeout: 2_000})
        node.history.poll_broken(room.worker().worker_id)
        again = await poll_one(node, room.worker("w2"), timeout_s=3)
        assert (again.token.attempt, again.job.failures) == (1, ())
        assert again.job.crashes is not None
        assert again.job.crashes.count == 1

    story()


# ---- cancellation


@in_room()
async def test_a_running_job_is_asked_to_stop(room: Room) -> None:
    """With the next heartbeat; the request is saved, so that a new owner asks too."""
    node = await room.node(1)
    [task] = await started(room, node, "a")
    request_id = room.ids.new_id()
    for _ in range(2):
        answer = await cancel(node, "a", reason="enough", request_id=request_id)
        assert answer.status is JobStatus.IN_PROGRESS
    assert node.beat(room.worker(), task.token) == [CANCEL]
    taker = await room.node(1)
    assert taker.beat(room.worker(), task.token) == [None]
    await pass_time(1)
    assert taker.beat(room.worker(), task.token) == [CANCEL]
    assert (await stop(taker, task)).refused == []
    described = await describe(taker, "a")
    assert (described.info.status, described.info.state.reason) == (JobStatus.CANCELLED, "enough")


@in_room()
async def test_invariant_32_no_retry_after_a_request_to_stop(room: Room) -> None:
    """Neither after a failure, nor after a time-out, nor when the worker dies; a completion is one still."""
    node = await room.node(1)
    tasks = await started(room, node, *"abcd", timeout_ms=20_000)
    for name in "abcd":
        await cancel(node, name)
    await fail(node, tasks[0])
    await complete(node, tasks[1])
    await beats(node, room.worker(), 4, tasks[2].token)
    await pass_time(30)
    found = [await status(node, name) for name in "abcd"]
    assert found == [
        JobStatus.CANCELLED,
        JobStatus.COMPLETED,
        JobStatus.CANCELLED,
        JobStatus.CANCELLED,
    ]
    assert await poll(node, room.worker("w2")) == []


@in_room()
async def test_nobody_ends_as_cancelled_whom_nobody_asked(room: Room) -> None:
    node = await room.node(1)
    [task] = await started(room, node, "a")
    [(_, refusal)] = (await stop(node, task)).refused
    assert refusal.code is Code.FAILED_PRECONDITION
    assert (await complete(node, task)).refused == []


# ---- take-over


@in_room()
async def test_a_new_owner_gives_workers_time_to_claim_what_they_have(room: Room) -> None:
    """Invariants 16, 57: an unsaved start for 3 s, a saved one for 10 s. Claimed ones run on, and are done once."""
    node = await room.node(1)
    saved, unclaimed = await started(room, node, "a", "b")
    await pass_time(1.6)
    unsaved, other = await started(room, node, "c", "d")
    taker = await room.node(1)
    await pass_time(1)
    verdicts = taker.beat(room.worker(), saved.token, unsaved.token)
    assert verdicts == [None, None]
    assert names(await poll(taker, room.worker("w2"), timeout_s=1.5)) == []
    assert names(await poll(taker, room.worker("w2"), timeout_s=2)) == ["d"]
    await beats(taker, room.worker(), 4, saved.token, unsaved.token)
    assert names(await poll(taker, room.worker("w3"), timeout_s=4)) == ["b"]
    assert (await complete(taker, saved, unsaved)).refused == []
    for late in (unclaimed, other):
        assert await stale(taker, late)
    assert row_of(room, "a").status == JobStatus.COMPLETED
    assert taker.alarms == []


@in_room()
async def test_a_completion_claims_its_job_from_a_new_owner(room: Room) -> None:
    """Saved or not, loaded or not: the attempt that ran is done, and not done again (30, 57)."""
    node = await room.node(1)
    first, second = await started(room, node, "a", "b")
    await pass_time(1.6)
    [third] = await started(room, node, "c")
    taker = await room.node(1)
    assert (await complete(taker, first, third)).refused == []
    assert (await fail(taker, second)).refused == []
    assert [await status(taker, name) for name in "abc"] == [
        JobStatus.COMPLETED,
        JobStatus.RETRY,
        JobStatus.COMPLETED,
    ]
    assert names(await poll(taker, room.worker(), timeout_s=20)) == ["b"]


@in_room()
async def test_a_claim_of_a_job_that_is_being_saved_waits_for_it(room: Room) -> None:
    node = await room.node(1)
    [task] = await started(room, node, "a")
    await pass_time(1.6)
    taker = await room.node(1)
    await describe(taker, "a")
    hold = taker.holds.hold("commit")
    cancelled = cancel(taker, "a")
    await hold.reached()
    assert taker.beat(room.worker(), task.token) == [None]
    hold.release()
    await cancelled
    await turns()
    assert taker.beat(room.worker(), task.token) == [CANCEL]


@in_room()
async def test_a_release_hands_the_starts_over(room: Room) -> None:
    """A planned move re-executes nothing, and costs no 3 s."""
    node = await room.node(1)
    [task] = await started(room, node, "a")
    await create_named(node, "b")
    await node.history.release_many([1])
    assert row_of(room, "a").status == JobStatus.IN_PROGRESS
    taker = await room.node(1)
    assert names(await poll(taker, room.worker("w2"))) == ["b"]
    assert (await complete(taker, task)).refused == []
    assert await codes(create_named(node, "c")) == [Code.UNAVAILABLE]


@in_room()
async def test_invariant_25_a_paused_owner_cannot_complete_or_hand_out(room: Room) -> None:
    node = await room.node(1)
    tasks = await started(room, node, "a")
    await create_named(node, "b")
    taker = await room.node(1)
    done = complete(node, *tasks)
    assert (await refused(done)).code is Code.UNAVAILABLE
    assert await poll(node, room.worker("w2")) == []
    assert (await complete(taker, *tasks)).refused == []


@in_room()
async def test_an_owner_in_doubt_proves_itself_before_it_hands_out(room: Room) -> None:
    """Invariant 25: though nobody asks anything else of the shard. While the lease may be over, it waits."""
    node = await room.node(1)
    await create_named(node, "a", "b")
    shard = node.shard()
    node.lease = False
    assert await poll(node, room.worker(), 1) == []
    node.lease = True
    assert names(await poll(node, room.worker(), 1, timeout_s=2)) == ["a"]
    shard.unproven = True  # as after a take-over whose first step failed
    before = room.fence_of().range_id
    assert names(await poll(node, room.worker(), 1, timeout_s=2)) == ["b"]
    assert room.fence_of().range_id == before + 1


# ---- what is not saved


@pytest.mark.parametrize("moment", list(Moment))
def test_a_hand_out_survives_a_statement_that_comes_to_nothing(moment: Moment) -> None:
    """Invariants 16, 30: the job is read again, and its worker still has it."""

    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        [task] = await started(room, node, "a")
        node.faults.fail_next("commit", OutcomeUnknown("lost"), moment)
        await cancel(node, "a")
        handout = run_of(node, "a").handout
        assert handout is not None
        assert handout.start_no == task.token.start_no
        await pass_time(1)
        assert node.beat(room.worker(), task.token) == [CANCEL]
        assert len(node.shard().jobs.leases) == 1
        assert (await stop(node, task)).refused == []
        assert len(node.shard().jobs.leases) == 0
        assert node.alarms == []

    story()


@in_room()
async def test_a_put_back_that_was_not_saved_is_done_again(room: Room) -> None:
    node = await room.node(1)
    await started(room, node, "a")
    await pass_time(1.6)
    for _ in range(200):
        node.faults.fail_next("commit", StoreUnavailable("away"))
    await pass_time(12)
    node.faults.forget("commit")
    assert names(await poll(node, room.worker("w2"), timeout_s=20)) == ["a"]
