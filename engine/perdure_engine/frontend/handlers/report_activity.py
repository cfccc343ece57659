"""CompleteActivity, FailActivity, CancelActivity, HeartbeatActivity: of an attempt by its token, or by ids.

Only one report ends an attempt; one that comes after the end hears NOT_FOUND.
"""

from __future__ import annotations

import asyncio
from typing import assert_never

from perdure_engine.core.intents import (
    ActivityCanceled,
    ActivityCompleted,
    ActivityFailed,
    ActivityLives,
    CancelActivity,
    CompleteActivity,
    FailActivity,
    HeartbeatActivity,
    ReportActivity,
)
from perdure_engine.core.jobs.intents import SaveJobProgress
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend

ByToken = CompleteActivity | FailActivity | CancelActivity | HeartbeatActivity


def report_by_token(frontend: Frontend, report: ByToken) -> asyncio.Future[Reply]:
    match report:
        case CompleteActivity():
            checks.size("result", report.result)
            checks.label("identity", report.identity)
        case FailActivity():
            checks.size("last_heartbeat_details", report.progress)
            checks.label("identity", report.identity)
        case CancelActivity():
            checks.size("details", report.details)
            checks.label("identity", report.identity)
        case HeartbeatActivity():
            checks.size("details", report.details or b"")
        case _:
            assert_never(report)
    return frontend.history.complete(report)


async def save_job_progress(frontend: Frontend, save: SaveJobProgress) -> None:
    """A checkpoint of a job's attempt. Raises NOT_FOUND when that is over."""
    checks.size("details", save.details)
    await frontend.history.submit_job(save.shard_id, save)


def report_by_ids(frontend: Frontend, intent: ReportActivity) -> asyncio.Future[Reply]:
    checks.workflow_id("workflow_id", intent.workflow_id)
    checks.name("activity_id", intent.activity_id)
    checks.label("identity", intent.identity)
    report = intent.report
    match report:
        case ActivityCompleted():
            checks.size("result", report.result)
        case ActivityFailed():
            checks.size("last_heartbeat_details", report.progress)
        case ActivityCanceled():
            checks.size("details", report.details)
        case ActivityLives():
            checks.size("details", report.details or b"")
        case _:
            assert_never(report)
    return frontend.submit(intent)
