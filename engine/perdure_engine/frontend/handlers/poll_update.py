"""PollUpdate: how far an update has come, once it has come that far or the time is up."""

from __future__ import annotations

import msgspec

from perdure_engine.core.intents import PollUpdate, StartWorkflow, UpdateStage, UpdateWorkflow
from perdure_engine.core.replies import UpdateStatus
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


async def poll_update(frontend: Frontend, poll: PollUpdate, timeout_ms: int) -> UpdateStatus:
    checks.workflow_id("workflow_id", poll.workflow_id)
    checks.name("update_id", poll.update_id)
    return await reached(
        frontend,
        poll,
        msgspec.structs.replace(poll, wait_stage=UpdateStage.ADMITTED),
        timeout_ms,
    )


Asked = UpdateWorkflow | StartWorkflow | PollUpdate


async def reached(
    frontend: Frontend, asked: Asked, at_once: Asked, timeout_ms: int
) -> UpdateStatus:
    """The answer to what is asked; when the time is up before, the stage that the update has reached.

    `at_once` asks the same again without waiting: it joins the first, or tells why that was not taken.
    """
    timeout_s = checks.wait_s("timeout_ms", timeout_ms)
    reply = await frontend.parking.wait(frontend.submit(asked), timeout_s)
    if reply is None:
        reply = await frontend.submit(at_once)
    assert isinstance(reply, UpdateStatus)
    return reply
