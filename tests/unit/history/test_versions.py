"""Which version's workers get a run's tasks, as its shard says (semantics §8, T10)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.history.room import (
    FINISH,
    NAMESPACE,
    QUEUE,
    Node,
    Room,
    in_room,
    pass_time,
    schedule,
    turns,
)

from perdure_engine.core import deployments
from perdure_engine.core.commands import Command
from perdure_engine.core.errors import Rejected
from perdure_engine.core.intents import CompleteWorkflowTask
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.versions import Behavior
from perdure_engine.frontend.deployments import Deployments
from perdure_engine.ports.history import HandedWorkflowTask, QueueName, WorkerRef
from perdure_engine.server.following import Following

PINNED, AUTO = Behavior.PINNED, Behavior.AUTO_UPGRADE
NONE = WorkerRef(b"none............", "none", "")


def versioned(build_id: str, name: str = "") -> WorkerRef:
    name = name or f"w{build_id}"
    return WorkerRef(name.encode().ljust(16, b"."), name, build_id, "shop", f"shop.{build_id}")


ONE, TWO = versioned("1"), versioned("2")


async def fleet(room: Room, *, current: str = "1") -> tuple[Node, Deployments]:
    """A node that knows of two versions."""
    node = await room.node(1)
    registry = routed(node)
    for build_id in ("1", "2"):
        await registry.seen(NAMESPACE, "shop", build_id, QUEUE, room.now_us)
    await make_current(registry, current)
    return node, registry


def routed(node: Node) -> Deployments:
    registry = Deployments(node.store)
    node.rooms.routing = registry
    registry.on_change(node.history.reroute)
    return registry


async def make_current(registry: Deployments, build_id: str) -> None:
    await registry.change(
        NAMESPACE, "shop", lambda found: deployments.set_current(found, build_id, 1, "")
    )


def complete(
    node: Node,
    task: HandedWorkflowTask,
    worker: WorkerRef,
    behavior: Behavior,
    *commands: Command,
    cached: bool = False,
) -> asyncio.Future[Any]:
    assert task.token is not None
    return node.history.complete(
        CompleteWorkflowTask(
            task.token,
            list(commands),
            cached,
            worker.worker_id,
            worker.identity,
            worker.build_id,
            deployment_name=worker.deployment_name,
            behavior=behavior,
        )
    )


@in_room()
async def test_new_runs_go_to_the_current_version_only(room: Room) -> None:
    node, _ = await fleet(room)
    await node.start("o")

    await node.nothing(NONE)
    await node.nothing(TWO)
    assert (await node.workflow_task(ONE)).workflow_id == "o"


@in_room()
async def test_a_pinned_run_stays_and_one_that_upgrades_moves(room: Room) -> None:
    node, registry = await fleet(room)
    for workflow_id, behavior in (("stays", PINNED), ("moves", AUTO)):
        await node.start(workflow_id)
        task = await node.workflow_task(ONE)
        await complete(node, task, ONE, behavior, schedule())
    await make_current(registry, "2")

    stays = await node.polling(ONE, workflow=0)
    moves = await node.polling(TWO, workflow=0)

    assert [task.workflow_id for task in stays.activity_tasks] == ["stays"]
    assert [task.workflow_id for task in moves.activity_tasks] == ["moves"]
    await node.nothing(NONE)


@in_room()
async def test_what_waits_when_the_current_version_changes_goes_to_the_new_one(
    room: Room,
) -> None:
    """Invariants 13, 15: offered again at once, to the other version; nothing is left behind."""
    node, registry = await fleet(room)
    await asyncio.gather(*(node.start(f"o{number}") for number in range(50)))
    polling = node.polling(TWO, workflow=100, timeout_s=5)
    await make_current(registry, "2")

    assert len((await polling).workflow_tasks) == 50
    await node.nothing(ONE)


@in_room()
async def test_a_task_that_was_about_to_be_handed_out_when_it_moved_goes_to_its_version(
    room: Room,
) -> None:
    """The shard decides the start: an offer from before the change must not pin a run to the old one."""
    node, registry = await fleet(room)
    await node.start("o")
    [offer] = node.shard().queues.offered()
    registry._listeners.clear()  # this change is not heard: the offer stays where it is
    await make_current(registry, "2")

    assert node.history.start_task(offer, ONE) is None
    assert (await node.workflow_task(TWO)).workflow_id == "o"


@in_room()
async def test_a_run_that_moves_does_not_wait_for_the_worker_that_has_it_cached(
    room: Room,
) -> None:
    """And one that stays keeps its cache: only new events are sent."""
    node, registry = await fleet(room)
    for workflow_id, behavior in (("stays", PINNED), ("moves", AUTO)):
        await node.start(workflow_id)
        task = await node.workflow_task(ONE)
        await complete(node, task, ONE, behavior, cached=True)
    await make_current(registry, "2")
    await node.signal("stays")
    await node.signal("moves")

    moved = await node.workflow_task(TWO, timeout_s=0.01)  # less than stickiness waits
    stayed = await node.workflow_task(ONE, timeout_s=0.01)

    assert (moved.workflow_id, moved.events[0].event_id) == ("moves", 1)
    assert (stayed.workflow_id, stayed.events[0].event_id) == ("stays", 4)


@in_room()
async def test_a_run_keeps_its_version_over_a_take_over(room: Room) -> None:
    """Invariant 2: it stands in the history, and the rows of its tasks name it."""
    node, _ = await fleet(room)
    await node.start("o")
    await complete(node, await node.workflow_task(ONE), ONE, PINNED, schedule())
    await node.start("ready")
    await complete(node, await node.workflow_task(ONE), ONE, PINNED)
    await node.signal("ready")

    other = await room.node()
    registry = routed(other)
    await registry.refresh()
    await make_current(registry, "2")
    await other.take(1)
    await pass_time(4)

    await other.nothing(TWO)
    answer = await other.polling(ONE)
    assert [task.workflow_id for task in answer.workflow_tasks] == ["ready"]
    assert [task.workflow_id for task in answer.activity_tasks] == ["o"]
    described = await other.describe("o")
    assert described.info.versioning.version == "shop.1"


@in_room()
async def test_an_activity_of_a_pinned_run_on_a_queue_of_its_deployment_stays_on_its_version(
    room: Room,
) -> None:
    """On a queue that the deployment does not serve, whoever serves that one gets it."""
    node, registry = await fleet(room)
    await registry.seen(NAMESPACE, "shop", "2", "mail", room.now_us)
    await node.start("o")
    task = await node.workflow_task(ONE)
    mail = schedule("a", task_queue="mail")
    other = schedule("b", task_queue="elsewhere")
    await complete(node, task, ONE, PINNED, mail, other)

    for queue, stranger, own in (("mail", TWO, ONE), ("elsewhere", ONE, NONE)):
        assert not (await node.polling(stranger, queue=queue)).activity_tasks
        assert len((await node.polling(own, queue=queue)).activity_tasks) == 1


@in_room()
async def test_a_query_goes_to_the_version_of_the_run_and_fails_fast_without_one(
    room: Room,
) -> None:
    node, registry = await fleet(room)
    await node.start("o")
    await complete(node, await node.workflow_task(ONE), ONE, PINNED)
    await make_current(registry, "2")
    await pass_time(100)  # the first version has not polled for long
    polling = node.polling(TWO)
    with pytest.raises(Rejected) as caught:
        await node.query("o")
    assert caught.value.reason == "NO_POLLERS"
    await polling

    polling = node.polling(ONE, timeout_s=2)
    await turns()  # it polls
    asked = node.query("o")
    [task] = (await polling).workflow_tasks
    assert task.token is None
    asked.cancel()


@in_room()
async def test_a_version_without_workers_holds_up_no_other_run(room: Room) -> None:
    """Invariant 15: pinned tasks have a credit of their own."""
    node, registry = await fleet(room)
    for number in range(3):
        await node.start(f"p{number}")
        await complete(node, await node.workflow_task(ONE), ONE, PINNED)
    for number in range(3):
        await node.signal(f"p{number}")
    await make_current(registry, "2")
    await node.start("new")

    assert len(node.shard().queues._books) == 2
    assert (await node.workflow_task(TWO)).workflow_id == "new"


@in_room(seeds=(0,))
async def test_without_deployments_nobody_asks_for_a_version(room: Room) -> None:
    node = await room.node(1)

    class Asked(Deployments):
        def version_for(self, *args: object) -> str:
            raise AssertionError("the hot path asked for a version")

    node.rooms.routing = Asked(node.store)
    worker = room.worker()
    await node.at_activity("o", worker)
    task = await node.activity_task(worker)
    await node.complete_activity(task.token)
    await node.complete(await node.workflow_task(worker), [FINISH])

    assert not room.tasks(TaskKind.WORKFLOW)
    assert msgspec.structs.asdict(worker)["version"] == ""


@in_room(seeds=(0,))
async def test_what_another_node_changes_counts_here_within_two_seconds(room: Room) -> None:
    node, here = await fleet(room)
    following = Following("deployments", here.refresh)
    await following.start()
    elsewhere = Deployments(room.store)
    await elsewhere.refresh()
    await node.start("o")

    await make_current(elsewhere, "2")
    await node.nothing(TWO)
    assert (await node.workflow_task(TWO, timeout_s=2)).workflow_id == "o"
    await following.stop()
    await following.stop()


@in_room()
async def test_a_queue_is_counted_with_what_is_pinned_to_versions(room: Room) -> None:
    """Its name stands for all of its tasks, however they are paged."""
    node, _ = await fleet(room)
    for workflow_id, behavior in (("stays", PINNED), ("moves", AUTO)):
        await node.start(workflow_id)
        task = await node.workflow_task(ONE)
        await complete(node, task, ONE, behavior, schedule())
    name = QueueName(NAMESPACE, QUEUE, TaskKind.ACTIVITY)

    assert node.history.queue_facts(name).backlog_count == 2
    assert node.history.all_queue_facts()[name].backlog_count == 2
