"""What somebody wants of a run, in the imperative: from clients, from workers, from the shard itself.

`run_id` b"" means the current run of the workflow id.
"""

from __future__ import annotations

import enum

import msgspec

from perdure_engine.core.commands import Command
from perdure_engine.core.events import ClosingEvent, WorkflowTaskFailedCause
from perdure_engine.core.failures import Failure
from perdure_engine.core.fan_out import WakeRule
from perdure_engine.core.id_policies import IdReusePolicy as IdReusePolicy
from perdure_engine.core.lineage import Lineage
from perdure_engine.core.operator_intents import (
    PauseActivity as PauseActivity,
)
from perdure_engine.core.operator_intents import (
    PauseWorkflow as PauseWorkflow,
)
from perdure_engine.core.operator_intents import (
    Reapply as Reapply,
)
from perdure_engine.core.operator_intents import (
    ResetActivity as ResetActivity,
)
from perdure_engine.core.operator_intents import (
    ResetType as ResetType,
)
from perdure_engine.core.operator_intents import (
    ResetWorkflow as ResetWorkflow,
)
from perdure_engine.core.operator_intents import (
    ResumeWorkflow as ResumeWorkflow,
)
from perdure_engine.core.operator_intents import (
    UnpauseActivity as UnpauseActivity,
)
from perdure_engine.core.operator_intents import (
    UnpauseWorkflow as UnpauseWorkflow,
)
from perdure_engine.core.operator_intents import (
    UpdateActivityOptions as UpdateActivityOptions,
)
from perdure_engine.core.operator_intents import (
    UpdateWorkflowOptions as UpdateWorkflowOptions,
)
from perdure_engine.core.parents import ChildOf, Parent
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.search_attributes import Attributes
from perdure_engine.core.shard_intents import (
    CameBack as CameBack,
)
from perdure_engine.core.shard_intents import (
    FireTimer as FireTimer,
)
from perdure_engine.core.shard_intents import (
    PutBackTask as PutBackTask,
)
from perdure_engine.core.shard_intents import (
    SaveProgress as SaveProgress,
)
from perdure_engine.core.shard_intents import (
    SaveStart as SaveStart,
)
from perdure_engine.core.shard_intents import (
    TimeOutTask as TimeOutTask,
)
from perdure_engine.core.tokens import TaskToken
from perdure_engine.core.versions import Behavior, Versioning


class IdConflictPolicy(enum.IntEnum):
    FAIL = 1
    USE_EXISTING = 2
    TERMINATE_EXISTING = 3


# ---- from clients


class StartSignal(msgspec.Struct, frozen=True, gc=False):
    """The signal of a signal-with-start. Its request id is the start's."""

    signal_name: str
    input: bytes


class UpdateStage(enum.IntEnum):
    """How far an update has come. A rejected one has come to its end at once."""

    ADMITTED = 1
    ACCEPTED = 2
    COMPLETED = 3


class QueryRejectCondition(enum.IntEnum):
    """Of which runs a query is not asked."""

    NEVER = 1
    NOT_OPEN = 2
    NOT_COMPLETED_CLEANLY = 3


class StartUpdate(msgspec.Struct, frozen=True, gc=False):
    """The update of an update-with-start."""

    update_id: str
    update_name: str
    input: bytes
    header: bytes
    body_hash: bytes
    wait_stage: UpdateStage


class StartWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes  # the new run's id; always set (the transport makes one when the caller did not)
    request_id: bytes
    body_hash: bytes
    workflow_type: str
    task_queue: str
    input: bytes = b""
    header: bytes = b""
    memo: bytes = b""
    execution_timeout_ms: int = 0
    run_timeout_ms: int = 0
    task_timeout_ms: int = 0  # 0: limits.TASK_TIMEOUT_MS_DEFAULT
    retry_policy: RetryPolicy | None = None
    identity: str = ""
    id_reuse_policy: IdReusePolicy = IdReusePolicy.ALLOW_DUPLICATE
    id_conflict_policy: IdConflictPolicy = IdConflictPolicy.FAIL
    start_delay_ms: int = 0
    priority: int = 3
    static_summary: bytes = b""
    static_details: bytes = b""
    cron_schedule: str = ""
    signal: StartSignal | None = None
    update: StartUpdate | None = None
    search_attributes: Attributes = ()
    parent: Parent | None = None
    versioning_override: Versioning | None = None
    undone: Lineage = ()  # of a child's start: a child that these started counts as if it had never been


class SignalWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    signal_name: str
    request_id: bytes
    body_hash: bytes
    input: bytes = b""
    identity: str = ""
    header: bytes = b""
    child_of: ChildOf | None = None  # it must be


class CancelWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    request_id: bytes
    body_hash: bytes
    identity: str = ""
    reason: str = ""
    child_of: ChildOf | None = None
    first_run_id: bytes = b""
    """Of the chain of runs that is meant; empty: whichever is there."""


class TerminateWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    request_id: bytes
    body_hash: bytes
    identity: str = ""
    reason: str = ""
    details: bytes = b""
    child_of: ChildOf | None = None
    first_run_id: bytes = b""


class DeleteWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered when the run is gone. An open one is terminated first."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    request_id: bytes
    body_hash: bytes
    identity: str = ""
    reason: str = ""


class DescribeWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes


class ExplainWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered with `explain.Explanation`."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes


class QueryWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    query_type: str
    args: bytes = b""
    header: bytes = b""
    reject_condition: QueryRejectCondition = QueryRejectCondition.NEVER


class WaitResult(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered when the run has closed."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes


class WaitEvents(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered when the run has an event past `after_event_id` or has closed."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    after_event_id: int


class UpdateWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered when the update has reached the stage. The update id makes it repeatable."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    update_id: str
    update_name: str
    body_hash: bytes
    input: bytes = b""
    header: bytes = b""
    identity: str = ""
    wait_stage: UpdateStage = UpdateStage.ADMITTED
    first_run_id: bytes = b""


class PollUpdate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answered when an update that was admitted has reached the stage."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    update_id: str
    wait_stage: UpdateStage = UpdateStage.ADMITTED


class ActivityCompleted(msgspec.Struct, frozen=True, gc=False):
    result: bytes


class ActivityFailed(msgspec.Struct, frozen=True, gc=False):
    failure: Failure
    progress: bytes


class ActivityCanceled(msgspec.Struct, frozen=True, gc=False):
    details: bytes


class ActivityLives(msgspec.Struct, frozen=True, gc=False):
    details: bytes | None


ActivityReport = ActivityCompleted | ActivityFailed | ActivityCanceled | ActivityLives


class ReportActivity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What became of an activity that is named by its ids, not by a token."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    activity_id: str
    request_id: bytes
    report: ActivityReport
    identity: str = ""


ClientIntent = (
    StartWorkflow
    | SignalWorkflow
    | CancelWorkflow
    | TerminateWorkflow
    | DeleteWorkflow
    | DescribeWorkflow
    | ExplainWorkflow
    | QueryWorkflow
    | WaitResult
    | WaitEvents
    | UpdateWorkflow
    | PollUpdate
    | ReportActivity
    | PauseActivity
    | UnpauseActivity
    | ResetActivity
    | UpdateActivityOptions
    | PauseWorkflow
    | UnpauseWorkflow
    | ResumeWorkflow
    | ResetWorkflow
    | UpdateWorkflowOptions
)


# ---- from workers


class CompleteWorkflowTask(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    commands: list[Command]
    cached: bool
    worker_id: bytes
    identity: str
    build_id: str
    wake_rules: tuple[WakeRule, ...] = ()
    force_new_task: bool = False  # the worker is not done: the next one at once
    deployment_name: str = ""
    behavior: Behavior = Behavior.UNSPECIFIED


class FailWorkflowTask(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    cause: WorkflowTaskFailedCause
    failure: Failure | None
    identity: str


class WorkAhead(msgspec.Struct, frozen=True, gc=False):
    """A workflow task that was done before it was made. Its token says what the worker took for known."""

    completion: CompleteWorkflowTask
    previous_started_id: int  # of the last workflow task that its worker knows to be completed
    suggests_continue_as_new: bool  # what the code was told


class CompleteActivity(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    result: bytes
    identity: str
    ahead: WorkAhead | None = None  # what follows from the result


class FailActivity(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    failure: Failure
    progress: bytes
    identity: str
    progress_version: int = 0  # of `progress`, see SaveProgress


class CrashTask(msgspec.Struct, frozen=True, gc=False):
    """The process that the task had to itself has died of it: no attempt is counted, but a crash is."""

    token: TaskToken
    failure: Failure
    identity: str


class CancelActivity(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    details: bytes
    identity: str


class HandOverActivity(msgspec.Struct, frozen=True, gc=False):
    """The worker's function has returned, and somebody else will report the outcome: no lease watches it now."""

    token: TaskToken
    progress: bytes
    identity: str
    progress_version: int = 0


class HeartbeatActivity(msgspec.Struct, frozen=True, gc=False):
    """Of one attempt: it lives, and what it has come to is saved before this is answered. `details` None: nothing new.

    `progress_version` counts the attempt's own sayings, from what it was handed: an older one is refused. 0: it does
    not count.
    """

    token: TaskToken
    details: bytes | None
    progress_version: int = 0


WorkerIntent = (
    CompleteWorkflowTask
    | FailWorkflowTask
    | CompleteActivity
    | FailActivity
    | CancelActivity
    | CrashTask
    | HandOverActivity
    | HeartbeatActivity
)


# ---- from the shard itself


class MessageOutcome(enum.IntEnum):
    """How the other run answered a message."""

    DONE = 1
    NOT_FOUND = 2  # no such run, it has closed, or it is not the child it should be
    ALREADY_EXISTS = 3
    LIMIT = 4  # it takes no more of them
    REFUSED = 5  # for good, for another reason


class ReadMessage(msgspec.Struct, frozen=True, gc=False):
    """Answered with the `messages.Message` that the run has to send; None: it has its answer by now."""

    run_id: bytes
    key: int  # of RunState.tasks
    task_id: int


class AnswerMessage(msgspec.Struct, frozen=True, gc=False):
    """The other run has answered: that is written down, and the message is sent no more."""

    run_id: bytes
    key: int
    task_id: int
    outcome: MessageOutcome


class CloseChild(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A child's chain has come to its end: told to the workflow that started it. `run_id`: the run that did; after a
    reset, the current run may have taken the child over (`core.lineage`)."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    initiated_event_id: int
    child_workflow_id: str
    child_run_id: bytes
    child_workflow_type: str
    closed: ClosingEvent


class AskChild(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Of a child that a reset has taken over from a closed run, which heard nothing any more: if it has ended, it tells
    its parent again."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes  # b"": the current run
    child_of: ChildOf


class AskRun(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Of the run that a schedule has started, or the one that its chain has come to: how it is. Answered with its
    `Status`. Rejected NOT_FOUND when the chain is over, and another one has its workflow id."""

    namespace_id: bytes
    workflow_id: str
    run_id: bytes  # b"": the current run
    first_run_id: bytes


DeliveredIntent = (
    StartWorkflow
    | SignalWorkflow
    | CancelWorkflow
    | TerminateWorkflow
    | CloseChild
    | AskChild
    | AskRun
)
"""What one run, or a schedule, asks of another run: what is to be said is saved, and safe to repeat."""

ShardIntent = (
    FireTimer
    | SaveStart
    | SaveProgress
    | PutBackTask
    | CameBack
    | TimeOutTask
    | ReadMessage
    | AnswerMessage
    | CloseChild
    | AskChild
    | AskRun
)

Intent = ClientIntent | WorkerIntent | ShardIntent
