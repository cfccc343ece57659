"""Which node a shard belongs to: rendezvous hashing. Pure.

Every node computes the same from the same list. Each (node, shard) pair has a weight of its own and
the heaviest node wins, so a node that goes gives away only its own shards, evenly over the others,
and one that comes takes only what it wins. A ring of points would need many per node for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from perdure_engine.ports.store import NodeRow


def owner(shard_id: int, region: str, nodes: Sequence[NodeRow]) -> NodeRow | None:
    """The shard's node: one in its region while there is any. `region` "" is no preference."""
    near = [node for node in nodes if node.region == region] if region else nodes
    return max(near or nodes, key=lambda node: _weight(shard_id, node.node_id), default=None)


def _weight(shard_id: int, node_id: bytes) -> tuple[bytes, bytes]:
    # BLAKE2, never Python's hash: all nodes must agree. The id breaks a tie.
    digest = hashlib.blake2b(shard_id.to_bytes(8, "big"), digest_size=8, key=node_id).digest()
    return digest, node_id
