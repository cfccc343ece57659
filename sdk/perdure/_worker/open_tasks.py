"""Workflow tasks that stay open because their code waits for local activities.

Such a task is not completed before the code waits for nothing local any more. One that lasts too long yields: what
there is is completed, the engine sends the next task at once, and the local activities run on meanwhile. Of what
ends between two tasks the code hears in the second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure._replay.messages import (
    LocalActivityOutcome,
    LocalWork,
    TaskSuccess,
)
from perdure._wire.tasks import PolledWorkflowTask
from perdure._worker.cache import CachedRun
from perdure._worker.guarded import Outcome
from perdure._worker.local_activities import LocalActivities, LocalActivity, Origin

# Of a task's timeout, so that its completion is there before the engine gives it to somebody else.
_YIELD_AFTER = 0.8
_TASK_TIMEOUT_MS_DEFAULT = 10_000

Guarded = Callable[[PolledWorkflowTask, Callable[[], Outcome]], Outcome]
"""Runs code of the workflow for the task, watched."""


class OpenTask:
    __slots__ = ("polled", "run", "timer")

    def __init__(self, polled: PolledWorkflowTask, run: CachedRun) -> None:
        self.polled = polled
        self.run = run
        self.timer: asyncio.TimerHandle | None = None


class OpenTasks:
    """`complete(polled, run, outcome, yields)` ends a task; `abandon(polled)` forgets one that the
    engine has given to somebody else."""

    def __init__(
        self,
        local: LocalActivities,
        *,
        guarded: Guarded,
        complete: Callable[[PolledWorkflowTask, CachedRun, Outcome, bool], None],
        abandon: Callable[[PolledWorkflowTask], None],
        can_yield: bool,
    ) -> None:
        self._local = local
        self._guarded = guarded
        self._complete = complete
        self._abandon = abandon
        # A run that is not kept in memory begins anew with each task, its local activities too.
        self._can_yield = can_yield
        self._open: dict[str, OpenTask] = {}  # by run id
        self._running: dict[CachedRun, dict[str, LocalActivity]] = {}

    def take_in(self, polled: PolledWorkflowTask, run: CachedRun, outcome: TaskSuccess) -> bool:
        """Begins and stops what the outcome says. True: the task is open, and not to be completed."""
        assert outcome.local is not None
        self._do(polled, run, outcome.local)
        if not outcome.local.waits:
            return False
        task = self._open[run.run_id] = OpenTask(polled, run)
        if not self._can_yield:
            return True
        if polled.query_tokens:
            # Who asks waits for the completion: what the code says now must be saved first.
            self._yield(task)
            return True
        timeout_s = (polled.task_timeout_ms or _TASK_TIMEOUT_MS_DEFAULT) / 1000
        loop = asyncio.get_running_loop()
        delay_s = max(0.0, timeout_s * _YIELD_AFTER - polled.waited_s)
        task.timer = loop.call_later(delay_s, self._yield, task)
        return True

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._open

    def lose(self, run_id: str, token: bytes | None = None) -> None:
        """The engine has given the run's task to somebody else, or again: this one came to nothing.

        With a token only if it is that of the open task: a heartbeat may speak of the one before.
        """
        task = self._open.get(run_id)
        if task is None or token not in (None, task.polled.token):
            return
        del self._open[run_id]
        self._forget_timer(task)
        task.run.evict()
        self._abandon(task.polled)

    def close(self) -> None:
        """Gives up what is open. Its tasks stay held, for the farewell to give back."""
        for task in list(self._open.values()):
            self._forget_timer(task)
            task.run.evict()
        self._open.clear()

    def _do(self, polled: PolledWorkflowTask, run: CachedRun, work: LocalWork) -> None:
        running = self._running.get(run, {})
        if work.start:
            running = self._running.setdefault(run, running)
            run.on_evict = self._run_evicted
        origin = Origin(polled.workflow_id, polled.run_id, polled.workflow_type)
        for task in work.start:
            running[task.activity_id] = self._local.start(
                origin, task, lambda outcome: self._resolved(run, outcome)
            )
        for activity_id in work.cancel:
            one = running.get(activity_id)
            if one is not None:
                one.cancel()
            else:  # asked to stop before it was given to anybody
                self._local.start_cancelled(
                    activity_id, lambda outcome: self._resolved(run, outcome)
                )

    def _run_evicted(self, run: CachedRun) -> None:
        for one in self._running.pop(run, {}).values():
            one.drop()

    def _resolved(self, run: CachedRun, outcome: LocalActivityOutcome) -> None:
        if run.is_evicted:
            return
        running = self._running.get(run, {})
        running.pop(outcome.activity_id, None)
        if not running:
            self._running.pop(run, None)
        task = self._open.get(run.run_id)
        if task is None or task.run is not run:
            run.instance.resolve_local(outcome)  # kept for the next task
            return

        def resolve() -> Outcome:
            result = run.instance.resolve_local(outcome)
            assert result is not None
            return result

        result = self._guarded(task.polled, resolve)
        if isinstance(result, TaskSuccess) and result.local is not None:
            self._do(task.polled, run, result.local)
            if result.local.waits:
                return
        self._end(task, result, yields=False)

    def _yield(self, task: OpenTask) -> None:
        result = self._guarded(task.polled, task.run.instance.yield_task)
        self._end(task, result, yields=True)

    def _end(self, task: OpenTask, outcome: Outcome, *, yields: bool) -> None:
        self._forget_timer(task)
        if self._open.get(task.run.run_id) is task:
            del self._open[task.run.run_id]
        self._complete(task.polled, task.run, outcome, yields)

    @staticmethod
    def _forget_timer(task: OpenTask) -> None:
        if task.timer is not None:
            task.timer.cancel()
            task.timer = None
