"""The process that a task has to itself: the parts of a worker, with a pipe where it has the engine."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from perdure._replay.guard import guard_workflows
from perdure._wire.surroundings import Surroundings
from perdure._wire.tasks import PolledWorkflowTask, task_from_bytes
from perdure._worker.cache import RunCache
from perdure._worker.deadlock import DeadlockWatch, Watched, deadlock_completion
from perdure._worker.guard import GuardThread
from perdure._worker.history import TaskHistory
from perdure._worker.holding import HeldTasks
from perdure._worker.isolation import messages
from perdure._worker.isolation.bootstrap import prepare
from perdure._worker.isolation.leaving import leave
from perdure._worker.isolation.line import ORPHANED, HandsUp, Line, SaysProgress
from perdure._worker.isolation.messages import Down, Telling
from perdure._worker.isolation.program import Order, Summons
from perdure._worker.isolation.tracing import Tracing
from perdure._worker.recipe import Code, Recipe
from perdure._worker.runners import Doors, Runners
from perdure._worker.slots import Slots
from perdure.errors import HistoryError

logger = logging.getLogger(__name__)

_claimed = False


async def answer(summons: Summons, code: Code) -> NoReturn:
    """In a program that was started again for one task, where it enters a worker: the one that is meant
    runs the task and ends the process, any other one waits for that."""
    global _claimed
    if _claimed or not summons.wanted.is_met_by(code):
        await asyncio.Event().wait()
    _claimed = True
    try:
        await _serve_in_program(summons, code.recipe.without_edge())
    except BaseException:
        logger.exception("a task that runs alone was lost")
        leave(SystemExit(1))  # what the program would still do is the worker's to do
    leave(SystemExit(0))


async def _serve_in_program(summons: Summons, recipe: Recipe) -> None:
    order = summons.order
    prepare(order.worker_pid, order.stacks_path)
    room = _Room(Connection(summons.descriptor), recipe, order)
    # It may end without a word to us; this comes before all that it has left to do at its exit.
    atexit.register(room.interrupt)
    try:
        await room.run()
    except asyncio.CancelledError:
        room.interrupt()


def run_alone(connection: Connection, recipe: Recipe, order: Order) -> None:
    """In a process that was made for one task."""
    prepare(order.worker_pid, order.stacks_path)
    guard_workflows(recipe.workflows)
    with asyncio.Runner() as runner:
        try:
            runner.run(_serve(connection, recipe, order))
        except SystemExit as leaving:
            leave(leaving)


async def _serve(connection: Connection, recipe: Recipe, order: Order) -> None:
    await _Room(connection, recipe, order).run()


class _Room:
    def __init__(self, connection: Connection, recipe: Recipe, order: Order) -> None:
        self._worker_pid = order.worker_pid
        self._line = Line(connection, self._hear)
        self._hands_up = HandsUp(self._line)
        self._progress = SaysProgress(self._line)
        self._held = HeldTasks()
        self._slots = Slots(1)
        self._given_up = asyncio.Event()
        self._executor = ThreadPoolExecutor(
            recipe.local_activities_at_once, thread_name_prefix="perdure-activity"
        )
        if order.is_traced:
            tracing = Tracing(lambda text: self._line.say(messages.Step(text)))
            recipe = recipe.with_interceptor(tracing)
        watch = DeadlockWatch(self._report_deadlock, time.monotonic)
        doors = Doors(
            held=self._held,
            completions=self._hands_up,
            save_progress=self._progress.save,
            sealing=self._progress,
            history=TaskHistory(_no_more, _no_more, recipe.identity.namespace, _surroundings()),
            workflow_slots=self._slots,
            activity_slots=self._slots,
        )
        cache = RunCache(0)  # its next task goes to any worker
        self._runners = Runners(Code(recipe), doors, self._executor, cache, watch)
        watches = (watch.tick,) if recipe.watches_deadlocks else ()
        self._guard = GuardThread((self._pulse, *watches))

    async def run(self) -> None:
        await self._slots.reserve()
        self._guard.start()
        self._line.say(messages.Ready())
        # The task gives its place back when there is nothing more to say of it.
        settled = asyncio.ensure_future(self._slots.reserve())
        given_up = asyncio.ensure_future(self._given_up.wait())
        await asyncio.wait((settled, given_up), return_when=asyncio.FIRST_COMPLETED)
        if not settled.done():
            await self._runners.wait_ended()
            await self._hands_up.wait_settled()
            settled.cancel()
        given_up.cancel()
        self._line.say(messages.Done())
        self._guard.stop()
        await self._runners.workflow_tasks.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def interrupt(self) -> NoReturn:
        """What the program does beside the task ends it: of no fault of the task's."""
        self._line.say(messages.Interrupted())
        leave(SystemExit(1))

    def _hear(self, message: Down) -> None:
        match message:
            case messages.Given():
                task = task_from_bytes(message.kind, message.message)
                if isinstance(task, PolledWorkflowTask):
                    self._runners.workflow_tasks.take(task)
                else:
                    self._runners.activities.take(task)
            case messages.Told():
                self._hear_told(message.what)
            case messages.Settled():
                self._hands_up.settled(message)
            case messages.Saved():
                self._progress.saved(message)

    def _hear_told(self, what: Telling) -> None:
        match what:
            case Telling.SHUTDOWN:
                self._runners.begin_shutdown()
            case Telling.GIVE_UP:
                self._runners.give_up()
                self._given_up.set()
            case Telling.CANCEL | Telling.PAUSE | Telling.LOSS:
                for task in self._held.all():
                    deliver = {
                        Telling.CANCEL: task.on_cancel_request,
                        Telling.PAUSE: task.on_pause,
                        Telling.LOSS: task.on_loss,
                    }[what]
                    if deliver is not None:
                        deliver()

    def _pulse(self) -> None:
        """On the guard thread."""
        if os.getppid() != self._worker_pid:
            os._exit(ORPHANED)
        self._progress.flush()
        self._line.say(messages.Alive())

    def _report_deadlock(self, task: Watched, stack: str) -> None:
        completion = deadlock_completion(task.token, stack)
        self._line.say(messages.Handed(0, completion.to_bytes(), is_stuck=True))


async def _no_more(*_: Any) -> NoReturn:
    raise HistoryError("a task that runs alone comes with its whole history")


def _surroundings() -> Surroundings:
    return Surroundings(time.monotonic, asyncio.sleep, random.random, lambda: str(uuid.uuid4()))
