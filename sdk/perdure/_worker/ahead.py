"""Workflow tasks done before the engine makes them.

An activity that a run in memory waits for has returned here: what the engine would say next is
known, down to the numbers of the events. So the run's code goes on at once, and what it asks for
travels with the result; the engine saves both together, or takes the result alone if anything else
has happened to the run (core/decide/complete_activity.py). One message and one commit where there
were two.

A run that is ahead is not to be trusted before the engine has said that it went along: a task that
comes meanwhile begins with the whole history.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from perdure._replay.messages import Payloads, Task, TaskSuccess
from perdure._wire.commands import closes_workflow
from perdure._wire.completions import Completion, activity_success_ahead
from perdure._wire.tasks import PolledActivityTask
from perdure._worker.cache import CachedRun, RunCache
from perdure._worker.guarded import GuardedCode, run_afterwards


class TaskAhead:
    """For the guard: the engine knows of no such task, but the result must not wait for code that is stuck."""

    __slots__ = ("alone", "log_fields", "run_id", "workflow_id")
    token = b""

    def __init__(self, polled: PolledActivityTask, alone: Completion) -> None:
        self.alone = alone
        self.workflow_id = polled.workflow_id
        self.run_id = polled.run_id
        self.log_fields: dict[str, Any] = {
            "perdure_workflow": {"workflow_id": self.workflow_id, "run_id": self.run_id}
        }


# What does not count costs a replay, and a task after all: with tens of events in the history about as much as so many
# of those that count have saved.
MISS_COSTS = 8
# A type that has always had luck is given up after a few misses in a row, not after as many as it had hits.
LUCK_MAX = 4 * MISS_COSTS
TYPES_MAX = 1_000  # whose luck is remembered


class _Luck:
    """Whether going ahead pays for the runs of one type. Where something else keeps happening to them
    it is given up, and tried again now and then."""

    __slots__ = ("left", "stays")

    def __init__(self) -> None:
        self.left = LUCK_MAX
        self.stays = False  # for good

    def ask(self) -> bool:
        """Whether to go ahead now. Where that is given up, each question brings the next try nearer."""
        if self.stays:
            return False
        if self.left < 0:
            self.left += 1
            return False
        return True

    def hit(self) -> None:
        self.left = min(self.left + 1, LUCK_MAX)

    def missed(self) -> None:
        self.left -= MISS_COSTS


class WorkAhead:
    """Travels with a completion; `settle` once, when the engine has answered."""

    __slots__ = ("_afterwards", "_cache", "_luck", "_run", "completion")

    def __init__(
        self,
        completion: Completion,
        cache: RunCache,
        run: CachedRun,
        luck: _Luck,
        afterwards: Sequence[Callable[[], None]],
    ) -> None:
        self.completion = completion
        self._cache = cache
        self._run = run
        self._luck = luck
        self._afterwards = afterwards

    def settle(self, *, counts: bool) -> None:
        if not counts:
            self._luck.missed()
            self._cache.evict(self._run)
            return
        self._luck.hit()
        self._run.is_ahead = False
        if self._afterwards:
            run_afterwards(self._afterwards)


class GoesAhead:
    def __init__(self, cache: RunCache, guarded: GuardedCode) -> None:
        self._cache = cache
        self._guarded = guarded
        # Of the activity that has returned nothing must reach the workflow's code.
        self._context = contextvars.Context()
        self._luck: dict[str, _Luck] = {}  # by workflow type

    def after(
        self, polled: PolledActivityTask, result: Payloads, alone: Completion, now_us: int
    ) -> WorkAhead | None:
        """What follows from the result of an activity. `alone`: the completion with nothing else;
        `now_us`: on the engine's clock.

        None: the result travels alone.
        """
        run = self._cache.get(polled.run_id)
        if run is None or run.is_ahead:
            return None
        luck = self._luck.get(polled.workflow_type)
        if luck is None:
            if len(self._luck) >= TYPES_MAX:  # dynamic workflows have any name
                self._luck.clear()
            luck = self._luck[polled.workflow_type] = _Luck()
        if not luck.ask():
            return None
        task = run.instance.task_ahead(polled.activity_id, result, now_us)
        if task is None:
            return None
        run.is_ahead = True
        watched = TaskAhead(polled, alone)
        completion, afterwards = self._context.run(
            self._go, polled, run, task, result, watched, luck
        )
        if completion is None:
            self._cache.evict(run)
            return None
        return WorkAhead(completion, self._cache, run, luck, afterwards)

    def _go(
        self,
        polled: PolledActivityTask,
        run: CachedRun,
        task: Task,
        result: Payloads,
        watched: TaskAhead,
        luck: _Luck,
    ) -> tuple[Completion | None, Sequence[Callable[[], None]]]:
        """No completion: what came of it is for a task of its own, which the engine knows of."""
        outcome = self._guarded.run(watched, partial(run.instance.activate, task))
        if not isinstance(outcome, TaskSuccess) or self._guarded.has_spoken_for(watched):
            luck.missed()
            return None, ()
        begins_locally = outcome.local is not None and outcome.local.waits
        if run.instance.asked_history_size or begins_locally:
            # Only the engine knows how large the history is; and what runs beside a workflow task
            # needs one that the engine waits for. This code will ask for it again.
            luck.stays = True
            return None, ()
        closes = any([closes_workflow(command) for command in outcome.commands])
        try:
            completion = activity_success_ahead(
                polled.token, result, task, outcome, cached=not closes
            )
        except Exception:  # a value that fits no field
            luck.missed()
            return None, ()
        self._cache.put_or_evict(run, keeps=not closes)
        return completion, outcome.afterwards
