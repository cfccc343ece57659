"""Clients' messages to intents.

What is wrong by its form is refused here, by its value in the frontend.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from google.protobuf.message import Message

from perdure_api.v1 import version_service_pb2 as version_pb
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.ids import run_id_of
from perdure_engine.core.intents import (
    CancelWorkflow,
    DeleteWorkflow,
    DescribeWorkflow,
    ExplainWorkflow,
    IdConflictPolicy,
    IdReusePolicy,
    PollUpdate,
    QueryRejectCondition,
    QueryWorkflow,
    SignalWorkflow,
    StartSignal,
    StartUpdate,
    StartWorkflow,
    TerminateWorkflow,
    UpdateStage,
    UpdateWorkflow,
    UpdateWorkflowOptions,
    WaitResult,
)
from perdure_engine.core.limits import TASK_TIMEOUT_MS_DEFAULT
from perdure_engine.frontend.checks import under, uuid_bytes, uuid_bytes_or_none
from perdure_engine.transport.grpc.convert.retries import policy_of
from perdure_engine.transport.grpc.convert.search_attributes import attributes_of
from perdure_engine.transport.grpc.convert.versions import versioning_of

PRIORITY_DEFAULT = 3
BODY_HASH_BYTES = 8

REUSE_POLICIES = {0: IdReusePolicy.ALLOW_DUPLICATE, **{int(p): p for p in IdReusePolicy}}
CONFLICT_POLICIES = {int(p): p for p in IdConflictPolicy}
REJECT_CONDITIONS = {
    0: QueryRejectCondition.NEVER,
    **{int(condition): condition for condition in QueryRejectCondition},
}
WAIT_STAGES = {0: UpdateStage.ADMITTED, **{int(s): s for s in UpdateStage}}


def body_hash(message: Message) -> bytes:
    """What a repeated request must have in common with the first."""
    return blake2b(
        message.SerializeToString(deterministic=True), digest_size=BODY_HASH_BYTES
    ).digest()


class Identity(NamedTuple):
    """Which run a start begins, by which request."""

    namespace_id: bytes
    run_id: bytes
    request_id: bytes
    body_hash: bytes


EACH_SLOTS_OWN = Identity(b"", b"", b"", b"")


def start_workflow(message: pb.StartWorkflowRequest, namespace_id: bytes) -> StartWorkflow:
    asked = _identity(message, namespace_id, body_hash(message))
    return _start(message, asked, IdConflictPolicy.FAIL)


def scheduled_workflow(message: pb.StartWorkflowRequest) -> StartWorkflow:
    """What a schedule starts at each of its slots. Says nothing of which run that is."""
    for field in ("namespace", "workflow_id", "request_id", "run_id"):
        if getattr(message, field):
            raise invalid(field, "is each slot's own")
    return _start(message, EACH_SLOTS_OWN, IdConflictPolicy.FAIL)


def signal_with_start_workflow(
    message: pb.SignalWithStartWorkflowRequest, namespace_id: bytes
) -> StartWorkflow:
    signal = StartSignal(message.signal_name, message.signal_input)
    unsaid = IdConflictPolicy.USE_EXISTING
    try:
        asked = _identity(message.start, namespace_id, body_hash(message))
        return _start(message.start, asked, unsaid, signal)
    except Rejected as rejected:
        raise under("start", rejected) from None


def _identity(message: pb.StartWorkflowRequest, namespace_id: bytes, hashed: bytes) -> Identity:
    request_id = uuid_bytes("request_id", message.request_id)
    if message.run_id:
        run_id = uuid_bytes("run_id", message.run_id)
    else:
        run_id = run_id_of(namespace_id, message.workflow_id, request_id)
    return Identity(namespace_id, run_id, request_id, hashed)


def _start(
    message: pb.StartWorkflowRequest,
    asked: Identity,
    unsaid: IdConflictPolicy,
    signal: StartSignal | None = None,
    update: StartUpdate | None = None,
) -> StartWorkflow:
    reuse = REUSE_POLICIES.get(message.id_reuse_policy)
    if reuse is None:
        raise invalid("id_reuse_policy", "is not a policy")
    number = message.id_conflict_policy
    conflict = CONFLICT_POLICIES.get(number) if number else unsaid
    if conflict is None:
        raise invalid("id_conflict_policy", "is not a policy")
    return StartWorkflow(
        namespace_id=asked.namespace_id,
        workflow_id=message.workflow_id,
        run_id=asked.run_id,
        request_id=asked.request_id,
        body_hash=asked.body_hash,
        workflow_type=message.workflow_type,
        task_queue=message.task_queue,
        input=message.input,
        header=message.header,
        memo=message.memo,
        execution_timeout_ms=message.execution_timeout_ms,
        run_timeout_ms=message.run_timeout_ms,
        task_timeout_ms=message.task_timeout_ms or TASK_TIMEOUT_MS_DEFAULT,
        retry_policy=policy_of(message.retry_policy) if message.HasField("retry_policy") else None,
        identity=message.identity,
        id_reuse_policy=reuse,
        id_conflict_policy=conflict,
        start_delay_ms=message.start_delay_ms,
        priority=message.priority or PRIORITY_DEFAULT,
        static_summary=message.static_summary,
        static_details=message.static_details,
        cron_schedule=message.cron_schedule,
        signal=signal,
        update=update,
        search_attributes=attributes_of("search_attributes", message.search_attributes)
        if message.search_attributes
        else (),
        versioning_override=versioning_of("versioning_override", message.versioning_override)
        if message.HasField("versioning_override")
        else None,
    )


def update_with_start_workflow(
    message: pb.UpdateWithStartWorkflowRequest, namespace_id: bytes
) -> StartWorkflow:
    """The start's body is the start alone: a repeat may wait for another stage."""
    start = message.start
    if not start.id_conflict_policy:
        raise invalid("start.id_conflict_policy", "is required with an update")
    update = StartUpdate(
        message.update_id,
        message.update_name,
        message.args,
        message.header,
        _update_hash(message.update_name, message.args),
        _wait_stage(message.wait_stage),
    )
    try:
        asked = _identity(start, namespace_id, body_hash(start))
        return _start(start, asked, IdConflictPolicy.FAIL, update=update)
    except Rejected as rejected:
        raise under("start", rejected) from None


def update_workflow(message: pb.UpdateWorkflowRequest, namespace_id: bytes) -> UpdateWorkflow:
    return UpdateWorkflow(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        update_id=message.update_id,
        update_name=message.update_name,
        body_hash=_update_hash(message.update_name, message.args),
        input=message.args,
        header=message.header,
        identity=message.identity,
        wait_stage=_wait_stage(message.wait_stage),
        first_run_id=uuid_bytes_or_none("first_run_id", message.first_run_id),
    )


def poll_update(message: pb.PollUpdateRequest, namespace_id: bytes) -> PollUpdate:
    return PollUpdate(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        update_id=message.update_id,
        wait_stage=_wait_stage(message.wait_stage),
    )


def _update_hash(name: str, args: bytes) -> bytes:
    """What all callers of one update id have in common: who asks, how it traces and waits may differ."""
    told = len(name).to_bytes(4, "big") + name.encode() + args
    return blake2b(told, digest_size=BODY_HASH_BYTES).digest()


def _wait_stage(number: int) -> UpdateStage:
    stage = WAIT_STAGES.get(number)
    if stage is None:
        raise invalid("wait_stage", "is not a stage")
    return stage


def signal_workflow(message: pb.SignalWorkflowRequest, namespace_id: bytes) -> SignalWorkflow:
    return SignalWorkflow(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        signal_name=message.signal_name,
        request_id=uuid_bytes("request_id", message.request_id),
        body_hash=body_hash(message),
        input=message.input,
        identity=message.identity,
        header=message.header,
    )


def cancel_workflow(message: pb.CancelWorkflowRequest, namespace_id: bytes) -> CancelWorkflow:
    return CancelWorkflow(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        request_id=uuid_bytes("request_id", message.request_id),
        body_hash=body_hash(message),
        identity=message.identity,
        reason=message.reason,
        first_run_id=uuid_bytes_or_none("first_run_id", message.first_run_id),
    )


def terminate_workflow(
    message: pb.TerminateWorkflowRequest, namespace_id: bytes
) -> TerminateWorkflow:
    return TerminateWorkflow(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        request_id=uuid_bytes("request_id", message.request_id),
        body_hash=body_hash(message),
        identity=message.identity,
        reason=message.reason,
        details=message.details,
        first_run_id=uuid_bytes_or_none("first_run_id", message.first_run_id),
    )


def delete_workflow(message: pb.DeleteWorkflowRequest, namespace_id: bytes) -> DeleteWorkflow:
    return DeleteWorkflow(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        request_id=uuid_bytes("request_id", message.request_id),
        body_hash=body_hash(message),
        identity=message.identity,
        reason=message.reason,
    )


def describe_workflow(message: pb.DescribeWorkflowRequest, namespace_id: bytes) -> DescribeWorkflow:
    return DescribeWorkflow(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
    )


def explain_workflow(message: pb.ExplainWorkflowRequest, namespace_id: bytes) -> ExplainWorkflow:
    return ExplainWorkflow(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
    )


def query_workflow(message: pb.QueryWorkflowRequest, namespace_id: bytes) -> QueryWorkflow:
    return QueryWorkflow(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        query_type=message.query_type,
        args=message.args,
        header=message.header,
        reject_condition=_reject_condition(message.reject_condition),
    )


def _reject_condition(number: int) -> QueryRejectCondition:
    condition = REJECT_CONDITIONS.get(number)
    if condition is None:
        raise invalid("reject_condition", "is not a condition")
    return condition


def wait_result(message: pb.GetResultRequest | pb.Wait, namespace_id: bytes) -> WaitResult:
    return WaitResult(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
    )


def update_workflow_options(
    message: version_pb.UpdateWorkflowOptionsRequest, namespace_id: bytes
) -> UpdateWorkflowOptions:
    return UpdateWorkflowOptions(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        request_id=uuid_bytes("request_id", message.request_id),
        body_hash=body_hash(message),
        identity=message.identity,
        reason=message.reason,
        versioning_override=versioning_of("versioning_override", message.versioning_override)
        if message.HasField("versioning_override")
        else None,
    )
