"""Namespaces and the cluster, for those who run them."""

from __future__ import annotations

from datetime import timedelta

from perdure._client.activity_operations import ActivityOperations
from perdure._client.audit_operations import AuditOperations
from perdure._client.batch_operations import BatchOperations
from perdure._client.core import ClientCore
from perdure._client.version_operations import VersionOperations
from perdure._wire.operator_service import ClusterInfo, NamespaceInfo, TaskQueueInfo


class Operator(ActivityOperations, BatchOperations, AuditOperations, VersionOperations):
    """What operators look at and change. Every method takes `rpc_timeout` and raises RPCError."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core
        self._service = core.operator_service

    async def create_namespace(
        self,
        name: str,
        *,
        description: str = "",
        retention: timedelta | None = None,
        archive: bool = True,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> NamespaceInfo:
        """Closed runs are kept for `retention`: 7 days unless given, at least an hour. Then they go to
        the installation's archive, if it has one and `archive` is true; else they are deleted. `reason`
        stands in the audit log.
        """
        return await self._core.unary(
            lambda timeout_s: self._service.create_namespace(
                name,
                description,
                retention,
                self._core.identity,
                reason,
                timeout_s,
                archive=archive,
            ),
            rpc_timeout,
        )

    async def describe_namespace(
        self, name: str | None = None, *, rpc_timeout: timedelta | None = None
    ) -> NamespaceInfo:
        """The client's own unless named."""
        wanted = self._core.namespace if name is None else name
        return await self._core.unary(
            lambda timeout_s: self._service.describe_namespace(wanted, timeout_s), rpc_timeout
        )

    async def update_namespace(
        self,
        name: str,
        *,
        conflict_token: int,
        description: str | None = None,
        retention: timedelta | None = None,
        archive: bool | None = None,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> NamespaceInfo:
        """Changes what is given. ABORTED when another update came since it was described."""
        return await self._core.unary(
            lambda timeout_s: self._service.update_namespace(
                name,
                description,
                retention,
                conflict_token,
                self._core.identity,
                reason,
                timeout_s,
                archive=archive,
            ),
            rpc_timeout,
        )

    async def list_namespaces(self, *, rpc_timeout: timedelta | None = None) -> list[NamespaceInfo]:
        return await self._core.unary(self._service.list_namespaces, rpc_timeout)

    async def describe_cluster(self, *, rpc_timeout: timedelta | None = None) -> ClusterInfo:
        return await self._core.unary(self._service.describe_cluster, rpc_timeout)

    async def describe_task_queue(
        self, task_queue: str, *, rpc_timeout: timedelta | None = None
    ) -> TaskQueueInfo:
        return await self._core.unary(
            lambda timeout_s: self._service.describe_task_queue(
                self._core.namespace, task_queue, timeout_s
            ),
            rpc_timeout,
        )
