"""When leases are judged: the books of many shards in one round."""

from tests.unit.history.room import (
    FINISH,
    Room,
    held_activity,
    in_room,
    pass_time,
)

from perdure_engine.history.rounds import Round


class Book:
    """Holds something for so many looks."""

    def __init__(self, looks: int, trouble: Exception | None = None) -> None:
        self.looks = looks
        self.trouble = trouble
        self.last_looks_at: list[float] = []

    def judge_again(self, last_judged_at: float) -> bool:
        self.last_looks_at.append(last_judged_at)
        self.looks -= 1
        if self.trouble is not None:
            raise self.trouble
        return self.looks > 0


@in_room(judge_every_s=0.5)
async def test_each_book_is_judged_until_it_holds_nothing(room: Room) -> None:
    node = await room.node()
    judging = Round(node.rooms)
    began = node.clock.monotonic()
    short, long = Book(1), Book(3)
    judging.join(short)
    judging.join(long)
    await pass_time(10)
    assert short.last_looks_at == [began]
    assert long.last_looks_at == [began, began + 0.5, began + 1.0]
    judging.join(short)
    await pass_time(1)
    assert short.last_looks_at == [began, began + 10], "it goes on when something is held again"


@in_room(judge_every_s=0.5)
async def test_one_book_in_trouble_costs_the_others_nothing(room: Room) -> None:
    node = await room.node()
    judging = Round(node.rooms)
    bad, good = Book(9, RuntimeError("a bug")), Book(2)
    judging.join(bad)
    judging.join(good)
    await pass_time(1.2)
    assert (len(bad.last_looks_at), len(good.last_looks_at)) == (2, 2)
    assert node.alarms == ["judging_failed"] * 2
    judging.leave(bad)
    await pass_time(5)
    assert len(bad.last_looks_at) == 2, "who has left is judged no more"


@in_room()
async def test_a_shard_that_closes_holds_nothing_of_a_worker_any_more(room: Room) -> None:
    """Its hand-outs are the next owner's; those of the others are still released, suspected and listed."""
    node = await room.node(1, 2)
    worker = room.worker()
    for shard_id in (1, 2):
        await node.at_activity(f"order{shard_id}", worker, shard_id)
    answer = await node.polling(worker, activity=2)
    assert len(answer.activity_tasks) == 2
    await node.history.release_many([1])
    assert list(node.rooms.holders.of(worker.worker_id)) == [(2, False)]
    node.beat(worker, *[task.token for task in answer.activity_tasks])
    node.history.poll_broken(worker.worker_id)
    node.history.goodbye(worker, [])
    again = await node.activity_task(room.worker("w2"))
    await node.complete_activity(again.token)
    assert not node.rooms.holders.of(worker.worker_id)


@in_room()
async def test_what_ended_is_nobodys_any_more(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    assert list(node.rooms.holders.of(worker.worker_id)) == [(1, False)]
    await node.complete_activity(task.token)
    await node.complete(await node.workflow_task(worker), [FINISH])
    assert not node.rooms.holders.of(worker.worker_id)


@in_room()
async def test_what_is_adopted_in_the_moment_its_shard_closes_is_held_by_nobody(
    room: Room,
) -> None:
    old = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, old, worker)
    new = await room.node(1)
    hold = new.holds.hold("commit")
    signal = new.signal("order")
    await hold.reached()
    new.beat(worker, task.token)  # its run is busy
    new.shard().close()
    assert not new.rooms.holders.of(worker.worker_id)
    hold.release()
    await signal
    assert new.beat(worker, task.token) == [None]
