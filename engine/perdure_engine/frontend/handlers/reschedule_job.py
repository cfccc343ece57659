"""RescheduleJob: another time for a job that has not started."""

from __future__ import annotations

from perdure_engine.core.jobs.intents import RescheduleJob
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.job_ids import job_and_shard


async def reschedule_job(
    frontend: Frontend,
    namespace_id: bytes,
    job_id: str,
    request_id: str,
    due_us: int,
    identity: str = "",
) -> None:
    """`due_us` 0: now. Raises NOT_FOUND, FAILED_PRECONDITION: it has started or ended."""
    raw, shard_id = job_and_shard("job_id", job_id, frontend.history.number_of_shards)
    checks.instant("due_time_us", due_us)
    checks.label("identity", identity)
    intent = RescheduleJob(
        namespace_id=namespace_id,
        job_id=raw,
        request_id=checks.uuid_bytes("request_id", request_id),
        due_us=due_us,
        identity=identity,
    )
    await frontend.history.submit_job(shard_id, intent)
