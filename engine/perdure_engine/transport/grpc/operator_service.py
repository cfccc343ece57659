"""OperatorService: what operators look at."""

from __future__ import annotations

from perdure_api.v1 import operator_service_pb2 as pb
from perdure_engine.core.ids import uuid_text
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.describe_cluster import describe_cluster
from perdure_engine.frontend.handlers.describe_task_queue import describe_task_queue
from perdure_engine.transport.grpc.convert.replies import cluster, queue_kind
from perdure_engine.transport.grpc.decode import Context


class OperatorService:
    """One function per RPC, by its name: message in, message out, errors raised."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def DescribeCluster(
        self, _: pb.DescribeClusterRequest, __: Context
    ) -> pb.DescribeClusterResponse:
        return cluster(await describe_cluster(self._frontend))

    async def DescribeTaskQueue(
        self, request: pb.DescribeTaskQueueRequest, _: Context
    ) -> pb.DescribeTaskQueueResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        info = describe_task_queue(self._frontend, namespace_id, request.task_queue)
        return pb.DescribeTaskQueueResponse(
            workflow=queue_kind(info.workflow),
            activity=queue_kind(info.activity),
            job=queue_kind(info.job),
            node_id=uuid_text(info.node_id),
            nodes=info.nodes,
        )
