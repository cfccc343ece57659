"""Batch operations, as plain calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum

from perdure._wire.connection import Connection
from perdure._wire.edge import PayloadEdge, Repeatable
from perdure._wire.errors import sent
from perdure._wire.payloads import payloads_to_bytes
from perdure.common import ResetReapplyExcludeType, ResetType
from perdure.converter import Payload
from perdure_api.v1 import batch_service_pb2 as pb
from perdure_api.v1 import workflow_service_pb2 as workflow_pb
from perdure_api.v1.batch_service_pb2_grpc import BatchServiceStub


class BatchOperationType(IntEnum):
    """What is done to each run. All but DELETE and RESET are for the runs that are open."""

    TERMINATE = 1
    CANCEL = 2
    SIGNAL = 3
    DELETE = 4
    RESET = 5
    """Of each workflow id its newest run, open or closed; an older one counts as failed."""
    PAUSE = 6
    UNPAUSE = 7


class BatchOperationState(IntEnum):
    RUNNING = 1
    COMPLETED = 2
    STOPPED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOperationInfo:
    job_id: str
    operation: BatchOperationType | None
    """None: one of a newer engine."""
    state: BatchOperationState | None
    query: str
    reason: str
    identity: str
    start_time: datetime
    close_time: datetime | None
    total: int
    """Runs that the query found when it began."""
    done: int
    failed: int
    last_failure: str
    rps: int
    reset_type: ResetType | None = None
    """Of a RESET; None also for one of a newer engine."""
    build_id: str = ""
    """With ResetType.BUILD_ID."""


_OPERATIONS = {
    BatchOperationType.TERMINATE: pb.BATCH_OPERATION_TYPE_TERMINATE,
    BatchOperationType.CANCEL: pb.BATCH_OPERATION_TYPE_CANCEL,
    BatchOperationType.SIGNAL: pb.BATCH_OPERATION_TYPE_SIGNAL,
    BatchOperationType.DELETE: pb.BATCH_OPERATION_TYPE_DELETE,
    BatchOperationType.RESET: pb.BATCH_OPERATION_TYPE_RESET,
    BatchOperationType.PAUSE: pb.BATCH_OPERATION_TYPE_PAUSE,
    BatchOperationType.UNPAUSE: pb.BATCH_OPERATION_TYPE_UNPAUSE,
}


_TYPES = {number: operation for operation, number in _OPERATIONS.items()}
_RESET_TYPES = {int(one): one for one in ResetType}
_STATES = {
    pb.BATCH_OPERATION_STATE_RUNNING: BatchOperationState.RUNNING,
    pb.BATCH_OPERATION_STATE_COMPLETED: BatchOperationState.COMPLETED,
    pb.BATCH_OPERATION_STATE_STOPPED: BatchOperationState.STOPPED,
}


@dataclass(slots=True, kw_only=True)
class BatchRequest(Repeatable):
    namespace: str
    job_id: str
    query: str
    operation: BatchOperationType
    reason: str
    identity: str
    signal_name: str
    signal_args: list[Payload]
    rps: int
    dry_run: bool
    reset_type: ResetType | None = None
    build_id: str = ""
    reapply_exclude: Sequence[ResetReapplyExcludeType] = ()


class BatchService:
    """Every method raises RPCError, and sends once."""

    def __init__(self, connection: Connection, edge: PayloadEdge) -> None:
        self._stub = BatchServiceStub(connection.channel)
        self._edge = edge

    async def start(self, asked: BatchRequest, timeout_s: float) -> int:
        request = await self._edge.encoded(
            asked,
            lambda: pb.StartBatchOperationRequest(
                namespace=asked.namespace,
                job_id=asked.job_id,
                query=asked.query,
                operation=_OPERATIONS[asked.operation],
                reason=asked.reason,
                identity=asked.identity,
                signal_name=asked.signal_name,
                signal_input=payloads_to_bytes(asked.signal_args),
                rps=asked.rps,
                dry_run=asked.dry_run,
                # The numbers of these enums are those of the wire's.
                reset_type=workflow_pb.ResetType.ValueType(int(asked.reset_type or 0)),
                build_id=asked.build_id,
                reapply_exclude_types=[
                    workflow_pb.ResetReapplyType.ValueType(int(one))
                    for one in asked.reapply_exclude
                ],
            ),
        )
        answer = await sent(self._stub.StartBatchOperation, request, timeout_s)
        return int(answer.total)

    async def describe(self, namespace: str, job_id: str, timeout_s: float) -> BatchOperationInfo:
        request = pb.DescribeBatchOperationRequest(namespace=namespace, job_id=job_id)
        return _info((await sent(self._stub.DescribeBatchOperation, request, timeout_s)).info)

    async def list(
        self, namespace: str, page_token: bytes, timeout_s: float
    ) -> tuple[Sequence[BatchOperationInfo], bytes]:
        request = pb.ListBatchOperationsRequest(namespace=namespace, page_token=page_token)
        answer = await sent(self._stub.ListBatchOperations, request, timeout_s)
        return [_info(one) for one in answer.operations], answer.next_page_token

    async def stop(
        self, namespace: str, job_id: str, reason: str, identity: str, timeout_s: float
    ) -> None:
        request = pb.StopBatchOperationRequest(
            namespace=namespace, job_id=job_id, reason=reason, identity=identity
        )
        await sent(self._stub.StopBatchOperation, request, timeout_s)


def _info(message: pb.BatchOperationInfo) -> BatchOperationInfo:
    return BatchOperationInfo(
        job_id=message.job_id,
        operation=_TYPES.get(message.operation),
        state=_STATES.get(message.state),
        query=message.query,
        reason=message.reason,
        identity=message.identity,
        start_time=_instant(message.start_time_us),
        close_time=_instant(message.close_time_us) if message.close_time_us else None,
        total=message.total,
        done=message.done,
        failed=message.failed,
        last_failure=message.last_failure,
        rps=message.rps,
        reset_type=_RESET_TYPES.get(message.reset_type),
        build_id=message.build_id,
    )


def _instant(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC)
