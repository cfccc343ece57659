"""GetResult: waits until the run has closed, for a while. Of an archived run it is known at once."""

from __future__ import annotations

from perdure_engine.core.errors import Rejected
from perdure_engine.core.intents import WaitResult
from perdure_engine.core.replies import Closed
from perdure_engine.frontend import checks
from perdure_engine.frontend.archived import archived_run
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.wait_results import wait_result
from perdure_engine.ports.archive import ArchivedRun


async def get_result(
    frontend: Frontend, wait: WaitResult, timeout_ms: int
) -> Closed | ArchivedRun | None:
    """None: still open after `timeout_ms` (0: the most); the caller asks again."""
    timeout_s = checks.wait_s("timeout_ms", timeout_ms)
    try:
        reply = await frontend.parking.wait(wait_result(frontend, wait), timeout_s)
    except Rejected as refusal:
        return await archived_run(
            frontend, refusal, wait.namespace_id, wait.workflow_id, wait.run_id
        )
    assert reply is None or isinstance(reply, Closed)
    return reply
