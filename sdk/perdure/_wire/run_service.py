"""What operators do with whole runs: plain calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure._wire.calls import Target
from perdure._wire.connection import Connection
from perdure._wire.errors import sent
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
            **_said(target, why),
            workflow_task_finish_event_id=point.event_id,
            reset_type=pb.ResetType.ValueType(int(point.reset_type or 0)),
            build_id=point.build_id,
            reapply_exclude_types=[pb.ResetReapplyType.ValueType(int(one)) for one in exclude],
        )
        answer = await sent(self._stub.ResetWorkflow, request, timeout_s)
        return str(answer.run_id)

    async def pause(self, target: Target, why: Why, timeout_s: float) -> None:
        request = pb.PauseWorkflowRequest(**_said(target, why))
        await sent(self._stub.PauseWorkflow, request, timeout_s)

    async def unpause(self, target: Target, why: Why, timeout_s: float) -> None:
        request = pb.UnpauseWorkflowRequest(**_said(target, why))
        await sent(self._stub.UnpauseWorkflow, request, timeout_s)

    async def resume(self, target: Target, why: Why, timeout_s: float) -> None:
        request = pb.ResumeWorkflowRequest(**_said(target, why))
        await sent(self._stub.ResumeWorkflow, request, timeout_s)


def _said(target: Target, why: Why) -> dict[str, str]:
    """Which run, and why: fields of all of these requests."""
    return {
        "namespace": target.namespace,
        "workflow_id": target.workflow_id,
        "run_id": target.run_id,
        "request_id": why.request_id,
        "identity": why.identity,
        "reason": why.reason,
    }
