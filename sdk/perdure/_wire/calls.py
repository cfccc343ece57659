"""The calls that can share a message: how each is put together and how its answer is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from perdure._wire.errors import error_from_status
from perdure._wire.payloads import (
    fields_to_bytes,
    payload_to_bytes,
    payloads_from_bytes,
    payloads_to_bytes,
)
from perdure._wire.policies import retry_policy_to_message
from perdure._wire.search_attributes import attributes_to_fields
from perdure._wire.version_service import override_message
from perdure._wire.workflow_info import WorkflowExecutionDescription, description_from_message
from perdure.common import (
    QueryRejectCondition,
    RetryPolicy,
    TypedSearchAttributes,
    VersioningOverride,
    WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy,
)
from perdure.converter import Payload
from perdure.errors import PayloadDecodeError, RPCError
from perdure_api.v1 import workflow_service_pb2 as pb

T = TypeVar("T")

NO_HEADER: Mapping[str, Payload] = MappingProxyType({})


class Call(Generic[T]):
    """A request ready to be sent, alone or with others, any number of times."""

    __slots__ = ("_read", "message", "size")

    def __init__(self, read: Callable[[pb.CallResult], T], **request: Any) -> None:
        """`request`: the fields of the message of one kind of call."""
        self.message = message = pb.Call(**request)
        self.size = message.ByteSize()
        self._read = read

    def unread(self) -> Call[pb.CallResult]:
        """The same request, whose answer is the message itself, for `read` afterwards."""
        other = _Unread.__new__(_Unread)
        other.message, other.size = self.message, self.size
        return other

    @property
    def only_shows(self) -> bool:
        """Is its answer for people, who would rather see an encoded value than nothing?"""
        return self.message.HasField("describe_workflow")

    def read(self, result: pb.CallResult) -> T | RPCError | PayloadDecodeError:
        """The answer or the error, returned and not raised: it concerns this call only."""
        if result.error:
            return error_from_status(result.error)
        try:
            return self._read(result)
        except PayloadDecodeError as error:
            return error


class _Unread(Call[pb.CallResult]):
    __slots__ = ()

    def read(self, result: pb.CallResult) -> pb.CallResult | RPCError | PayloadDecodeError:
        return error_from_status(result.error) if result.error else result


@dataclass(frozen=True, slots=True)
class Target:
    """A run, or with an empty run id the current one of the workflow id."""

    namespace: str
    workflow_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class StartedRun:
    run_id: str
    started: bool
    """False: a run that was there already has been taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a start says. Durations in ms, 0 for none; the request id makes it repeatable."""

    namespace: str
    workflow_id: str
    workflow_type: str
    task_queue: str
    input: list[Payload]
    request_id: str
    identity: str
    id_reuse_policy: WorkflowIdReusePolicy
    id_conflict_policy: WorkflowIdConflictPolicy
    execution_timeout_ms: int
    run_timeout_ms: int
    task_timeout_ms: int
    retry_policy: RetryPolicy | None
    memo: Mapping[str, Payload]
    header: Mapping[str, Payload]
    start_delay_ms: int
    priority: int
    static_summary: Payload | None
    static_details: Payload | None
    cron_schedule: str = ""
    search_attributes: TypedSearchAttributes = TypedSearchAttributes.empty
    versioning_override: VersioningOverride | None = None


def start_workflow(start: Start) -> Call[StartedRun]:
    return Call(_read_started, start_workflow=start_fields(start))


def signal_with_start_workflow(
    start: Start, signal_name: str, signal_input: list[Payload]
) -> Call[StartedRun]:
    fields = {
        "start": start_fields(start),
        "signal_name": signal_name,
        "signal_input": payloads_to_bytes(signal_input),
    }
    return Call(_read_signaled_and_started, signal_with_start_workflow=fields)


def signal_workflow(
    target: Target,
    signal_name: str,
    signal_input: list[Payload],
    *,
    request_id: str,
    identity: str,
    header: Mapping[str, Payload] | None = None,
) -> Call[None]:
    message = pb.SignalWorkflowRequest(
        namespace=target.namespace,
        workflow_id=target.workflow_id,
        run_id=target.run_id,
        signal_name=signal_name,
        input=payloads_to_bytes(signal_input),
        request_id=request_id,
        identity=identity,
    )
    if header:
        message.header = fields_to_bytes(header)
    return Call(_read_nothing, signal_workflow=message)


def query_workflow(
    target: Target,
    query_type: str,
    args: list[Payload],
    header: Mapping[str, Payload] | None = None,
    reject_condition: QueryRejectCondition | None = None,
) -> Call[list[Payload]]:
    message = pb.QueryWorkflowRequest(
        namespace=target.namespace,
        workflow_id=target.workflow_id,
        run_id=target.run_id,
        query_type=query_type,
        args=payloads_to_bytes(args),
    )
    if header:
        message.header = fields_to_bytes(header)
    if reject_condition is not None:
        message.reject_condition = pb.QueryRejectCondition.ValueType(reject_condition)
    return Call(_read_query, query_workflow=message)


def cancel_workflow(
    target: Target, reason: str, *, request_id: str, identity: str, first_run_id: str = ""
) -> Call[None]:
    """`first_run_id`: of the chain that is meant, if only that."""
    message = pb.CancelWorkflowRequest(
        namespace=target.namespace,
        workflow_id=target.workflow_id,
        run_id=target.run_id,
        first_run_id=first_run_id,
        request_id=request_id,
        identity=identity,
        reason=reason,
    )
    return Call(_read_nothing, cancel_workflow=message)


def terminate_workflow(
    target: Target,
    reason: str,
    details: list[Payload],
    *,
    request_id: str,
    identity: str,
    first_run_id: str = "",
) -> Call[None]:
    message = pb.TerminateWorkflowRequest(
        namespace=target.namespace,
        workflow_id=target.workflow_id,
        run_id=target.run_id,
        first_run_id=first_run_id,
        request_id=request_id,
        identity=identity,
        reason=reason,
        details=payloads_to_bytes(details),
    )
    return Call(_read_nothing, terminate_workflow=message)


def delete_workflow(target: Target, reason: str, *, request_id: str, identity: str) -> Call[None]:
    message = pb.DeleteWorkflowRequest(
        namespace=target.namespace,
        workflow_id=target.workflow_id,
        run_id=target.run_id,
        request_id=request_id,
        identity=identity,
        reason=reason,
    )
    return Call(_read_nothing, delete_workflow=message)


def describe_workflow(
    target: Target, decode: Callable[[Payload], Any]
) -> Call[WorkflowExecutionDescription]:
    """`decode` turns the payloads of the memo into values."""
    message = pb.DescribeWorkflowRequest(
        namespace=target.namespace, workflow_id=target.workflow_id, run_id=target.run_id
    )
    return Call(
        lambda result: description_from_message(result.describe_workflow, decode),
        describe_workflow=message,
    )


def start_fields(start: Start) -> dict[str, Any]:
    return {
        "namespace": start.namespace,
        "workflow_id": start.workflow_id,
        "workflow_type": start.workflow_type,
        "task_queue": start.task_queue,
        "input": payloads_to_bytes(start.input),
        "request_id": start.request_id,
        "identity": start.identity,
        # The numbers of our enums are those of the wire's.
        "id_reuse_policy": int(start.id_reuse_policy),
        "id_conflict_policy": int(start.id_conflict_policy),
        "execution_timeout_ms": start.execution_timeout_ms,
        "run_timeout_ms": start.run_timeout_ms,
        "task_timeout_ms": start.task_timeout_ms,
        "retry_policy": retry_policy_to_message(start.retry_policy),
        "memo": fields_to_bytes(start.memo),
        "header": fields_to_bytes(start.header),
        "start_delay_ms": start.start_delay_ms,
        "priority": start.priority,
        "static_summary": payload_to_bytes(start.static_summary),
        "static_details": payload_to_bytes(start.static_details),
        "cron_schedule": start.cron_schedule,
        "search_attributes": attributes_to_fields(start.search_attributes)
        if start.search_attributes
        else (),
        "versioning_override": override_message(start.versioning_override),
    }


def _read_started(result: pb.CallResult) -> StartedRun:
    response = result.start_workflow
    return StartedRun(response.run_id, response.started)


def _read_signaled_and_started(result: pb.CallResult) -> StartedRun:
    response = result.signal_with_start_workflow
    return StartedRun(response.run_id, response.started)


def _read_query(result: pb.CallResult) -> list[Payload]:
    return payloads_from_bytes(result.query_workflow.result)


def _read_nothing(result: pb.CallResult) -> None:
    return None
