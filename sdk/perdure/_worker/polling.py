"""Tasks in batches, as many as there are free places: by long polls, and with completions' answers.

One poll for each kind of task is parked at the engine, and asks for up to half of the places of its
kind. While an answer is taken in, what comes up collects at the engine: batches grow with the load.
The other half is for what follows from completions, which comes back with their answer and saves
both sides a call.
Rejected: polls that ask for both kinds at once. With the places of one kind all taken they park for
the other alone, and what is freed meanwhile is asked for by nobody; calling a parked poll back
loses the tasks that are on their way to it, for the 2 s until the engine misses them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from perdure._wire.completions import Completion
from perdure._wire.retry import REASON_MOVED, backoff_s
from perdure._wire.surroundings import Surroundings
from perdure._wire.tasks import PolledTasks
from perdure._worker.slots import Slots
from perdure.errors import RPCError, RPCStatusCode

logger = logging.getLogger(__name__)

# What no amount of waiting mends: the namespace does not exist, this worker may not poll, or the
# engine does not understand it.
_FATAL = frozenset(
    (
        RPCStatusCode.NOT_FOUND,
        RPCStatusCode.PERMISSION_DENIED,
        RPCStatusCode.UNAUTHENTICATED,
        RPCStatusCode.INVALID_ARGUMENT,
        RPCStatusCode.UNIMPLEMENTED,
    )
)


# This version of the workers is never to get a task again.
_REASON_RETIRED = "VERSION_RETIRED"


class PollDoor(Protocol):
    def poll_tasks(
        self, max_workflow_tasks: int, max_activity_tasks: int
    ) -> Awaitable[PolledTasks]: ...

    def complete_tasks(
        self, completions: list[Completion], max_workflow_tasks: int, max_activity_tasks: int
    ) -> Awaitable[tuple[Mapping[int, RPCError], PolledTasks]]: ...


class Poller:
    """Polls for both kinds from `run` until it is cancelled, and hands over what comes.

    Places are reserved while a poll asks for them: what it brings always has room. `take_in` gets
    the tasks with one place each, which it gives back itself.
    """

    def __init__(
        self,
        door: PollDoor,
        take_in: Callable[[PolledTasks], None],
        surroundings: Surroundings,
        *,
        workflow_slots: int,
        activity_slots: int,
    ) -> None:
        """0 slots: no tasks of that kind are wanted."""
        self._door = door
        self._take_in = take_in
        self._surroundings = surroundings
        self.workflow_slots = Slots(workflow_slots)
        self.activity_slots = Slots(activity_slots)
        self._wants_tasks = False

    @property
    def wants_tasks(self) -> bool:
        return self.workflow_slots.total + self.activity_slots.total > 0

    async def run(self) -> None:
        """Never returns. Raises RPCError when polling makes no sense (no such namespace)."""
        self._wants_tasks = True
        polls: list[asyncio.Task[None]] = []
        if self.workflow_slots.total:
            polls.append(
                asyncio.create_task(poll_for_ever(self._poll_workflow_tasks, self._surroundings))
            )
        if self.activity_slots.total:
            polls.append(
                asyncio.create_task(poll_for_ever(self._poll_activity_tasks, self._surroundings))
            )
        try:
            await asyncio.gather(*polls)
        finally:
            self._wants_tasks = False
            for poll in polls:
                poll.cancel()
            await asyncio.wait(polls)

    async def complete_tasks(self, completions: list[Completion]) -> Mapping[int, RPCError]:
        """Send completions, and take in what comes with the answer, after it has been read.

        Returns the errors of those that were not taken, by index. Raises RPCError when none was.
        """
        # As many as they are: then what follows from a batch stays together, and the next is as
        # large. What one workflow task starts in hundreds comes by the polls.
        wanted = len(completions) if self._wants_tasks else 0
        workflow_places = self.workflow_slots.reserve_for_answer(wanted)
        activity_places = self.activity_slots.reserve_for_answer(wanted)
        polled = PolledTasks([], [])
        try:
            errors, polled = await self._door.complete_tasks(
                completions, workflow_places, activity_places
            )
        finally:
            self.workflow_slots.answer_came(workflow_places, len(polled.workflow_tasks))
            self.activity_slots.answer_came(activity_places, len(polled.activity_tasks))
        if polled.workflow_tasks or polled.activity_tasks:
            asyncio.get_running_loop().call_soon(self._take_in, polled)
        return errors

    async def _poll_workflow_tasks(self) -> None:
        places = await self.workflow_slots.reserve()
        taken = 0
        try:
            polled = await self._door.poll_tasks(places, 0)
            taken = len(polled.workflow_tasks)
        finally:
            self.workflow_slots.release(places - taken)
        self._take_in(polled)

    async def _poll_activity_tasks(self) -> None:
        places = await self.activity_slots.reserve()
        taken = 0
        try:
            polled = await self._door.poll_tasks(0, places)
            taken = len(polled.activity_tasks)
        finally:
            self.activity_slots.release(places - taken)
        self._take_in(polled)


async def poll_for_ever(
    poll_once: Callable[[], Awaitable[None]], surroundings: Surroundings
) -> None:
    """Never returns. Raises RPCError when polling makes no sense."""
    failures = 0
    while True:
        try:
            await poll_once()
            failures = 0
        except RPCError as error:
            if error.status in _FATAL and error.reason != REASON_MOVED:
                raise
            if error.reason == _REASON_RETIRED:
                raise
            failures += 1
            if failures == 1:
                logger.warning("poll failed, trying again until it works: %s", error)
            await surroundings.sleep(backoff_s(failures, surroundings.random))
