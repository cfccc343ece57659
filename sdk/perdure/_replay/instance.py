"""A run in a worker's memory: workflow tasks in, commands out.

The history is taken workflow task by workflow task. What happened since the last one waits until
the task's Started event turns out to have been completed (on replay) or to be the last (now); then
it is told to the code in the order of the history, but what the run was sent before what it waits
for. The loop turns until nothing is ready, and the commands are compared with the events that
follow the Completed, or are returned. A workflow task that failed or timed out told the code
nothing: what led to it goes to the next.

An object that has failed a task stays where it stopped, between two events; it can only be evicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure._definitions import NO_VERSIONS, WorkflowDefinition
from perdure._failures import exception_to_failure
from perdure._replay.ahead import Known, task_ahead
from perdure._replay.applying import HAPPENED, RECORDED
from perdure._replay.interception import Interception
from perdure._replay.local_activities import LocalActivities
from perdure._replay.machines.completion import CompletionState
from perdure._replay.markers import LOCAL_ACTIVITY, local_outcome
from perdure._replay.messages import (
    Command,
    Event,
    FailWorkflow,
    LocalActivityOutcome,
    LocalWork,
    OtherEvent,
    Payloads,
    Task,
    TaskFailure,
    TaskSuccess,
    Update,
    UpdateAccepted,
    WorkflowExecutionSignaled,
    WorkflowTaskCompleted,
    WorkflowTaskFailedOrTimedOut,
    WorkflowTaskStarted,
)
from perdure._replay.patches import markers_ahead
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
        "_accepted",
        "_broken",
        "_evicted",
        "_last_event_id",
        "_open_task",
        "_ran_event_id",
        "_run",
        "_started",
        "_task",
        "_unseen",
        "_version",
    )

    def __init__(
        self,
        definition: WorkflowDefinition,
        *,
        namespace: str,
        data_converter: DataConverter,
        guarded: bool = True,
        failure_exception_types: tuple[type[BaseException], ...] = (),
        newest_activities: Mapping[str, int] = NO_VERSIONS,
        interception: Interception | None = None,
        version: tuple[str, str] = ("", ""),
        versioning_behavior: int = 0,
    ) -> None:
        """`newest_activities`: by name, those of whose versions the newest is not the first.
        `version`: the worker's deployment and build."""
        self._run = WorkflowRun(
            definition,
            data_converter.payload_converter,
            namespace,
            failure_exception_types,
            versioning_behavior,
        )
        self._run.loop.guarded = guarded and definition.guarded
        self._run.newest_activities = newest_activities
        self._run.interception = interception
        self._version = version
        self._unseen: list[Event] = []  # what happened, and the code has not been told
        self._started: WorkflowTaskStarted | None = None  # neither completed nor failed
        self._task: Task | None = None  # whose events are being taken
        # its accepted updates, by the event of the task that took them; None: not looked for
        self._accepted: dict[int, list[Update]] | None = None
        self._ran_event_id = 0  # of the Started event of the last workflow task that was run
        self._last_event_id = 0
        self._open_task: Task | None = None  # waits for local activities
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

    @property
    def asked_history_size(self) -> bool:
        """Has the code, in the present workflow task? Ahead of the engine nobody knows it."""
        return self._run.asked_history_size

    def task_ahead(self, activity_id: str, result: Payloads, now_us: int) -> Task | None:
        """The workflow task that the activity's result will lead to, if nothing else happens to the run.

        `activate` takes it like any other. None: that is not certain, or the run waits for other
        activities too, whose outcomes may come between.
        """
        if self._broken or self._open_task is not None or self._unseen or self.is_closed:
            return None
        if self._started is not None and self._started.event_id != self._ran_event_id:
            return None
        known = Known(
            last_event_id=self._last_event_id,
            ran_event_id=self._ran_event_id,
            is_completed=self._started is None,
            version=self._version,
        )
        return task_ahead(self._run, known, activity_id, result, now_us)

    def activate(self, task: Task) -> TaskSuccess | TaskFailure:
        """Brings the run to the task's last event and answers its queries.

        A success that waits (`local.waits`) is none yet: the worker runs what `local` says, tells
        each outcome to `resolve_local`, and says `yield_task` when the task has lasted long enough.
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
            self._advance(task)
            return self._finish(task)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._fail(task, error)
        finally:
            run.upcoming = ()
            run.loop.leave(entered)

    def resolve_local(self, outcome: LocalActivityOutcome) -> TaskSuccess | TaskFailure | None:
        """What became of a local activity; the result is as that of `activate`.

        None: no workflow task is open, or none any more; the code hears of it in the next one.
        """
        run = self._run
        task = self._open_task
        if self._broken or run.local is None:
            return None
        if task is None:
            run.local.keep(outcome)
            return None
        entered = run.loop.enter()
        try:
            self._resolve(outcome)
            return self._finish(task)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._fail(task, error)
        finally:
            run.loop.leave(entered)

    def yield_task(self) -> TaskSuccess:
        """What there is, although local activities still run: the engine is to send the next task
        at once."""
        task = self._open_task
        assert task is not None
        run = self._run
        entered = run.loop.enter()
        try:
            return self._finish(task, yields=True)
        finally:
            run.loop.leave(entered)

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

    def _advance(self, task: Task) -> None:
        self._run.replaying = True
        self._task, self._accepted = task, None
        self._run.upcoming = task.events
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
            return
        self._run.replaying = False
        self._run.version = self._version
        self._run_task(self._started, task.updates)

    def _finish(self, task: Task, *, yields: bool = False) -> TaskSuccess:
        """The code has gone as far as it can. Live, that is the end of the workflow task unless it
        waits for local activities."""
        run = self._run
        local: LocalWork | None = None
        is_closed = self.is_closed
        self._open_task = None
        if run.local is not None and not task.query_only:
            # Before a yield everything was begun that the code had asked for.
            waits = not yields and not is_closed and run.local.waits
            local = run.local.work(waits=waits)
            if waits:
                self._open_task = task
                return TaskSuccess(commands=[], query_results=[], local=local)
        commands: list[Command] = [] if task.query_only else run.ledger.seal()
        if task.updates and not task.query_only:
            commands = [*run.updates.take_rejections(), *commands]
        results = [answer(run, query) for query in task.queries] if task.queries else []
        if commands and is_closed:
            run.warn_unfinished(task.workflow_id)
        rules = () if task.query_only or is_closed else run.fan_outs.rules()
        if run.afterwards is None:
            return TaskSuccess(
                commands=commands,
                query_results=results,
                wake_rules=rules,
                local=local,
                versioning_behavior=run.versioning_behavior,
            )
        afterwards, run.afterwards = run.afterwards, None
        return TaskSuccess(
            commands=commands,
            query_results=results,
            wake_rules=rules,
            local=local,
            versioning_behavior=run.versioning_behavior,
            afterwards=afterwards,
        )

    def _take(self, event: Event) -> None:
        kind = type(event)
        record = RECORDED.get(kind)
        if record is not None:
            record(self._run, event)
            return
        self._run.ledger.check_settled(event)
        if kind in HAPPENED:
            self._unseen.append(event)
        elif kind is OtherEvent:
            pass
        elif isinstance(event, WorkflowTaskStarted):
            self._started = event
        elif isinstance(event, WorkflowTaskCompleted):
            self._complete(event)
        elif isinstance(event, WorkflowTaskFailedOrTimedOut):
            self._started = None
            if event.new_run_id:
                self._run.randomness.begin_anew(event.new_run_id)

    def _complete(self, event: WorkflowTaskCompleted) -> None:
        if self._started is None:
            raise HistoryError(f"event {self._last_event_id} completes a task that did not start")
        if self._started.event_id != self._ran_event_id:
            self._run.completed_event_id = self._last_event_id
            self._run.version = (event.deployment_name, event.build_id)
            self._run_task(self._started, self._accepted_by(self._last_event_id))
            self._run.ledger.seal()
        self._run.ledger.confirm()
        self._started = None

    def _accepted_by(self, completed_event_id: int) -> Sequence[Update]:
        """Updates that the code took in the task that this event completes: they are recorded behind it."""
        if self._accepted is None:
            assert self._task is not None
            self._accepted = {}
            for event in self._task.events:
                if type(event) is UpdateAccepted:
                    taken = self._accepted.setdefault(event.workflow_task_completed_event_id, [])
                    taken.append(
                        Update(
                            update_id=event.update_id,
                            update_name=event.update_name,
                            args=event.input,
                            header=event.header,
                            identity=event.identity,
                        )
                    )
        return self._accepted.get(completed_event_id, ())

    def _run_task(self, started: WorkflowTaskStarted, updates: Sequence[Update]) -> None:
        run = self._run
        run.now_us = started.time_us
        run.history_length = started.event_id
        run.history_size_bytes = started.history_size_bytes
        run.suggest_continue_as_new = started.suggest_continue_as_new
        run.asked_history_size = False
        unseen, self._unseen = self._unseen, []
        if run.main is not None and (updates or len(unseen) > 1):
            self._tell_what_was_sent(unseen, updates)
        else:
            for event in unseen:
                HAPPENED[type(event)](run, event)
            if updates:
                run.updates.deliver(updates)
        if run.main is None and run.workflow is not None:
            if len(unseen) > 1 or updates:
                run.settle()
            run.start_main()
        run.settle()
        if run.defect is not None:
            raise run.defect
        self._ran_event_id = started.event_id
        if run.local is not None:
            self._resolve_known(run.local)

    def _tell_what_was_sent(self, unseen: Sequence[Event], updates: Sequence[Update]) -> None:
        """Signals and updates go first, as far as they can go; then outcomes wake who waits for them.

        Code that ends then, or continues as new, finds what the handlers have left: otherwise what
        was sent, and acknowledged, would be lost with the run. That there are outcomes is known
        from the beginning, so that a handler cancels nothing that is over.
        """
        run = self._run
        signals = [event for event in unseen if type(event) is WorkflowExecutionSignaled]
        outcomes = [event for event in unseen if type(event) is not WorkflowExecutionSignaled]
        for signal in signals:
            HAPPENED[WorkflowExecutionSignaled](run, signal)
        if updates:
            run.updates.deliver(updates)
        sent = run.loop.ready_count
        for event in outcomes:
            HAPPENED[type(event)](run, event)
        if sent:
            run.loop.hold_ready(sent)
            run.settle()
            run.loop.release_ready()

    def _resolve_known(self, local: LocalActivities) -> None:
        """Outcomes of local activities that are known: by their markers, or come since the last
        workflow task."""
        run = self._run
        if not run.replaying:
            for outcome in local.take_early():
                self._resolve(outcome)
            return
        for marker in markers_ahead(run.upcoming, run.completed_event_id):
            if marker.marker_name == LOCAL_ACTIVITY:
                self._resolve(local_outcome(marker))

    def _resolve(self, outcome: LocalActivityOutcome) -> None:
        run = self._run
        if self.is_closed or run.local is None or not run.local.resolve(outcome):
            return
        run.settle()
        if run.defect is not None:
            raise run.defect

    def _fail(self, task: Task, error: BaseException) -> TaskSuccess | TaskFailure:
        self._broken = True
        self._open_task = None
        run = self._run
        failure = exception_to_failure(error, run.converter)
        refused = [refuse(query, error, run) for query in task.queries]
        if isinstance(error, run.failure_types) and not task.query_only:
            # As the user wants it: what replay found cannot be told to the code, so it ends here.
            return TaskSuccess(
                commands=[FailWorkflow(failure=failure)],
                query_results=refused,
                versioning_behavior=run.versioning_behavior,
            )
        cause = defect_cause(error) or WORKER_FAILURE
        return TaskFailure(cause=cause, failure=failure, query_results=refused)


def _is_whole(task: Task) -> bool:
    return bool(task.events) and task.events[0].event_id == 1
