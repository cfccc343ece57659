"""When leases are judged: the books of many shards in one round."""

from tests.unit.history.room import Room, in_room, pass_time

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
