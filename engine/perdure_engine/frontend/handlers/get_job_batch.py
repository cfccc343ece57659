"""GetJobBatch: how far a batch of jobs is."""

from __future__ import annotations

import msgspec

from perdure_engine.core.errors import not_found
from perdure_engine.core.jobs.memory import BatchState
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.new_jobs import shard_of_batch


class JobBatchInfo(msgspec.Struct, frozen=True):
    batch_id: str
    total: int
    open: int
    sealed: bool
    state: BatchState


async def get_job_batch(frontend: Frontend, namespace_id: bytes, batch_id: str) -> JobBatchInfo:
    """As the store has it. Raises NOT_FOUND."""
    checks.key("batch_id", batch_id)
    shard_id = shard_of_batch(batch_id, namespace_id, frontend.history.number_of_shards)
    row = await frontend.jobs.load_job_batch(shard_id, namespace_id, batch_id)
    if row is None:
        raise not_found("BATCH", "the batch does not exist")
    state = frontend.codec.decode_job_batch(row.state)
    return JobBatchInfo(row.batch_id, row.total, row.open, row.sealed, state)
