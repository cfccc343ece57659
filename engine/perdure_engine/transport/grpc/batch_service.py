"""BatchService: operations on all runs that a filter finds."""

from __future__ import annotations

from perdure_api.v1 import batch_service_pb2 as pb
from perdure_api.v1 import workflow_service_pb2 as workflow_pb
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.describe_batch import (
    BatchDescription,
    BatchState,
    describe_batch,
)
from perdure_engine.frontend.handlers.list_batches import list_batches
from perdure_engine.frontend.handlers.start_batch import StartBatch, start_batch
from perdure_engine.frontend.handlers.stop_batch import stop_batch
from perdure_engine.ports.batches import BatchOperation
from perdure_engine.transport.grpc.convert.run_intents import reapply_types_of, reset_type_of
from perdure_engine.transport.grpc.decode import Context

_OPERATIONS = {
    BatchOperation.TERMINATE: pb.BATCH_OPERATION_TYPE_TERMINATE,
    BatchOperation.CANCEL: pb.BATCH_OPERATION_TYPE_CANCEL,
    BatchOperation.SIGNAL: pb.BATCH_OPERATION_TYPE_SIGNAL,
    BatchOperation.DELETE: pb.BATCH_OPERATION_TYPE_DELETE,
    BatchOperation.RESET: pb.BATCH_OPERATION_TYPE_RESET,
    BatchOperation.PAUSE: pb.BATCH_OPERATION_TYPE_PAUSE,
    BatchOperation.UNPAUSE: pb.BATCH_OPERATION_TYPE_UNPAUSE,
}
_STATES = {
    BatchState.RUNNING: pb.BATCH_OPERATION_STATE_RUNNING,
    BatchState.COMPLETED: pb.BATCH_OPERATION_STATE_COMPLETED,
    BatchState.STOPPED: pb.BATCH_OPERATION_STATE_STOPPED,
}


class BatchService:
    """One function per RPC, by its name: message in, message out, errors raised."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def StartBatchOperation(
        self, request: pb.StartBatchOperationRequest, _: Context
    ) -> pb.StartBatchOperationResponse:
        asked = StartBatch(
            namespace_id=await self._frontend.namespaces.id_of(request.namespace),
            job_id=request.job_id,
            query=request.query,
            operation=request.operation,
            reason=request.reason,
            identity=request.identity,
            signal_name=request.signal_name,
            signal_input=request.signal_input,
            rps=request.rps,
            dry_run=request.dry_run,
            reset_type=reset_type_of(request.reset_type),
            build_id=request.build_id,
            reapply_exclude=reapply_types_of(request.reapply_exclude_types),
        )
        return pb.StartBatchOperationResponse(total=await start_batch(self._frontend, asked))

    async def DescribeBatchOperation(
        self, request: pb.DescribeBatchOperationRequest, _: Context
    ) -> pb.DescribeBatchOperationResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        found = await describe_batch(self._frontend, namespace_id, request.job_id)
        return pb.DescribeBatchOperationResponse(info=_info(found))

    async def ListBatchOperations(
        self, request: pb.ListBatchOperationsRequest, _: Context
    ) -> pb.ListBatchOperationsResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        found, token = await list_batches(
            self._frontend, namespace_id, request.page_size, request.page_token
        )
        return pb.ListBatchOperationsResponse(
            operations=[_info(one) for one in found], next_page_token=token
        )

    async def StopBatchOperation(
        self, request: pb.StopBatchOperationRequest, _: Context
    ) -> pb.StopBatchOperationResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        await stop_batch(
            self._frontend, namespace_id, request.job_id, request.reason, request.identity
        )
        return pb.StopBatchOperationResponse()


def _info(found: BatchDescription) -> pb.BatchOperationInfo:
    row, job = found.row, found.row.job
    return pb.BatchOperationInfo(
        job_id=row.job_id,
        operation=_OPERATIONS[job.operation],
        state=_STATES[found.state],
        query=job.query,
        reason=job.reason,
        identity=job.identity,
        start_time_us=row.started_us,
        close_time_us=found.closed_us,
        total=job.total,
        done=found.done,
        failed=found.failed,
        last_failure=found.last_failure,
        rps=job.rps,
        reset_type=workflow_pb.ResetType.ValueType(job.reset_type or 0),
        build_id=job.build_id,
    )
