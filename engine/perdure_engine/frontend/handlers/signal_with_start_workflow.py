"""SignalWithStartWorkflow: a start that carries a signal, in one decision."""

from __future__ import annotations

import asyncio

from perdure_engine.core.errors import Rejected
from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.start_workflow import check_start


def signal_with_start_workflow(frontend: Frontend, start: StartWorkflow) -> asyncio.Future[Reply]:
    """Answered with `Started`."""
    assert start.signal is not None
    try:
        check_start(frontend, start)
    except Rejected as rejected:
        raise checks.under("start", rejected) from None
    checks.name("signal_name", start.signal.signal_name)
    checks.size("signal_input", start.signal.input)
    return frontend.submit(start)
