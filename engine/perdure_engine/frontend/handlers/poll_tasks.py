"""PollTasks: waits until there is a task, and brings as many as are there."""

from __future__ import annotations

import asyncio

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import invalid
from perdure_engine.core.poison import SURGICAL
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.history import WorkerRef
from perdure_engine.ports.matching import PollAnswer, PollRequest


class PollTasks(msgspec.Struct, frozen=True, kw_only=True):
    namespace_id: bytes
    task_queue: str
    worker: WorkerRef
    max_workflow_tasks: int
    max_activity_tasks: int
    timeout_ms: int


async def poll_tasks(frontend: Frontend, request: PollTasks) -> PollAnswer | None:
    """None: nothing came in time, or this node stops. A poll that is cancelled has taken nothing.

    Whoever gets an answer owns its tasks: deliver them, or `give_back`.
    """
    poll = _checked(request)
    if not poll.max_workflow_tasks and not poll.max_activity_tasks:
        raise invalid("max_workflow_tasks", "no task of either kind is asked for")
    worker = request.worker
    if worker.version:
        await frontend.deployments.seen(
            request.namespace_id,
            worker.deployment_name,
            worker.build_id,
            request.task_queue,
            frontend.db_now_us(),
        )
    try:
        return await frontend.parking.wait(frontend.matching.poll(poll), None)
    except asyncio.CancelledError:
        if not frontend.parking.closed:
            # A worker that was killed shows here first: its connection breaks and its polls end.
            frontend.history.poll_broken(request.worker.worker_id)
        raise


def wanted_with_completions(request: PollTasks) -> PollRequest | None:
    """What may come with the answer to completions. None: nothing. Raises INVALID_ARGUMENT."""
    if not request.max_workflow_tasks and not request.max_activity_tasks:
        return None
    return _checked(request)


def _checked(request: PollTasks) -> PollRequest:
    checks.name("task_queue", request.task_queue)
    check_worker(request.worker)
    return PollRequest(
        request.namespace_id,
        request.task_queue,
        request.worker,
        _wanted("max_workflow_tasks", request.max_workflow_tasks),
        _wanted("max_activity_tasks", request.max_activity_tasks),
        checks.wait_s("timeout_ms", request.timeout_ms),
    )


def give_back(frontend: Frontend, answer: PollAnswer) -> None:
    """The worker never got these: they are offered again, and nothing is counted."""
    for workflow_task in answer.workflow_tasks:
        frontend.history.undo_start(workflow_task)
    for activity_task in answer.activity_tasks:
        frontend.history.undo_start(activity_task)
    for job_task in answer.job_tasks:
        frontend.history.undo_start(job_task)


def check_worker(worker: WorkerRef) -> None:
    checks.worker_id("worker_id", worker.worker_id)
    checks.label("identity", worker.identity)
    checks.label("build_id", worker.build_id)
    if worker.pool not in ("", SURGICAL):
        raise invalid("pool", f"there is {SURGICAL!r}, and the normal one, which has no name")
    if worker.deployment_name:
        checks.version("", worker.deployment_name, worker.build_id)


def _wanted(field: str, asked: int) -> int:
    if asked < 0:
        raise invalid(field, "must not be negative")
    return min(asked, limits.POLL_TASKS_MAX)
