"""A pocket engine: writes the history that the real one would, and replays it.

run = PocketEngine(Order, 7)
run.task()                       # one workflow task, on the cached instance; its commands
run.complete("1", "ok")          # an activity's outcome
run.task()
run.replay()                     # the same history on a fresh instance; its last commands
"""

from collections.abc import Sequence
from typing import Any

from tests.unit.sdk.others_in_small import OTHERS, OtherRuns, telling

from perdure._definitions import workflow_definition
from perdure._failure_info import ActivityInfo, FailureInfo
from perdure._failures import exception_to_failure
from perdure._payload import Payload
from perdure._replay import messages as m
from perdure._replay.instance import WorkflowInstance
from perdure._replay.interception import Interception
from perdure.converter import DataConverter
from perdure.errors import RetryState
from perdure.worker import Interceptor
from perdure.workflow._outbound import RootOutbound

CONVERTER = DataConverter.default.payload_converter
START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000


def payloads(*values: Any) -> list[Payload]:
    return CONVERTER.to_payloads(values)


def value_of(payload: Sequence[Payload], hint: Any = Any) -> Any:
    (one,) = payload
    return CONVERTER.from_payload(one, hint)


# Evicted by a fixture after each test: a run that the garbage collector finds makes noise.
in_memory: list[WorkflowInstance] = []


def new_instance(
    cls: type,
    *,
    guarded: bool = True,
    interceptors: Sequence[Interceptor] = (),
    **options: Any,
) -> WorkflowInstance:
    instance = WorkflowInstance(
        workflow_definition(cls),
        namespace="default",
        data_converter=DataConverter.default,
        guarded=guarded,
        interception=Interception.of(interceptors, RootOutbound),
        **options,
    )
    in_memory.append(instance)
    return instance


CLOSINGS: dict[type[m.Command], str] = {
    m.CompleteWorkflow: "WorkflowExecutionCompleted",
    m.FailWorkflow: "WorkflowExecutionFailed",
    m.CancelWorkflow: "WorkflowExecutionCanceled",
    m.ContinueAsNew: "WorkflowExecutionContinuedAsNew",
}


class PocketEngine(OtherRuns):
    def __init__(
        self,
        cls: type,
        *args: Any,
        memo: dict[str, Payload] | None = None,
        started: dict[str, Any] | None = None,
        interceptors: Sequence[Interceptor] = (),
        **options: Any,
    ) -> None:
        """`started`: what the first event says besides; `options`: of the instances."""
        self.cls = cls
        self.options: dict[str, Any] = {"interceptors": interceptors, **options}
        self.instance = new_instance(cls, **self.options)
        self.events: list[m.Event] = []
        self.now_us = START_US
        self.sent = 0  # events that the cached instance has
        self.previous_started_event_id = 0
        self.queries: list[m.Query] = []
        self.updates: list[m.Update] = []  # admitted, and no task has settled them
        self.rejected: dict[str, FailureInfo] = {}
        self.outcomes: dict[str, m.CompleteUpdate] = {}
        self.add(
            m.WorkflowExecutionStarted,
            workflow_id="w-1",
            run_id="0199c7d2-1111-7222-8333-444455556666",
            first_run_id="0199c7d2-1111-7222-8333-444455556666",
            input=payloads(*args),
            memo=memo or {},
            attempt=1,
            execution_timeout_ms=0,
            run_timeout_ms=0,
            task_timeout_ms=10_000,
            retry_policy=None,
            priority=0,
            **(self.of_the_start() | (started or {})),
        )

    def of_the_start(self) -> dict[str, Any]:
        return {"header": {}, "task_queue": "orders", "workflow_type": self.cls.__name__}

    # --- events -----------------------------------------------------------------------------------

    def add(self, kind: type[m.Event], /, **fields: Any) -> int:
        event_id = len(self.events) + 1
        self.events.append(kind(event_id=event_id, time_us=self.now_us, **fields))
        return event_id

    def scheduled(self, activity_id: str) -> int:
        for event in reversed(self.events):
            if isinstance(event, m.ActivityTaskScheduled) and event.activity_id == activity_id:
                return event.event_id
        raise AssertionError(f"activity {activity_id} was not scheduled")

    def started_timer(self, timer_id: str) -> int:
        for event in reversed(self.events):
            if isinstance(event, m.TimerStarted) and event.timer_id == timer_id:
                return event.event_id
        raise AssertionError(f"timer {timer_id} was not started")

    def complete(self, activity_id: str, value: Any = None) -> None:
        self.complete_with(activity_id, payloads(value))

    def complete_with(self, activity_id: str, result: list[Payload]) -> None:
        scheduled = self.scheduled(activity_id)
        self.add(m.ActivityTaskCompleted, scheduled_event_id=scheduled, result=result)

    def fail(self, activity_id: str, error: BaseException) -> None:
        scheduled = self.scheduled(activity_id)
        failure = FailureInfo(
            message="activity failed",
            cause=exception_to_failure(error, CONVERTER),
            info=ActivityInfo(
                scheduled_event_id=scheduled,
                started_event_id=scheduled + 1,
                identity="a worker",
                activity_type="charge",
                activity_id=activity_id,
                retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
            ),
        )
        self.add(m.ActivityTaskFailed, scheduled_event_id=scheduled, failure=failure)

    def cancel_activity(self, activity_id: str, *details: Any) -> None:
        scheduled = self.scheduled(activity_id)
        self.add(m.ActivityTaskCanceled, scheduled_event_id=scheduled, details=payloads(*details))

    def fire(self, timer_id: str) -> None:
        started = self.started_timer(timer_id)
        self.add(m.TimerFired, timer_id=timer_id, started_event_id=started)

    def signal(self, name: str, *args: Any, header: dict[str, Payload] | None = None) -> None:
        self.add(
            m.WorkflowExecutionSignaled,
            signal_name=name,
            input=payloads(*args),
            header=header or {},
            identity="a client",
        )

    def update(
        self, update_id: str, name: str, *args: Any, header: dict[str, Payload] | None = None
    ) -> None:
        self.updates.append(
            m.Update(
                update_id=update_id,
                update_name=name,
                args=payloads(*args),
                header=header or {},
                identity="a client",
            )
        )

    def cancel(self, reason: str = "") -> None:
        self.add(m.WorkflowExecutionCancelRequested, reason=reason)

    # --- workflow tasks ---------------------------------------------------------------------------

    def begin_task(self) -> None:
        """Scheduled and started; time goes on by a second with each."""
        self.now_us += SECOND_US
        self.add(m.OtherEvent)
        self.add(m.WorkflowTaskStarted, history_size_bytes=1_000, suggest_continue_as_new=False)

    def fail_task(self) -> None:
        """A workflow task that comes to nothing, on a worker that we do not see."""
        self.begin_task()
        self.add(m.WorkflowTaskFailedOrTimedOut)

    def run_task(self) -> m.TaskSuccess | m.TaskFailure:
        """One workflow task on the cached instance; a success is written into the history."""
        self.begin_task()
        started = len(self.events)
        message = self.message(self.events[self.sent :], updates=self.updates)
        outcome = self.instance.activate(message)
        self.sent = started
        return self.taken(outcome)

    def taken(self, outcome: m.TaskSuccess | m.TaskFailure) -> m.TaskSuccess | m.TaskFailure:
        """What the engine makes of it; nothing of a task that waits for local activities."""
        if isinstance(outcome, m.TaskSuccess) and not (outcome.local and outcome.local.waits):
            self.previous_started_event_id = self.sent
            self.completed_id = self.add(m.WorkflowTaskCompleted, build_id="")
            for command in outcome.commands:
                if isinstance(command, OTHERS):
                    self.write_other(command)
                else:
                    self._write(command)
            self._do_afterwards(outcome)
        return outcome

    def task(self) -> list[m.Command]:
        """`run_task`, which must succeed: its commands."""
        outcome = self.run_task()
        assert isinstance(outcome, m.TaskSuccess), outcome.failure
        return outcome.commands

    def local(self, activity_id: str, value: Any = None, **changes: Any) -> m.TaskSuccess:
        """A local activity's outcome, while its workflow task is open; it must not fail."""
        result = [] if "failure" in changes else payloads(value)
        outcome = self.instance.resolve_local(
            m.LocalActivityOutcome(
                **({"activity_id": activity_id, "attempt": 1, "result": result} | changes)
            )
        )
        assert isinstance(outcome, m.TaskSuccess), outcome
        self.taken(outcome)
        return outcome

    def early_local(self, activity_id: str, value: Any = None) -> None:
        """The outcome comes between two workflow tasks."""
        outcome = m.LocalActivityOutcome(activity_id=activity_id, attempt=1, result=payloads(value))
        assert self.instance.resolve_local(outcome) is None

    def yield_task(self) -> list[m.Command]:
        outcome = self.instance.yield_task()
        self.taken(outcome)
        return outcome.commands

    def failed_task(self) -> m.TaskFailure:
        outcome = self.run_task()
        assert isinstance(outcome, m.TaskFailure), outcome
        return outcome

    def _write(self, command: m.Command) -> None:  # noqa: C901 - one case for each command
        match command:
            case m.ScheduleActivity():
                self.add(
                    m.ActivityTaskScheduled,
                    activity_id=command.activity_id,
                    activity_type=command.activity_type,
                    version=command.version,
                )
            case m.RequestCancelActivity(scheduled_event_id=event_id):
                self.add(m.ActivityTaskCancelRequested, scheduled_event_id=event_id)
            case m.StartTimer(timer_id=timer_id, start_to_fire_ms=start_to_fire_ms):
                self.add(m.TimerStarted, timer_id=timer_id, start_to_fire_ms=start_to_fire_ms)
            case m.CancelTimer(timer_id=timer_id):
                started = self.started_timer(timer_id)
                self.add(m.TimerCanceled, timer_id=timer_id, started_event_id=started)
            case m.RecordMarker():
                self.add(
                    m.MarkerRecorded,
                    marker_name=command.marker_name,
                    marker_id=command.marker_id,
                    details=command.details,
                    failure=command.failure,
                )
            case m.ModifyProperties():
                self.add(m.WorkflowPropertiesModified)
            case m.AcceptUpdate() | m.RejectUpdate() | m.CompleteUpdate():
                self._write_update(command)
            case m.CompleteWorkflow():
                self.close("WorkflowExecutionCompleted")
            case m.FailWorkflow():
                self.close("WorkflowExecutionFailed")
            case m.CancelWorkflow():
                self.close("WorkflowExecutionCanceled")
            case m.ContinueAsNew():
                self.close("WorkflowExecutionContinuedAsNew")
            case m.UpsertSearchAttributes():
                self.add(m.UpsertWorkflowSearchAttributes)
            case _:
                self.close(CLOSINGS[type(command)])

    def _write_update(self, command: m.AcceptUpdate | m.RejectUpdate | m.CompleteUpdate) -> None:
        match command:
            case m.AcceptUpdate(update_id=update_id):
                update = self._settled(update_id)
                self.add(
                    m.UpdateAccepted,
                    update_id=update_id,
                    update_name=update.update_name,
                    input=update.args,
                    header=update.header,
                    identity=update.identity,
                    workflow_task_completed_event_id=self.completed_id,
                )
            case m.RejectUpdate(update_id=update_id, failure=failure):
                self._settled(update_id)
                self.rejected[update_id] = failure
            case m.CompleteUpdate(update_id=update_id):
                self.add(m.UpdateCompleted, update_id=update_id)
                self.outcomes[update_id] = command

    def _settled(self, update_id: str) -> m.Update:
        (update,) = [one for one in self.updates if one.update_id == update_id]
        self.updates.remove(update)
        return update

    def close(self, kind: str) -> None:
        self.add(m.WorkflowExecutionClosed, kind=kind)

    # --- messages ---------------------------------------------------------------------------------

    def message(
        self,
        events: list[m.Event],
        *,
        queries: Sequence[m.Query] = (),
        query_only: bool = False,
        previous: int | None = None,
        updates: Sequence[m.Update] = (),
    ) -> m.Task:
        if previous is None:
            previous = self.previous_started_event_id
        return m.Task(
            token=b"",
            workflow_id="w-1",
            run_id="0199c7d2-1111-7222-8333-444455556666",
            workflow_type=self.cls.__name__,
            attempt=1,
            previous_started_event_id=previous,
            started_event_id=events[-1].event_id if events else previous,
            events=list(events),
            queries=[*self.queries, *queries],
            query_only=query_only,
            history_size_bytes=0,
            suggest_continue_as_new=False,
            updates=list(updates),
        )

    def replay_outcome(self, cls: type | None = None) -> m.TaskSuccess | m.TaskFailure:
        """The history up to its last workflow task, on a fresh instance of `cls`."""
        last = max(e.event_id for e in self.events if isinstance(e, m.WorkflowTaskStarted))
        instance = new_instance(cls or self.cls, **self.options)
        outcome = instance.activate(self.message(self.events[:last]))
        instance.evict()
        return outcome

    def replay(self, cls: type | None = None) -> list[m.Command]:
        outcome = self.replay_outcome(cls)
        assert isinstance(outcome, m.TaskSuccess), outcome.failure
        return outcome.commands

    def replay_all(self, cls: type | None = None) -> m.TaskSuccess | m.TaskFailure:
        """The whole history, the events of the last commands too, as for a query."""
        instance = new_instance(cls or self.cls, **self.options)
        outcome = instance.activate(self.message(self.events, query_only=True))
        instance.evict()
        return outcome

    def query(
        self, query_type: str, *args: Any, header: dict[str, Payload] | None = None
    ) -> m.QueryResult:
        """On the cached instance, with nothing new."""
        query = m.Query(
            query_token=b"q", query_type=query_type, args=payloads(*args), header=header or {}
        )
        outcome = self.instance.activate(self.message([], queries=[query], query_only=True))
        self._do_afterwards(outcome)
        (result,) = outcome.query_results
        return result

    @staticmethod
    def _do_afterwards(outcome: m.TaskSuccess | m.TaskFailure) -> None:
        """As a worker does once the engine has taken the task."""
        if isinstance(outcome, m.TaskSuccess):
            for one in outcome.afterwards:
                one()


def names(commands: Sequence[m.Command]) -> list[str]:
    """Commands in short: "ScheduleActivity 1 charge", "StartTimer 1 5000", "CompleteWorkflow"."""
    return [" ".join([type(one).__name__, *map(str, _telling(one))]) for one in commands]


def _telling(command: m.Command) -> tuple[Any, ...]:  # noqa: C901 - one case for each command
    told = telling(command)
    if told is not None:
        return told
    match command:
        case m.ScheduleActivity():
            return command.activity_id, command.activity_type
        case m.StartTimer():
            return command.timer_id, command.start_to_fire_ms
        case m.CancelTimer():
            return (command.timer_id,)
        case m.RequestCancelActivity():
            return (command.scheduled_event_id,)
        case m.CompleteWorkflow():
            return (value_of(command.result),)
        case m.FailWorkflow():
            return (command.failure.message,)
        case m.AcceptUpdate() | m.RejectUpdate() | m.CompleteUpdate():
            return (command.update_id,)
        case m.RecordMarker():
            return command.marker_name, command.marker_id
        case m.UpsertSearchAttributes(updates=updates):
            return tuple(f"{one.key.name}={one.value}" for one in updates)
        case _:
            return ()
