"""What the SDK raises.

PerdureError
├── FailureError                      something ran and did not succeed; `cause` says why
│   ├── ApplicationError              raised by the user's code, or made of what it raised
│   ├── ActivityError                 an activity ended so; its cause is one of the others
│   ├── ChildWorkflowError            a child workflow ended so; likewise
│   ├── CancelledError                asked to stop, and did
│   ├── TimeoutError                  a time limit passed; `type` says which
│   ├── TerminatedError               stopped from outside, without being asked
│   ├── ServerError                   the engine could not go on
│   ├── WorkerLostError               the worker died and no further attempt was allowed
│   └── WorkflowAlreadyStartedError   an open run has that id
├── WorkflowFailureError              the run that was waited for did not complete (client)
├── WorkflowContinuedAsNewError       … because another run follows it, not waited for (client)
├── WorkflowQueryFailedError          the query's code raised (client)
├── WorkflowQueryRejectedError        the run was not to be queried as it is (client)
├── WorkflowUpdateFailedError         the update was refused, or failed; its cause says why (client)
├── JobError                          the job that was waited for did not complete (client)
│   ├── JobFailedError                its last attempt failed; its cause says how
│   ├── JobCancelledError
│   └── JobSkippedError               it expired, or its schedule passed it over
├── JobsRefusedError                  of many jobs some were not made (client)
├── ScheduleAlreadyRunningError       there is a schedule of that id (client)
├── RPCTimeoutOrCancelledError        a wait is over before what was waited for (client)
│   └── WorkflowUpdateRPCTimeoutOrCancelledError
├── AsyncActivityCancelledError       the workflow no longer wants the activity (client)
├── AttemptLostError                  the attempt is over or has another owner (activity)
├── RPCError                          the engine refused a call, or did not answer it
├── PayloadError                      a value and its bytes do not fit together
│   ├── PayloadEncodeError
│   │   └── PayloadTooLargeError      over the engine's limit, and refused before it is sent
│   └── PayloadDecodeError
│       ├── UnknownEncodingError
│       ├── UnknownKeyError           encrypted by a key that is not here
│       ├── PayloadAlteredError       the bytes are not those that were written
│       ├── DecompressionError        it would grow beyond what is allowed, or is no such data
│       ├── ExternalPayloadError      it lies in external storage, and cannot be had from there
│       └── EntityStateError          what is saved of an entity does not fit its class
└── WorkflowTaskError                 a defect: the workflow *task* fails and is retried
    ├── NondeterminismError           the code does not do what the history says it did
    ├── RestrictedWorkflowAccessError the code used a clock, randomness, network, file, thread
    ├── ReadOnlyContextError          a query or a wait condition tried to change the run
    ├── UnknownWorkflowTypeError      the worker does not know the workflow
    └── HistoryError                  the engine sent a history that cannot be
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any, Self, cast

from perdure._failure_info import ApplicationErrorCategory as ApplicationErrorCategory
from perdure._failure_info import FailureInfo
from perdure._failure_info import RetryState as RetryState
from perdure._failure_info import TimeoutType as TimeoutType
from perdure.common import WorkflowStatus


class RPCStatusCode(IntEnum):
    """gRPC's status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
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


# --- failures as exceptions -----------------------------------------------------------------------


class PerdureError(Exception):
    """Everything that the SDK raises on purpose."""


class FailureError(PerdureError):
    """Something ran and did not succeed. `failure` is what the wire said, if it came from there."""

    def __init__(self, message: str, *exc_args: Any, failure: FailureInfo | None = None) -> None:
        super().__init__(*(exc_args or (message,)))
        self.message = message
        self.failure = failure

    @property
    def cause(self) -> BaseException | None:
        return self.__cause__


class ApplicationError(FailureError):
    """What the user's code raises to say how it failed, and whether trying again makes sense."""

    def __init__(
        self,
        message: str,
        *details: Any,
        type: str | None = None,
        non_retryable: bool = False,
        next_retry_delay: timedelta | None = None,
        category: str = "",
    ) -> None:
        super().__init__(message, f"{type}: {message}" if type else message)
        self.details: Sequence[Any] = details
        self.type = type
        self.non_retryable = non_retryable
        self.next_retry_delay = next_retry_delay
        self.category = category


class CancelledError(FailureError):
    """asyncio.CancelledError is what the code of the cancelled sees; this is what others see."""

    def __init__(self, message: str = "Cancelled", *details: Any) -> None:
        super().__init__(message)
        self.details: Sequence[Any] = details


class TimeoutError(FailureError):
    def __init__(
        self,
        message: str,
        *,
        type: TimeoutType | None,
        last_heartbeat_details: Sequence[Any] = (),
    ) -> None:
        super().__init__(message)
        self.type = type
        self.last_heartbeat_details = last_heartbeat_details


class TerminatedError(FailureError):
    """`details` are what whoever terminated it gave along."""

    def __init__(self, message: str, *details: Any) -> None:
        super().__init__(message)
        self.details: Sequence[Any] = details


class ServerError(FailureError):
    def __init__(self, message: str, *, non_retryable: bool = False) -> None:
        super().__init__(message)
        self.non_retryable = non_retryable


class WorkerLostError(FailureError):
    def __init__(self, message: str, *, identity: str) -> None:
        super().__init__(message)
        self.identity = identity


class ActivityError(FailureError):
    """An activity did not succeed. `cause` is what happened in it or to it."""

    def __init__(
        self,
        message: str,
        *,
        scheduled_event_id: int,
        started_event_id: int,
        identity: str,
        activity_type: str,
        activity_id: str,
        retry_state: RetryState | None,
    ) -> None:
        super().__init__(message)
        self.scheduled_event_id = scheduled_event_id
        self.started_event_id = started_event_id
        self.identity = identity
        self.activity_type = activity_type
        self.activity_id = activity_id
        self.retry_state = retry_state


class ChildWorkflowError(FailureError):
    """A child workflow did not succeed, or was cancelled. `cause` is what happened in it or to it.

    `run_id` is the last run of its chain; empty, and `started_event_id` 0: it was never started.
    """

    def __init__(
        self,
        message: str,
        *,
        namespace: str,
        workflow_id: str,
        run_id: str,
        workflow_type: str,
        initiated_event_id: int,
        started_event_id: int,
        retry_state: RetryState | None,
    ) -> None:
        super().__init__(message)
        self.namespace = namespace
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.workflow_type = workflow_type
        self.initiated_event_id = initiated_event_id
        self.started_event_id = started_event_id
        self.retry_state = retry_state


class WorkflowAlreadyStartedError(FailureError):
    """The id is taken. `run_id` is not known where a workflow hears it of its child."""

    def __init__(self, workflow_id: str, workflow_type: str, *, run_id: str | None = None) -> None:
        super().__init__(
            f"workflow {workflow_id!r} has already been started"
            if run_id is None
            else f"workflow {workflow_id!r} is already running (run {run_id})"
        )
        self.workflow_id = workflow_id
        self.workflow_type = workflow_type
        self.run_id = run_id


def is_cancelled_exception(error: BaseException) -> bool:
    """Is this, in any of its forms, what a cancellation looks like?

    Of a group: are all of them? That is what a TaskGroup makes of its cancelled activities.
    """
    if isinstance(error, asyncio.CancelledError | CancelledError):
        return True
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(is_cancelled_exception(one) for one in group.exceptions)
    return isinstance(error, ActivityError | ChildWorkflowError) and isinstance(
        error.cause, CancelledError
    )


def is_benign(error: BaseException) -> bool:
    """Was it expected in the course of business? Then it is not logged or counted as an error."""
    return isinstance(error, ApplicationError) and error.category == ApplicationErrorCategory.BENIGN


# --- calls ----------------------------------------------------------------------------------------


class WorkflowFailureError(PerdureError):
    """The run ended in another way than by completing: `cause` says how."""

    def __init__(self, *, cause: BaseException) -> None:
        super().__init__(f"Workflow execution failed: {cause}")
        self.__cause__ = cause

    @property
    def cause(self) -> BaseException:
        assert self.__cause__ is not None
        return self.__cause__


class WorkflowContinuedAsNewError(PerdureError):
    """The run ended by continuing as new: `new_execution_run_id` is the run that follows."""

    def __init__(self, new_execution_run_id: str) -> None:
        super().__init__("Workflow continued as new")
        self.new_execution_run_id = new_execution_run_id


class WorkflowQueryFailedError(PerdureError):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WorkflowQueryRejectedError(PerdureError):
    """The run is as its caller does not want to query it (`reject_condition`)."""

    def __init__(self, status: WorkflowStatus | None) -> None:
        super().__init__(f"Query rejected, status: {'unknown' if status is None else status.name}")
        self._status = status

    @property
    def status(self) -> WorkflowStatus | None:
        """Of the run. None: one that this SDK does not know yet."""
        return self._status


class WorkflowUpdateFailedError(PerdureError):
    """The update was refused by its validator, or its handler failed: `cause` says how."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"Workflow update failed: {cause}")
        self.__cause__ = cause

    @property
    def cause(self) -> BaseException:
        assert self.__cause__ is not None
        return self.__cause__


class JobError(PerdureError):
    """The job has ended in another way than by completing. `reason` is the engine's, if it has one."""

    def __init__(self, job_id: str, message: str, *, reason: str = "") -> None:
        super().__init__(f"job {job_id} {message}" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.reason = reason

    @property
    def cause(self) -> BaseException | None:
        return self.__cause__


class JobFailedError(JobError):
    """Its last attempt failed: `cause` says how."""

    def __init__(self, job_id: str, *, cause: BaseException | None, reason: str = "") -> None:
        super().__init__(job_id, "failed", reason=reason or str(cause or ""))
        self.__cause__ = cause


class JobCancelledError(JobError):
    def __init__(self, job_id: str, *, reason: str = "") -> None:
        super().__init__(job_id, "was cancelled", reason=reason)


class JobSkippedError(JobError):
    def __init__(self, job_id: str, *, reason: str = "") -> None:
        super().__init__(job_id, "was skipped", reason=reason)


class JobsRefusedError(PerdureError):
    """Of the jobs of one call some were not made. `errors` says why, by their places in it;
    `handles` are those of the others, None where there is none."""

    def __init__(self, errors: Mapping[int, Exception], handles: Sequence[Any]) -> None:
        first = min(errors)
        super().__init__(
            f"{len(errors)} of {len(handles)} jobs were not made; number {first}: {errors[first]}"
        )
        self.errors = errors
        self.handles = handles


class ScheduleAlreadyRunningError(PerdureError):
    """There is a schedule of that id."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f"schedule {schedule_id!r} exists already")
        self.schedule_id = schedule_id


class RPCTimeoutOrCancelledError(PerdureError):
    """A wait is over before what was waited for."""


class WorkflowUpdateRPCTimeoutOrCancelledError(RPCTimeoutOrCancelledError):
    """The wait for an update is over before the update is. It goes on, and can be asked for."""

    def __init__(self) -> None:
        super().__init__("Timeout or cancellation waiting for update")


class AsyncActivityCancelledError(PerdureError):
    """Told by a heartbeat of `AsyncActivityHandle`: `report_cancellation` ends the activity."""

    def __init__(self, message: str = "activity cancelled", *, paused: bool = False) -> None:
        super().__init__(message)
        self.paused = paused
        """An operator holds the activity back; the workflow has not asked for anything."""


class AttemptLostError(PerdureError):
    """What the attempt says is not saved any more: it is over, or has another owner. Stop."""

    def __init__(self) -> None:
        super().__init__("the attempt is over or has another owner")


class RPCError(PerdureError):
    """A call failed.

    `reason` is the engine's word for why (its google.rpc.ErrorInfo), `field_violations` names the
    fields at fault with what is wrong, `retry_delay_s` is how long the engine asks to wait.
    """

    def __init__(
        self,
        message: str,
        status: RPCStatusCode,
        *,
        reason: str = "",
        field_violations: Sequence[tuple[str, str]] = (),
        retry_delay_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.field_violations = field_violations
        self.retry_delay_s = retry_delay_s


# --- values ---------------------------------------------------------------------------------------


class PayloadError(PerdureError):
    """A value and its bytes do not fit together."""

    def at(self, place: str) -> Self:
        """The same error, which now says where it happened too."""
        self.args = (f"{place}: {self}",)
        return self


class PayloadEncodeError(PayloadError):
    pass


class PayloadDecodeError(PayloadError):
    pass


class PayloadTooLargeError(PayloadEncodeError):
    def __init__(self, message: str, *, field: str, size_bytes: int, bytes_max: int) -> None:
        super().__init__(message)
        self.field = field
        self.size_bytes = size_bytes
        self.bytes_max = bytes_max


class UnknownEncodingError(PayloadDecodeError):
    def __init__(self, encoding: str, hint: str = "") -> None:
        super().__init__(f"payload encoding {encoding!r} is not known to this converter{hint}")
        self.encoding = encoding


class UnknownKeyError(PayloadDecodeError):
    def __init__(self, key_id: str) -> None:
        super().__init__(f"key {key_id!r} is not in the key ring")
        self.key_id = key_id


class PayloadAlteredError(PayloadDecodeError):
    pass


class DecompressionError(PayloadDecodeError):
    pass


class ExternalPayloadError(PayloadDecodeError):
    pass


class EntityStateError(PayloadDecodeError):
    pass


# --- defects --------------------------------------------------------------------------------------


class WorkflowTaskError(PerdureError):
    """A defect that a new deployment can heal: the task fails and is retried, the run lives on."""


class NondeterminismError(WorkflowTaskError):
    """The code does not do what the history says. A field is None where there is none to name."""

    def __init__(
        self,
        message: str,
        *,
        event_id: int | None = None,
        event_type: str | None = None,
        site: str | None = None,
    ) -> None:
        super().__init__(message)
        self.event_id = event_id
        self.event_type = event_type
        self.site = site


class RestrictedWorkflowAccessError(WorkflowTaskError):
    """Workflow code reached for what another replay would see differently, or not at all."""

    def __init__(self, qualified_name: str, fix: str, site: str) -> None:
        super().__init__(f"{qualified_name} must not be used in workflow code ({site}): {fix}")
        self.qualified_name = qualified_name
        self.site = site


class ReadOnlyContextError(WorkflowTaskError):
    pass


class UnknownWorkflowTypeError(WorkflowTaskError):
    def __init__(self, workflow_type: str, known: Sequence[str]) -> None:
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(f"workflow {workflow_type!r} is not registered here; known: {listed}")
        self.workflow_type = workflow_type


class HistoryError(WorkflowTaskError):
    pass
