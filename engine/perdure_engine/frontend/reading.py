"""Pages of lists whose store may stop before a page is full, because it has looked at much and found little."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perdure_engine.ports.clock import Clock

Item = TypeVar("Item")
Place = TypeVar("Place")

# A page is to be there within 50 ms whatever the filter: what has not been found by then is the next page's.
READ_ON_S = 0.02


async def read_page(
    clock: Clock,
    read: Callable[
        [Place | None, int], Awaitable[tuple[Sequence[tuple[Place, Item]], Place | None]]
    ],
    past: Place | None,
    size: int,
) -> tuple[list[Item], Place | None]:
    """Up to `size` items past a place, and the place to go on past; None: there are no further items. A page that is
    not full, or empty, may have one.

    `read` brings about as many items as it is asked for, each with its place, and the place up to which it has looked;
    None: to the end.
    """
    give_up_s = clock.monotonic() + READ_ON_S
    found: list[tuple[Place, Item]] = []
    while True:
        # One more than fits: a page that ends with the list shall not have a place to go on.
        more, past = await read(past, size + 1 - len(found))
        found += more
        if len(found) > size:
            found, past = found[:size], found[size - 1][0]
            break
        if past is None or clock.monotonic() >= give_up_s:
            break
    return [item for _, item in found], past
