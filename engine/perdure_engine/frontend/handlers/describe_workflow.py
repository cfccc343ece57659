"""DescribeWorkflow: what a run is doing now."""

from __future__ import annotations

import asyncio

from perdure_engine.core.intents import DescribeWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def describe_workflow(frontend: Frontend, describe: DescribeWorkflow) -> asyncio.Future[Reply]:
    """Answered with `Description`."""
    checks.workflow_id("workflow_id", describe.workflow_id)
    return frontend.submit(describe)
