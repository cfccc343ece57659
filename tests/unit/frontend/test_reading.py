"""Pages that end before they are full."""

from __future__ import annotations

import pytest
from tests.unit.frontend.fakes import FakeClock

from perdure_engine.frontend.reading import READ_ON_S, read_page


class Numbers:
    """A list of numbers from 1 on, of which one in `step` is found; each look at ten of them takes a while."""

    def __init__(self, clock: FakeClock, step: int, last: int, look_s: float = 0.0) -> None:
        self._clock = clock
        self._step = step
        self._last = last
        self._look_s = look_s
        self.looks = 0

    async def read(self, past: int | None, limit: int) -> tuple[list[tuple[int, str]], int | None]:
        self._clock.now_s += self._look_s
        self.looks += 1
        first = (past or 0) + 1
        seen = range(first, min(first + 10, self._last + 1))
        found = [(number, str(number)) for number in seen if number % self._step == 0][:limit]
        end = found[-1][0] if len(found) == limit else seen.stop - 1
        return found, None if end >= self._last else end


@pytest.mark.parametrize("step", [1, 3, 30])
@pytest.mark.parametrize("size", [1, 4, 25])
async def test_pages_bring_each_item_once(step: int, size: int) -> None:
    clock = FakeClock()
    numbers = Numbers(clock, step, 100)
    pages: list[list[str]] = []
    past: int | None = None
    while not pages or past is not None:
        page, past = await read_page(clock, numbers.read, past, size)
        pages.append(page)

    assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
    assert [one for page in pages for one in page] == [str(n) for n in range(step, 101, step)]


async def test_a_page_reads_on_for_a_while_and_leaves_the_rest_to_the_next() -> None:
    clock = FakeClock()
    numbers = Numbers(clock, 1_000, 1_000, look_s=READ_ON_S / 3.5)

    page, past = await read_page(clock, numbers.read, None, 5)

    assert (page, past, numbers.looks) == ([], 40, 4)


async def test_a_slow_look_is_the_last() -> None:
    clock = FakeClock()
    numbers = Numbers(clock, 1, 1_000, look_s=READ_ON_S)

    page, past = await read_page(clock, numbers.read, None, 50)

    assert (len(page), past, numbers.looks) == (10, 10, 1)


async def test_a_page_that_ends_with_the_list_has_no_next() -> None:
    clock = FakeClock()

    assert await read_page(clock, Numbers(clock, 1, 5).read, None, 5) == (list("12345"), None)
