"""A background job: something done again and again, never twice at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Periodic:
    """Calls `run_once` until stopped; what it returns is the pause in seconds before the next call.

    `run_once` must bound its own time. An exception is reported to the loop and the job goes on
    after `pause_s_after_error`: a lease that nobody renews is worse than a bug in a log line.
    """

    def __init__(
        self, name: str, run_once: Callable[[], Awaitable[float]], pause_s_after_error: float
    ) -> None:
        self._name = name
        self._run_once = run_once
        self._pause_s_after_error = pause_s_after_error
        self._stopping = False
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, pause_s: float) -> None:
        """Begin, with the first call after `pause_s`."""
        assert self._task is None, "started once"
        self._task = asyncio.get_running_loop().create_task(self._run(pause_s), name=self._name)

    async def stop(self) -> None:
        """Let a running call end, then return. Stopping twice is fine."""
        self._stopping = True
        self._woken.set()
        if self._task is not None:
            await self._task

    async def _run(self, pause_s: float) -> None:
        await self._pause(pause_s)
        while not self._stopping:
            try:
                pause_s = await self._run_once()
            except Exception as error:
                pause_s = self._pause_s_after_error
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"{self._name} failed", "exception": error}
                )
            await self._pause(pause_s)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
