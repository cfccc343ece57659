"""DescribeCluster: the nodes, and which shards each of them serves."""

from __future__ import annotations

import msgspec

from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.store import NodeRow


class NodeWithShards(msgspec.Struct, frozen=True):
    node: NodeRow
    shards: list[int]


class Cluster(msgspec.Struct, frozen=True):
    version: str
    database: str
    number_of_shards: int
    node_id: bytes
    nodes: list[NodeWithShards]


async def describe_cluster(frontend: Frontend) -> Cluster:
    """As the store has it now. A shard that nobody serves stands with no node."""
    nodes = await frontend.members.list_nodes()
    shards = await frontend.members.list_shards()
    served: dict[bytes, list[int]] = {node.node_id: [] for node in nodes}
    for shard in shards:
        if shard.node_id in served:
            served[shard.node_id].append(shard.shard_id)
    return Cluster(
        frontend.about.version,
        frontend.about.database,
        frontend.history.number_of_shards,
        frontend.membership.node_id,
        [NodeWithShards(node, sorted(served[node.node_id])) for node in nodes],
    )
