"""What belongs to no shard's batch: namespaces, deployments, queue limits, nodes, who serves which
shard, token keys."""

from __future__ import annotations

from perdure_engine.core.audit import AuditRow
from perdure_engine.ports.jobs import QueueLimitRow
from perdure_engine.ports.store import (
    DeploymentRow,
    FenceLost,
    GuardFailed,
    NamespaceRow,
    NodeRow,
    ShardRow,
    TokenKeyRow,
)
from perdure_engine.store.sql import (
    deployments,
    namespaces,
    nodes,
    queue_limits,
    shards,
    token_keys,
)
from perdure_engine.store.sql.access import Access
from perdure_engine.store.sql.parameters import Int4, Int8, Uuid


class SqlNamespaces:
    """`NamespaceStore` on SQL."""

    _access: Access

    async def list_namespaces(self) -> list[NamespaceRow]:
        return [NamespaceRow(*row) for row in await self._access.read(namespaces.LIST)]

    async def create_namespace(self, row: NamespaceRow, audited: AuditRow | None = None) -> bool:
        values = namespaces.parameters(row, audited)
        return bool(await self._access.write_repeatedly(namespaces.CREATE, values))

    async def update_namespace(self, row: NamespaceRow, audited: AuditRow | None = None) -> bool:
        values = namespaces.parameters(row, audited)
        try:
            return bool(await self._access.write_repeatedly(namespaces.UPDATE, values))
        except GuardFailed:  # there is no such namespace
            return False


class SqlDeployments:
    """`DeploymentStore` on SQL."""

    _access: Access

    async def list_deployments(self) -> list[DeploymentRow]:
        return [deployments.read(row) for row in await self._access.read(deployments.LIST)]

    async def put_deployment(self, row: DeploymentRow, audited: AuditRow | None = None) -> bool:
        text = deployments.UPDATE if row.conflict_token else deployments.CREATE
        values = deployments.parameters(row, audited)
        try:
            return bool(await self._access.write_repeatedly(text, values))
        except GuardFailed:  # there is no such deployment
            return False


class SqlQueueLimits:
    """`QueueLimitStore` on SQL."""

    _access: Access

    async def list_queue_limits(self) -> list[QueueLimitRow]:
        return [QueueLimitRow(*row) for row in await self._access.read(queue_limits.LIST)]

    async def put_queue_limit(self, row: QueueLimitRow, audited: AuditRow | None = None) -> bool:
        text = queue_limits.UPDATE if row.conflict_token else queue_limits.CREATE
        values = queue_limits.parameters(row, audited)
        try:
            return bool(await self._access.write_repeatedly(text, values))
        except GuardFailed:  # there is no such limit
            return False


class SqlMembership:
    """`MembershipStore` on SQL."""

    _access: Access

    async def renew_node(
        self, node_id: bytes, address: str, region: str, roles: str, incarnation: int, lease_ms: int
    ) -> int:
        """Raises FenceLost when a later incarnation of the node has renewed its lease."""
        rows = await self._access.write_repeatedly(
            nodes.RENEW,
            (Uuid(node_id), address, region, roles, Int8(incarnation), Int8(lease_ms)),
        )
        if not rows:
            raise FenceLost("a later incarnation of this node is alive")
        return int(rows[0][0])

    async def release_node(self, node_id: bytes) -> None:
        await self._access.write_repeatedly(nodes.RELEASE, (Uuid(node_id),))

    async def list_nodes(self) -> list[NodeRow]:
        return [NodeRow(*row) for row in await self._access.read(nodes.LIST)]

    async def list_shards(self) -> list[ShardRow]:
        return [ShardRow(*row) for row in await self._access.read(shards.LIST)]

    async def put_shard(self, shard_id: int, node_id: bytes, address: str) -> None:
        values = (Int4(shard_id), Uuid(node_id), address)
        await self._access.write_repeatedly(shards.PUT, values)

    async def list_token_keys(self) -> list[TokenKeyRow]:
        return [TokenKeyRow(*row) for row in await self._access.read(token_keys.LIST)]

    async def put_token_key(self, key_id: int, secret: bytes) -> bool:
        return bool(await self._access.write_repeatedly(token_keys.PUT, (Int8(key_id), secret)))
