"""A small table that every node reads again and again, because any of them may change it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from perdure_engine.ports.store import StoreError

REFRESH_S = 1.0
REFRESH_TIMEOUT_S = 5.0


class Following:
    """Calls `refresh` once at the start and then each second. What is known stays in force while the database does not
    answer. Stopping twice is fine."""

    def __init__(self, name: str, refresh: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._refresh = refresh
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Know what the store has before anybody asks. Raises StoreError."""
        assert self._task is None, "started once"
        await self._refresh()
        self._task = asyncio.get_running_loop().create_task(self._follow(), name=self._name)

    async def stop(self) -> None:
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(REFRESH_S):
                    await self._stopping.wait()
            except TimeoutError:
                await self._refresh_once()

    async def _refresh_once(self) -> None:
        try:
            async with asyncio.timeout(REFRESH_TIMEOUT_S):
                await self._refresh()
        except (StoreError, TimeoutError):
            return
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"the {self._name} could not be read", "exception": error}
            )
