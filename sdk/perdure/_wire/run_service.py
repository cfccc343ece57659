"""What operators do with whole runs: plain calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from perdure._wire.calls import Target
from perdure._wire.connection import Connection
from perdure._wire.errors import error_from_call
from perdure.common import ResetReapplyExcludeType, ResetType
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_api.v1.workflow_service_pb2_grpc import WorkflowServiceStub


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPoint:
    """An event, or a type and what it needs."""

    event_id: int = 0
    reset_type: ResetType | None = None
    build_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Who asks, and what for. The request id makes a repeat the same request."""

    request_id: str
    identity: str
    reason: str


class RunService:
    """Every method raises RPCError, and sends once: trying again is the caller's decision."""

    def __init__(self, connection: Connection) -> None:
        self._stub = WorkflowServiceStub(connection.channel)

    async def reset(
        self,
        target: Target,
        point: ResetPoint,
        exclude: Sequence[ResetReapplyExcludeType],
        why: Why,
        timeout_s: float,
    ) -> str:
        """Returns the new run's id."""
        # The numbers of our enums are those of the wire's.
        request = pb.ResetWorkflowRequest(
            namespace=target.namespace,
            workflow_id=target.workflow_id,
            run_id=target.run_id,
            request_id=why.request_id,
            identity=why.identity,
            reason=why.reason,
            workflow_task_finish_event_id=point.event_id,
            reset_type=pb.ResetType.ValueType(int(point.reset_type or 0)),
            build_id=point.build_id,
            reapply_exclude_types=[pb.ResetReapplyType.ValueType(int(one)) for one in exclude],
        )
        try:
            response = await self._stub.ResetWorkflow(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        return response.run_id

    async def pause(self, target: Target, why: Why, timeout_s: float) -> None:
        request = pb.PauseWorkflowRequest(
            namespace=target.namespace,
            workflow_id=target.workflow_id,
            run_id=target.run_id,
            request_id=why.request_id,
            identity=why.identity,
            reason=why.reason,
        )
        try:
            await self._stub.PauseWorkflow(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None

    async def unpause(self, target: Target, why: Why, timeout_s: float) -> None:
        request = pb.UnpauseWorkflowRequest(
            namespace=target.namespace,
            workflow_id=target.workflow_id,
            run_id=target.run_id,
            request_id=why.request_id,
            identity=why.identity,
            reason=why.reason,
        )
        try:
            await self._stub.UnpauseWorkflow(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None

    async def resume(self, target: Target, why: Why, timeout_s: float) -> None:
        request = pb.ResumeWorkflowRequest(
            namespace=target.namespace,
            workflow_id=target.workflow_id,
            run_id=target.run_id,
            request_id=why.request_id,
            identity=why.identity,
            reason=why.reason,
        )
        try:
            await self._stub.ResumeWorkflow(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
