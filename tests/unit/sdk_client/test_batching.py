"""How items become batches."""

from __future__ import annotations

import asyncio

import pytest

from perdure._wire import batching
from perdure._wire.batching import PORTION_MIN, Batches
from perdure._wire.connection import BATCH_BYTES_MAX


class Carrier:
    """Records batches, and holds those that contain what it is told to hold."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.held: dict[int, asyncio.Event] = {}

    async def carry(self, batch: list[int]) -> None:
        self.batches.append(batch)
        for item in batch:
            if item in self.held:
                await self.held[item].wait()


async def turn(times: int = 5) -> None:
    """The loop has done what was due, and what became due by that."""
    loop = asyncio.get_running_loop()
    for _ in range(times):
        done = loop.create_future()
        loop.call_soon(done.set_result, None)
        await done


async def never(delay_s: float) -> None:
    await asyncio.Event().wait()


def make(
    carrier: Carrier,
    *,
    items_max: int = 3,
    in_flight_max: int = 1,
    beside_min: int = 1,
    takes_turns: bool = False,
    size: int = 1,
) -> Batches[int]:
    return Batches(
        carrier.carry,
        lambda _: size,
        never,
        items_max=items_max,
        in_flight_max=in_flight_max,
        beside_min=beside_min,
        takes_turns=takes_turns,
    )


async def test_one_turn_is_one_batch_and_count_and_bytes_cut_it() -> None:
    carrier = Carrier()
    batches = make(carrier, in_flight_max=9)
    for item in range(7):
        batches.add(item)
    assert carrier.batches == []
    await turn()
    assert carrier.batches == [[0, 1, 2], [3, 4, 5], [6]]

    large = Carrier()
    batches = make(large, in_flight_max=9, size=BATCH_BYTES_MAX // 2 + 1)
    for item in range(3):
        batches.add(item)
    await turn()
    assert large.batches == [[0], [1], [2]]


async def test_what_comes_while_a_batch_is_under_way_collects() -> None:
    carrier = Carrier()
    carrier.held[0] = asyncio.Event()
    batches = make(carrier)
    for item in range(3):
        batches.add(item)
        await turn()
    assert carrier.batches == [[0]]
    carrier.held[0].set()
    await turn()
    assert carrier.batches == [[0], [1, 2]]


async def test_a_crowd_is_cut_in_two_that_take_turns_and_a_small_one_is_not() -> None:
    carrier = Carrier()
    batches = make(carrier, items_max=256, in_flight_max=2, takes_turns=True)
    for item in range(PORTION_MIN + 1):
        batches.add(item)
    await turn()
    assert [len(batch) for batch in carrier.batches] == [PORTION_MIN, 1]

    carrier = Carrier()
    batches = make(carrier, items_max=256, in_flight_max=2, takes_turns=True)
    carrier.held = {0: asyncio.Event(), 100: asyncio.Event()}
    for item in range(200):
        batches.add(item)
    await turn()
    assert [len(batch) for batch in carrier.batches] == [100, 100]
    # What the first leads to leaves while the second is under way, and as large.
    carrier.held[0].set()
    await turn()
    for item in range(200, 300):
        batches.add(item)
    await turn()
    assert [len(batch) for batch in carrier.batches] == [100, 100, 100]
    carrier.held[100].set()
    await turn()


async def test_a_second_batch_leaves_only_when_it_is_worth_it() -> None:
    carrier = Carrier()
    carrier.held[0] = asyncio.Event()
    batches = make(carrier, items_max=9, in_flight_max=2, beside_min=3)
    for item in range(3):
        batches.add(item)
        await turn()
    assert carrier.batches == [[0]]
    batches.add(3)
    await turn()
    assert carrier.batches == [[0], [1, 2, 3]]
    batches.add(4)
    await turn()
    assert carrier.batches == [
        [0],
        [1, 2, 3],
    ]
    carrier.held[0].set()
    await turn()
    assert carrier.batches == [[0], [1, 2, 3], [4]]


async def test_a_slow_batch_does_not_hold_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "SLOW_AFTER_S", 0.0)
    carrier = Carrier()
    carrier.held[0] = asyncio.Event()
    batches = make(carrier)
    batches.add(0)
    await turn()
    batches.add(1)
    await turn(100)
    assert carrier.batches == [[0], [1]]
    carrier.held[0].set()
    await turn()
    batches.add(2)
    await turn()
    assert carrier.batches == [[0], [1], [2]]


async def test_closing_gives_up_what_is_under_way() -> None:
    carrier = Carrier()
    carrier.held[0] = asyncio.Event()
    batches = make(carrier)
    batches.add(0)
    await turn()
    batches.add(1)
    batches.add_after(1_000.0, [2])
    await batches.close()
    await batches.close()
    assert carrier.batches == [[0]]
