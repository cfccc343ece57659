"""CancelJob: one that has not started ends, one that runs is asked to stop."""

from __future__ import annotations

from perdure_engine.core.jobs.intents import CancelJob
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.jobs.replies import JobAnswered
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.job_ids import job_and_shard


async def cancel_job(
    frontend: Frontend,
    namespace_id: bytes,
    job_id: str,
    request_id: str,
    reason: str = "",
    identity: str = "",
) -> JobStatus:
    """CANCELLED, or IN_PROGRESS when it was asked to stop. Raises NOT_FOUND, FAILED_PRECONDITION: it has ended."""
    raw, shard_id = job_and_shard("job_id", job_id, frontend.history.number_of_shards)
    checks.prose("reason", reason)
    checks.label("identity", identity)
    intent = CancelJob(
        namespace_id=namespace_id,
        job_id=raw,
        request_id=checks.uuid_bytes("request_id", request_id),
        reason=reason,
        identity=identity,
    )
    reply = await frontend.history.submit_job(shard_id, intent)
    assert isinstance(reply, JobAnswered)
    return reply.status
