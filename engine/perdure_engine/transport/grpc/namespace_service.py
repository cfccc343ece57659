"""NamespaceService: tenants."""

from __future__ import annotations

from perdure_api.v1 import namespace_service_pb2 as pb
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.create_namespace import create_namespace
from perdure_engine.frontend.handlers.describe_namespace import describe_namespace
from perdure_engine.frontend.handlers.list_namespaces import list_namespaces
from perdure_engine.frontend.handlers.update_namespace import update_namespace
from perdure_engine.transport.grpc.convert.replies import namespace_info
from perdure_engine.transport.grpc.decode import Context


class NamespaceService:
    """One function per RPC, by its name: message in, message out, errors raised."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def CreateNamespace(
        self, request: pb.CreateNamespaceRequest, _: Context
    ) -> pb.CreateNamespaceResponse:
        row = await create_namespace(
            self._frontend,
            request.name,
            request.description,
            request.retention_ms,
            request.identity,
            request.reason,
            archive=request.archive if request.HasField("archive") else True,
        )
        return pb.CreateNamespaceResponse(namespace=namespace_info(row))

    async def DescribeNamespace(
        self, request: pb.DescribeNamespaceRequest, _: Context
    ) -> pb.DescribeNamespaceResponse:
        row = await describe_namespace(self._frontend, request.name)
        return pb.DescribeNamespaceResponse(namespace=namespace_info(row))

    async def UpdateNamespace(
        self, request: pb.UpdateNamespaceRequest, _: Context
    ) -> pb.UpdateNamespaceResponse:
        row = await update_namespace(
            self._frontend,
            request.name,
            request.description if request.HasField("description") else None,
            request.retention_ms if request.HasField("retention_ms") else None,
            request.conflict_token,
            request.identity,
            request.reason,
            archive=request.archive if request.HasField("archive") else None,
        )
        return pb.UpdateNamespaceResponse(namespace=namespace_info(row))

    async def ListNamespaces(
        self, _: pb.ListNamespacesRequest, __: Context
    ) -> pb.ListNamespacesResponse:
        rows = await list_namespaces(self._frontend)
        return pb.ListNamespacesResponse(namespaces=[namespace_info(row) for row in rows])
