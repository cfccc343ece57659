"""What waits in a shard's inbox, and the step that takes a part of it to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any, get_args

from perdure_engine.core.audit import Head
from perdure_engine.core.commands import (
    Command,
    CompleteUpdate,
    CompleteWorkflow,
    ContinueAsNew,
    ModifyProperties,
    RecordMarker,
    ScheduleActivity,
    SignalExternalWorkflow,
    StartChildWorkflow,
)
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Rejected
from perdure_engine.core.events import WorkflowExecutionCompleted
from perdure_engine.core.intents import (
    ActivityCompleted,
    CloseChild,
    CompleteActivity,
    CompleteWorkflowTask,
    FailActivity,
    HandOverActivity,
    HeartbeatActivity,
    Intent,
    QueryWorkflow,
    ReportActivity,
    ShardIntent,
    SignalWorkflow,
    StartWorkflow,
    TerminateWorkflow,
    UpdateWorkflow,
    WorkerIntent,
)
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import (
    CompleteJobs,
    CreateJobs,
    FireJobTimers,
    JobCompleted,
    JobIntent,
    JobShardIntent,
    JobWorkerIntent,
    PutBackJobs,
    SaveJobProgress,
    SaveJobStarts,
    TakeBackCrashes,
)
from perdure_engine.core.jobs.replies import JobReply
from perdure_engine.core.replies import Reply
from perdure_engine.core.schedules.draft import ScheduleDraft
from perdure_engine.core.schedules.intents import (
    CreateSchedule,
    FireSlots,
    HearErrands,
    HearJobs,
    MendSchedules,
    ScheduleIntent,
    ScheduleReply,
    ScheduleShardIntent,
    UpdateSchedule,
)
from perdure_engine.core.schedules.model import JobAction

if TYPE_CHECKING:
    from perdure_engine.history.resetting import Histories
    from perdure_engine.history.run import CurrentRun, Run
    from perdure_engine.history.shard import Shard

LANE_FIRST, LANE_CLIENT, LANE_START = 0, 1, 2
LANES = 3
LANE_SHARES = (3, 2, 2)  # of a batch, while all lanes have work
BATCH_BYTES_MAX = (
    8 * 1024 * 1024
)  # of callers' bytes in one batch; its first intent goes whatever its size
# The first lane never refuses: its work is bounded by what was handed out.
LANE_COUNTS_MAX = (1_000_000, 20_000, 20_000)
LANE_BYTES_MAX = (1 << 62, 64 * 1024 * 1024, 64 * 1024 * 1024)

JOB_BYTES = 300  # what a job weighs in memory besides its input
JOBS_PER_INTENT = 8  # a statement takes so many jobs, which are one row each, for one intent of a run, which is many

_LANE_OF: dict[type, int] = {
    **dict.fromkeys((*get_args(WorkerIntent), *get_args(ShardIntent)), LANE_FIRST),
    **dict.fromkeys((*get_args(JobWorkerIntent), *get_args(JobShardIntent)), LANE_FIRST),
    **dict.fromkeys(get_args(ScheduleShardIntent), LANE_FIRST),
    StartWorkflow: LANE_START,
    CreateJobs: LANE_START,
    HeartbeatActivity: LANE_CLIENT,  # its number is not bounded by what was handed out (B40)
}


AnyIntent = Intent | JobIntent | ScheduleIntent | ScheduleShardIntent
AnyReply = Reply | JobReply | ScheduleReply


def size_of(intent: AnyIntent) -> int:
    """Bytes of the caller's that the intent holds in memory, roughly."""
    match intent:  # the most frequent first
        case CompleteWorkflowTask():
            return _commands_size(intent)
        case CompleteActivity():
            ahead = intent.ahead
            return len(intent.result) + (0 if ahead is None else _commands_size(ahead.completion))
        case StartWorkflow():
            return _start_size(intent)
        case SignalWorkflow() | UpdateWorkflow():
            return len(intent.input) + len(intent.header)
        case _:
            return _other_bytes(intent)


def _other_bytes(intent: AnyIntent) -> int:
    match intent:
        case QueryWorkflow():
            return len(intent.args)
        case TerminateWorkflow():
            return len(intent.details)
        case CloseChild(closed=WorkflowExecutionCompleted(result=result)):
            return len(result)
        case FailActivity() | HandOverActivity():
            return len(intent.progress)
        case HeartbeatActivity(details=details) if details is not None:
            return len(details)
        case ReportActivity(report=ActivityCompleted(result=result)):
            return len(result)
        case _:
            return _job_bytes(intent)


def _start_size(start: StartWorkflow) -> int:
    signal = len(start.signal.input) if start.signal is not None else 0
    update = len(start.update.input) + len(start.update.header) if start.update is not None else 0
    return len(start.input) + len(start.memo) + len(start.header) + signal + update


def _job_bytes(intent: AnyIntent) -> int:
    match intent:
        case CreateJobs(jobs=jobs):
            return sum([len(job.spec.input) for job in jobs]) + JOB_BYTES * len(jobs)
        case CompleteJobs(outcomes=outcomes):
            return sum([len(one.result) for one in outcomes if type(one) is JobCompleted])
        case SaveJobProgress(details=details):
            return len(details)
        case CreateSchedule(schedule=schedule) | UpdateSchedule(schedule=schedule):
            action = schedule.action
            return len(action.spec.input if isinstance(action, JobAction) else action.start.input)
        case _:
            return 0


def many_of(intent: AnyIntent) -> Sequence[Any]:
    """The list in an intent that has one (`LIST_OF`)."""
    many: Sequence[Any] = getattr(intent, LIST_OF[type(intent)])
    return many


def _commands_size(done: CompleteWorkflowTask) -> int:
    return sum([_command_size(command) for command in done.commands])


def _command_size(command: Command) -> int:
    match command:
        case ScheduleActivity() | SignalExternalWorkflow():
            return len(command.input) + len(command.header)
        case CompleteWorkflow() | CompleteUpdate():
            return len(command.result)
        case ContinueAsNew() | StartChildWorkflow():
            return len(command.input) + len(command.header) + len(command.memo)
        case RecordMarker():
            return len(command.details) + len(command.header)
        case ModifyProperties():
            return len(command.upserted_memo)
        case _:
            return 0


def lane_of(intent: AnyIntent) -> int:
    return _LANE_OF.get(type(intent), LANE_CLIENT)


class Item:
    """An intent and who waits for its answer (None: nobody)."""

    # What few of them need is in a dictionary of those few: one is made for each intent.
    __slots__ = ("__dict__", "future", "intent", "size", "weight")

    # a start or a reset: the run it names does not exist; an update: no run before knows of it
    looked_up = False
    of_before = False  # an update: it is a repeat, of one that an earlier run had
    histories: Histories | None = None  # a reset: what has been read for it
    absent: Set[bytes] = frozenset()  # jobs that there are none of
    look_up = False  # a creation of jobs may be a repeat: some of them may be there
    tries = 0  # how often it was to blame for what the database or a decision refused

    # `future`: of Reply for an intent of a run, of JobReply for one about jobs
    def __init__(self, intent: AnyIntent, future: asyncio.Future[Any] | None) -> None:
        self.intent = intent
        self.future = future
        self.size = size_of(intent)
        # how much of a statement it takes: that of an intent of a run is 1
        self.weight = _weight_of(intent) if type(intent) in LIST_OF else 1

    def answer(self, reply: AnyReply) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(reply)

    def refuse(self, error: Rejected) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)


def _weight_of(intent: AnyIntent) -> int:
    return 1 + len(many_of(intent)) * _ROWS_EACH.get(type(intent), 1) // JOBS_PER_INTENT


LIST_OF: dict[type, str] = {
    CreateJobs: "jobs",
    CompleteJobs: "outcomes",
    FireJobTimers: "timers",
    PutBackJobs: "starts",
    TakeBackCrashes: "marks",
    SaveJobStarts: "starts",
    FireSlots: "timers",
    HearErrands: "heard",
    HearJobs: "ends",
    MendSchedules: "uids",
}
"""Intents that may be cut in two, and which field of theirs is the list."""

_ROWS_EACH: dict[type, int] = {FireSlots: 6, HearErrands: 2, HearJobs: 6, MendSchedules: 5}
"""Of an entry in a list, if it is not the one row of a job."""


class ShardStep:
    """One shard's part of a step: what it took, what it decided, what it will say after the commit."""

    # As for items: with many shards most steps have a single one.
    __slots__ = (
        *("__dict__", "after", "answers", "currents", "drafts", "items", "over", "schedules"),
        *("shard", "writes"),
    )

    audit_head: Head | None = None  # of the shard's chain, when the step adds to it
    jobs: JobDraft | None = None  # what it changes of jobs

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.items: list[Item] = []  # decided, and answered after the commit
        self.drafts: dict[bytes, tuple[Run, Draft]] = {}
        self.currents: dict[tuple[bytes, str], CurrentRun] = {}
        self.schedules: dict[bytes, ScheduleDraft] = {}  # by uid
        self.answers: list[tuple[Item, AnyReply | Rejected]] = []
        self.after: list[Callable[[], None]] = []
        self.writes = False  # something was decided that has to be saved
        self.over = False  # the shard has been freed

    @property
    def weight(self) -> int:
        return sum([item.weight for item in self.items])
