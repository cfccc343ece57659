"""Goodbye: a worker process ends; nothing waits for its leases to run out."""

from __future__ import annotations

from perdure_engine.core.tokens import TaskToken
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.poll_tasks import check_worker
from perdure_engine.ports.history import WorkerRef


def goodbye(frontend: Frontend, worker: WorkerRef, released: list[TaskToken]) -> None:
    check_worker(worker)
    frontend.history.goodbye(worker, released)
