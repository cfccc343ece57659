"""What the shard controller asks of the shards of this node."""

from __future__ import annotations

from typing import Protocol

from perdure_engine.ports.store import FenceState


class OwnedShards(Protocol):
    """The shards that this node serves.

    The truth about ownership is the fence row: its `owner_id` is the id of a node, or NO_NODE when
    nobody ever took the shard or its owner released it. The rows of `shards` only say where to
    look, for routing, and may be late.
    """

    def owned(self) -> frozenset[int]:
        """Shards whose fence is ours as far as we know, those still loading included."""
        ...

    async def acquire_many(self, fences: list[FenceState]) -> frozenset[int]:
        """Bump these fences, all in one call and exactly as they are given; serve what was won.

        The caller has found that each may be taken. It read the fence *before* it judged the
        owner's lease, so an owner that came back to life since has bumped its fence (`lapsed`),
        and is not robbed. Returns the shards won, once they are recorded with put_shard; loading
        may go on behind. Raises StoreError; what was won by then is in `owned`.
        """
        ...

    async def release_many(self, shard_ids: list[int]) -> None:
        """Stop the intake, let the running commit end, bump the fences to NO_NODE, record it.

        Shards that are not owned are passed over. Raises StoreError; nothing is served afterwards
        in any case.
        """
        ...

    def lapsed(self) -> None:
        """The node's lease had ended, and was renewed: others may have taken shards meanwhile.

        From this call on, no owned shard answers from memory until it has bumped its fence with
        success; a shard that cannot is lost, and leaves `owned`. Must not await.
        """
        ...
