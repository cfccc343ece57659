"""Which workers get a job: those that an activity goes to whose run is pinned to no version. And when time may jump."""

from __future__ import annotations

from tests.unit.history.jobs.work import (
    QUEUE,
    complete,
    create_named,
    id_of,
    names,
    poll,
    poll_one,
    run_of,
    wait,
)
from tests.unit.history.room import NAMESPACE, Room, in_room, pass_time, turns
from tests.unit.history.test_stillness import found, jump
from tests.unit.history.test_versions import NONE, ONE, TWO, make_current, routed

from perdure_engine.history.stillness import Stillness


@in_room()
async def test_without_deployments_jobs_go_to_whoever_names_no_version(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a")
    assert await poll(node, ONE) == []
    assert names(await poll(node, NONE)) == ["a"]


@in_room()
async def test_jobs_go_to_the_current_version(room: Room) -> None:
    """What waits goes to the new one when that changes, offered or in the reserve; and so does an offer that has not
    heard of it."""
    node = await room.node(1)
    registry = routed(node)
    for build_id in ("1", "2"):
        await registry.seen(NAMESPACE, "shop", build_id, QUEUE, room.now_us)
    await make_current(registry, "1")
    await create_named(node, *[f"j{number:03}" for number in range(300)])
    assert await poll(node, NONE) == []
    assert names(await poll(node, ONE, 1)) == ["j000"]
    await make_current(registry, "2")
    assert await poll(node, ONE) == []
    tasks = await poll(node, TWO, 300)
    while len(tasks) < 299:
        tasks += await poll(node, TWO, 300)
    assert names(tasks) == [f"j{number:03}" for number in range(1, 300)]

    await create_named(node, "late")
    [offer] = node.shard().jobs.queues.offered()
    registry._listeners.clear()
    await make_current(registry, "1")
    assert node.history.start_task(offer, TWO) is None
    assert run_of(node, "late").handout is None
    assert names(await poll(node, ONE)) == ["late"]


@in_room(window_s=1e10)
async def test_time_may_jump_over_a_job_of_later_and_not_over_one_that_runs(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a", due_us=room.now_us + 3_600_000_000)
    waiting = wait(node, "a")
    await turns()
    assert found(node) is Stillness.STILL
    jump(room, node, 3_601)
    assert found(node) is Stillness.MOVING
    await pass_time(0.1)
    assert found(node) is Stillness.UNATTENDED
    task = await poll_one(node, room.worker())
    assert found(node) is Stillness.WORKING
    await complete(node, task)
    assert (await waiting).jobs[0].job_id == id_of("a")
    assert found(node) is Stillness.STILL


@in_room(jobs_cached_max=0)
async def test_time_does_not_jump_over_a_job_that_is_being_read(room: Room) -> None:
    node = await room.node(1)
    await create_named(node, "a")
    hold = node.holds.hold("load_jobs")
    polled = node.polling(room.worker(), queue=QUEUE, timeout_s=5)
    await hold.reached()
    assert found(node) is Stillness.MOVING
    hold.release()
    assert names((await polled).job_tasks) == ["a"]
