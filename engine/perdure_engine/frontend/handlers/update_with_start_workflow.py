"""UpdateWithStartWorkflow: a start that carries an update, in one decision."""

from __future__ import annotations

import msgspec

from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.intents import StartWorkflow, UpdateStage
from perdure_engine.core.replies import UpdateStatus
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.poll_update import reached
from perdure_engine.frontend.handlers.start_workflow import check_start
from perdure_engine.frontend.handlers.update_workflow import check_update


async def update_with_start_workflow(
    frontend: Frontend, start: StartWorkflow, timeout_ms: int
) -> UpdateStatus:
    """As `update_workflow`. `started` says whether the run began with it."""
    update = start.update
    assert update is not None
    try:
        check_start(frontend, start)
    except Rejected as rejected:
        raise checks.under("start", rejected) from None
    if start.start_delay_ms:
        raise invalid(
            "start.start_delay_ms", "cannot go with an update: who waits for it would wait"
        )
    check_update(update.update_id, update.update_name, update.input, update.header)
    at_once = msgspec.structs.replace(
        start, update=msgspec.structs.replace(update, wait_stage=UpdateStage.ADMITTED)
    )
    return await reached(frontend, start, at_once, timeout_ms)
