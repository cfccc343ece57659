"""Tasks whose payloads have to be decoded before the worker can take them in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from perdure._wire.edge import PayloadEdge
from perdure._wire.tasks import PolledActivityTask, PolledJobTask, PolledWorkflowTask
from perdure._worker.holding import HeldTask, HeldTasks

T = TypeVar("T", bound=PolledWorkflowTask | PolledActivityTask | PolledJobTask)


class Decoding:
    """Holds a task while it is decoded: that may take longer than its lease does."""

    def __init__(self, edge: PayloadEdge, held: HeldTasks) -> None:
        self._edge = edge
        self._held = held
        self._under_way: set[asyncio.Task[None]] = set()

    def begin(
        self, polled: T, take: Callable[[T], None], refuse: Callable[[T, Exception], None]
    ) -> None:
        """Then calls `take` with the task, or `refuse` with what cannot be decoded."""
        if polled.token:
            self._held.add(HeldTask(polled.token))
        task = asyncio.ensure_future(self._decode(polled, take, refuse))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _decode(
        self, polled: T, take: Callable[[T], None], refuse: Callable[[T, Exception], None]
    ) -> None:
        try:
            await self._edge.decode(polled.message)
        except Exception as error:  # the codec is the user's
            refuse(polled, error)
        else:
            take(polled)

    async def close(self) -> None:
        """Gives up what is not decoded. It stays held, for the farewell to give back."""
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)
