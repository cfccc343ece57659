"""What `workflow.wait_condition` waits for: functions that are asked again whenever all is idle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from perdure._replay.loop import DeterministicLoop


class Asker(Protocol):
    def ask(self, condition: Callable[[], bool]) -> bool:
        """Calls the condition, with everything forbidden that would change the run."""
        ...


class Conditions:
    __slots__ = ("_asker", "_loop", "_waiting")

    def __init__(self, loop: DeterministicLoop, asker: Asker) -> None:
        self._loop = loop
        self._asker = asker
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Returns when the condition is true, and at a moment at which it is.

        It is asked a second time after waking, because another waiter that woke first may have
        made it false again.
        """
        while not self._asker.ask(condition):
            future = self._loop.create_future()
            self._waiting.append((condition, future))
            await future

    def check(self) -> None:
        """Wakes, in the order in which they began to wait, all whose condition is true."""
        if self._waiting:
            self._waiting = [one for one in self._waiting if not self._woken(*one)]

    def _woken(self, condition: Callable[[], bool], future: asyncio.Future[None]) -> bool:
        if future.done():  # its waiter was cancelled
            return True
        try:
            if not self._asker.ask(condition):
                return False
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        return True
