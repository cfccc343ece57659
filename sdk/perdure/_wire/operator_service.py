"""Namespaces and the cluster, as plain calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import grpc

from perdure._wire.connection import Connection
from perdure._wire.errors import error_from_call
from perdure._wire.policies import duration_to_ms
from perdure_api.v1 import namespace_service_pb2 as namespace_pb
from perdure_api.v1 import operator_service_pb2 as pb
from perdure_api.v1.namespace_service_pb2_grpc import NamespaceServiceStub
from perdure_api.v1.operator_service_pb2_grpc import OperatorServiceStub


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceInfo:
    name: str
    namespace_id: str
    description: str
    retention: timedelta
    """Closed runs are kept that long."""
    conflict_token: int
    """Changes with every update."""
    archive: bool = True
    """What is over its retention goes to the installation's archive, if it has one; else it is
    deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    node_id: str
    address: str
    region: str
    alive: bool
    shards: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    version: str
    database: str
    number_of_shards: int
    node_id: str
    """Of the node that answered."""
    nodes: Sequence[NodeInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueueKindInfo:
    backlog_count: int
    backlog_age: timedelta
    """Of the oldest task that waits."""
    pollers: int
    """Workers that polled lately or hold tasks."""
    add_rate: float = 0.0
    """Tasks a second that become ready, averaged over about a minute."""
    dispatch_rate: float = 0.0
    """Tasks a second that workers get, averaged over about a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueueInfo:
    """Of the shards of the engine node that answers, and of the workers that poll it.

    Of several nodes each tells of its own: the queue's backlog and rates are the sums over all.
    """

    workflow: TaskQueueKindInfo
    activity: TaskQueueKindInfo
    job: TaskQueueKindInfo
    node_id: str = ""
    """Of the node that answered."""
    nodes: int = 1
    """That live."""


class OperatorService:
    """Every method raises RPCError, and sends once: trying again is the caller's decision."""

    def __init__(self, connection: Connection) -> None:
        self._namespaces = NamespaceServiceStub(connection.channel)
        self._operator = OperatorServiceStub(connection.channel)

    async def create_namespace(
        self,
        name: str,
        description: str,
        retention: timedelta | None,
        identity: str,
        reason: str,
        timeout_s: float,
        *,
        archive: bool,
    ) -> NamespaceInfo:
        request = namespace_pb.CreateNamespaceRequest(
            name=name,
            description=description,
            retention_ms=duration_to_ms(retention),
            identity=identity,
            reason=reason,
            archive=archive,
        )
        try:
            response = await self._namespaces.CreateNamespace(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        return _namespace(response.namespace)

    async def describe_namespace(self, name: str, timeout_s: float) -> NamespaceInfo:
        request = namespace_pb.DescribeNamespaceRequest(name=name)
        try:
            response = await self._namespaces.DescribeNamespace(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        return _namespace(response.namespace)

    async def update_namespace(
        self,
        name: str,
        description: str | None,
        retention: timedelta | None,
        conflict_token: int,
        identity: str,
        reason: str,
        timeout_s: float,
        *,
        archive: bool | None,
    ) -> NamespaceInfo:
        request = namespace_pb.UpdateNamespaceRequest(
            name=name,
            description=description,
            retention_ms=None if retention is None else duration_to_ms(retention),
            conflict_token=conflict_token,
            identity=identity,
            reason=reason,
            archive=archive,
        )
        try:
            response = await self._namespaces.UpdateNamespace(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        return _namespace(response.namespace)

    async def list_namespaces(self, timeout_s: float) -> list[NamespaceInfo]:
        request = namespace_pb.ListNamespacesRequest()
        try:
            response = await self._namespaces.ListNamespaces(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        return [_namespace(one) for one in response.namespaces]

    async def describe_cluster(self, timeout_s: float) -> ClusterInfo:
        request = pb.DescribeClusterRequest()
        try:
            response = await self._operator.DescribeCluster(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        return ClusterInfo(
            version=response.version,
            database=response.database,
            number_of_shards=response.number_of_shards,
            node_id=response.node_id,
            nodes=[
                NodeInfo(
                    node_id=node.node_id,
                    address=node.address,
                    region=node.region,
                    alive=node.alive,
                    shards=list(node.shards),
                )
                for node in response.nodes
            ],
        )

    async def describe_task_queue(
        self, namespace: str, task_queue: str, timeout_s: float
    ) -> TaskQueueInfo:
        request = pb.DescribeTaskQueueRequest(namespace=namespace, task_queue=task_queue)
        try:
            response = await self._operator.DescribeTaskQueue(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        return TaskQueueInfo(
            workflow=_kind(response.workflow),
            activity=_kind(response.activity),
            job=_kind(response.job),
            node_id=response.node_id,
            nodes=response.nodes or 1,  # 0: of an older engine
        )


def _namespace(message: namespace_pb.NamespaceInfo) -> NamespaceInfo:
    return NamespaceInfo(
        name=message.name,
        namespace_id=message.namespace_id,
        description=message.description,
        retention=timedelta(milliseconds=message.retention_ms),
        conflict_token=message.conflict_token,
        archive=message.archive,
    )


def _kind(message: pb.TaskQueueKindInfo) -> TaskQueueKindInfo:
    return TaskQueueKindInfo(
        backlog_count=message.backlog_count,
        backlog_age=timedelta(milliseconds=message.backlog_age_ms),
        pollers=message.pollers,
        add_rate=message.add_rate,
        dispatch_rate=message.dispatch_rate,
    )
