"""What workflow code asked for, in the imperative and in its order."""

from __future__ import annotations

import msgspec

from perdure_engine.core.failures import Failure
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


class RequestCancelActivity(msgspec.Struct, frozen=True, gc=False):
    scheduled_event_id: int


class StartTimer(msgspec.Struct, frozen=True, gc=False):
    timer_id: str
    start_to_fire_ms: int


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    timer_id: str


class CompleteWorkflow(msgspec.Struct, frozen=True, gc=False):
    result: bytes


class FailWorkflow(msgspec.Struct, frozen=True, gc=False):
    failure: Failure


class CancelWorkflow(msgspec.Struct, frozen=True, gc=False):
    details: bytes


class UpsertSearchAttributes(msgspec.Struct, frozen=True, gc=False):
    search_attributes: Attributes


Command = (
    ScheduleActivity
    | RequestCancelActivity
    | StartTimer
    | CancelTimer
    | CompleteWorkflow
    | FailWorkflow
    | CancelWorkflow
    | UpsertSearchAttributes
)

ClosingCommand = CompleteWorkflow | FailWorkflow | CancelWorkflow
"""The last command of a run: nothing may follow it."""
