"""DescribeWorkflow: what a run is doing now, or what it was when it was archived."""

from __future__ import annotations

import asyncio

from perdure_engine.core.errors import Rejected
from perdure_engine.core.intents import DescribeWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.archived import archived_run
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.archive import ArchivedRun


def describe_workflow(
    frontend: Frontend, describe: DescribeWorkflow
) -> asyncio.Future[Reply] | asyncio.Future[Reply | ArchivedRun]:
    """Answered with `Description`, or `ArchivedRun`."""
    checks.workflow_id("workflow_id", describe.workflow_id)
    answer = frontend.submit(describe)
    if frontend.archive is None:
        return answer
    return asyncio.ensure_future(_or_archived(frontend, describe, answer))


async def _or_archived(
    frontend: Frontend, describe: DescribeWorkflow, answer: asyncio.Future[Reply]
) -> Reply | ArchivedRun:
    try:
        return await answer
    except Rejected as refusal:
        return await archived_run(
            frontend, refusal, describe.namespace_id, describe.workflow_id, describe.run_id
        )
