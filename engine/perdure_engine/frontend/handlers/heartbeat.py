"""Heartbeat: a worker process lives and holds these tasks."""

from __future__ import annotations

from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.poll_tasks import check_worker
from perdure_engine.ports.history import HeldTask, HeldVerdict, WorkerRef


def heartbeat(
    frontend: Frontend, worker: WorkerRef, held: list[HeldTask]
) -> list[HeldVerdict | None]:
    """Renews on arrival, with no await. One verdict per held task; None: all is well."""
    check_worker(worker)
    for index, task in enumerate(held):
        if task.details is not None:
            checks.size(f"held[{index}].heartbeat_details", task.details)
    return frontend.history.heartbeat(worker, held)
