"""The fixtures of `pytest_plugin` that are async. Imported only where pytest-asyncio is in use."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import pytest_asyncio

if TYPE_CHECKING:
    from perdure.client import Client
    from perdure.testing import WorkflowEnvironment
    from perdure.worker import Worker


class StartWorker(Protocol):
    """What the fixture `perdure_worker` is."""

    def __call__(self, *, task_queue: str | None = None, **options: Any) -> Awaitable[Worker]: ...


@pytest_asyncio.fixture
async def workflow_environment() -> AsyncIterator[WorkflowEnvironment]:
    """A whole engine of the test's own, whose time skips."""
    from perdure.testing import WorkflowEnvironment

    async with await WorkflowEnvironment.start_time_skipping() as environment:
        yield environment


@pytest_asyncio.fixture
async def workflow_client(workflow_environment: WorkflowEnvironment) -> Client:
    """The client of `workflow_environment`."""
    return workflow_environment.client


@pytest_asyncio.fixture
async def perdure_worker(workflow_client: Client) -> AsyncIterator[StartWorker]:
    """Starts workers that are stopped with the test."""
    from perdure.worker import Worker

    async with AsyncExitStack() as running:

        async def start(*, task_queue: str | None = None, **options: Any) -> Worker:
            options.setdefault("graceful_shutdown_timeout", timedelta())
            queue = task_queue or f"test-{uuid.uuid4()}"
            return await running.enter_async_context(
                Worker(workflow_client, task_queue=queue, **options)
            )

        yield start
