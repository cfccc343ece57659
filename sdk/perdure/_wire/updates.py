"""Updates of a client's: what is asked, and how far each has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import grpc

from perdure._failure_info import FailureInfo
from perdure._wire.calls import NO_HEADER, Start, Target, start_fields
from perdure._wire.connection import Connection
from perdure._wire.edge import PLAIN, PayloadEdge, Repeatable
from perdure._wire.errors import error_from_call
from perdure._wire.failures import failure_from_message
from perdure._wire.payloads import fields_to_bytes, payloads_from_bytes, payloads_to_bytes
from perdure.converter import Payload
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_api.v1.workflow_service_pb2_grpc import WorkflowServiceStub

# What a wait allows the engine beyond the wait itself.
_ANSWER_TIME_S = 10.0


class WorkflowUpdateStage(IntEnum):
    """How far an update has come. The numbers are those of the wire."""

    ADMITTED = 1
    """It is saved: it will not be lost."""
    ACCEPTED = 2
    """The workflow took it: it will have an outcome."""
    COMPLETED = 3


@dataclass(slots=True)
class UpdateRequest(Repeatable):
    """The update id makes it repeatable: there is one outcome for all who ask with it."""

    update_id: str
    name: str
    args: list[Payload]
    header: Mapping[str, Payload] = field(default_factory=lambda: NO_HEADER)
    first_run_id: str = ""
    """Of the chain that is meant, if only that."""


@dataclass(frozen=True, slots=True)
class UpdateAnswer:
    run_id: str
    stage: WorkflowUpdateStage
    result: list[Payload]
    """Of a completed update that did not fail."""
    failure: FailureInfo | None


class UpdateService:
    """Every method raises RPCError, and sends once. `wait_ms`: how long the engine may wait for
    the stage; the answer then says which one is reached."""

    def __init__(self, connection: Connection, edge: PayloadEdge = PLAIN) -> None:
        self._stub = WorkflowServiceStub(connection.channel)
        self._edge = edge

    async def update(
        self,
        target: Target,
        request: UpdateRequest,
        identity: str,
        stage: WorkflowUpdateStage,
        wait_ms: int,
        timeout_s: float,
    ) -> UpdateAnswer:
        message = await self._edge.encoded(
            request,
            lambda: pb.UpdateWorkflowRequest(
                namespace=target.namespace,
                workflow_id=target.workflow_id,
                run_id=target.run_id,
                update_id=request.update_id,
                update_name=request.name,
                args=payloads_to_bytes(request.args),
                header=fields_to_bytes(request.header),
                identity=identity,
                first_run_id=request.first_run_id,
            ),
        )
        message.wait_stage = pb.UpdateStage.ValueType(stage)
        message.timeout_ms = wait_ms
        try:
            response = await self._stub.UpdateWorkflow(message, timeout=_limit(wait_ms, timeout_s))
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        await self._edge.decode(response)
        return _answer(response)

    async def update_with_start(
        self,
        start: Start,
        request: UpdateRequest,
        stage: WorkflowUpdateStage,
        wait_ms: int,
        timeout_s: float,
    ) -> UpdateAnswer:
        message = await self._edge.encoded(
            request,
            lambda: pb.UpdateWithStartWorkflowRequest(
                start=pb.StartWorkflowRequest(**start_fields(start)),
                update_id=request.update_id,
                update_name=request.name,
                args=payloads_to_bytes(request.args),
                header=fields_to_bytes(request.header),
            ),
        )
        message.wait_stage = pb.UpdateStage.ValueType(stage)
        message.timeout_ms = wait_ms
        try:
            response = await self._stub.UpdateWithStartWorkflow(
                message, timeout=_limit(wait_ms, timeout_s)
            )
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        await self._edge.decode(response)
        return _answer(response)

    async def poll(
        self,
        target: Target,
        update_id: str,
        stage: WorkflowUpdateStage,
        wait_ms: int,
        timeout_s: float,
    ) -> UpdateAnswer:
        message = pb.PollUpdateRequest(
            namespace=target.namespace,
            workflow_id=target.workflow_id,
            run_id=target.run_id,
            update_id=update_id,
            wait_stage=pb.UpdateStage.ValueType(stage),
            timeout_ms=wait_ms,
        )
        try:
            response = await self._stub.PollUpdate(message, timeout=_limit(wait_ms, timeout_s))
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        await self._edge.decode(response)
        return _answer(response)


def _limit(wait_ms: int, timeout_s: float) -> float:
    return min(timeout_s, wait_ms / 1000 + _ANSWER_TIME_S)


def _answer(response: Any) -> UpdateAnswer:
    outcome = response.outcome
    failed = outcome.WhichOneof("value") == "failure"
    return UpdateAnswer(
        run_id=response.run_id,
        stage=WorkflowUpdateStage(response.stage),
        result=payloads_from_bytes(outcome.result),
        failure=failure_from_message(outcome.failure) if failed else None,
    )
