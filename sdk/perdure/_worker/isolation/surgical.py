"""The pool of the workers that get poisoned tasks: those that have taken three workers down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from perdure._wire.surroundings import Surroundings
from perdure._wire.tasks import PolledTasks
from perdure._wire.worker_service import SURGICAL
from perdure._worker.isolation.vitals import Limits
from perdure._worker.polling import poll_for_ever

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurgicalPool:
    """What a worker has for poisoned tasks, each of which runs in a process of its own.

    A process that takes more than it may is killed, which counts as one more crash of its task.
    Raises ValueError for what is no limit.
    """

    slots: int = 1
    """Tasks at a time, of both kinds together: when both come at once, for once one more each."""
    memory_limit_bytes: int = 1024 * 1024 * 1024
    """Resident memory of the process, 1 GiB; what the program itself takes counts. Looked at ten
    times a second."""
    cpu_limit: timedelta = timedelta(minutes=10)
    """Processor time of all its threads together."""
    program: Sequence[str] | None = None
    """The command that starts the worker's program, for each task that is to run alone; None: what
    this process was started with. It becomes the program (`exec`): one that only waits for it, as
    `uv run` does, is no such command."""

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"SurgicalPool: slots must be at least 1: {self.slots}")
        if self.memory_limit_bytes < 1:
            raise ValueError(
                f"SurgicalPool: memory_limit_bytes must be at least 1: {self.memory_limit_bytes}"
            )
        if self.program is not None and not self.program:
            raise ValueError("SurgicalPool: program must be a command, or None")
        if self.cpu_limit <= timedelta():
            raise ValueError(f"SurgicalPool: cpu_limit must be positive: {self.cpu_limit}")

    @property
    def limits(self) -> Limits:
        return Limits(memory_bytes=self.memory_limit_bytes, cpu_s=self.cpu_limit.total_seconds())


class PoolDoor(Protocol):
    def poll_tasks(
        self, max_workflow_tasks: int, max_activity_tasks: int, pool: str
    ) -> Awaitable[PolledTasks]: ...


class SurgicalPoller:
    """One parked poll for both kinds; `take_in` gets tasks that give their places back by `release`.

    Of little traffic, it may lose what the poller of the normal pool may not: see there.
    """

    def __init__(
        self,
        door: PoolDoor,
        take_in: Callable[[PolledTasks], None],
        surroundings: Surroundings,
        *,
        slots: int,
        workflows: bool,
        activities: bool,
        is_able: Callable[[], bool],
    ) -> None:
        """`is_able`: can tasks run alone here? One that cannot never can again."""
        self._is_able = is_able
        self._door = door
        self._take_in = take_in
        self._surroundings = surroundings
        self._slots = slots
        self._kinds = int(workflows), int(activities)
        self._used = 0
        self._released = asyncio.Event()

    @property
    def wants_tasks(self) -> bool:
        return any(self._kinds)

    async def run(self) -> None:
        """Never returns. Raises RPCError when polling makes no sense."""
        await poll_for_ever(self._poll, self._surroundings)

    def release(self) -> None:
        self._used -= 1
        self._released.set()

    async def _poll(self) -> None:
        while self._used >= self._slots:
            self._released.clear()
            await self._released.wait()
        if not self._is_able():
            logger.error("no task can run alone here: poisoned ones wait for another worker")
            await asyncio.Event().wait()
        places = self._slots - self._used
        of_workflows, of_activities = self._kinds
        polled = await self._door.poll_tasks(
            places * of_workflows, places * of_activities, SURGICAL
        )
        self._used += len(polled.workflow_tasks) + len(polled.activity_tasks)
        self._take_in(polled)
