"""Jobs that crash their workers, in the shard: who is counted and who is not, who gets what, and what outlives an owner
(invariants 35, 37 to 40)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.history import room as room_module
from tests.unit.history.jobs.work import (
    AT_ONCE,
    Concurrency,
    JobStatus,
    cancel,
    complete,
    create_named,
    describe,
    fail,
    names,
    poll,
    poll_one,
    redrive,
    resume,
    row_of,
    run_of,
    status,
    tell,
)
from tests.unit.history.room import (
    NAMESPACE,
    Node,
    Room,
    beats,
    codes,
    in_room,
    pass_time,
    surgeon,
    turns,
)

from perdure_engine.core.audit import Action, entry_of
from perdure_engine.core.errors import Code
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.poison import Crashes
from perdure_engine.core.tasks import TaskKind
from perdure_engine.history import offering
from perdure_engine.history.jobs import queues
from perdure_engine.history.jobs.queues import JobQueues
from perdure_engine.ports.history import HandedJobTask, HeldVerdict, QueueName
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable
from perdure_engine.store.memory import Moment

LOST = HeldVerdict(lost=True, cancel_requested=False)
DEAD_S = 11  # a lease, and the look at it
DAY_S = 24 * 3600
SEGFAULT = Failure(FailureKind.WORKER_LOST, "killed by signal 11 (SIGSEGV)")


@pytest.fixture(autouse=True)
def _days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "TEST_S_MAX", 2 * DAY_S)


def crashes_of(node: Node, name: str) -> Crashes:
    found = run_of(node, name).crashes
    return Crashes() if found is None else found


async def killed(room: Room, node: Node, *workers: str) -> HandedJobTask:
    """Each of them takes a job and is never heard of again. Returns the last one's task."""
    for name in workers:
        task = await poll_one(node, room.worker(name), timeout_s=3)
        await pass_time(DEAD_S)
    return task


async def poisoned(room: Room, node: Node, name: str = "a", **fields: Any) -> HandedJobTask:
    await create_named(node, name, **fields)
    task = await killed(room, node, "w1", "w2", "w3")
    assert await status(node, name) is JobStatus.POISONED
    return task


# ---- poisoned


@in_room()
async def test_invariant_37_the_third_crash_poisons_with_the_put_back(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a")
    await killed(room, node, "w1", "w2")
    assert (row_of(room, "a").status, crashes_of(node, "a").count) == (JobStatus.PENDING, 2)
    task = await poll_one(node, room.worker("w3"))
    await pass_time(1.6)
    running = row_of(room, "a")
    assert (running.status, task.job.crashes) == (JobStatus.IN_PROGRESS, crashes_of(node, "a"))
    hold = node.holds.hold("commit")
    await hold.reached()
    assert row_of(room, "a") == running, "until it is saved nothing of it is true"
    hold.release()
    await turns()
    row = row_of(room, "a")
    assert (row.version, row.status, row.task_id) == (running.version + 1, JobStatus.POISONED, 0)
    metrics = node.rooms.metrics
    assert metrics.task_crashes.value("job") == 3
    assert metrics.tasks_poisoned.value("job") == 1


@in_room()
async def test_invariant_37_and_38_after_its_delay_the_surgical_pool_has_it_and_nobody_else(
    room: Room,
) -> None:
    node = await room.node(1)
    await poisoned(room, node)
    due_us = run_of(node, "a").due_us
    await create_named(node, "b")
    assert names(await poll(node, surgeon(room), timeout_s=40)) == []
    other = await poll_one(node, room.worker("w4"), timeout_s=1)
    assert names([other]) == ["b"]
    await complete(node, other)
    normal = node.polling(room.worker("w4"), queue="mail", timeout_s=60)
    task = await poll_one(node, surgeon(room), timeout_s=60)
    assert names([task]) == ["a"]
    assert due_us <= task.started_us < due_us + 2_000_000
    assert await status(node, "a") is JobStatus.IN_PROGRESS
    assert (await complete(node, task)).refused == []
    assert (await normal).job_tasks == []
    assert await status(node, "a") is JobStatus.COMPLETED
    assert node.alarms == []


@in_room()
async def test_invariant_37_the_ladder_by_the_databases_clock(room: Room) -> None:
    node = await room.node(1)
    await poisoned(room, node)
    for delay_s, worker in ((60, "s1"), (300, "s2"), (1800, "s3"), (1800, "s4")):
        since_us = run_of(node, "a").due_us - delay_s * 1_000_000
        assert 0 <= room.now_us - since_us < 5_000_000
        task = await poll_one(node, surgeon(room, worker), timeout_s=delay_s + 5)
        assert task.started_us >= since_us + delay_s * 1_000_000
        await pass_time(DEAD_S)
        assert await status(node, "a") is JobStatus.POISONED


@in_room()
async def test_invariant_38_a_start_in_the_wrong_pool_is_refused_and_offered_again(
    room: Room,
) -> None:
    node = await room.node(1)
    await create_named(node, "b")
    await turns()
    [offer] = node.shard().jobs.queues.offered()
    assert node.history.start_task(offer, surgeon(room)) is None
    await complete(node, await poll_one(node, room.worker("w4")))
    await poisoned(room, node)
    await pass_time(61)
    [offer] = [one for one in node.shard().jobs.queues.offered() if one.pool]
    assert node.history.start_task(offer, room.worker("w5")) is None
    assert names(await poll(node, surgeon(room))) == ["a"]


@in_room()
async def test_invariant_38_a_goodbye_in_the_surgical_pool_gives_it_back_to_that_pool(
    room: Room,
) -> None:
    node = await room.node(1)
    await poisoned(room, node)
    for name, wait_s in (("s1", 0), ("s2", 1.6)):
        await poll_one(node, surgeon(room, name), timeout_s=70)
        await pass_time(wait_s)
        node.history.goodbye(surgeon(room, name), [])
    assert await poll(node, room.worker("w4")) == []
    assert names(await poll(node, surgeon(room, "s3"))) == ["a"]
    assert crashes_of(node, "a").count == 3


@in_room()
async def test_a_failure_in_the_surgical_pool_goes_back_to_the_normal_one(room: Room) -> None:
    node = await room.node(1)
    await poisoned(room, node, retry=AT_ONCE)
    task = await poll_one(node, surgeon(room), timeout_s=70)
    await fail(node, task)
    assert await poll(node, surgeon(room, "s2")) == []
    assert names(await poll(node, room.worker("w4"))) == ["a"]
    assert crashes_of(node, "a").first_us > 0


@in_room()
async def test_a_child_that_dies_is_a_crash_at_once(room: Room) -> None:
    """Invariants 30, 35: no lease has to end for it, and the report counts once."""
    node = await room.node(1)
    await create_named(node, "a")
    for count in (1, 2, 3):
        task = await poll_one(node, room.worker())
        crash = job.JobCrashed(task.token, SEGFAULT)
        assert (await tell(node, crash)).refused == []
        assert len((await tell(node, crash)).refused) == 1
        assert crashes_of(node, "a").count == count
    described = await describe(node, "a")
    assert described.info.status is JobStatus.POISONED
    assert "SIGSEGV" in described.info.state.reason
    assert len(node.shard().jobs.leases) == 0


# ---- what is not counted (35)


@in_room()
async def test_invariant_35_engine_pauses_goodbyes_and_moves_are_no_crashes(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a")
    await poll_one(node, room.worker("w1"))
    await pass_time(1.6)
    node.history.goodbye(room.worker("w1"), [])  # a deployment drains its workers
    task = await poll_one(node, room.worker("w2"))
    await pass_time(1.6)
    # the engine stood still: nobody is judged by what it has not heard meanwhile
    handout = run_of(node, "a").handout
    assert handout is not None
    handout.lease_until = node.clock.monotonic() - 1
    node.shard().jobs.leases.judge(node.clock.monotonic() - 60)
    await turns()
    assert run_of(node, "a").crashes is None
    assert node.beat(room.worker("w2"), task.token) == [None]
    for number in (3, 4, 5):
        taker = await room.node(1)  # the owner dies, and the worker before the new one hears of it
        assert names(await poll(taker, room.worker(f"w{number}"), timeout_s=15)) == ["a"]
        assert crashes_of(taker, "a").count == 0
        await pass_time(1.6)
    assert taker.alarms == []


@in_room()
async def test_invariant_35_a_partition_that_heals_is_no_crash(room: Room) -> None:
    """The worker comes back before another has its job: it goes on with it, and takes its mark back."""
    node = await room.node(1)
    await create_named(node, "a")
    task = await poll_one(node, room.worker())
    await pass_time(DEAD_S)
    assert crashes_of(node, "a").count == 1
    assert node.beat(room.worker(), task.token) == [None]
    await turns()
    assert run_of(node, "a").crashes is None
    assert (await complete(node, task)).refused == []


@in_room()
async def test_invariant_35_a_worker_that_returns_too_late_takes_its_mark_back(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a")
    task = await poll_one(node, room.worker("w1"))
    await pass_time(DEAD_S)
    other = await poll_one(node, room.worker("w2"))
    for _ in range(2):
        assert node.beat(room.worker("w1"), task.token) == [LOST]
        await turns()
        assert run_of(node, "a").crashes is None
    await pass_time(DEAD_S)
    assert crashes_of(node, "a").worker_ids == (room.worker("w2").worker_id,)
    assert other.token.start_no > task.token.start_no


@in_room()
async def test_invariant_35_a_worker_that_returns_takes_back_what_it_never_got(room: Room) -> None:
    """The poll was answered while the network was gone: it does not list what it knows nothing of."""
    node = await room.node(1)
    await create_named(node, "a")
    await poll_one(node, room.worker("w1"))
    await pass_time(DEAD_S)
    assert crashes_of(node, "a").count == 1
    node.beat(room.worker("w1"))
    await turns()
    assert run_of(node, "a").crashes is None
    assert names(await poll(node, room.worker("w2"))) == ["a"]


@pytest.mark.parametrize("wait_s", [0, 65])
@pytest.mark.parametrize("moved", [False, True])
def test_invariant_35_what_was_poisoned_by_mistake_goes_on_in_the_normal_pool(
    wait_s: int, moved: bool
) -> None:
    """Also after a take-over, and read from its row: the marks are saved."""

    @in_room(seeds=(0, 1))
    async def story(room: Room) -> None:
        node = await room.node(1)
        task = await poisoned(room, node)
        if moved:
            node = await room.node(1)
        await pass_time(wait_s)
        verdicts = node.beat(room.worker("w3"), task.token)
        ready = wait_s > 0
        if not moved:
            assert verdicts == [None if ready else LOST]
        await turns()
        await pass_time(0.1)
        assert crashes_of(node, "a").count == 2
        assert await poll(node, surgeon(room)) == []
        if ready:
            assert (await complete(node, task)).refused == [], "nobody else has had it"
        else:
            assert names(await poll(node, room.worker("w4"), timeout_s=5)) == ["a"]
        assert node.alarms == []

    story()


@in_room()
async def test_a_completion_that_was_on_its_way_ends_a_poisoned_job(room: Room) -> None:
    node = await room.node(1)
    task = await poisoned(room, node)
    assert (await complete(node, task)).refused == []
    assert await status(node, "a") is JobStatus.COMPLETED
    await pass_time(90)
    assert await poll(node, surgeon(room)) == []


# ---- what is kept


@in_room()
async def test_invariant_35_counts_outlive_owners(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a")
    await killed(room, node, "w1", "w2")
    node = await room.node(1)
    assert names(await poll(node, room.worker("w3"), timeout_s=5)) == ["a"]
    assert crashes_of(node, "a").count == 2
    await pass_time(DEAD_S)
    assert await status(node, "a") is JobStatus.POISONED
    await pass_time(30)
    node = await room.node(1)
    assert await status(node, "a") is JobStatus.POISONED
    task = await poll_one(node, surgeon(room), timeout_s=60)
    await pass_time(1.6)
    node = await room.node(1)
    assert await poll(node, room.worker("w4"), timeout_s=15) == []
    again = await poll_one(node, surgeon(room, "s2"), timeout_s=1)
    assert (again.token.attempt, crashes_of(node, "a").count) == (task.token.attempt, 3)
    assert node.alarms == []


@pytest.mark.parametrize("moment", list(Moment))
def test_a_crash_whose_statement_comes_to_nothing_is_counted_once(moment: Moment) -> None:
    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        await create_named(node, "a")
        await poll_one(node, room.worker())
        await pass_time(1.6)
        node.faults.fail_next("commit", OutcomeUnknown("lost"), moment)
        await pass_time(DEAD_S + 2)
        await describe(node, "a")
        assert crashes_of(node, "a").count == 1
        for _ in range(200):
            node.faults.fail_next("commit", StoreUnavailable("away"))
        await poll_one(node, room.worker("w2"), timeout_s=3)
        await pass_time(15)
        node.faults.forget("commit")
        await pass_time(15)
        await describe(node, "a")
        assert crashes_of(node, "a").count == 2
        assert node.alarms == []

    story()


# ---- suspended (39)


@in_room(seeds=(0,))
async def test_invariant_39_a_day_after_the_first_crash_it_is_suspended_once(room: Room) -> None:
    node = await room.node(1)
    await poisoned(room, node)
    first_us = crashes_of(node, "a").first_us
    await pass_time(DAY_S - 120)
    assert await status(node, "a") is JobStatus.POISONED
    node = await room.node(1)
    await pass_time(130)
    assert await status(node, "a") is JobStatus.SUSPENDED
    assert await poll(node, surgeon(room)) == []
    [entry] = [entry_of(row) for row in room.tables.audit.all()]
    assert (entry.action, entry.identity) == (Action.SUSPEND_JOB, "perdure")
    assert 0 <= entry.time_us - first_us - DAY_S * 1_000_000 < 2_000_000
    assert node.rooms.metrics.tasks_suspended.value("job") == 1
    answered = await resume(node, "a", reason="mended")
    assert answered.status is JobStatus.POISONED
    task = await poll_one(node, surgeon(room))
    await complete(node, task)
    actions = [entry_of(row).action for row in room.tables.audit.all()]
    assert actions == [Action.SUSPEND_JOB, Action.RESUME_JOB]
    assert node.rooms.metrics.timer_early.value() == 0
    assert node.alarms == []


@in_room()
async def test_operators_move_poisoned_jobs_and_no_others(room: Room) -> None:
    node = await room.node(1)
    await poisoned(room, node)
    request_id = room.ids.new_id()
    for _ in range(2):
        answered = await resume(node, "a", request_id=request_id)
        assert answered.status is JobStatus.POISONED
    task = await poll_one(node, surgeon(room))
    assert await codes(resume(node, "a"), redrive(node, "a")) == [Code.FAILED_PRECONDITION] * 2
    await tell(node, job.JobCrashed(task.token, SEGFAULT))
    assert (await redrive(node, "a")).status is JobStatus.PENDING
    await complete(node, await poll_one(node, room.worker("w4")))
    assert await status(node, "a") is JobStatus.COMPLETED
    await poisoned(room, node, "b")
    assert (await cancel(node, "b")).status is JobStatus.CANCELLED
    assert await codes(resume(node, "b"), resume(node, "c")) == [
        Code.FAILED_PRECONDITION,
        Code.NOT_FOUND,
    ]
    await pass_time(90)
    assert await poll(node, surgeon(room)) == []


# ---- nobody else waits for it (40)


@in_room()
async def test_invariant_40_a_poisoned_job_gives_its_place_to_the_next_of_its_key(
    room: Room,
) -> None:
    node = await room.node(1)
    key = Concurrency("k", 1)
    await poisoned(room, node, concurrency=key)
    await create_named(node, "b", concurrency=key)
    other = await poll_one(node, room.worker("w4"))
    assert names([other]) == ["b"]
    await beats(node, room.worker("w4"), 70, other.token)
    assert await poll(node, surgeon(room)) == [], "its key is taken"
    await complete(node, other)
    assert names(await poll(node, surgeon(room))) == ["a"]


@in_room(seeds=(0,))
async def test_invariant_40_any_number_of_poisoned_jobs_holds_nobody_up(room: Room) -> None:
    """They are paged in a book of their own: what is ready in the normal pool is offered beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobQueues, "credit", 10)
        patch.setattr(offering, "PAGE", 10)
        patch.setattr(queues, "PAGE", 10)
        node = await room.node(1)
        many = [f"p{number:02}" for number in range(45)]
        await create_named(node, *many)
        for name in ("w1", "w2", "w3"):
            taken = await poll(node, room.worker(name), timeout_s=3)
            while len(taken) < 45:
                taken += await poll(node, room.worker(name), timeout_s=3)
            await pass_time(DEAD_S)
        await pass_time(65)
        node = await room.node(1)
        await pass_time(4)
        await create_named(node, "b")
        assert names(await poll(node, room.worker("w4"))) == ["b"]
        found = node.history.queue_facts(QueueName(NAMESPACE, "mail", TaskKind.JOB))
        assert found.backlog_count == 0, "no worker of the normal pool would help"
        done: list[str] = []
        while tasks := await poll(node, surgeon(room), 20):
            done += names(tasks)
            await complete(node, *tasks)
        assert sorted(done) == many
        assert node.alarms == []
