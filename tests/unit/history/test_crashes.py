"""Workers that die with tasks in hand (design §7): who gets what they had, and when (invariants 35-40)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.history.room import (
    BODY,
    FINISH,
    Node,
    Room,
    codes,
    ev,
    held_activity,
    in_room,
    nothing_said,
    pass_time,
    refused,
    schedule,
    surgeon,
    turns,
)
from tests.unit.history.test_stillness import CENTURIES_S, jump

from perdure_engine.core import intents
from perdure_engine.core.errors import Code
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.poison import SURGICAL
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskKind, TaskRecord, TaskState, TimerKind
from perdure_engine.history.hearing import SILENT_S
from perdure_engine.history.judging import LOST
from perdure_engine.history.stillness import Stillness, stillness
from perdure_engine.ports.history import HandedActivityTask, HandedWorkflowTask

MINUTE_US = 60_000_000
DIED = Failure(FailureKind.WORKER_LOST, "killed by signal 9 (SIGKILL)", "its stacks")


def saved(room: Room, kind: TaskKind = TaskKind.ACTIVITY) -> TaskRecord:
    """As its row says."""
    [row] = room.tasks(kind)
    return room.codec.decode_task(row)


def count(room: Room, kind: TaskKind = TaskKind.ACTIVITY) -> int:
    crashes = saved(room, kind).crashes
    return 0 if crashes is None else crashes.count


async def die(room: Room, node: Node, name: str, pool: str = "") -> HandedActivityTask:
    """A worker takes the activity, and is not heard of again."""
    worker = msgspec.structs.replace(room.worker(name), pool=pool)
    task = await node.activity_task(worker, timeout_s=2)
    await pass_time(room.config.lease_s + 1)
    return task


async def poisoned(room: Room, node: Node) -> bytes:
    run_id = await node.at_activity("order", room.worker())
    for number in range(3):
        await die(room, node, f"d{number}")
    return run_id


def crash(token: Any) -> intents.CrashTask:
    return intents.CrashTask(token, DIED, "w")


def resume(node: Node, workflow_id: str, **options: Any) -> asyncio.Future[Any]:
    return node._hold(intents.ResumeWorkflow, workflow_id, 1, options)


# ---- three crashes


@in_room(window_s=CENTURIES_S)
async def test_invariant_37_the_third_dead_worker_poisons_in_the_transaction_that_counts_it(
    room: Room,
) -> None:
    """Until it is saved it is neither; then it waits, with the timer that ends that."""
    node = await room.node(1)
    await node.at_activity("order", room.worker())
    for number in (0, 1):
        assert (await die(room, node, f"d{number}")).crashes == number
        assert count(room) == number + 1
        assert saved(room).state is TaskState.READY
    task = await node.activity_task(room.worker("d2"))
    assert (task.crashes, task.attempt) == (2, 1), "it has to be run in a process of its own"
    await pass_time(room.config.lease_s - 1)
    hold = node.holds.hold("commit")
    await hold.reached()
    assert (count(room), room.timers()) == (2, [])
    await node.nothing(room.worker("w2"))
    await node.nothing(surgeon(room))
    hold.release()
    await pass_time(0.5)

    record = saved(room)
    assert (record.state, count(room), record.attempt) == (TaskState.BACKOFF, 3, 1)
    [row] = room.timers()
    assert (row.kind, row.due_us) == (TimerKind.ACTIVITY_RETRY, record.next_attempt_us)
    assert 0.9 * MINUTE_US < record.next_attempt_us - room.now_us <= MINUTE_US
    metrics = node.rooms.metrics
    assert metrics.task_crashes.value("activity") == 3
    assert metrics.tasks_poisoned.value("activity") == 1
    assert metrics.activity_retries.value() == 0


@in_room(window_s=CENTURIES_S)
async def test_invariant_37_the_delays_are_never_early_and_never_on_a_normal_pool(
    room: Room,
) -> None:
    node = await room.node(1)
    await poisoned(room, node)
    for crashes, next_minutes in ((3, 5), (4, 30), (5, 30), (6, 30)):
        due_us = saved(room).next_attempt_us
        jump(room, node, (due_us - room.now_us) / 1_000_000 - 5)
        waiting = node.polling(surgeon(room, f"s{crashes}"), timeout_s=10)
        normal = node.polling(room.worker("w2"), timeout_s=room.config.lease_s + 7)
        await pass_time(4.5)
        nothing_said(waiting, normal)
        answer = await waiting
        assert room.now_us >= due_us
        [task] = answer.activity_tasks
        assert task.crashes == crashes
        assert task.started_us >= due_us
        await pass_time(room.config.lease_s + 1)
        nothing_said(normal)
        assert not (await normal).activity_tasks
        left_us = saved(room).next_attempt_us - room.now_us
        assert (next_minutes - 1) * MINUTE_US < left_us <= next_minutes * MINUTE_US


@in_room(window_s=CENTURIES_S)
async def test_invariant_38_a_surgical_poll_gets_poisoned_work_and_nothing_else(
    room: Room,
) -> None:
    node = await room.node(1)
    await poisoned(room, node)
    await node.at_activity("busy", room.worker("w9"))
    await node.start("other")
    await node.nothing(surgeon(room), timeout_s=50)
    jump(room, node, 60)
    task = await node.activity_task(surgeon(room), timeout_s=2)
    assert task.workflow_id == "order"
    await node.nothing(surgeon(room))
    await node.complete_activity(task.token)
    await node.nothing(surgeon(room))  # the workflow task that follows is anybody's
    taken = (await node.polling(room.worker("w2"), timeout_s=2)).workflow_tasks
    assert {one.workflow_id for one in taken} == {"other", "order"}


@in_room(window_s=CENTURIES_S)
async def test_invariant_38_an_offer_of_before_starts_nothing_in_the_other_pool(room: Room) -> None:
    """A surgical poll that was paired with what is not poisoned any more, and the other way round."""
    node = await room.node(1)
    run_id = await poisoned(room, node)
    jump(room, node, 60)
    await pass_time(0.5)
    [offer] = node.shard().queues.offered()
    assert offer.pool == SURGICAL
    assert node.history.start_task(offer, room.worker("w2")) is None
    run = node.shard().runs[run_id]
    key = offer.scheduled_event_id
    run.state.tasks[key].set_aside(crashes=None)
    assert node.history.start_task(offer, surgeon(room)) is None
    await node.activity_task(room.worker("w2"))


# ---- what is not a crash


@in_room(window_s=CENTURIES_S)
async def test_invariant_35_a_rolling_restart_of_workers_and_engines_counts_none(
    room: Room,
) -> None:
    """Goodbyes, answers of polls that were lost, a hand-over of the shard, a node that dies."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    await node.start("code")
    await node.workflow_task(worker)
    node.history.goodbye(worker, [])
    again = await node.activity_task(room.worker("w2"), timeout_s=2)
    await pass_time(3)
    node.beat(room.worker("w2"))  # it never got it
    third = await node.activity_task(room.worker("w3"), timeout_s=2)
    await pass_time(2)
    await node.history.release_many([1])
    new = await room.node(1)
    await pass_time(30)  # nobody claims it
    fourth = await new.activity_task(room.worker("w4"), timeout_s=2)
    last = await room.node(1)  # the one before is gone
    await pass_time(30)
    fifth = await last.activity_task(room.worker("w5"), timeout_s=2)
    tasks = (task, again, third, fourth, fifth)
    assert [one.crashes for one in tasks] == [0] * 5
    assert all(room.codec.decode_task(row).aside is None for row in room.tasks())


@in_room(window_s=CENTURIES_S)
async def test_invariant_35_a_take_over_keeps_what_was_counted(room: Room) -> None:
    old = await room.node(1)
    await old.at_activity("order", room.worker())
    await die(room, old, "d0")
    await die(room, old, "d1")
    await old.activity_task(room.worker("w2"))
    await pass_time(2)
    new = await room.node(1)
    await pass_time(20)
    assert count(room) == 2
    await die(room, new, "d3")
    assert count(room) == 3

    last = await room.node(1)
    jump(room, last, 61)
    await last.nothing(room.worker("w2"))
    assert (await last.activity_task(surgeon(room), timeout_s=5)).crashes == 3


@in_room(window_s=CENTURIES_S)
async def test_invariant_35_a_worker_that_comes_back_takes_its_marks_along(room: Room) -> None:
    """It was away for longer than its lease, three times over; the others had died indeed."""
    node = await room.node(1)
    worker = room.worker("d0")
    await node.at_activity("order", room.worker())
    task = await die(room, node, "d0")
    await die(room, node, "d1")
    await die(room, node, "d2")
    assert (count(room), saved(room).state) == (3, TaskState.BACKOFF)

    assert node.beat(worker, task.token) == [LOST]
    again = await node.activity_task(room.worker("w2"), timeout_s=1)
    assert (again.crashes, count(room)) == (2, 2)
    assert node.beat(worker, task.token) == [LOST]
    await pass_time(1)
    assert count(room) == 2, "said again"


@in_room(window_s=CENTURIES_S)
async def test_invariant_35_so_it_does_when_nobody_has_taken_its_task_meanwhile(room: Room) -> None:
    """It has it again."""
    node = await room.node(1)
    worker = room.worker("d0")
    await node.at_activity("order", room.worker())
    task = await die(room, node, "d0")
    assert count(room) == 1

    assert node.beat(worker, task.token) == [None]
    await pass_time(1)
    assert count(room) == 0
    await node.complete_activity(task.token)


@in_room(window_s=CENTURIES_S)
async def test_invariant_35_so_it_does_for_what_it_never_got(room: Room) -> None:
    """The poll was answered while the network was gone: it does not list what it knows nothing of."""
    node = await room.node(1)
    await node.at_activity("order", room.worker())
    await node.start("other")
    await node.workflow_task(room.worker("d0"))
    await node.activity_task(room.worker("d0"))
    await pass_time(room.config.lease_s + 1)
    assert (count(room), count(room, TaskKind.WORKFLOW)) == (1, 1)

    node.beat(room.worker("d0"))
    await pass_time(1)
    assert (count(room), count(room, TaskKind.WORKFLOW)) == (0, 0)


@pytest.mark.parametrize("silent_s", [1, 6])
def test_invariant_35_who_was_silent_already_when_it_was_given_the_task_never_got_it(
    silent_s: int,
) -> None:
    """A poll of it was still open: the engine had not heard yet that it was dead."""

    @in_room(window_s=CENTURIES_S)
    async def story(room: Room) -> None:
        node = await room.node(1)
        node.beat(room.worker("d0"))
        poll = node.polling(room.worker("d0"), timeout_s=10)
        await pass_time(silent_s)
        await node.start("order")
        assert len((await poll).workflow_tasks) == 1
        await pass_time(room.config.lease_s + 1)
        assert count(room, TaskKind.WORKFLOW) == (1 if silent_s < SILENT_S else 0)
        assert (await node.workflow_task(room.worker("w2"))).attempt == 1

    story()


@in_room(window_s=CENTURIES_S)
async def test_invariant_35_so_it_does_when_its_run_has_to_be_loaded(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker("d0")
    await node.at_activity("order", room.worker())
    task = await die(room, node, "d0")
    await die(room, node, "d1")
    await die(room, node, "d2")
    new = await room.node(1)

    assert new.beat(worker, task.token) == [None], "it is not known yet"
    await pass_time(1)
    assert count(room) == 2
    assert new.beat(worker, task.token) == [LOST]


# ---- the process that a task had to itself


@in_room(window_s=CENTURIES_S)
async def test_a_crash_that_its_worker_reports_is_counted_once(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    for number in (1, 2, 3):
        await node.history.complete(crash(task.token))
        assert count(room) == number
        assert await codes(node.history.complete(crash(task.token))) == [Code.NOT_FOUND]
        assert node.beat(worker, task.token) == [LOST]
        if number < 3:
            task = await node.activity_task(worker)
    assert len(node.shard().leases) == 0
    crashes = saved(room).crashes
    assert crashes is not None
    assert (crashes.last, crashes.worker_ids) == (DIED, ())
    await pass_time(20)
    assert count(room) == 3, "no lease of it ends any more"


# ---- workflow tasks, and queries


async def dead_code(
    room: Room, node: Node, times: int, first: int = 0
) -> HandedWorkflowTask | None:
    """Workers, each of them once."""
    task = None
    for number in range(first, first + times):
        task = await node.workflow_task(room.worker(f"d{number}"), timeout_s=2)
        await pass_time(room.config.lease_s + 1)
    return task


@in_room(window_s=CENTURIES_S)
async def test_code_that_crashes_is_no_workers_own_and_answers_no_query(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [schedule()], cached=True)
    await node.signal("order")
    await dead_code(room, node, 1)
    query = node.query("order")
    await turns(20)
    nothing_said(query)
    await dead_code(room, node, 1, first=1)
    error = await refused(query)
    assert (error.code, error.reason) == (Code.FAILED_PRECONDITION, "WORKFLOW_POISONED")
    error = await refused(node.query("order"))
    assert error.reason == "WORKFLOW_POISONED"

    task = await node.workflow_task(worker)
    assert (task.crashes, task.events[0].event_id) == (2, 1), "the whole history: nothing is cached"
    await node.complete(task, [], worker)
    await node.signal("order")
    query = node.query("order")
    task = await node.workflow_task(room.worker("w2"))
    assert (task.crashes, len(task.queries)) == (0, 1)
    query.cancel()


@in_room(window_s=CENTURIES_S)
async def test_a_poisoned_workflow_task_waits_and_goes_to_the_surgical_pool(room: Room) -> None:
    node = await room.node(1)
    await node.start("order")
    await dead_code(room, node, 3)
    assert (count(room, TaskKind.WORKFLOW), saved(room, TaskKind.WORKFLOW).attempt) == (3, 1)
    await node.nothing(surgeon(room), timeout_s=40)
    jump(room, node, 20)
    await node.nothing(room.worker())
    task = await node.workflow_task(surgeon(room), timeout_s=2)
    assert task.crashes == 3
    node.history.goodbye(surgeon(room), [])
    task = await node.workflow_task(surgeon(room, "s2"), timeout_s=2)
    await node.complete(task, [FINISH])
    assert (await node.describe("order")).info.status is Status.COMPLETED


@in_room(window_s=CENTURIES_S)
async def test_who_polls_for_other_tasks_is_not_waited_for(room: Room) -> None:
    """A poisoned task that is ready does not move while nobody of the surgical pool asks for it."""
    node = await room.node(1)
    await poisoned(room, node)
    jump(room, node, 60)
    await node.nothing(room.worker("w2"), timeout_s=2)
    assert stillness(node.history.shards()) is Stillness.UNATTENDED


# ---- suspended


@in_room(seeds=(0,), window_s=CENTURIES_S)
async def test_invariant_39_after_24_hours_it_is_suspended_once_and_an_operator_lets_it_go(
    room: Room,
) -> None:
    """With one row in the audit log; its timeouts stand still meanwhile, over a take-over too."""
    node = await room.node(1)
    await node.start("order", run_timeout_ms=30 * 3_600_000)
    task = await node.workflow_task(room.worker())
    await node.complete(task, [schedule()])
    first_us = room.now_us
    for number in range(3):
        await die(room, node, f"d{number}")
    visits = 0
    while True:
        due_us = saved(room).next_attempt_us
        jump(room, node, (due_us - room.now_us) / 1_000_000)
        await pass_time(1)
        if saved(room).state is TaskState.PAUSED:
            break
        await die(room, node, f"surgeon {visits}", SURGICAL)
        visits += 1
    assert 40 < visits < 60
    metrics = node.rooms.metrics
    assert metrics.task_crashes.value("activity") == visits + 3
    assert metrics.tasks_poisoned.value("activity") == 1
    assert metrics.tasks_suspended.value("activity") == 1
    assert metrics.timer_early.value() == 0
    assert abs(room.now_us - first_us - 24 * 60 * MINUTE_US) < MINUTE_US
    described = await node.describe("order")
    assert (described.info.status, described.suspended) == (Status.PAUSED, True)
    assert [row.action for row in room.tables.audit.in_order(1)] == ["workflow.suspend"]
    assert room.timers() == []

    jump(room, node, 100 * 3_600)
    await pass_time(60)
    new = await room.node(1)
    await new.nothing(surgeon(room), timeout_s=15)
    request_id = room.ids.new_id()
    await resume(new, "order", request_id=request_id)
    await resume(new, "order", request_id=request_id)
    assert [row.action for row in room.tables.audit.in_order(1)][1:] == ["workflow.resume"]
    left_us = {row.kind: row.due_us - room.now_us for row in room.timers()}
    assert left_us.keys() == {TimerKind.RUN_TIMEOUT, TimerKind.SUSPENSION}
    assert 0 <= 6 * 60 * MINUTE_US - left_us[TimerKind.RUN_TIMEOUT] < MINUTE_US
    assert 0 <= 24 * 60 * MINUTE_US - left_us[TimerKind.SUSPENSION] < MINUTE_US
    handed = await new.activity_task(surgeon(room))
    await new.complete_activity(handed.token)
    assert len([name for name in await room.names(task.run_id) if "Paused" in name]) == 1


@in_room(seeds=(0,), window_s=CENTURIES_S)
async def test_what_the_surgical_pool_gets_is_no_flow_of_its_queue(room: Room) -> None:
    """Whoever counts workers by it would start some that get nothing of it."""
    node = await room.node(1)
    await poisoned(room, node)
    queues = set(node.rooms.flows.by_number)
    jump(room, node, 60)
    await node.activity_task(surgeon(room), timeout_s=10)
    assert set(node.rooms.flows.by_number) <= queues


@in_room(seeds=(0,), window_s=CENTURIES_S)
async def test_invariant_40_two_thousand_poisoned_tasks_hold_nobody_up(room: Room) -> None:
    """They wait in a book of their own, and the next of their queue is handed out as ever."""
    node = await room.node(1)
    runs = 2_000
    await asyncio.gather(*(node.start(f"bad-{number}") for number in range(runs)))
    for number in range(3):
        taken = 0
        worker = room.worker(f"d{number}")
        while taken < runs:
            answer = await node.polling(worker, workflow=500, activity=0, timeout_s=2)
            taken += len(answer.workflow_tasks)
        await pass_time(room.config.lease_s + 2)
    rows = [room.codec.decode_task(row) for row in room.tasks(TaskKind.WORKFLOW)]
    assert {(row.state, row.pool) for row in rows} == {(TaskState.BACKOFF, SURGICAL)}
    waited_from_us = room.now_us
    await node.start("good")
    good = await node.workflow_task(room.worker())
    assert good.workflow_id == "good"
    await node.complete(good, [FINISH])
    assert room.now_us - waited_from_us < 100_000

    jump(room, node, 60)
    await pass_time(10)
    assert {row.state for row in room.tasks(TaskKind.WORKFLOW)} == {TaskState.READY}
    waited_from_us = room.now_us
    await node.start("better")
    assert (await node.workflow_task(room.worker("w2"))).workflow_id == "better"
    assert room.now_us - waited_from_us < 100_000
    found: set[str] = set()
    while len(found) < runs:
        answer = await node.polling(surgeon(room), workflow=500, activity=0, timeout_s=10)
        assert answer.workflow_tasks, f"{len(found)} of {runs}"
        found |= {task.workflow_id for task in answer.workflow_tasks}
    assert found == {f"bad-{number}" for number in range(runs)}


# ---- what an operator does


@in_room(window_s=CENTURIES_S)
async def test_to_resume_is_refused_where_nothing_is_poisoned(room: Room) -> None:
    node = await room.node(1)
    await node.at_activity("order", room.worker())
    error = await refused(resume(node, "order"))
    assert (error.code, error.reason) == (Code.FAILED_PRECONDITION, "WORKFLOW_NOT_POISONED")
    assert await codes(resume(node, "nobody")) == [Code.NOT_FOUND]
    for number in range(3):
        await die(room, node, f"d{number}")

    await resume(node, "order", body_hash=BODY)
    assert (await node.activity_task(surgeon(room))).crashes == 3
    await node.terminate("order")
    assert await codes(resume(node, "order")) == [Code.NOT_FOUND]


@in_room(window_s=CENTURIES_S)
async def test_one_that_is_reset_begins_without_crashes(room: Room) -> None:
    node = await room.node(1)
    run_id = await poisoned(room, node)
    await node.reset("order")
    [handed] = (await node.polling(room.worker("w2"), timeout_s=2)).workflow_tasks
    assert (handed.crashes, handed.run_id != run_id) == (0, True)
    assert room.tasks(TaskKind.ACTIVITY) == []
    assert (await room.names(run_id))[-1] == ev.WorkflowExecutionTerminated.__name__
