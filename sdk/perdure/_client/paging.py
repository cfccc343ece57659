"""Lists that are fetched page by page, as they are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from perdure._client.core import ClientCore

T = TypeVar("T")


async def read_pages(
    core: ClientCore,
    page: Callable[[int, bytes, float], Awaitable[tuple[Sequence[T], bytes]]],
    page_size: int,
    limit: int | None,
    rpc_timeout: timedelta | None,
) -> AsyncIterator[T]:
    """`page` of a size, a token and a time limit: what it has, and the token of the next, empty after the last."""
    left, token = limit, b""
    while left is None or left > 0:
        size = page_size if left is None else min(page_size, left)
        found, token = await core.unary(partial(page, size, token), rpc_timeout)
        for one in found:
            yield one
        if left is not None:
            left -= len(found)
        if not token:
            return
