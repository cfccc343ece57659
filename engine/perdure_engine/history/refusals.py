"""What shards refuse with, besides what core says."""

from __future__ import annotations

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import uuid_text


def run_id_in_use(run_id: bytes) -> Rejected:
    return Rejected(
        Code.ALREADY_EXISTS,
        "RUN_ID_IN_USE",
        f"run_id: {uuid_text(run_id)} names another run",
        field="run_id",
    )


def moved(shard_id: int) -> Rejected:
    return Rejected(
        Code.UNAVAILABLE,
        "SHARD_MOVED",
        f"shard {shard_id} is not served by this node",
        metadata={"shard_id": str(shard_id)},
    )
