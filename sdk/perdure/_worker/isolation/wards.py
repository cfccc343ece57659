"""All tasks of a worker that run in processes of their own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from perdure._wire.tasks import PolledTask
from perdure._worker.holding import HeldTask
from perdure._worker.isolation.vitals import Limits
from perdure._worker.isolation.ward import Ward, WardRoom, failed_completion
from perdure.errors import PayloadError, RPCError

logger = logging.getLogger(__name__)

# From so many crashes on a task runs alone.
ALONE_FROM_CRASHES = 2
# A worker that died twice with a hundred tasks leaves a hundred of them to run alone, and each takes
# the memory of a whole worker. The others wait for their turn, held.
_AT_ONCE_MAX = 16

Release = Callable[[], None]


class Wards:
    """Each task gives its place back, by `release`, when it is settled."""

    def __init__(self, room: WardRoom) -> None:
        self._room = room
        self._places = asyncio.Semaphore(_AT_ONCE_MAX)
        self._wards: dict[Ward, Release] = {}
        self._tasks: dict[Ward, asyncio.Task[None]] = {}
        self._is_stopping = False
        self._given_up = False
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    def take(self, polled: PolledTask, release: Release, limits: Limits | None = None) -> None:
        if self._given_up:  # the farewell hands it out again
            release()
            return
        ward = Ward(self._room, polled, limits, self._settled)
        if self._is_stopping:
            ward.begin_shutdown()
        self._wards[ward] = release
        self._all_ended.clear()
        task = self._tasks[ward] = asyncio.ensure_future(self._run(ward, limits))
        task.add_done_callback(partial(self._ended, ward))

    def refuse(self, polled: PolledTask, error: Exception, release: Release) -> None:
        """A task that cannot be run, because it cannot be decoded: it fails."""
        completion = failed_completion(polled, error, self._room.converter)
        held = HeldTask(polled.token)
        self._room.held.add(held)

        def done(refusal: RPCError | PayloadError | None) -> None:
            self._room.held.remove(polled.token)
            release()

        self._room.completions.submit(completion, done)

    @property
    def running(self) -> int:
        """Attempts of activities and jobs."""
        return sum(not ward.is_of_workflow for ward in self._tasks)

    def begin_shutdown(self) -> None:
        self._is_stopping = True
        for ward in list(self._wards):
            ward.begin_shutdown()

    def give_up(self) -> None:
        self._given_up = True
        for ward in list(self._wards):
            ward.give_up()
            task = self._tasks.get(ward)
            if task is not None and not ward.has_process:  # it waits for its turn
                task.cancel()

    async def wait_ended(self) -> None:
        """Returns when no task runs that is not settled."""
        await self._all_ended.wait()

    async def close(self) -> None:
        """Ends all processes. Closing twice is fine."""
        self.give_up()
        await self._room.launcher.close()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, ward: Ward, limits: Limits | None) -> None:
        if limits is not None:  # its pool has places of its own
            await ward.run()
            return
        async with self._places:
            await ward.run()

    def _settled(self, ward: Ward) -> None:
        release = self._wards.pop(ward, None)
        if release is not None and not ward.runs_here:
            release()
        self._look_if_ended()

    def _ended(self, ward: Ward, task: asyncio.Task[None]) -> None:
        del self._tasks[ward]
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task that ran alone was lost", exc_info=task.exception())
            ward.put_back()
        if ward.given_up:
            self._wards.pop(ward, None)
        self._look_if_ended()

    def _look_if_ended(self) -> None:
        if not self._wards:
            self._all_ended.set()
