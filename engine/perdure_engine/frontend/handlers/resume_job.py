"""ResumeJob: a poisoned or suspended job is ready at once, for the surgical pool."""

from __future__ import annotations

from perdure_engine.core.jobs.intents import ResumeJob
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.jobs.replies import JobAnswered
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.job_ids import job_and_shard


async def resume_job(
    frontend: Frontend,
    namespace_id: bytes,
    job_id: str,
    request_id: str,
    reason: str = "",
    identity: str = "",
) -> JobStatus:
    """POISONED, or what a repeat finds by then. Raises NOT_FOUND, FAILED_PRECONDITION: it is neither poisoned nor
    suspended."""
    raw, shard_id = job_and_shard("job_id", job_id, frontend.history.number_of_shards)
    checks.prose("reason", reason)
    checks.label("identity", identity)
    intent = ResumeJob(
        namespace_id=namespace_id,
        job_id=raw,
        request_id=checks.uuid_bytes("request_id", request_id),
        reason=reason,
        identity=identity,
    )
    reply = await frontend.history.submit_job(shard_id, intent)
    assert isinstance(reply, JobAnswered)
    return reply.status
