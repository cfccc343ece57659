"""Coroutines that hardly ever wait, run without a task for each.

Most activities and jobs of a busy worker return without having waited for anything, and a task that
only carries one such call costs as much as the call. So one task, the lane, steps through all that
are ready. The one that waits for the first time keeps the task for good: what it knows as its own
(`asyncio.current_task()`, time limits, task groups, cancellation) stays that. The others go on in a
new one.

Each has contextvars of its own, as in a task.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any

logger = logging.getLogger(__name__)

Work = Coroutine[Any, Any, None]
Begins = Callable[["asyncio.Task[None]"], None]
"""Told which task carries the work, before its first step."""


class Lane:
    """Bound to the event loop in which it was made. What is added runs in the next turn, in order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: deque[tuple[Work, Begins]] = deque()
        self._task: asyncio.Task[None] | None = None
        # What a task would be kept alive by: the loop itself has weak references only.
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, work: Work, begins: Begins) -> None:
        """An Exception that leaves the work is a defect, and logged."""
        self._ready.append((work, begins))
        if self._task is None:
            self._begin()

    def _begin(self) -> None:
        self._task = task = self._loop.create_task(self._run())
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        ready = self._ready
        while ready:
            work, begins = ready.popleft()
            begins(task)
            context = contextvars.copy_context()
            try:
                waits_for = context.run(work.send, None)
            except StopIteration:
                if task.cancelling():  # by itself, for its own end: that must not meet the next
                    break
            except Exception:
                logger.exception("an attempt could not be run")
            else:
                self._go_on_without(task)
                await _rest(work, context, waits_for)
                return
        self._go_on_without(task)

    def _go_on_without(self, task: asyncio.Task[None]) -> None:
        """What is ready is the next task's."""
        if self._task is task:
            self._task = None
            if self._ready:
                self._begin()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._task is task:  # the process ends, or the loop: nothing runs any more
            self._task = None
            while self._ready:
                self._ready.popleft()[0].close()


@coroutine
def _rest(work: Work, context: contextvars.Context, waits_for: Any) -> Generator[Any, Any, None]:
    """Everything that the work does after it has waited for the first time."""
    while True:
        step: Callable[[], Any]
        try:
            value = yield waits_for
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            step = partial(work.throw, error)
        else:
            step = partial(work.send, value)
        try:
            waits_for = context.run(step)
        except StopIteration:
            return
