"""Errors of the worker's doors, on their way to the process that asked."""

from __future__ import annotations

from perdure._worker.isolation.messages import Problem
from perdure.errors import (
    PayloadError,
    PayloadTooLargeError,
    PerdureError,
    RPCError,
    RPCStatusCode,
)


def problem_of(error: Exception) -> Problem:
    if isinstance(error, RPCError):
        return Problem(error.message, status=error.status.name, reason=error.reason)
    if isinstance(error, PayloadError):
        is_too_large = isinstance(error, PayloadTooLargeError)
        return Problem(str(error), is_payload=True, is_too_large=is_too_large)
    return Problem(f"{type(error).__name__}: {error}")


def error_of(problem: Problem) -> RPCError | PayloadError | PerdureError:
    if problem.status:
        status = RPCStatusCode[problem.status]
        return RPCError(problem.message, status, reason=problem.reason)
    if problem.is_too_large:
        return PayloadTooLargeError(problem.message, field="", size_bytes=0, bytes_max=0)
    if problem.is_payload:
        return PayloadError(problem.message)
    return PerdureError(problem.message)
