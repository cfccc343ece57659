"""Whose fault an exception is: the run's, which it ends, or the code's, whose task is retried."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import cast

from perdure._replay.callsite import CallSite, is_users
from perdure._replay.interrupts import DeadlockDetected
from perdure._replay.messages import TaskFailureCause
from perdure.errors import (
    NondeterminismError,
    PayloadDecodeError,
    RestrictedWorkflowAccessError,
    UnknownWorkflowTypeError,
    WorkflowTaskError,
)

# Looked at in a chain of causes; a longer one is a loop of re-raising.
_CHAIN_MAX = 20

WORKER_FAILURE = TaskFailureCause("WORKER_FAILURE")
_CAUSES: tuple[tuple[type[BaseException], TaskFailureCause], ...] = (
    (NondeterminismError, TaskFailureCause("NON_DETERMINISM")),
    (RestrictedWorkflowAccessError, TaskFailureCause("NON_DETERMINISM")),
    (UnknownWorkflowTypeError, TaskFailureCause("UNKNOWN_WORKFLOW_TYPE")),
    (PayloadDecodeError, TaskFailureCause("PAYLOAD_DECODE")),
    (DeadlockDetected, TaskFailureCause("DEADLOCK")),
    (WorkflowTaskError, WORKER_FAILURE),
)


def defect_cause(
    error: BaseException, failure_types: tuple[type[BaseException], ...] = ()
) -> TaskFailureCause | None:
    """Why the workflow *task* fails by this error; None when the error is the run's own.

    A defect remains one when the code wraps it in an error of its own, unless it is among the
    types that the user wants to fail the run.
    """
    if isinstance(error, failure_types):
        return None
    for one in _chain(error):
        for kind, cause in _CAUSES:
            if isinstance(one, kind):
                return cause
    return None


def raised_at(error: BaseException) -> CallSite | None:
    """The innermost line of the user's code that the error passed."""
    found: CallSite | None = None
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_users(code.co_filename):
            found = CallSite(code, traceback.tb_lasti)
        traceback = traceback.tb_next
    return found


def _chain(error: BaseException) -> Iterator[BaseException]:
    waiting = [error]
    for _ in range(_CHAIN_MAX):
        if not waiting:
            return
        one = waiting.pop()
        yield one
        following = one.__cause__ or one.__context__
        if following is not None:
            waiting.append(following)
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(cast("BaseExceptionGroup[BaseException]", one).exceptions)
