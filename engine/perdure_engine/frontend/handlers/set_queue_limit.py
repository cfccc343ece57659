"""SetQueueLimit: how many jobs of a queue may start in a second, over the whole installation."""

from __future__ import annotations

import msgspec

from perdure_engine.core.audit import Action, AuditRow, Entry
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.new_jobs import check_rate
from perdure_engine.ports.jobs import QueueLimitRow


class SetQueueLimit(msgspec.Struct, frozen=True, kw_only=True):
    """`rate_per_s` 0: none."""

    namespace_id: bytes
    queue: str
    rate_per_s: float
    identity: str = ""
    reason: str = ""


async def set_queue_limit(frontend: Frontend, asked: SetQueueLimit) -> None:
    """Saved with its row in the audit log, and in force on every node soon after. Raises ABORTED when another change
    came first."""
    checks.name("task_queue", asked.queue)
    check_rate("rate_per_s", asked.rate_per_s)
    checks.label("identity", asked.identity)
    checks.prose("reason", asked.reason)
    before = await _limit_now(frontend, asked)
    entry = Entry(
        time_us=frontend.db_now_us(),
        action=Action.SET_QUEUE_LIMIT,
        namespace_id=asked.namespace_id,
        identity=asked.identity,
        reason=asked.reason,
        subject=asked.queue,
        before=f"{before.rate_per_s:g}",
        after=f"{asked.rate_per_s:g}",
    )
    row = msgspec.structs.replace(before, rate_per_s=asked.rate_per_s)

    async def save(audited: AuditRow) -> None:
        if not await frontend.queue_limits.put_queue_limit(row, audited):
            raise Rejected(
                Code.ABORTED, "QUEUE_LIMIT_CONFLICT", "another change of this limit came first"
            )

    await frontend.ledger.write(entry, save)


async def _limit_now(frontend: Frontend, asked: SetQueueLimit) -> QueueLimitRow:
    for row in await frontend.queue_limits.list_queue_limits():
        if row.namespace_id == asked.namespace_id and row.queue == asked.queue:
            return row
    return QueueLimitRow(asked.namespace_id, asked.queue, 0.0, 0)
