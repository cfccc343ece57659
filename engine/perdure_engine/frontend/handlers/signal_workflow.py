"""SignalWorkflow: saved before it is acknowledged, once per request id."""

from __future__ import annotations

import asyncio

from perdure_engine.core import limits
from perdure_engine.core.intents import SignalWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def signal_workflow(frontend: Frontend, signal: SignalWorkflow) -> asyncio.Future[Reply]:
    checks.workflow_id("workflow_id", signal.workflow_id)
    checks.signal_name("signal_name", signal.signal_name)
    checks.label("identity", signal.identity)
    checks.size("input", signal.input)
    checks.size("header", signal.header, limits.HEADER_BYTES_MAX)
    return frontend.submit(signal)
