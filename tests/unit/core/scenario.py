"""The language of these tests: given these intents, when this intent, then these events, rows and reply.

    run = Scenario(start())                                  # given
    run.turn(activity("a", retry_policy=ONCE))               #   a workflow task that schedules an activity
    token = run.hand_out("a")                                #   a worker has it
    assert run.when(failed(token)) == Then(                  # when, then
        events=["6 ActivityTaskStarted", "7 ActivityTaskFailed", "8 WorkflowTaskScheduled"],
        tasks=["activity 5 gone", "workflow ready 1"],
    )
    assert run.last(ev.ActivityTaskFailed).retry_state is RetryState.MAXIMUM_ATTEMPTS_REACHED

Whatever a `Then` does not name must not be there. Behind each `when` stand the real decision, the real rows, and
four checks that no test has to repeat: a refusal changes nothing, every row goes over the version it was read at,
the rows that are saved give back the run that is in memory, and no row is live that memory does not know.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from tests.unit.core.rebuild import assert_rebuilt, assert_rows, restored
from tests.unit.core.saved import CODEC, SHARD, Saved, new_batch

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.decide import decide, reset_workflow, start_workflow
from perdure_engine.core.decide.complete_activity import EVENTS_BEFORE
from perdure_engine.core.draft import Draft, Env
from perdure_engine.core.errors import Rejected
from perdure_engine.core.failures import Failure, FailureKind, TimeoutType
from perdure_engine.core.limits import DEFAULT_RUN_LIMITS, RunLimits
from perdure_engine.core.messages import Message, message_of
from perdure_engine.core.replies import Reply
from perdure_engine.core.state import WORKFLOW_TASK_KEY, RunState
from perdure_engine.core.tasks import Handout, TaskKind, TaskRecord, TaskState, TimerKind
from perdure_engine.core.tokens import TaskToken, token_of_task_ahead
from perdure_engine.core.versions import Versioning
from perdure_engine.history import rows
from perdure_engine.ports.rows import ROW_GONE, TaskRow, TimerRow

NAMESPACE = bytes(15) + b"\x01"
WORKFLOW_ID = "order-17"
QUEUE = "orders"
START_US = 1_800_000_000_000_000
SECOND_US = 1_000_000
WORKER = b"worker-1".ljust(16, b".")
IDENTITY = "worker-1@host"

E = TypeVar("E", bound=ev.Event)


def request_id(number: int) -> bytes:
    return b"request".ljust(15, b".") + bytes((number,))


def run_id(number: int) -> bytes:
    return b"run".ljust(15, b".") + bytes((number,))


# ---- intents


def start(number: int = 1, **changes: Any) -> intents.StartWorkflow:
    """A start with run and request id `number`."""
    fields: dict[str, Any] = {
        "run_id": run_id(number),
        "request_id": request_id(number),
        "body_hash": b"start",
    }
    return intents.StartWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        workflow_type="Order",
        task_queue=QUEUE,
        **(fields | changes),
    )


def signal(number: int = 100, **changes: Any) -> intents.SignalWorkflow:
    """A signal with request id `number`."""
    fields: dict[str, Any] = {"signal_name": "paid", "body_hash": b"signal", "run_id": b""}
    return intents.SignalWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        request_id=request_id(number),
        **(fields | changes),
    )


def update(update_id: str = "u-1", **changes: Any) -> intents.UpdateWorkflow:
    fields: dict[str, Any] = {
        "run_id": b"",
        "update_name": "set address",
        "body_hash": b"update",
        "input": b"args",
        "header": b"h",
        "identity": "me",
    }
    return intents.UpdateWorkflow(
        namespace_id=NAMESPACE, workflow_id=WORKFLOW_ID, update_id=update_id, **(fields | changes)
    )


def cancel(number: int = 200, **changes: Any) -> intents.CancelWorkflow:
    fields: dict[str, Any] = {"body_hash": b"cancel", "reason": "no longer wanted"}
    return intents.CancelWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=b"",
        request_id=request_id(number),
        **(fields | changes),
    )


def options(
    number: int, override: Versioning | None, **changes: Any
) -> intents.UpdateWorkflowOptions:
    fields: dict[str, Any] = {"body_hash": b"hash", "versioning_override": override}
    return intents.UpdateWorkflowOptions(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=b"",
        request_id=request_id(number),
        **(fields | changes),
    )


def terminate(number: int = 250, **changes: Any) -> intents.TerminateWorkflow:
    fields: dict[str, Any] = {"body_hash": b"terminate", "reason": "stop", "details": b"why"}
    return intents.TerminateWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=b"",
        request_id=request_id(number),
        **(fields | changes),
    )


def pause(number: int = 300, **changes: Any) -> intents.PauseWorkflow:
    fields: dict[str, Any] = {"body_hash": b"pause", "reason": "provider is down", "identity": "me"}
    return intents.PauseWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=b"",
        request_id=request_id(number - 100),
        **(fields | changes),
    )


def unpause(number: int = 330, **changes: Any) -> intents.UnpauseWorkflow:
    fields: dict[str, Any] = {"body_hash": b"unpause", "reason": "it is back", "identity": "me"}
    return intents.UnpauseWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=b"",
        request_id=request_id(number - 100),
        **(fields | changes),
    )


def resume(number: int = 340, **changes: Any) -> intents.ResumeWorkflow:
    fields: dict[str, Any] = {"body_hash": b"resume", "reason": "it is mended", "identity": "me"}
    return intents.ResumeWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=b"",
        request_id=request_id(number - 100),
        **(fields | changes),
    )


def reset(event_id: int = 0, number: int = 9, **changes: Any) -> intents.ResetWorkflow:
    """A reset to the end of a workflow task (0: of the last one), as run `number`."""
    fields: dict[str, Any] = {"body_hash": b"reset", "reason": "a bug", "identity": "me"}
    return intents.ResetWorkflow(
        namespace_id=NAMESPACE,
        workflow_id=WORKFLOW_ID,
        run_id=b"",
        request_id=request_id(number),
        new_run_id=run_id(number),
        event_id=event_id,
        **(fields | changes),
    )


def done(
    token: TaskToken,
    *commands: cmd.Command,
    cached: bool = False,
    force_new_task: bool = False,
) -> intents.CompleteWorkflowTask:
    return intents.CompleteWorkflowTask(
        token, list(commands), cached, WORKER, IDENTITY, "build-1", force_new_task=force_new_task
    )


def task_failed(
    token: TaskToken,
    cause: ev.WorkflowTaskFailedCause = ev.WorkflowTaskFailedCause.WORKER_FAILURE,
    message: str = "boom",
) -> intents.FailWorkflowTask:
    return intents.FailWorkflowTask(token, cause, application(message), IDENTITY)


def completed(
    token: TaskToken, result: bytes = b"result", ahead: intents.WorkAhead | None = None
) -> intents.CompleteActivity:
    return intents.CompleteActivity(token, result, IDENTITY, ahead)


def failed(
    token: TaskToken, failure: Failure | None = None, progress: bytes = b""
) -> intents.FailActivity:
    return intents.FailActivity(token, failure or application(), progress, IDENTITY)


def canceled(token: TaskToken, details: bytes = b"gave up") -> intents.CancelActivity:
    return intents.CancelActivity(token, details, IDENTITY)


def put_back(token: TaskToken, *, worker_dead: bool = True) -> intents.PutBackTask:
    return intents.PutBackTask(
        token.run_id, token.kind, token.scheduled_event_id, token.start_no, worker_dead
    )


def worker_of(token: TaskToken) -> bytes:
    """A worker of its own for each start: nobody dies twice."""
    return token.start_no.to_bytes(16, "big")


def died(token: TaskToken, worker: bytes = b"") -> intents.PutBackTask:
    """The worker, as its lease says."""
    return msgspec.structs.replace(put_back(token), crashed_worker_id=worker or worker_of(token))


def crashed(token: TaskToken, message: str = "killed by signal 11") -> intents.CrashTask:
    """The process that it had to itself."""
    return intents.CrashTask(token, Failure(FailureKind.WORKER_LOST, message), IDENTITY)


def came_back(token: TaskToken, worker: bytes = b"") -> intents.CameBack:
    return intents.CameBack(
        token.run_id, token.kind, token.scheduled_event_id, worker or worker_of(token)
    )


def timed_out(
    token: TaskToken, timeout_type: TimeoutType = TimeoutType.START_TO_CLOSE
) -> intents.TimeOutTask:
    return intents.TimeOutTask(
        token.run_id, token.kind, token.scheduled_event_id, token.start_no, timeout_type
    )


def save_start(token: TaskToken) -> intents.SaveStart:
    key = WORKFLOW_TASK_KEY if token.kind is TaskKind.WORKFLOW else token.scheduled_event_id
    return intents.SaveStart(token.run_id, key, token.start_no)


def application(message: str = "boom", type: str = "ValueError", **fields: Any) -> Failure:
    return Failure(FailureKind.APPLICATION, message, type=type, **fields)


# ---- commands


def activity(activity_id: str, **changes: Any) -> cmd.ScheduleActivity:
    fields: dict[str, Any] = {
        "activity_type": "charge",
        "task_queue": "",
        "input": b"input",
        "header": b"",
        "schedule_to_close_timeout_ms": 0,
        "schedule_to_start_timeout_ms": 0,
        "start_to_close_timeout_ms": 10_000,
        "heartbeat_timeout_ms": 0,
        "retry_policy": None,
        "priority": 0,
    }
    return cmd.ScheduleActivity(activity_id, **(fields | changes))


def timer(timer_id: str, seconds: float = 60) -> cmd.StartTimer:
    return cmd.StartTimer(timer_id, int(seconds * 1000))


def continue_as_new(**changes: Any) -> cmd.ContinueAsNew:
    fields: dict[str, Any] = {
        "workflow_type": "",
        "task_queue": "",
        "input": b"carried on",
        "header": b"",
        "memo": b"",
        "run_timeout_ms": 0,
        "task_timeout_ms": 0,
        "retry_policy": None,
    }
    return cmd.ContinueAsNew(**(fields | changes))


def child(workflow_id: str = "child-1", **changes: Any) -> cmd.StartChildWorkflow:
    fields: dict[str, Any] = {"workflow_type": "Ship", "input": b"parcel"}
    return cmd.StartChildWorkflow(workflow_id=workflow_id, **(fields | changes))


def signal_other(workflow_id: str = "other", **changes: Any) -> cmd.SignalExternalWorkflow:
    return cmd.SignalExternalWorkflow(
        workflow_id=workflow_id, **({"signal_name": "paid", "input": b"input"} | changes)
    )


def cancel_other(workflow_id: str = "other", **changes: Any) -> cmd.RequestCancelExternalWorkflow:
    return cmd.RequestCancelExternalWorkflow(workflow_id=workflow_id, **changes)


def accept(update_id: str = "u-1") -> cmd.AcceptUpdate:
    return cmd.AcceptUpdate(update_id)


def reject(update_id: str = "u-1") -> cmd.RejectUpdate:
    return cmd.RejectUpdate(update_id, application("not now", "Refused"))


def complete_update(
    update_id: str = "u-1", result: bytes = b"updated", failure: Failure | None = None
) -> cmd.CompleteUpdate:
    return cmd.CompleteUpdate(update_id, result, failure)


COMPLETE = cmd.CompleteWorkflow(b"done")
FAIL = cmd.FailWorkflow(application("no stock", "OutOfStock"))
CANCEL = cmd.CancelWorkflow(b"cleaned up")


# ---- what follows


@dataclass
class Then:
    """All that one intent did. Events are "number name", buffered ones (they have none yet) "name".

    Task rows are "kind scheduled-event-id state attempt", messages "message key to workflow-id state attempt", timer
    rows "KIND reference +seconds" or "… gone".
    """

    events: list[str] = field(default_factory=list)
    buffered: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    timers: list[str] = field(default_factory=list)
    reply: Reply = None
    refused: str = ""


NOTHING = Then()
STALE = Then(refused="NOT_FOUND TASK_NOT_FOUND")
CLOSED = Then(refused="NOT_FOUND WORKFLOW_NOT_FOUND")


@dataclass
class Begun:
    """What a start did: its answer, what became of the run that was there, and the new run."""

    reply: Reply = None
    refused: str = ""
    old: Then = field(default_factory=Then)
    then: Then = field(default_factory=Then)
    run: Scenario | None = None

    @property
    def new(self) -> Scenario:
        assert self.run is not None, "no run began"
        return self.run


class Scenario:
    """One run, what is saved of it, and the time."""

    def __init__(
        self,
        intent: intents.StartWorkflow | None = None,
        *,
        limits: RunLimits = DEFAULT_RUN_LIMITS,
        now_us: int = START_US,
    ) -> None:
        self.limits = limits
        self.now_us = now_us
        self.saved = Saved()
        self.events: list[ev.Event] = []
        self.draft: Draft | None = None
        self.rejected: Rejected | None = None  # the last refusal
        self.seen: list[bytes] = []  # the events' bytes at the last check of invariant 2
        self._numbers = itertools.count(1)
        self._at_rest: dict[tuple[int, int], str] = {}
        self.rejected_updates: dict[str, Failure] = {}
        self.begun = NOTHING
        self.following: Scenario | None = None  # the run that a commit began behind this one
        self.state: RunState
        if intent is not None:
            reply, draft = start_workflow.decide(intent, self.env(), None)
            assert draft is not None
            self.begun = self._adopt(draft, reply)

    # ---- given

    def env(self) -> Env:
        return Env(
            self.now_us, lambda: next(self._numbers), self.limits, next_fire_us=next_full_hour_us
        )

    def wait(self, seconds: float) -> None:
        self.now_us += int(seconds * SECOND_US)

    def turn(self, *commands: cmd.Command, cached: bool = False) -> Then:
        """A worker takes the workflow task and completes it."""
        return self.when(done(self.hand_out(), *commands, cached=cached))

    def reload(self) -> None:
        """A take-over: memory is gone, what is saved is read back."""
        assert self.draft is None
        self.state = restored(self.saved, self.state.run_id)

    def hand_out(
        self, activity_id: str = "", *, worker: bytes = WORKER, identity: str = IDENTITY
    ) -> TaskToken:
        """A worker takes the workflow task (""), or an activity: what history.handout does to the memory."""
        assert self.draft is None, "nothing of a busy run is handed out"
        record = self.task(activity_id)
        assert record.state is TaskState.READY
        assert record.handout is None
        folded = self.state.folded
        started_us = max(self.now_us, folded.last_time_us)
        started_event_id = 0
        if record.kind is TaskKind.WORKFLOW:
            assert not self.state.buffered
            started_event_id = folded.next_event_id + (0 if record.scheduled_event_id else 1)
        record.start_no = next(self._numbers)
        record.worker_id, record.identity, record.started_us = worker, identity, started_us
        record.handout = Handout(
            record.start_no, worker, identity, started_us, 0.0, started_event_id
        )
        return TaskToken(
            SHARD,
            NAMESPACE,
            self.state.run_id,
            record.kind,
            record.scheduled_event_id,
            record.attempt,
            record.start_no,
            started_us,
            0,
            started_event_id,
            self._updates_to() if record.kind is TaskKind.WORKFLOW else 0,
        )

    def ahead(
        self, *commands: cmd.Command, worker: bytes = WORKER, cached: bool = True
    ) -> intents.WorkAhead:
        """What a worker that has the run in memory does when its only activity returns now."""
        folded = self.state.folded
        token = token_of_task_ahead(
            TaskToken(SHARD, NAMESPACE, self.state.run_id, TaskKind.ACTIVITY, 0, 1, 0, 0, 0),
            folded.next_event_id + EVENTS_BEFORE,
            max(self.now_us, folded.last_time_us),
        )
        task = msgspec.structs.replace(done(token, *commands, cached=cached), worker_id=worker)
        return intents.WorkAhead(task, folded.previous_started_id, False)

    def _updates_to(self) -> int:
        """All admitted updates go out with the workflow task."""
        return max((one.seq for one in (self.state.admitted or {}).values()), default=0)

    # ---- when

    def when(self, intent: intents.Intent) -> Then:
        """Decide one intent and save what it did, in a batch of its own."""
        reply, refused = self.decide(intent)
        then = self.commit()
        then.reply, then.refused = reply, refused
        return then

    def decide(self, intent: intents.Intent) -> tuple[Reply, str]:
        """Decide one intent in the batch that is open; `commit` ends it."""
        draft = self.draft = self.draft or Draft(self.state, self.env())
        draft.env = self.env()
        before = frozen(self.state), changes_of(draft)
        self.rejected = None
        try:
            return decide(draft, intent), ""
        except Rejected as refusal:
            self.rejected = refusal
            assert (frozen(self.state), changes_of(draft)) == before, "a refusal changes nothing"
            return None, f"{refusal.code.name} {refusal.reason}"

    def message(self, key: int) -> Message | None:
        """What the message of that key says now."""
        record = self.state.tasks.get(key)
        return None if record is None else message_of(self.state, key, record.task_id)

    def answer(
        self, key: int, outcome: intents.MessageOutcome = intents.MessageOutcome.DONE
    ) -> Then:
        """The other run has answered the message of that key."""
        task_id = self.state.tasks[key].task_id
        return self.when(intents.AnswerMessage(self.state.run_id, key, task_id, outcome))

    def start(self, intent: intents.StartWorkflow) -> Begun:
        """Start the same workflow id again while this run is its current one."""
        draft = Draft(self.state, self.env())
        before = frozen(self.state)
        try:
            reply, new = start_workflow.decide(intent, self.env(), draft)
        except Rejected as refusal:
            assert frozen(self.state) == before, "a refusal changes nothing"
            assert draft.empty
            self.rejected = refusal
            return Begun(refused=f"{refusal.code.name} {refusal.reason}")
        self.draft = draft
        begun = Begun(reply, old=self.commit())
        if new is not None:
            begun.run = Scenario(limits=self.limits, now_us=self.now_us)
            begun.run._numbers = self._numbers
            begun.then = begun.run._adopt(new, None)
        return begun

    def reset(
        self,
        intent: intents.ResetWorkflow,
        *,
        current: Scenario | None = None,
        later: tuple[ev.Event, ...] = (),
    ) -> Begun:
        """Reset this run. `current` is the id's current run, when that is another one; `old` is what becomes of it.
        `later`: what was sent to the runs that this one continued as."""
        last = current or self
        base = Draft(self.state, self.env())
        draft = base if last is self else Draft(last.state, self.env())
        before = frozen(self.state), frozen(last.state)
        try:
            reply, new = reset_workflow.decide(
                intent, self.env(), base, draft, self.events, later, continues=bool(later)
            )
        except Rejected as refusal:
            assert (frozen(self.state), frozen(last.state)) == before, "a refusal changes nothing"
            assert draft.empty
            self.rejected = refusal
            return Begun(refused=f"{refusal.code.name} {refusal.reason}")
        assert last is self or base.empty, "a closed run never changes"
        last.draft = draft
        begun = Begun(reply, old=last.commit())
        begun.run = Scenario(limits=self.limits, now_us=self.now_us)
        begun.run._numbers = self._numbers
        begun.then = begun.run._adopt(new, None)
        return begun

    def fire(self, kind: TimerKind, reference: int = 0) -> Then:
        """The time of a timer comes, and its row fires."""
        row = self.state.timer_rows[kind, reference]
        self.now_us = max(self.now_us, row.wake_us)
        return self.when(
            intents.FireTimer(self.state.run_id, kind, reference, row.wake_us, row.timer_id)
        )

    def commit(self) -> Then:
        draft, self.draft = self.draft, None
        if draft is None or draft.empty:
            return Then()
        batch = new_batch()
        rows.add_run(batch, SHARD, draft, CODEC)
        self.saved.commit(batch)
        rows.saved(draft)
        self.events += draft.events
        self.rejected_updates |= draft.rejected or {}
        assert_rebuilt(self.state, self.saved)
        assert_rows(self.state, self.saved)
        if draft.next_run is not None:
            self.following = Scenario(limits=self.limits, now_us=self.now_us)
            self.following._numbers = self._numbers
            self.following.begun = self.following._adopt(draft.next_run, None)
        waiting = {seq for _, seq in self.saved.inbox}
        return Then(
            events=[f"{event.event_id} {type(event).__name__}" for event in draft.events],
            buffered=[type(event).__name__ for seq, event in draft.inbox if seq in waiting],
            tasks=[self._task_text(row) for row in batch.tasks],
            timers=[self._timer_text(row) for row in batch.timers],
        )

    def _adopt(self, draft: Draft, reply: Reply) -> Then:
        self.state = draft.state
        self.draft = draft
        then = self.commit()
        then.reply = reply
        return then

    # ---- then

    @property
    def next(self) -> Scenario:
        assert self.following is not None, "no run follows"
        return self.following

    @property
    def started(self) -> ev.WorkflowExecutionStarted:
        return self.state.folded.started

    def last(self, event_type: type[E]) -> E:
        """The last event of a type, numbered or buffered."""
        for event in reversed([*self.events, *self.state.buffered]):
            if isinstance(event, event_type):
                return event
        raise AssertionError(f"no {event_type.__name__}")

    def task(self, activity_id: str = "") -> TaskRecord:
        """The record of the workflow task (""), or of a pending activity."""
        return self.state.tasks[self.key_of(activity_id) if activity_id else WORKFLOW_TASK_KEY]

    def key_of(self, activity_id: str) -> int:
        (key,) = (
            key
            for key, pending in self.state.folded.activities.items()
            if pending.scheduled.activity_id == activity_id
        )
        return key

    @property
    def names(self) -> list[str]:
        """The names of all events so far."""
        return [type(event).__name__ for event in self.events]

    def _task_text(self, row: TaskRow) -> str:
        key = (row.queue_no, row.task_id)
        if row.state == ROW_GONE:
            return f"{self._at_rest[key]} gone"
        record = CODEC.decode_task(row)
        name = "workflow"
        if record.kind is TaskKind.ACTIVITY:
            name = f"activity {record.scheduled_event_id}"
        if record.kind is TaskKind.MESSAGE:
            name = f"message {record.scheduled_event_id} to {record.queue}"
        self._at_rest[key] = name
        return f"{name} {record.state.name.lower()} {record.attempt}"

    def _timer_text(self, row: TimerRow) -> str:
        name = f"{TimerKind(row.kind).name} {row.reference}"
        if row.state == ROW_GONE:
            return f"{name} gone"
        assert row.wake_us == row.due_us
        return f"{name} +{(row.due_us - self.now_us) / SECOND_US:g}s"


HOUR_US = 3_600 * SECOND_US


def next_full_hour_us(schedule: str, after_us: int) -> int:
    """Every schedule of these tests is hourly, but "never"."""
    return 0 if schedule == "never" else (after_us // HOUR_US + 1) * HOUR_US


def frozen(state: RunState) -> bytes:
    """Everything of a run, as bytes to compare."""
    return msgspec.msgpack.encode(
        [
            state.folded,
            state.buffered,
            state.inbox_seq,
            state.inbox_done,
            list(state.tasks.items()),
            list(state.timer_rows.values()),
            state.history_bytes,
            state.snapshot_event_id,
            state.version,
            state.sticky_worker_id,
            state.admitted,
            state.inbox_numbered,
        ]
    )


def changes_of(draft: Draft) -> tuple[int, ...]:
    return (
        len(draft.events),
        len(draft.inbox),
        len(draft.tasks),
        len(draft.gone_tasks),
        len(draft.timers),
        len(draft.gone_timers),
        draft.listed,
    )
