"""Messages that are about a whole run, to intents: reset, pause, unpause, resume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core.errors import invalid
from perdure_engine.core.ids import reset_run_id
from perdure_engine.core.intents import (
    PauseWorkflow,
    Reapply,
    ResetType,
    ResetWorkflow,
    ResumeWorkflow,
    UnpauseWorkflow,
)
from perdure_engine.core.operator_intents import RunOperation
from perdure_engine.frontend.checks import uuid_bytes, uuid_bytes_or_none
from perdure_engine.transport.grpc.convert.intents import body_hash

Op = TypeVar("Op", bound=RunOperation)

RESET_TYPES = {int(one): one for one in ResetType}
REAPPLY_TYPES = {int(one): one for one in Reapply}


def reset_type_of(number: int) -> ResetType | None:
    """None: it is not said. Raises INVALID_ARGUMENT."""
    if number and number not in RESET_TYPES:
        raise invalid("reset_type", "is not a type of reset")
    return RESET_TYPES.get(number)


def reapply_types_of(numbers: Sequence[int]) -> tuple[Reapply, ...]:
    """Each once, in their order. Raises INVALID_ARGUMENT."""
    for index, one in enumerate(numbers):
        if one not in REAPPLY_TYPES:
            raise invalid(f"reapply_exclude_types[{index}]", "is not a type")
    return tuple(sorted({REAPPLY_TYPES[one] for one in numbers}))


def reset_workflow(message: pb.ResetWorkflowRequest, namespace_id: bytes) -> ResetWorkflow:
    """Either an event or a type says where to."""
    request_id = uuid_bytes("request_id", message.request_id)
    event_id = message.workflow_task_finish_event_id
    reset_type = reset_type_of(message.reset_type)
    if event_id and reset_type is not None:
        raise invalid("reset_type", "cannot be given with workflow_task_finish_event_id")
    if not event_id and reset_type is None:
        raise invalid("workflow_task_finish_event_id", "is required, unless reset_type is given")
    if event_id < 0:
        raise invalid("workflow_task_finish_event_id", "must not be negative")
    return ResetWorkflow(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        request_id=request_id,
        body_hash=body_hash(message),
        new_run_id=reset_run_id(namespace_id, message.workflow_id, request_id),
        event_id=event_id,
        reset_type=reset_type or ResetType.LAST_WORKFLOW_TASK,
        build_id=message.build_id,
        reapply_exclude=frozenset(reapply_types_of(message.reapply_exclude_types)),
        identity=message.identity,
        reason=message.reason,
    )


def pause_workflow(message: pb.PauseWorkflowRequest, namespace_id: bytes) -> PauseWorkflow:
    return _operation(PauseWorkflow, message, namespace_id)


def unpause_workflow(message: pb.UnpauseWorkflowRequest, namespace_id: bytes) -> UnpauseWorkflow:
    return _operation(UnpauseWorkflow, message, namespace_id)


def resume_workflow(message: pb.ResumeWorkflowRequest, namespace_id: bytes) -> ResumeWorkflow:
    return _operation(ResumeWorkflow, message, namespace_id)


def _operation(
    kind: type[Op],
    message: pb.PauseWorkflowRequest | pb.UnpauseWorkflowRequest | pb.ResumeWorkflowRequest,
    namespace_id: bytes,
) -> Op:
    return kind(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        request_id=uuid_bytes("request_id", message.request_id),
        body_hash=body_hash(message),
        identity=message.identity,
        reason=message.reason,
    )
