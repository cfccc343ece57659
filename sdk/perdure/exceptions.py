"""Failures under the names of `temporalio.exceptions`. What each is, is said in `perdure.errors`."""

from __future__ import annotations

from perdure.errors import (
    ActivityError,
    ApplicationError,
    ApplicationErrorCategory,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    PerdureError,
    RetryState,
    ServerError,
    TerminatedError,
    TimeoutError,
    TimeoutType,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

__all__ = [
    "ActivityError",
    "ApplicationError",
    "ApplicationErrorCategory",
    "CancelledError",
    "ChildWorkflowError",
    "FailureError",
    "RetryState",
    "ServerError",
    "TemporalError",
    "TerminatedError",
    "TimeoutError",
    "TimeoutType",
    "WorkflowAlreadyStartedError",
    "is_cancelled_exception",
]

TemporalError = PerdureError
