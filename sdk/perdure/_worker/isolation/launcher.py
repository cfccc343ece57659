"""Starts processes for tasks: the worker's program once more, or, where that cannot be, what it runs alone.

The program brings everything that its worker has. By the time a task is to run alone, its worker has
died and been started again at least twice, so that starting it is known to do no harm. The start
method "spawn" of `multiprocessing` imports what the worker runs instead, and needs all of it to be
named by modules; that is for what is no program, such as a run of tests.
Rejected: "fork". It shares connections and locks with a process that has threads, and does not
survive gRPC.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from perdure._wire.tasks import PolledTask
from perdure._worker.isolation.bootstrap import main_script_can_be_imported
from perdure._worker.isolation.child import Child, Starter, spawned
from perdure._worker.isolation.messages import Up
from perdure._worker.isolation.program import Wanted, command_of, start
from perdure._worker.isolation.vitals import Limits
from perdure._worker.recipe import Recipe
from perdure.errors import PerdureError

logger = logging.getLogger(__name__)

PROGRAM, SPAWN = "program", "spawn"
# A program may have a bad moment: its engine is away, say. What cannot be imported once never can.
_FAILURES_MAX = {PROGRAM: 3, SPAWN: 1}
_END_TIMEOUT_S = 5.0
# Each has READY_TIMEOUT_S, and takes a processor for most of its start.
_STARTING_MAX = 2


class ProcessNotStartedError(PerdureError):
    """Of no fault of the task's."""


class Launcher:
    """`start` until `close`, which ends all that it has started. Closing twice is fine."""

    def __init__(self, recipe: Recipe, program: Sequence[str] | None = None) -> None:
        """`program`: the command that starts the worker's program; None: that of this process."""
        self._recipe = recipe
        self._command = command_of(program)
        self._ways = [PROGRAM] if self._command else []
        if program is None and main_script_can_be_imported():
            self._ways.append(SPAWN)
        self._failures = self._interruptions = 0
        self._starting = asyncio.Semaphore(_STARTING_MAX)
        # One thread, for good: on Linux a process ends with the thread that has started it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="perdure-launcher")
        self._children: set[Child] = set()
        self._closed = False

    @property
    def is_able(self) -> bool:
        """Is there a way that has not been found to be none?"""
        return bool(self._ways)

    async def start(
        self, polled: PolledTask, heard: Callable[[Up], None], limits: Limits | None
    ) -> Child:
        """A process that is ready for its task. Raises ProcessNotStartedError."""
        async with self._starting:
            if not self._ways:
                raise ProcessNotStartedError("nothing of this worker can be started again")
            way, failures = self._ways[0], self._failures
            try:
                started = await self._start(way, polled, heard, limits)
            except ProcessNotStartedError as error:
                # Those that were under way together had the same bad moment.
                if way in self._ways and failures == self._failures and not self._closed:
                    self._failures += 1
                    if self._failures >= _FAILURES_MAX[way]:
                        self._give_up(way, error)
                raise
        self._failures = 0
        return started

    def interrupted(self) -> None:
        """What a program does beside its worker has ended a process that was ready: it binds a port
        that this one has, say. That has no good moment."""
        self._interruptions += 1
        if self._interruptions >= _FAILURES_MAX[PROGRAM] and PROGRAM in self._ways:
            self._give_up(PROGRAM, "what the program does beside its worker ends it")

    def _give_up(self, way: str, why: object) -> None:
        self._ways.remove(way)
        self._failures = 0
        left = "" if self._ways else ": what has taken workers down runs in this one from now on"
        logger.warning("tasks cannot run alone by start method %s%s: %s", way, left, why)

    async def _start(
        self, way: str, polled: PolledTask, heard: Callable[[Up], None], limits: Limits | None
    ) -> Child:
        child = Child(heard, limits)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._launch, child, way, polled)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ProcessNotStartedError(f"start method {way!r}: {what}") from error
        child.ended.add_done_callback(lambda _: self._children.discard(child))
        if not await child.ready:
            seen = await child.ended
            stacks = f"\n{seen.stacks}" if seen.stacks else ""
            raise ProcessNotStartedError(
                f"start method {way!r}: it ended before it was ready ({seen.message}){stacks}"
            )
        return child

    def _launch(self, child: Child, way: str, polled: PolledTask) -> None:
        if self._closed:
            raise ProcessNotStartedError("the worker is going")
        child.start(way, self._starter(way, polled))
        self._children.add(child)

    def _starter(self, way: str, polled: PolledTask) -> Starter:
        if way == SPAWN:
            return spawned(self._recipe.without_edge())
        return partial(start, self._command, Wanted.of(self._recipe, polled))

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
