"""One run of a worker: everything that lives from its start to its stop, put together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from perdure._wire.connection import Connection
from perdure._wire.edge import PLAIN, PayloadEdge
from perdure._wire.surroundings import Surroundings
from perdure._wire.tasks import (
    EventMessage,
    PolledTask,
    PolledTasks,
    PolledWorkflowTask,
)
from perdure._wire.worker_service import BlockingWorkerService, WorkerService
from perdure._wire.workflow_service import WorkflowService
from perdure._worker.ahead import TaskAhead
from perdure._worker.cache import RunCache
from perdure._worker.completions import Completions
from perdure._worker.deadlock import DeadlockWatch, Watched, deadlock_completion
from perdure._worker.decoding import Decoding
from perdure._worker.guard import GuardThread
from perdure._worker.heartbeat import Heartbeats, LoopProbe
from perdure._worker.history import TaskHistory
from perdure._worker.holding import HeldTasks
from perdure._worker.isolation.launcher import Launcher
from perdure._worker.isolation.surgical import SurgicalPoller, SurgicalPool
from perdure._worker.isolation.ward import WardRoom
from perdure._worker.isolation.wards import ALONE_FROM_CRASHES, Wards
from perdure._worker.polling import Poller
from perdure._worker.progress import ProgressDoor
from perdure._worker.recipe import Code
from perdure._worker.runners import Doors, Runners
from perdure._worker.sealing import Sealing
from perdure.errors import RPCError

T = TypeVar("T", bound=PolledTask)

logger = logging.getLogger(__name__)

# For code that was cancelled to clean up, and for the last completions to be saved. What is not
# done by then is handed out again: a process manager's patience is not endless (30 s by default).
LAST_WORDS_S = 5.0
GOODBYE_TIMEOUT_S = 2.0
_DEADLOCK_REPORT_TIMEOUT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Checked by the worker before it starts."""

    code: Code
    executor: Executor
    workflow_slots: int
    activity_slots: int
    polls_normal_pool: bool
    cached_runs_max: int
    surgical: SurgicalPool | None
    edge: PayloadEdge = PLAIN
    graceful_shutdown_timeout: timedelta


@dataclass(frozen=True, kw_only=True)
class WorkerUsage:
    """What a worker has taken of what it may take."""

    cached_workflows: int = 0
    running_activities: int = 0
    """With local ones, which have no slot."""
    activity_slots: int = 0


class WorkerRooms:
    """`poll` takes in tasks until it is cancelled; then `stop`, once."""

    def __init__(
        self, connection: Connection, settings: WorkerSettings, surroundings: Surroundings
    ) -> None:
        loop = asyncio.get_running_loop()
        recipe = self._recipe = settings.code.recipe
        identity = recipe.identity
        self._graceful_s = settings.graceful_shutdown_timeout.total_seconds()
        edge = self._edge = settings.edge
        self._service = WorkerService(connection, identity, recipe.task_queue, edge)
        self._blocking_service = BlockingWorkerService(connection.target, identity)
        self._held = HeldTasks()
        self._poller = Poller(
            self._service,
            self._take_in,
            surroundings,
            workflow_slots=settings.workflow_slots if settings.polls_normal_pool else 0,
            activity_slots=settings.activity_slots if settings.polls_normal_pool else 0,
        )
        self._completions = Completions(self._poller.complete_tasks, surroundings, edge)
        self._decoding = Decoding(edge, self._held)
        self._sealing = None if edge.is_plain else Sealing(edge, loop)
        self._save_progress = ProgressDoor(connection, identity, surroundings).save
        workflow_service = WorkflowService(connection, edge)
        self._cache = RunCache(settings.cached_runs_max)
        watch = DeadlockWatch(self._report_deadlock, surroundings.monotonic_s)
        doors = Doors(
            held=self._held,
            completions=self._completions,
            save_progress=self._save_progress,
            sealing=self._sealing,
            history=TaskHistory(
                self._service.task_history,
                workflow_service.replay_page,
                identity.namespace,
                surroundings,
            ),
            workflow_slots=self._poller.workflow_slots,
            activity_slots=self._poller.activity_slots,
        )
        self._runners = Runners(settings.code, doors, settings.executor, self._cache, watch)
        self._make_room_of_wards(
            settings.surgical,
            surroundings,
            TaskHistory(
                self._service.task_history_messages,
                workflow_service.replay_page_messages,
                identity.namespace,
                surroundings,
            ),
        )
        probe = LoopProbe(loop, surroundings.monotonic_s)
        heartbeats = Heartbeats(
            self._held, self._blocking_service, probe, loop, surroundings.monotonic_s
        )
        jobs = (heartbeats.tick, watch.tick) if recipe.watches_deadlocks else (heartbeats.tick,)
        self._guard = GuardThread(jobs, heartbeats.tick_after_s)
        self._guard.start()

    def _make_room_of_wards(
        self,
        pool: SurgicalPool | None,
        surroundings: Surroundings,
        history: TaskHistory[EventMessage],
    ) -> None:
        launcher = Launcher(self._recipe, pool.program if pool is not None else None)
        room = WardRoom(
            launcher=launcher,
            held=self._held,
            completions=self._completions,
            save_progress=self._save_progress,
            sealing=self._sealing,
            history=history,
            converter=self._recipe.converter,
            hides_reports=self._recipe.hides_messages,
            run_here=self._run_here,
        )
        self._wards = Wards(room)
        self._surgical: SurgicalPoller | None = None
        if pool is not None:
            self._limits = pool.limits
            self._surgical = SurgicalPoller(
                self._service,
                self._take_in_surgical,
                surroundings,
                slots=pool.slots,
                workflows=bool(self._recipe.workflows),
                activities=bool(self._recipe.activities),
                is_able=lambda: launcher.is_able,
            )

    def _run_here(self, task: PolledTask) -> None:
        if isinstance(task, PolledWorkflowTask):
            release = self._poller.workflow_slots.release
            self._take_one(self._runners.workflow_tasks.take, task, release)
        else:
            release = self._poller.activity_slots.release
            self._take_one(self._runners.activities.take, task, release)

    def usage(self) -> WorkerUsage:
        return WorkerUsage(
            cached_workflows=len(self._cache),
            running_activities=(
                self._runners.activities.running + self._runners.local.running + self._wards.running
            ),
            activity_slots=self._poller.activity_slots.total,
        )

    async def poll(self) -> None:
        """Never returns. Raises RPCError when polling makes no sense (no such namespace), and
        BrokenExecutor when activities can run no more."""
        pollers = [one for one in (self._poller, self._surgical) if one is not None]
        polls = [asyncio.ensure_future(one.run()) for one in pollers if one.wants_tasks]
        broken = self._runners.activities.broken
        try:
            await asyncio.wait((*polls, broken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for poll in polls:
                poll.cancel()
            await asyncio.wait(polls)
        if broken.done():
            broken.result()
        for poll in polls:
            if not poll.cancelled():
                poll.result()

    async def stop(self) -> None:
        """Lets what runs end, asks what is still there to stop, gives back what has not."""
        await self._decoding.close()
        self._runners.begin_shutdown()
        self._wards.begin_shutdown()
        await _at_most(self._graceful_s, self._wait_ended())
        self._runners.give_up()
        self._wards.give_up()
        await _at_most(LAST_WORDS_S, self._wait_ended())
        await _at_most(LAST_WORDS_S, self._completions.wait_settled())
        await self._wards.close()
        await self._completions.close()
        # In a thread, because a heartbeat may be under way. After it no other must follow the
        # farewell, or the engine would take us for alive.
        self._runners.activities.close()
        await asyncio.to_thread(self._guard.stop)
        await self._say_goodbye()
        await self._runners.workflow_tasks.close()
        await self._service.close()
        self._blocking_service.close()

    async def _wait_ended(self) -> None:
        await self._runners.wait_ended()
        await self._wards.wait_ended()

    async def _say_goodbye(self) -> None:
        released = [task.token for task in self._held.all()]
        try:
            await self._service.say_goodbye(released, GOODBYE_TIMEOUT_S)
        except RPCError as error:  # the engine finds out by itself within seconds
            logger.info("the engine did not hear our goodbye: %s", error)

    def _take_in(self, polled: PolledTasks) -> None:
        workflow_tasks, activities = self._runners.workflow_tasks, self._runners.activities
        release = self._poller.workflow_slots.release
        take_workflow_task = partial(self._take_here_or_alone, workflow_tasks.take, release=release)
        self._decode_and_take(polled.workflow_tasks, take_workflow_task, workflow_tasks.refuse)
        release = self._poller.activity_slots.release
        take_attempt = partial(self._take_here_or_alone, activities.take, release=release)
        self._decode_and_take(polled.activity_tasks, take_attempt, activities.refuse)

    def _take_in_surgical(self, polled: PolledTasks) -> None:
        assert self._surgical is not None
        release = self._surgical.release
        taker = partial(self._wards.take, release=release, limits=self._limits)
        take = partial(self._take_one, taker, release=release)
        refuse = partial(self._wards.refuse, release=release)
        self._decode_and_take((*polled.workflow_tasks, *polled.activity_tasks), take, refuse)

    def _decode_and_take(
        self,
        tasks: Sequence[T],
        take: Callable[[T], None],
        refuse: Callable[[T, Exception], None],
    ) -> None:
        if self._edge.is_plain:
            for task in tasks:
                take(task)
            return
        for task in tasks:
            self._decoding.begin(task, take, refuse)

    def _take_here_or_alone(
        self, here: Callable[[T], None], task: T, release: Callable[[], None]
    ) -> None:
        alone = task.crashes >= ALONE_FROM_CRASHES and task.token
        taker = partial(self._wards.take, release=release) if alone else here
        self._take_one(taker, task, release)

    @staticmethod
    def _take_one(take: Callable[[T], None], task: T, release: Callable[[], None]) -> None:
        try:
            take(task)
        except Exception:  # a defect of ours: it must not cost the tasks that came with this one
            logger.exception("a task could not be taken in; the engine will hand it out again")
            release()

    def _report_deadlock(self, task: Watched, stack: str) -> None:
        if isinstance(task, TaskAhead):
            # It cannot wait: a timeout may come. Encoded results can only be made on the loop.
            if self._edge.passes(task.alone.size):
                self._blocking_service.complete_tasks([task.alone], _DEADLOCK_REPORT_TIMEOUT_S)
        elif task.token:
            # No time to encode it: the loop, where codecs run, is what is stuck.
            shown = "" if self._edge.encodes_failures else stack
            completion = deadlock_completion(task.token, shown)
            self._blocking_service.complete_tasks([completion], _DEADLOCK_REPORT_TIMEOUT_S)


async def _at_most(limit_s: float, end: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await end
