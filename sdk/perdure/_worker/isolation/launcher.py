"""Starts processes for tasks, each from nothing if that is possible, and as a fork of the worker otherwise.

"spawn" gives a task what a worker has at its start, and nothing that has gone wrong since. It needs
all that the worker runs to be named by modules: no closures, no objects that cannot be pickled. A
fork has everything as it is, but of a process with threads, whose locks may be held: second best,
and not there on every platform.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from perdure._worker.isolation.bootstrap import main_script_can_be_imported
from perdure._worker.isolation.child import Child
from perdure._worker.isolation.messages import Up
from perdure._worker.isolation.vitals import Limits
from perdure._worker.recipe import Recipe
from perdure.errors import PerdureError

logger = logging.getLogger(__name__)

SPAWN, FORK = "spawn", "fork"
_END_TIMEOUT_S = 5.0


class ProcessNotStartedError(PerdureError):
    """Of no fault of the task's."""


class Launcher:
    """`start` until `close`, which ends all that it has started. Closing twice is fine."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._can_fork = FORK in multiprocessing.get_all_start_methods()
        self._method = ""
        """The one that works, as far as is known; empty: none was tried."""
        # One thread, for good: on Linux a process ends with the thread that has started it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="perdure-launcher")
        self._children: set[Child] = set()
        self._closed = False

    async def start(self, heard: Callable[[Up], None], limits: Limits | None) -> Child:
        """A process that is ready for its task. Raises ProcessNotStartedError."""
        if not self._method:
            spawns = main_script_can_be_imported() or not self._can_fork
            self._method = SPAWN if spawns else FORK
        while True:
            method = self._method
            try:
                return await self._start(method, heard, limits)
            except ProcessNotStartedError as error:
                if self._closed or method == FORK or not self._can_fork:
                    raise
                logger.info("tasks that run alone run in forks of this worker: %s", error)
                self._method = FORK

    async def _start(
        self, method: str, heard: Callable[[Up], None], limits: Limits | None
    ) -> Child:
        child = Child(heard, limits)
        loop = asyncio.get_running_loop()
        try:
            if method == FORK:  # from here: in another thread's copy our own frames would dangle
                self._launch(child, method)
            else:
                await loop.run_in_executor(self._thread, self._launch, child, method)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ProcessNotStartedError(f"start method {method!r}: {what}") from error
        child.ended.add_done_callback(lambda _: self._children.discard(child))
        if not await child.ready:
            seen = await child.ended
            stacks = f"\n{seen.stacks}" if seen.stacks else ""
            raise ProcessNotStartedError(
                f"start method {method!r}: it ended before it was ready ({seen.message}){stacks}"
            )
        return child

    def _launch(self, child: Child, method: str) -> None:
        if self._closed:
            raise ProcessNotStartedError("the worker is going")
        child.start(method, self._recipe.without_edge())
        self._children.add(child)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._end_all)

    def _end_all(self) -> None:
        children = list(self._children)
        for child in children:
            child.kill()
        for child in children:
            child.join(_END_TIMEOUT_S)
        self._thread.shutdown(wait=True)
        for child in self._children - set(children):  # one was being started just then
            child.kill()
            child.join(_END_TIMEOUT_S)
