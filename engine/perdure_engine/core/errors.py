"""Refusals: what the engine answers when it will not do as asked.

    Rejected            a definite answer; nothing was changed

Whose fault it is stands in the code: INVALID_ARGUMENT is wrong whatever the state, FAILED_PRECONDITION wrong in
this state, NOT_FOUND unknown or already gone, ABORTED a lost compare-and-set, UNAVAILABLE try again, here or
elsewhere. The numbers are gRPC's, so that the transport need not map them.
"""

from __future__ import annotations

import enum


class Code(enum.IntEnum):
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Rejected(Exception):
    """A refusal with its gRPC code, a stable UPPER_SNAKE reason and, for bad input, the path of the field."""

    def __init__(
        self,
        code: Code,
        reason: str,
        message: str,
        *,
        field: str = "",
        metadata: dict[str, str] | None = None,
        retry_after_ms: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.field = field
        self.metadata = metadata or {}
        self.retry_after_ms = retry_after_ms

    def __repr__(self) -> str:
        return f"Rejected({self.code.name}, {self.reason}, {self.message!r}, field={self.field!r})"


def invalid(field: str, message: str) -> Rejected:
    return Rejected(Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", f"{field}: {message}", field=field)


def not_found(what: str, message: str) -> Rejected:
    """`what` is the reason's first word: WORKFLOW, TASK, NAMESPACE."""
    return Rejected(Code.NOT_FOUND, f"{what}_NOT_FOUND", message)


def unavailable(reason: str, message: str) -> Rejected:
    return Rejected(Code.UNAVAILABLE, reason, message)
