"""GetJob: everything that is kept of a job run."""

from __future__ import annotations

from perdure_engine.core.errors import Rejected
from perdure_engine.core.jobs.intents import DescribeJob
from perdure_engine.core.jobs.replies import JobDescription
from perdure_engine.frontend.archived import archived_job
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.job_ids import job_and_shard
from perdure_engine.ports.archive import ArchivedJob


async def get_job(
    frontend: Frontend, namespace_id: bytes, job_id: str
) -> JobDescription | ArchivedJob:
    """As its shard knows it, or as it was when it was archived. Raises NOT_FOUND."""
    raw, shard_id = job_and_shard("job_id", job_id, frontend.history.number_of_shards)
    try:
        reply = await frontend.history.submit_job(
            shard_id, DescribeJob(namespace_id=namespace_id, job_id=raw)
        )
    except Rejected as refusal:
        return await archived_job(frontend, refusal, namespace_id, shard_id, raw)
    assert isinstance(reply, JobDescription)
    return reply
