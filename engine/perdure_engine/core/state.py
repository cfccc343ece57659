"""A run in memory. Each field says where it comes from: history, inbox, rows.

    state = fold(apply, history) + live inbox rows + task and timer rows

`tests/…/test_rebuild.py` rebuilds every state from those three and compares. The object belongs to its shard,
which changes it between two awaits only.
"""

from __future__ import annotations

import msgspec

from perdure_engine.core.events import (
    ActivityTaskScheduled,
    BufferedEvent,
    ClosingEvent,
    InboxEvent,
    WorkflowExecutionPaused,
    WorkflowExecutionStarted,
    WorkflowExecutionUpdateAdmitted,
)
from perdure_engine.core.fan_out import FanOut
from perdure_engine.core.outside_events import (
    RequestCancelExternalWorkflowExecutionInitiated,
    SignalExternalWorkflowExecutionInitiated,
    StartChildWorkflowExecutionInitiated,
)
from perdure_engine.core.search_attributes import Attributes
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskRecord, TaskState, TimerKind, TimerRecord
from perdure_engine.core.transitions import (
    ActivityPhase,
    ChildPhase,
    TimerPhase,
    UpdatePhase,
    WorkflowTaskPhase,
)
from perdure_engine.core.versions import Behavior, Versioning

WORKFLOW_TASK_KEY = 0
"""Key of the workflow task in `RunState.tasks`; activities are keyed by their Scheduled event id, messages to other
runs as `core.messages` says."""


class Activity(msgspec.Struct, array_like=True, gc=False):
    """A scheduled activity whose outcome history does not have yet."""

    scheduled: ActivityTaskScheduled
    phase: ActivityPhase = ActivityPhase.SCHEDULED
    cancel_requested_event_id: int = 0


class Timer(msgspec.Struct, array_like=True, gc=False):
    started_event_id: int
    timer_id: str
    fire_us: int
    phase: TimerPhase = TimerPhase.PENDING


class Child(msgspec.Struct, array_like=True, gc=False):
    """A child whose end history does not have. What its start needs is forgotten once it has started."""

    initiated: StartChildWorkflowExecutionInitiated
    phase: ChildPhase = ChildPhase.INITIATED
    run_id: bytes = b""  # of the chain's first run
    started_event_id: int = 0


ExternalInitiated = (
    SignalExternalWorkflowExecutionInitiated | RequestCancelExternalWorkflowExecutionInitiated
)
"""A signal or a request to cancel that is on its way to another run."""


class Update(msgspec.Struct, array_like=True, gc=False):
    """An update that was accepted. Its outcome stays in history: it may be large, and is asked for rarely."""

    accepted_event_id: int
    body_hash: bytes
    completed_event_id: int = 0  # 0: its handler runs

    @property
    def phase(self) -> UpdatePhase:
        return UpdatePhase.COMPLETED if self.completed_event_id else UpdatePhase.ACCEPTED


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """An update that waits for a worker's verdict, and the number of its inbox row."""

    seq: int
    event: WorkflowExecutionUpdateAdmitted


class Folded(msgspec.Struct, array_like=True, gc=False):
    """What history says: the fold of events 1 … next_event_id - 1. A snapshot is this, saved."""

    started: WorkflowExecutionStarted
    status: Status = Status.RUNNING
    next_event_id: int = 2
    last_time_us: int = 0
    closed: ClosingEvent | None = None
    cancel_requested: bool = False
    activities: dict[int, Activity] = {}  # by ActivityTaskScheduled's event id
    timers: dict[str, Timer] = {}
    workflow_task: WorkflowTaskPhase = WorkflowTaskPhase.NONE
    workflow_task_scheduled_id: int = 0  # 0: none, or a transient one
    workflow_task_started_id: int = 0
    previous_started_id: int = 0  # Started of the last completed workflow task
    signals: int = 0
    # request id -> body hash, of signals and cancels: first those that the runs before handed on
    request_ids: dict[bytes, bytes] = {}
    fan_out: FanOut | None = None  # which outcomes wake nobody yet
    # (n, time): the first n of `request_ids` had come by then. None: there are few
    request_marks: list[tuple[int, int]] | None = None
    updates: dict[str, Update] | None = None  # by update id, in the order of their acceptance
    updates_running: int = 0  # accepted and not completed
    memo: bytes | None = None  # None: as it was started with
    search_attributes: Attributes = ()  # as they are now
    # By their Initiated event's id; None: there are none. A closed run keeps those that it had at its end: what is
    # still to be sent of them is in its message rows.
    children: dict[int, Child] | None = None
    externals: dict[int, ExternalInitiated] | None = None
    paused: WorkflowExecutionPaused | None = None  # since when, by whom and why
    versioning: Versioning | None = None  # where its last workflow task ran; None: on no version
    versioning_override: Versioning | None = None


def memo_of(folded: Folded) -> bytes:
    return folded.started.memo if folded.memo is None else folded.memo


def versioning_of(folded: Folded) -> Versioning | None:
    """The run's behaviour and version as they count: an override comes before what its code says."""
    override = folded.versioning_override
    if override is None or override.behavior is Behavior.PINNED:
        return override or folded.versioning
    if folded.versioning is None:
        return override
    return msgspec.structs.replace(folded.versioning, behavior=override.behavior)


def pinned_version(folded: Folded) -> str:
    """The version that alone may run it; "": the routing of its queue decides."""
    if folded.versioning is None and folded.versioning_override is None:
        return ""
    found = versioning_of(folded)
    return found.version if found is not None and found.behavior is Behavior.PINNED else ""


def version_ran_on(folded: Folded) -> str:
    """Where its last workflow task ran."""
    return folded.versioning.version if folded.versioning is not None else ""


class RunState(msgspec.Struct, eq=False, gc=False):
    """A run: the fold of its history, its buffered events, its rows, and what only the head row keeps."""

    folded: Folded
    # from the inbox
    buffered: list[BufferedEvent] = []
    inbox_seq: int = 0  # the last one used
    inbox_done: int = 0
    # from rows (keys in the head, contents in `tasks` and `timers`)
    tasks: dict[int, TaskRecord] = {}
    timer_rows: dict[tuple[TimerKind, int], TimerRecord] = {}
    # the head row's own
    history_bytes: int = 0
    snapshot_event_id: int = 0
    version: int = 0  # of the executions row; 0: not saved yet
    # a hint, lost without harm
    sticky_worker_id: bytes = b""
    # from the inbox: updates that were admitted, by id, oldest first; None: none
    admitted: dict[str, Admitted] | None = None
    # the head row's own: with admitted updates in the way of inbox_done, what else is dead in the inbox
    inbox_numbered: int = 0
    run_id: bytes = b""  # as history says; here because a commit asks for it thirty times

    def __post_init__(self) -> None:
        self.run_id = self.folded.started.run_id

    @property
    def open(self) -> bool:
        return self.folded.closed is None

    def waits_in_inbox(self, seq: int, event: InboxEvent) -> bool:
        """Whether what was put into the inbox as `seq` still waits there."""
        if seq <= self.inbox_done:
            return False
        if not isinstance(event, WorkflowExecutionUpdateAdmitted):
            return seq > self.inbox_numbered
        known = self.admitted.get(event.update_id) if self.admitted is not None else None
        return known is not None and known.seq == seq

    @property
    def workflow_task_out(self) -> bool:
        """Whether a worker has (or, after a take-over, may have) the workflow task: then events are buffered.

        Events that wait in the inbox say so too: whoever takes the task back numbers them first.
        """
        record = self.tasks.get(WORKFLOW_TASK_KEY)
        return record is not None and (
            record.handout is not None or record.state is TaskState.STARTED or bool(self.buffered)
        )


class Head(msgspec.Struct, frozen=True, array_like=True):
    """The head row's own part: where the run's rows are, and what neither history nor rows keep."""

    task_keys: list[tuple[int, int, int]]  # (key in RunState.tasks, queue_no, task_id)
    timer_keys: list[
        tuple[TimerKind, int, int, int, int]
    ]  # (kind, reference, wake_us, timer_id, due_us)
    inbox_seq: int
    history_bytes: int
    snapshot_event_id: int
    sticky_worker_id: bytes = b""
    inbox_numbered: int = 0
    admitted: list[int] = []  # seqs of the admitted updates that wait


_NONE_ADMITTED: list[int] = []  # shared: nobody changes a head


def head_of(state: RunState) -> Head:
    return Head(
        [(key, t.queue_no, t.task_id) for key, t in state.tasks.items()],
        [(t.kind, t.reference, t.wake_us, t.timer_id, t.due_us) for t in state.timer_rows.values()],
        state.inbox_seq,
        state.history_bytes,
        state.snapshot_event_id,
        state.sticky_worker_id,
        state.inbox_numbered,
        [one.seq for one in state.admitted.values()] if state.admitted else _NONE_ADMITTED,
    )
