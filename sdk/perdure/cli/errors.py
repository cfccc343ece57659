"""How a command ends: its exit code, and what it says when that is not 0.

CliError                 this command cannot be carried out; `exit_code` says whose fault it is
└── UsageError           it was asked for in a way that makes no sense (2)
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from perdure.errors import (
    ApplicationError,
    FailureError,
    JobCancelledError,
    JobError,
    JobFailedError,
    PayloadEncodeError,
    RPCError,
    RPCStatusCode,
    TimeoutError,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    is_cancelled_exception,
)


class ExitCode(IntEnum):
    """A contract with scripts: the numbers never change."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    FAILED = 4
    """The workflow did not complete, or the update or the job: it failed, or was terminated."""
    TIMED_OUT = 5
    """The workflow did, or the wait for it or for the engine's answer."""
    CANCELLED = 6
    INTERRUPTED = 130
    """128 + SIGINT, as shells have it."""
    TERMINATED = 143
    """128 + SIGTERM."""


class CliError(Exception):
    def __init__(self, message: str, exit_code: ExitCode = ExitCode.ERROR) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(CliError):
    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)


_RPC_EXIT_CODES = {
    RPCStatusCode.INVALID_ARGUMENT: ExitCode.USAGE,
    RPCStatusCode.OUT_OF_RANGE: ExitCode.USAGE,
    RPCStatusCode.NOT_FOUND: ExitCode.NOT_FOUND,
    RPCStatusCode.DEADLINE_EXCEEDED: ExitCode.TIMED_OUT,
}


def exit_code_of(error: Exception) -> ExitCode:
    match error:
        case CliError():
            return error.exit_code
        case WorkflowFailureError():
            return _exit_code_of_cause(error.cause)
        case JobCancelledError():
            return ExitCode.CANCELLED
        case WorkflowUpdateFailedError() | JobError():
            return ExitCode.FAILED
        case WorkflowUpdateRPCTimeoutOrCancelledError():
            return ExitCode.TIMED_OUT
        case RPCError():
            return _RPC_EXIT_CODES.get(error.status, ExitCode.ERROR)
        case PayloadEncodeError():
            return ExitCode.USAGE
        case _:
            return ExitCode.ERROR


def _exit_code_of_cause(cause: BaseException) -> ExitCode:
    if is_cancelled_exception(cause):
        return ExitCode.CANCELLED
    return ExitCode.TIMED_OUT if isinstance(cause, TimeoutError) else ExitCode.FAILED


def lines_of(error: Exception) -> Iterator[str]:
    """What there is to say, most important first. Not yet fit for a terminal: see `printable`."""
    if isinstance(error, WorkflowFailureError):
        yield from _lines_of_failure(error.cause, "The workflow did not complete: ")
    elif isinstance(error, WorkflowUpdateFailedError):
        yield from _lines_of_failure(error.cause, "The update failed: ")
    elif isinstance(error, JobFailedError) and error.cause is not None:
        yield from _lines_of_failure(error.cause, "The job failed: ")
    elif isinstance(error, RPCError):
        yield f"{error.message} ({error.status.name})"
        for field, problem in error.field_violations:
            if problem not in error.message:
                yield f"{field}: {problem}"
        if error.status is RPCStatusCode.UNAVAILABLE:
            yield "Is the engine running? `perdure dev` starts one; --address says where it is."
    else:
        yield str(error)


def _lines_of_failure(cause: BaseException | None, prefix: str) -> Iterator[str]:
    while cause is not None:
        yield f"{prefix}{_name_of(cause)}: {_message_of(cause)}"
        prefix = "caused by "
        cause = cause.__cause__


def _name_of(cause: BaseException) -> str:
    if isinstance(cause, ApplicationError) and cause.type:
        return cause.type
    return type(cause).__name__


def _message_of(cause: BaseException) -> str:
    return cause.message if isinstance(cause, FailureError) else str(cause)
