"""UpdateActivityOptions: other timeouts, another retry policy, queue or priority for what is pending."""

from __future__ import annotations

import asyncio

from perdure_engine.core.errors import invalid
from perdure_engine.core.intents import UpdateActivityOptions
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend

_DURATIONS = (
    "schedule_to_close_timeout_ms",
    "schedule_to_start_timeout_ms",
    "start_to_close_timeout_ms",
    "heartbeat_timeout_ms",
)


def update_activity_options(
    frontend: Frontend, intent: UpdateActivityOptions
) -> asyncio.Future[Reply]:
    checks.pending_activity(intent.workflow_id, intent.activity_id, intent.activity_type)
    checks.label("identity", intent.identity)
    checks.prose("reason", intent.reason)
    given = [name for name in _DURATIONS if getattr(intent, name) is not None]
    others = (intent.task_queue, intent.retry_policy, intent.priority)
    changes = bool(given) or any(one is not None for one in others)
    if intent.restore_original and changes:
        raise invalid("restore_original", "stands alone: nothing else can be given with it")
    if not intent.restore_original and not changes:
        raise invalid("options", "nothing is given that could be changed")
    for name in given:
        checks.duration(f"options.{name}", getattr(intent, name))
    if intent.task_queue is not None:
        checks.name("options.task_queue", intent.task_queue)
    checks.retry_policy("options.retry_policy", intent.retry_policy)
    if intent.priority is not None:
        checks.priority("options.priority", intent.priority)
    return frontend.submit(intent)
