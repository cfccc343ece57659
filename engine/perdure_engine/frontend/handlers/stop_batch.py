"""StopBatchOperation: no further run is acted on. What is done stays done."""

from __future__ import annotations

from perdure_engine.core.audit import Action, AuditRow, Entry
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.describe_batch import BatchState, describe_batch


async def stop_batch(
    frontend: Frontend, namespace_id: bytes, job_id: str, reason: str, identity: str
) -> None:
    """Stopping twice is fine. Raises NOT_FOUND, and FAILED_PRECONDITION for one that has come to its end."""
    checks.prose("reason", reason)
    checks.label("identity", identity)
    found = await describe_batch(frontend, namespace_id, job_id)
    if found.row.stopped_us is not None:
        return
    if found.state is BatchState.COMPLETED:
        raise Rejected(
            Code.FAILED_PRECONDITION, "BATCH_CLOSED", "the batch operation has come to its end"
        )
    now_us = frontend.db_now_us()
    stopped = found.row._replace(stopped_us=max(now_us, found.row.started_us))
    entry = Entry(
        time_us=now_us,
        action=Action.STOP_BATCH,
        namespace_id=namespace_id,
        identity=identity,
        reason=reason,
        subject=job_id,
        before=f"RUNNING {found.done} done, {found.failed} failed",
        after="STOPPED",
    )

    async def save(audited: AuditRow) -> bool:
        return await frontend.batches.stop_batch(stopped, audited)

    await frontend.ledger.write(entry, save)
    frontend.batch_begun()
