"""GetJob: everything that is kept of a job run."""

from __future__ import annotations

from perdure_engine.core.jobs.intents import DescribeJob
from perdure_engine.core.jobs.replies import JobDescription
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.job_ids import job_and_shard


async def get_job(frontend: Frontend, namespace_id: bytes, job_id: str) -> JobDescription:
    """As its shard knows it. Raises NOT_FOUND."""
    raw, shard_id = job_and_shard("job_id", job_id, frontend.history.number_of_shards)
    reply = await frontend.history.submit_job(
        shard_id, DescribeJob(namespace_id=namespace_id, job_id=raw)
    )
    assert isinstance(reply, JobDescription)
    return reply
