"""What somebody wants of a run, in the imperative: from clients, from workers, from the shard itself.

`run_id` b"" means the current run of the workflow id.
"""

from __future__ import annotations

import enum

import msgspec

from perdure_engine.core.commands import Command
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.failures import Failure, TimeoutType
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.search_attributes import Attributes
from perdure_engine.core.tasks import TaskKind, TimerKind
from perdure_engine.core.tokens import TaskToken


class IdReusePolicy(enum.IntEnum):
    ALLOW_DUPLICATE = 1
    ALLOW_DUPLICATE_FAILED_ONLY = 2
    REJECT_DUPLICATE = 3


class IdConflictPolicy(enum.IntEnum):
    FAIL = 1
    USE_EXISTING = 2
    TERMINATE_EXISTING = 3


# ---- from clients


class StartSignal(msgspec.Struct, frozen=True, gc=False):
    """The signal of a signal-with-start. Its request id is the start's."""

    signal_name: str
    input: bytes


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
    signal: StartSignal | None = None
    search_attributes: Attributes = ()


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


class CancelWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    request_id: bytes
    body_hash: bytes
    identity: str = ""
    reason: str = ""


class TerminateWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    request_id: bytes
    body_hash: bytes
    identity: str = ""
    reason: str = ""
    details: bytes = b""


class DescribeWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
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


ClientIntent = (
    StartWorkflow
    | SignalWorkflow
    | CancelWorkflow
    | TerminateWorkflow
    | DescribeWorkflow
    | QueryWorkflow
    | WaitResult
    | WaitEvents
)


# ---- from workers


class CompleteWorkflowTask(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    commands: list[Command]
    cached: bool
    worker_id: bytes
    identity: str
    build_id: str


class FailWorkflowTask(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    cause: WorkflowTaskFailedCause
    failure: Failure | None
    identity: str


class CompleteActivity(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    result: bytes
    identity: str


class FailActivity(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    failure: Failure
    progress: bytes
    identity: str


class CancelActivity(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    details: bytes
    identity: str


WorkerIntent = (
    CompleteWorkflowTask | FailWorkflowTask | CompleteActivity | FailActivity | CancelActivity
)


# ---- from the shard itself


class FireTimer(msgspec.Struct, frozen=True, gc=False):
    run_id: bytes
    kind: TimerKind
    reference: int
    wake_us: int
    timer_id: int


class SaveStart(msgspec.Struct, frozen=True, gc=False):
    """Write down a hand-out that nothing else has saved within a second, or that must be saved first."""

    run_id: bytes
    scheduled_event_id: int
    start_no: int


class SaveProgress(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    details: bytes


class PutBackTask(msgspec.Struct, frozen=True, gc=False):
    """The worker that took the task is gone or never got it: ready again, no attempt counted."""

    run_id: bytes
    task_kind: TaskKind
    scheduled_event_id: int
    start_no: int
    worker_dead: bool


class TimeOutTask(msgspec.Struct, frozen=True, gc=False):
    """A started attempt passed its start-to-close or heartbeat timeout (or a workflow task its own)."""

    run_id: bytes
    task_kind: TaskKind
    scheduled_event_id: int
    start_no: int
    timeout_type: TimeoutType


ShardIntent = FireTimer | SaveStart | SaveProgress | PutBackTask | TimeOutTask

Intent = ClientIntent | WorkerIntent | ShardIntent
