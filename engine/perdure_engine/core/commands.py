"""What workflow code asked for, in the imperative and in its order."""

from __future__ import annotations

import msgspec

from perdure_engine.core.failures import Failure
from perdure_engine.core.id_policies import IdReusePolicy
from perdure_engine.core.parents import ParentClosePolicy
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.search_attributes import Attributes


class ScheduleActivity(msgspec.Struct, frozen=True, gc=False):
    activity_id: str
    activity_type: str
    task_queue: str  # "": the workflow's
    input: bytes
    header: bytes
    schedule_to_close_timeout_ms: int
    schedule_to_start_timeout_ms: int
    start_to_close_timeout_ms: int
    heartbeat_timeout_ms: int
    retry_policy: RetryPolicy | None
    priority: int
    summary: bytes = b""
    version: int = 0


class RequestCancelActivity(msgspec.Struct, frozen=True, gc=False):
    scheduled_event_id: int


class StartTimer(msgspec.Struct, frozen=True, gc=False):
    timer_id: str
    start_to_fire_ms: int
    summary: bytes = b""


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    timer_id: str


class CompleteWorkflow(msgspec.Struct, frozen=True, gc=False):
    result: bytes


class FailWorkflow(msgspec.Struct, frozen=True, gc=False):
    failure: Failure


class CancelWorkflow(msgspec.Struct, frozen=True, gc=False):
    details: bytes


class ContinueAsNew(msgspec.Struct, frozen=True, gc=False):
    """Close the run and start the next one of its id. What is not set is as it was in this run."""

    workflow_type: str  # ""
    task_queue: str  # ""
    input: bytes
    header: bytes
    memo: bytes  # b""
    run_timeout_ms: int  # 0
    task_timeout_ms: int  # 0
    retry_policy: RetryPolicy | None


class AcceptUpdate(msgspec.Struct, frozen=True, gc=False):
    """The validator let it pass: its handler runs from this workflow task on."""

    update_id: str


class RejectUpdate(msgspec.Struct, frozen=True, gc=False):
    update_id: str
    failure: Failure


class CompleteUpdate(msgspec.Struct, frozen=True, gc=False):
    """`failure` None: it succeeded with `result`."""

    update_id: str
    result: bytes
    failure: Failure | None


class CompensationNote(msgspec.Struct, frozen=True, gc=False):
    """What became of a saga's compensation, for the audit log."""

    name: str
    outcome: str
    reason: str


class RecordMarker(msgspec.Struct, frozen=True, gc=False):
    marker_name: str
    details: bytes
    header: bytes
    failure: Failure | None
    compensation: CompensationNote | None = None


class ModifyProperties(msgspec.Struct, frozen=True, gc=False):
    upserted_memo: bytes  # Memo; a name whose Payload is empty is taken away


class UpsertSearchAttributes(msgspec.Struct, frozen=True, gc=False):
    search_attributes: Attributes


class StartChildWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    workflow_id: str
    workflow_type: str
    task_queue: str = ""  # "": the parent's
    input: bytes = b""
    header: bytes = b""
    execution_timeout_ms: int = 0
    run_timeout_ms: int = 0
    task_timeout_ms: int = 0
    retry_policy: RetryPolicy | None = None
    parent_close_policy: ParentClosePolicy = ParentClosePolicy.TERMINATE
    id_reuse_policy: IdReusePolicy = IdReusePolicy.ALLOW_DUPLICATE
    cron_schedule: str = ""
    memo: bytes = b""
    search_attributes: Attributes = ()
    priority: int = 0  # 0: the parent's
    static_summary: bytes = b""
    static_details: bytes = b""


class SignalExternalWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    workflow_id: str
    run_id: bytes = b""  # b"": the current run
    signal_name: str
    input: bytes = b""
    header: bytes = b""
    child_workflow_only: bool = False  # it must be a child of this run; then `run_id` is not read


class RequestCancelExternalWorkflow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    workflow_id: str
    run_id: bytes = b""
    child_workflow_only: bool = False  # as above
    reason: str = ""


Command = (
    ScheduleActivity
    | RequestCancelActivity
    | StartTimer
    | CancelTimer
    | CompleteWorkflow
    | FailWorkflow
    | CancelWorkflow
    | ContinueAsNew
    | AcceptUpdate
    | RejectUpdate
    | CompleteUpdate
    | RecordMarker
    | ModifyProperties
    | UpsertSearchAttributes
    | StartChildWorkflow
    | RequestCancelExternalWorkflow
    | SignalExternalWorkflow
)

UpdateCommand = AcceptUpdate | RejectUpdate | CompleteUpdate

OutsideCommand = StartChildWorkflow | RequestCancelExternalWorkflow | SignalExternalWorkflow

ClosingCommand = CompleteWorkflow | FailWorkflow | CancelWorkflow | ContinueAsNew
"""The last command of a run: nothing may follow it."""
