"""What waits in a shard's inbox, and the step that takes a part of it to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

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
from perdure_engine.core.replies import Reply

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

_LANE_OF: dict[type, int] = {
    **dict.fromkeys((*get_args(WorkerIntent), *get_args(ShardIntent)), LANE_FIRST),
    StartWorkflow: LANE_START,
    HeartbeatActivity: LANE_CLIENT,  # its number is not bounded by what was handed out (B40)
}


def size_of(intent: Intent) -> int:
    """Bytes of the caller's that the intent holds in memory, roughly."""
    match intent:  # the most frequent first
        case CompleteWorkflowTask():
            return sum([_command_size(command) for command in intent.commands])
        case StartWorkflow():
            signal = len(intent.signal.input) if intent.signal is not None else 0
            update = (
                len(intent.update.input) + len(intent.update.header)
                if intent.update is not None
                else 0
            )
            return len(intent.input) + len(intent.memo) + len(intent.header) + signal + update
        case SignalWorkflow() | UpdateWorkflow():
            return len(intent.input) + len(intent.header)
        case QueryWorkflow():
            return len(intent.args)
        case TerminateWorkflow():
            return len(intent.details)
        case (
            CompleteActivity(result=result)
            | CloseChild(closed=WorkflowExecutionCompleted(result=result))
        ):
            return len(result)
        case FailActivity() | HandOverActivity():
            return len(intent.progress)
        case HeartbeatActivity(details=details) if details is not None:
            return len(details)
        case ReportActivity(report=ActivityCompleted(result=result)):
            return len(result)
        case _:
            return 0


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


def lane_of(intent: Intent) -> int:
    return _LANE_OF.get(type(intent), LANE_CLIENT)


class Item:
    """An intent and who waits for its answer (None: nobody)."""

    __slots__ = ("future", "histories", "intent", "looked_up", "of_before", "size", "tries")

    def __init__(self, intent: Intent, future: asyncio.Future[Reply] | None) -> None:
        self.intent = intent
        self.future = future
        self.size = size_of(intent)
        # a start or a reset: the run it names does not exist; an update: no run before knows of it
        self.looked_up = False
        self.of_before = False  # an update: it is a repeat, of one that an earlier run had
        self.histories: Histories | None = None  # a reset: what has been read for it
        self.tries = 0  # how often it was to blame for what the database or a decision refused

    def answer(self, reply: Reply) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(reply)

    def refuse(self, error: Rejected) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)


class ShardStep:
    """One shard's part of a step: what it took, what it decided, what it will say after the commit."""

    __slots__ = (
        *("after", "answers", "audit_head", "currents", "drafts", "items", "over", "shard"),
        "writes",
    )

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.items: list[Item] = []  # decided, and answered after the commit
        self.drafts: dict[bytes, tuple[Run, Draft]] = {}
        self.currents: dict[tuple[bytes, str], CurrentRun] = {}
        self.answers: list[tuple[Item, Reply | Rejected]] = []
        self.after: list[Callable[[], None]] = []
        self.writes = False  # something was decided that has to be saved
        self.over = False  # the shard has been freed
        self.audit_head: Head | None = None  # of the shard's chain, when the step adds to it
