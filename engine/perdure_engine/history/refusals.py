"""What shards refuse with, besides what core says; and what a refusal says to a shard that has to say something to
another until it is heard: a run's message, a schedule's errand."""

from __future__ import annotations

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import uuid_text

# Of a receiver that takes no more of them from this run.
TOO_MANY = ("TOO_MANY_SIGNALS", "TOO_MANY_REQUEST_IDS")
# A repeat would hear the same. Codes of what lies between (no connection, an older version, another secret) are none.
_FINAL = frozenset(
    (
        Code.INVALID_ARGUMENT,
        Code.NOT_FOUND,
        Code.ALREADY_EXISTS,
        Code.PERMISSION_DENIED,
        Code.FAILED_PRECONDITION,
        Code.OUT_OF_RANGE,
    )
)
# A repeat may mend it, and who is to know of it has heard. The rest is an alarm, and is repeated all the same.
_EXPECTED = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DATA_LOSS)


def is_final(refusal: Rejected) -> bool:
    """Whether it is an answer. Else what was refused is said again."""
    return refusal.code in _FINAL or refusal.reason in TOO_MANY


def is_expected(refusal: Rejected) -> bool:
    """Of one that is not final: whether it is nothing to be alarmed about, however often it comes."""
    return refusal.code in _EXPECTED


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


def internal(reason: str, error_id: str) -> Rejected:
    """A defect of ours. What it was is said where the id is: in an alarm."""
    return Rejected(Code.INTERNAL, reason, f"internal error {error_id}; the engine's log has it")
