"""What one batch changes of one run.

The decisions of a batch share one draft a run: a row that is made and ended within the batch is never written,
and a row that changes twice is written once. `emit` applies each event as it is made, so that what a later
decision of the batch sees is what history will say. A decision refuses before its first change or not at all.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure_engine.core import events as ev
from perdure_engine.core import outside_events as out
from perdure_engine.core.apply import apply
from perdure_engine.core.audit import Entry
from perdure_engine.core.closing import tell_relatives
from perdure_engine.core.events import BufferedEvent, Event, InboxEvent
from perdure_engine.core.failures import Failure
from perdure_engine.core.ids import queue_number
from perdure_engine.core.limits import RunLimits
from perdure_engine.core.poison import Rung
from perdure_engine.core.state import WORKFLOW_TASK_KEY, Admitted, Child, RunState, pinned_version
from perdure_engine.core.tasks import (
    MESSAGE_QUEUE_NO,
    TaskKind,
    TaskRecord,
    TaskState,
    TimerKind,
    TimerRecord,
)
from perdure_engine.core.versions import bucket


def no_cron(schedule: str, after_us: int) -> int:
    """Where no cron schedule can be: none of them ever fires."""
    return 0


def as_it_is(json: bytes) -> bytes:
    """Where nobody reads payloads."""
    return json


class Env(msgspec.Struct):
    """What a decision may know of the world: brought in, so that core stays pure.

    `new_number` gives task, timer and start numbers (ids.SEQUENCE_BITS). `next_fire_us` says when a cron schedule
    fires next after an instant; 0: never again. `json_payload` makes Payloads of one JSON document.
    """

    now_us: int
    new_number: Callable[[], int]
    limits: RunLimits
    timer_mark_us: int = 0  # no timer may wake before it: what lies there is swept
    next_fire_us: Callable[[str, int], int] = no_cron
    json_payload: Callable[[bytes], bytes] = as_it_is


class Draft:
    __slots__ = (
        "ahead",
        "audit",
        "buffered",
        "climbed",
        "env",
        "events",
        "gone_tasks",
        "gone_timers",
        "inbox",
        "inbox_done_before",
        "is_new",
        "listed",
        "messages",
        "next_run",
        "rejected",
        "state",
        "tasks",
        "timers",
    )

    def __init__(self, state: RunState, env: Env, *, is_new: bool = False) -> None:
        self.state = state
        self.env = env
        self.is_new = is_new
        self.inbox_done_before = state.inbox_done
        self.listed = (
            False  # what lists say of the run has changed otherwise than by start or close
        )
        self.events: list[Event] = []
        self.inbox: list[tuple[int, InboxEvent]] = []
        self.tasks: list[
            TaskRecord
        ] = []  # changed or new; may hold one twice, and ones that are gone by now
        self.gone_tasks: list[TaskRecord] = []
        self.timers: list[TimerRecord] = []  # new
        self.gone_timers: list[TimerRecord] = []
        # the run that follows this one, which has closed: saved in the same batch
        self.next_run: Draft | None = None
        self.rejected: dict[str, Failure] | None = None  # updates: told to who waits, kept nowhere
        self.audit: list[Entry] | None = None  # for the log of what operators did
        self.climbed: list[tuple[Rung, TaskKind]] | None = None  # by what crashes its workers
        self.ahead: list[bool] | None = None  # of what workers did ahead: whether it counts
        self.messages = False  # some of `tasks` are messages to other runs

    @property
    def empty(self) -> bool:
        return not (
            self.events
            or self.inbox
            or self.tasks
            or self.gone_tasks
            or self.timers
            or self.gone_timers
            or self.is_new
            or self.audit
        )

    def climb(self, rung: Rung, kind: TaskKind) -> None:
        """To be counted once it is saved."""
        if self.climbed is None:
            self.climbed = []
        self.climbed.append((rung, kind))

    def note_ahead(self, *, counts: bool) -> None:
        """To be counted once it is saved."""
        if self.ahead is None:
            self.ahead = []
        self.ahead.append(counts)

    def note(self, entry: Entry) -> None:
        """Saved with whatever else the draft has."""
        if self.audit is None:
            self.audit = []
        self.audit.append(entry)

    # ---- events

    def stamp(self) -> tuple[int, int]:
        """Id and time of the next event. Time never decreases inside a run."""
        folded = self.state.folded
        return folded.next_event_id, max(self.env.now_us, folded.last_time_us)

    def emit(self, event: Event) -> None:
        apply(self.state.folded, event)
        self.events.append(event)

    def emit_now(self, event: BufferedEvent) -> None:
        """Emit what another run knew already, with a number of this one's."""
        event_id, time_us = self.stamp()
        self.emit(_numbered(event, event_id, time_us, {}, self.state.folded.children))

    def buffer(self, event: BufferedEvent) -> None:
        """Save the event without a number until the workflow task that is out comes back."""
        state = self.state
        state.inbox_seq += 1
        state.buffered.append(event)
        self.inbox.append((state.inbox_seq, event))

    def number_buffered(self) -> bool:
        """Give the buffered events their numbers. Returns whether the workflow must look at them."""
        state = self.state
        if not state.buffered:
            return False
        wakes = False
        waiting, state.buffered = state.buffered, []
        self.mark_inbox()
        started: dict[int, int] = {}
        override = state.folded.versioning_override
        for event in waiting:
            event_id, _ = self.stamp()
            time_us = max(event.time_us, state.folded.last_time_us)
            numbered = _numbered(event, event_id, time_us, started, state.folded.children)
            wakes = wakes or self._wakes(event)
            self.emit(numbered)
        if state.folded.versioning_override is not override:
            self.pin_anew()
        return wakes or self._rule_is_met()

    def drop_buffered(self) -> None:
        """The run has closed: what waits will never be numbered."""
        self.state.buffered = []
        self.mark_inbox()

    def mark_inbox(self) -> None:
        """No event waits in the inbox any more; only admitted updates may."""
        state = self.state
        if state.admitted:
            state.inbox_numbered = state.inbox_seq
            state.inbox_done = next(iter(state.admitted.values())).seq - 1
        else:
            state.inbox_done = state.inbox_seq

    # ---- updates

    def admit(self, event: ev.WorkflowExecutionUpdateAdmitted) -> None:
        """Save the update until a worker has said whether the workflow takes it."""
        state = self.state
        state.inbox_seq += 1
        if state.admitted is None:
            state.admitted = {}
        state.admitted[event.update_id] = Admitted(state.inbox_seq, event)
        self.inbox.append((state.inbox_seq, event))
        self.schedule_workflow_task()

    def settle_update(self, update_id: str) -> ev.WorkflowExecutionUpdateAdmitted:
        """The verdict is here: the update waits no more. What is buffered is numbered in the same decision."""
        state = self.state
        assert state.admitted is not None
        admitted = state.admitted.pop(update_id)
        if not state.admitted:
            state.admitted = None
        if not state.buffered:
            self.mark_inbox()
        return admitted.event

    def drop_admitted(self) -> None:
        """The run has closed: nobody will look at them."""
        self.state.admitted = None
        if not self.state.buffered:
            self.mark_inbox()

    # ---- tasks

    def put_task(self, record: TaskRecord, key: int) -> None:
        self.state.tasks[key] = record
        self.tasks.append(record)

    def touch(self, record: TaskRecord) -> None:
        self.tasks.append(record)

    def drop_task(self, key: int) -> None:
        record = self.state.tasks.pop(key, None)
        if record is not None:
            record.state = TaskState.GONE
            record.handout = None
            self.gone_tasks.append(record)

    def ready_again(self, key: int) -> None:
        """The old row is marked gone and a new one, with a new id, becomes ready: the key says its age.

        An activity goes by the options in force, which may have come or gone since the old row was made; any task by
        its crashes, which say whose polls get it.
        """
        old = self.state.tasks[key]
        self.drop_task(key)
        aside = old.aside
        queue, priority = old.queue, old.priority
        if old.kind is TaskKind.ACTIVITY:
            options = aside.options if aside is not None else None
            in_force = options or self.state.folded.activities[key].scheduled
            queue, priority = in_force.task_queue, in_force.priority
        pinned = pinned_version(self.state.folded)
        namespace_id = self.state.folded.started.namespace_id
        record = TaskRecord(
            old.kind,
            queue,
            queue_number(namespace_id, old.kind, bucket(queue, pinned, old.pool)),
            self.env.new_number(),
            old.scheduled_event_id,
            attempt=old.attempt,
            start_no=old.start_no,
            priority=priority,
            last_failure=old.last_failure,
            progress=old.progress,
            progress_version=old.progress_version,
            ready_us=self.env.now_us,
            aside=aside,
            pinned=pinned,
        )
        if self.state.folded.paused is not None:
            record.state = TaskState.PAUSED
        if aside is not None and aside.pause is not None:
            record.state = TaskState.PAUSED
        self.put_task(record, key)

    def pin_anew(self) -> None:
        """The run has another override: its ready tasks go where that says. Whoever has one keeps it."""
        self.listed = True
        state = self.state
        pinned = pinned_version(state.folded)
        for key, record in list(state.tasks.items()):
            ready = record.state is TaskState.READY and record.handout is None
            if ready and record.pinned != pinned:
                self.ready_again(key)

    def new_task(
        self, kind: TaskKind, queue: str, key: int, scheduled_event_id: int, attempt: int = 1
    ) -> TaskRecord:
        started = self.state.folded.started
        pinned = pinned_version(self.state.folded)
        record = TaskRecord(
            kind,
            queue,
            queue_number(started.namespace_id, kind, bucket(queue, pinned)),
            self.env.new_number(),
            scheduled_event_id,
            attempt=attempt,
            priority=started.priority,
            ready_us=self.env.now_us,
            pinned=pinned,
        )
        if self.state.folded.paused is not None:
            record.state = TaskState.PAUSED
        self.put_task(record, key)
        return record

    def new_message(self, key: int, workflow_id: str) -> None:
        """Have something said to another run (`core.messages`): it is sent once this batch is saved."""
        number, now_us = self.env.new_number(), self.env.now_us
        record = TaskRecord(TaskKind.MESSAGE, workflow_id, MESSAGE_QUEUE_NO, number, key)
        record.state, record.ready_us = TaskState.TO_SEND, now_us
        self.put_task(record, key)
        self.messages = True

    # ---- timers

    def put_timer(self, kind: TimerKind, reference: int, due_us: int) -> None:
        wake_us = max(due_us, self.env.timer_mark_us)
        record = TimerRecord(kind, reference, wake_us, self.env.new_number(), due_us)
        self.state.timer_rows[kind, reference] = record
        self.timers.append(record)

    def drop_timer(self, kind: TimerKind, reference: int) -> None:
        record = self.state.timer_rows.pop((kind, reference), None)
        if record is not None:
            record.gone = True
            self.gone_timers.append(record)

    # ---- the workflow task

    def schedule_workflow_task(self) -> None:
        """Have the workflow look at what happened, unless a task for it is there or the run has closed."""
        state = self.state
        if not state.open or WORKFLOW_TASK_KEY in state.tasks:
            return
        if state.timer_rows:
            if (TimerKind.CRON_OR_RETRY_BACKOFF, 0) in state.timer_rows:
                return  # its code has nothing to do before its time
            self.drop_timer(TimerKind.START_DELAY, 0)
        started = state.folded.started
        event_id, time_us = self.stamp()
        self.emit(
            ev.WorkflowTaskScheduled(
                event_id, time_us, started.task_queue, started.task_timeout_ms, 1
            )
        )
        self.new_task(TaskKind.WORKFLOW, started.task_queue, WORKFLOW_TASK_KEY, event_id)

    def record(self, *happened: BufferedEvent) -> None:
        """Something happened to the run: number it now, or buffer it while a worker has the workflow task.

        The events come with event_id 0, an activity's Started before its outcome.
        """
        if self.state.workflow_task_out:
            for event in happened:
                self.buffer(event)
            return
        started: dict[int, int] = {}
        wakes = self._wakes(happened[-1])
        for event in happened:
            event_id, time_us = self.stamp()
            self.emit(_numbered(event, event_id, time_us, started, self.state.folded.children))
        if wakes or self._rule_is_met():
            self.schedule_workflow_task()

    def _wakes(self, event: BufferedEvent) -> bool:
        """Asked before it is emitted: whether the workflow must look at the event at once.

        An activity's Started comes with its outcome, which is asked for itself.
        """
        if type(event) is ev.WorkflowExecutionOptionsUpdated:
            return False
        fan_out = self.state.folded.fan_out
        if fan_out is None:
            return True
        match event:
            case ev.ActivityTaskStarted():
                return False
            case (
                ev.ActivityTaskCompleted()
                | ev.ActivityTaskFailed()
                | ev.ActivityTaskTimedOut()
                | ev.ActivityTaskCanceled()
            ):
                activity = self.state.folded.activities[event.scheduled_event_id]
                return not fan_out.names(activity.scheduled.activity_id)
            case _:
                return True

    def _rule_is_met(self) -> bool:
        fan_out = self.state.folded.fan_out
        return fan_out is not None and fan_out.is_met

    def close(self, event: Event) -> None:
        """Emit the terminal event; every task and timer of the run is over. What it had to say is said all the same."""
        self.emit(event)
        state = self.state
        if state.admitted:
            self.drop_admitted()
        for key, record in list(state.tasks.items()):
            if record.kind is not TaskKind.MESSAGE:
                self.drop_task(key)
        for kind, reference in list(state.timer_rows):
            self.drop_timer(kind, reference)
        if state.folded.children is not None or state.folded.started.parent is not None:
            tell_relatives(self)


def _numbered(
    event: BufferedEvent,
    event_id: int,
    time_us: int,
    started: dict[int, int],
    children: dict[int, Child] | None,
) -> Event:
    """The event with its number. An activity's outcome learns here which number its Started event got, and a child's
    end too."""
    match event:
        case ev.ActivityTaskStarted():
            started[event.scheduled_event_id] = event_id
        case (
            ev.ActivityTaskCompleted()
            | ev.ActivityTaskFailed()
            | ev.ActivityTaskTimedOut()
            | ev.ActivityTaskCanceled()
        ):
            return msgspec.structs.replace(
                event,
                event_id=event_id,
                time_us=time_us,
                started_event_id=started.get(event.scheduled_event_id, 0),
            )
        case _ if children is not None and isinstance(event, out.ChildClosedEvent):
            return msgspec.structs.replace(
                event,
                event_id=event_id,
                time_us=time_us,
                started_event_id=children[event.initiated_event_id].started_event_id,
            )
        case _:
            pass
    return msgspec.structs.replace(event, event_id=event_id, time_us=time_us)
