"""UpdateWorkflow: saved before it is acknowledged, once per update id, with one outcome for all who ask."""

from __future__ import annotations

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.intents import UpdateStage, UpdateWorkflow
from perdure_engine.core.replies import UpdateStatus
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.poll_update import reached


async def update_workflow(
    frontend: Frontend, update: UpdateWorkflow, timeout_ms: int
) -> UpdateStatus:
    """When the stage is reached, or after `timeout_ms` (0: the most) with the stage that is."""
    checks.workflow_id("workflow_id", update.workflow_id)
    check_update(update.update_id, update.update_name, update.input, update.header)
    checks.label("identity", update.identity)
    at_once = msgspec.structs.replace(update, wait_stage=UpdateStage.ADMITTED)
    return await reached(frontend, update, at_once, timeout_ms)


def check_update(update_id: str, update_name: str, args: bytes, header: bytes) -> None:
    checks.name("update_id", update_id)
    checks.name("update_name", update_name)
    checks.size("args", args)
    checks.size("header", header, limits.HEADER_BYTES_MAX)
