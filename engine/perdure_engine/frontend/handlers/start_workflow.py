"""StartWorkflow: a new run, unless the id's policies give another answer."""

from __future__ import annotations

import asyncio

from perdure_engine.core import limits
from perdure_engine.core.errors import invalid
from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.replies import Reply
from perdure_engine.core.versions import Behavior, Versioning
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


def start_workflow(frontend: Frontend, start: StartWorkflow) -> asyncio.Future[Reply]:
    """Answered with `Started`."""
    check_start(frontend, start)
    return frontend.submit(start)


def check_start(frontend: Frontend, start: StartWorkflow) -> None:
    checks.workflow_id("workflow_id", start.workflow_id)
    checks.type_name("workflow_type", start.workflow_type)
    checks.name("task_queue", start.task_queue)
    checks.label("identity", start.identity)
    checks.size("input", start.input)
    checks.size("header", start.header, limits.HEADER_BYTES_MAX)
    checks.size("memo", start.memo, limits.MEMO_BYTES_MAX)
    checks.size("static_summary", start.static_summary, limits.REASON_BYTES_MAX)
    checks.size("static_details", start.static_details, limits.HEADER_BYTES_MAX)
    checks.duration("execution_timeout_ms", start.execution_timeout_ms)
    checks.duration("run_timeout_ms", start.run_timeout_ms)
    checks.duration("task_timeout_ms", start.task_timeout_ms, limits.TASK_TIMEOUT_MS_MAX)
    checks.duration("start_delay_ms", start.start_delay_ms)
    checks.priority("priority", start.priority)
    checks.retry_policy("retry_policy", start.retry_policy)
    if start.cron_schedule:
        _check_cron(frontend, start)
    if start.search_attributes:
        checks.search_attributes("search_attributes", start.search_attributes)
    if start.versioning_override is not None:
        check_override(frontend, start.namespace_id, start.versioning_override)


def check_override(frontend: Frontend, namespace_id: bytes, override: Versioning) -> None:
    """A run that is pinned to a version without workers, or to none, would wait for ever."""
    match override.behavior:
        case Behavior.PINNED:
            checks.version("versioning_override.", override.deployment_name, override.build_id)
            frontend.deployments.require_usable(
                namespace_id, override.deployment_name, override.build_id
            )
        case Behavior.AUTO_UPGRADE:
            if override.version:
                raise invalid("versioning_override.deployment_name", "is for pinned runs only")
        case _:
            raise invalid("versioning_override.behavior", "is not set, or unknown to this version")


def _check_cron(frontend: Frontend, start: StartWorkflow) -> None:
    fault = frontend.cron.fault(start.cron_schedule)
    if fault:
        raise invalid("cron_schedule", fault)
    if start.start_delay_ms:
        raise invalid("start_delay_ms", "cannot be used together with cron_schedule")
