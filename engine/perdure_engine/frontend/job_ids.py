"""The id of a job, as callers know it: a UUID in which its shard stands."""

from __future__ import annotations

from perdure_engine.core.errors import Rejected, not_found
from perdure_engine.core.ids import shard_of_job
from perdure_engine.frontend import checks


def job_and_shard(field: str, text: str, number_of_shards: int) -> tuple[bytes, int]:
    """Raises INVALID_ARGUMENT for what is no id, NOT_FOUND for one that we have not made."""
    job_id = checks.uuid_bytes(field, text)
    shard_id = shard_of_job(job_id)
    if not 1 <= shard_id <= number_of_shards:
        raise unknown_job()
    return job_id, shard_id


def unknown_job() -> Rejected:
    return not_found("JOB", "the job does not exist")
