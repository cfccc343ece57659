"""A run in a worker's memory: workflow tasks in, commands out.

The history is taken workflow task by workflow task. What happened since the last one waits until
the task's Started event turns out to have been completed (on replay) or to be the last (now); then
it is told to the code in the order of the history, the loop turns until nothing is ready, and the
commands are compared with the events that follow the Completed, or are returned. A workflow task
that failed or timed out told the code nothing: what led to it goes to the next.

An object that has failed a task stays where it stopped, between two events; it can only be evicted.
"""

from __future__ import annotations

from perdure._definitions import WorkflowDefinition
from perdure._failures import exception_to_failure
from perdure._replay.applying import HAPPENED, RECORDED
from perdure._replay.machines.completion import CompletionState
from perdure._replay.messages import (
    Command,
    Event,
    Task,
    TaskFailure,
    TaskSuccess,
    WorkflowTaskCompleted,
    WorkflowTaskFailedOrTimedOut,
    WorkflowTaskStarted,
)
from perdure._replay.queries import answer, refuse
from perdure._replay.run import WorkflowRun
from perdure._replay.verdict import WORKER_FAILURE, defect_cause
from perdure.converter import DataConverter
from perdure.errors import HistoryError


class WorkflowInstance:
    """Not thread-safe: one call at a time, from whichever thread.

    `guarded` False switches the guard off for this run (debugging, code that is known to be odd).
    """

    __slots__ = (
        "_broken",
        "_evicted",
        "_last_event_id",
        "_ran_event_id",
        "_run",
        "_started",
        "_unseen",
    )

    def __init__(
        self,
        definition: WorkflowDefinition,
        *,
        namespace: str,
        data_converter: DataConverter,
        guarded: bool = True,
    ) -> None:
        self._run = WorkflowRun(definition, data_converter.payload_converter, namespace)
        self._run.loop.guarded = guarded
        self._unseen: list[Event] = []  # what happened, and the code has not been told
        self._started: WorkflowTaskStarted | None = None  # neither completed nor failed
        self._ran_event_id = 0  # of the Started event of the last workflow task that was run
        self._last_event_id = 0
        self._broken = False  # by a failed task
        self._evicted = False

    @property
    def is_closed(self) -> bool:
        """The code has ended. The object may still answer queries."""
        return self._run.completion.state is not CompletionState.OPEN

    def fits(self, task: Task) -> bool:
        """Can `activate` take this task? If not: evict, and start over with the whole history.

        False when the task's events do not join what is in memory, and when what is in memory came
        of a workflow task whose commands the engine did not take.
        """
        if self._broken or task.previous_started_event_id != self._ran_event_id:
            return self._ran_event_id == 0 and not self._broken and _is_whole(task)
        return not task.events or task.events[0].event_id <= self._last_event_id + 1

    def activate(self, task: Task) -> TaskSuccess | TaskFailure:
        """Brings the run to the task's last event and answers its queries.

        Never raises for what the user's code does (KeyboardInterrupt passes). After a TaskFailure
        the object is of no more use: evict it.
        """
        run = self._run
        entered = run.loop.enter()
        try:
            if not self.fits(task):
                raise HistoryError(
                    f"events from {task.events[0].event_id if task.events else 'nowhere'} do not "
                    f"join what is in memory, up to {self._last_event_id}"
                )
            commands = self._advance(task)
            results = [answer(run, query) for query in task.queries] if task.queries else []
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._fail(task, error)
        finally:
            run.loop.leave(entered)
        if task.query_only or run.completion.state is not CompletionState.OPEN:
            return TaskSuccess(commands=commands, query_results=results)
        return TaskSuccess(
            commands=commands, query_results=results, wake_rules=run.fan_outs.rules()
        )

    def evict(self) -> None:
        """Takes the run out of memory. Its code is closed where it stands, without effect.

        For closed runs too: it opens the rings of references that would wait for the garbage
        collector otherwise. Once or more often.
        """
        if self._evicted:
            return
        self._evicted = self._broken = True
        loop = self._run.loop
        entered = loop.enter()
        try:
            self._run.evict()
        finally:
            loop.leave(entered)

    def _advance(self, task: Task) -> list[Command]:
        self._run.replaying = True
        last_event_id = self._last_event_id
        for event in task.events:
            if event.event_id <= last_event_id:
                continue  # the whole history, sent to one that has the beginning
            if event.event_id != self._last_event_id + 1:
                raise HistoryError(
                    f"event {event.event_id} follows event {self._last_event_id}: some are missing"
                )
            self._last_event_id = event.event_id
            self._take(event)
        if task.events:
            self._run.ledger.check_settled(task.events[-1])
        if task.query_only or self._started is None:
            return []
        self._run.replaying = False
        return self._run_task(self._started)

    def _take(self, event: Event) -> None:
        kind = type(event)
        record = RECORDED.get(kind)
        if record is not None:
            record(self._run, event)
            return
        self._run.ledger.check_settled(event)
        if kind in HAPPENED:
            self._unseen.append(event)
        elif isinstance(event, WorkflowTaskStarted):
            self._started = event
        elif kind is WorkflowTaskCompleted:
            self._complete()
        elif kind is WorkflowTaskFailedOrTimedOut:
            self._started = None

    def _complete(self) -> None:
        if self._started is None:
            raise HistoryError(f"event {self._last_event_id} completes a task that did not start")
        if self._started.event_id != self._ran_event_id:
            self._run_task(self._started)
        self._run.ledger.confirm()
        self._started = None

    def _run_task(self, started: WorkflowTaskStarted) -> list[Command]:
        run = self._run
        run.now_us = started.time_us
        run.history_length = started.event_id
        run.history_size_bytes = started.history_size_bytes
        run.suggest_continue_as_new = started.suggest_continue_as_new
        unseen, self._unseen = self._unseen, []
        for event in unseen:
            HAPPENED[type(event)](run, event)
        run.loop.run_until_idle(run.conditions.check)
        if run.defect is not None:
            raise run.defect
        self._ran_event_id = started.event_id
        return run.ledger.seal()

    def _fail(self, task: Task, error: BaseException) -> TaskFailure:
        self._broken = True
        run = self._run
        return TaskFailure(
            cause=defect_cause(error) or WORKER_FAILURE,
            failure=exception_to_failure(error, run.converter),
            query_results=[refuse(query, error, run) for query in task.queries],
        )


def _is_whole(task: Task) -> bool:
    return bool(task.events) and task.events[0].event_id == 1
