"""What runs tasks of each kind: the same in a worker and in a process that a task has to itself."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from dataclasses import dataclass

from perdure._replay.messages import Event
from perdure._worker.activities import Activities
from perdure._worker.ahead import GoesAhead
from perdure._worker.attempt import SaveProgress
from perdure._worker.cache import RunCache
from perdure._worker.completions import SubmitsCompletions
from perdure._worker.deadlock import DeadlockWatch
from perdure._worker.guarded import GuardedCode
from perdure._worker.history import TaskHistory
from perdure._worker.holding import HeldTasks
from perdure._worker.local_activities import LocalActivities
from perdure._worker.recipe import Code
from perdure._worker.sealing import ProgressWay
from perdure._worker.slots import Slots
from perdure._worker.workflow_tasks import WorkflowTasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """Between those that run tasks and whoever holds them."""

    held: HeldTasks
    completions: SubmitsCompletions
    save_progress: SaveProgress
    sealing: ProgressWay | None
    history: TaskHistory[Event]
    workflow_slots: Slots
    activity_slots: Slots


class Runners:
    def __init__(
        self, code: Code, doors: Doors, executor: Executor, cache: RunCache, watch: DeadlockWatch
    ) -> None:
        recipe, activities = code.recipe, code.activities
        guarded = GuardedCode(watch, recipe.converter)
        # Code that nobody watches may stand still, in a debugger say: no result must wait for it.
        goes_ahead = cache.keeps_runs and recipe.watches_deadlocks
        self.activities = Activities(
            activities.newest,
            namespace=recipe.identity.namespace,
            task_queue=recipe.task_queue,
            converter=recipe.converter,
            executor=executor,
            completions=doors.completions,
            held=doors.held,
            slots=doors.activity_slots,
            versions=activities.others,
            save_progress=doors.save_progress,
            sealing=doors.sealing,
            hides_messages=recipe.hides_messages,
            interceptors=recipe.interceptors,
            goes_ahead=GoesAhead(cache, guarded) if goes_ahead else None,
        )
        self.local = LocalActivities(
            activities.newest,
            namespace=recipe.identity.namespace,
            task_queue=recipe.task_queue,
            converter=recipe.converter,
            executor=executor,
            at_once_max=recipe.local_activities_at_once,
            now_us=_now_us,
            interceptors=recipe.interceptors,
            hides_messages=recipe.hides_messages,
        )
        self.workflow_tasks = WorkflowTasks(
            make_instance=code.make_instance,
            cache=cache,
            history=doors.history,
            guarded=guarded,
            completions=doors.completions,
            held=doors.held,
            slots=doors.workflow_slots,
            local=self.local,
            hides_messages=recipe.hides_messages,
        )

    def begin_shutdown(self) -> None:
        self.activities.begin_shutdown()
        self.local.begin_shutdown()

    def give_up(self) -> None:
        self.activities.give_up()
        self.workflow_tasks.give_up_open()
        self.local.give_up()

    async def wait_ended(self) -> None:
        """Returns when no activity runs, local or not."""
        await self.activities.wait_ended()
        await self.local.wait_ended()


def _now_us() -> int:
    return time.time_ns() // 1000
