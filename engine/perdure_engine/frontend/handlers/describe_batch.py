"""DescribeBatchOperation: how far a batch operation has come."""

from __future__ import annotations

import enum

import msgspec

from perdure_engine.core.errors import not_found
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.batches import BatchRow, PartState


class BatchState(enum.IntEnum):
    RUNNING = 1
    COMPLETED = 2
    STOPPED = 3


class BatchDescription(msgspec.Struct, frozen=True):
    row: BatchRow
    state: BatchState
    done: int
    failed: int
    closed_us: int  # 0: it runs
    last_failure: str


async def describe_batch(frontend: Frontend, namespace_id: bytes, job_id: str) -> BatchDescription:
    """Raises NOT_FOUND."""
    checks.name("job_id", job_id)
    row = await frontend.batches.load_batch(namespace_id, job_id)
    if row is None:
        raise not_found("BATCH", "there is no batch operation of that id")
    return await describe(frontend, row)


async def describe(frontend: Frontend, row: BatchRow) -> BatchDescription:
    parts = await frontend.batches.load_batch_parts(row.namespace_id, row.job_id)
    if row.stopped_us is not None:
        state, closed_us = BatchState.STOPPED, row.stopped_us
    elif any(part.state == PartState.OPEN for part in parts):
        state, closed_us = BatchState.RUNNING, 0
    else:
        state = BatchState.COMPLETED
        closed_us = max((part.saved_us for part in parts), default=row.started_us)
    return BatchDescription(
        row,
        state,
        sum(part.done for part in parts),
        sum(part.failed for part in parts),
        closed_us,
        next((part.last_failure for part in parts if part.last_failure), ""),
    )
