"""Fixtures for pytest, loaded by it through the entry point group `pytest11`.

    async def test_greets(workflow_client, perdure_worker):
        worker = await perdure_worker(workflows=[Greet], activities=[compose])
        result = await workflow_client.execute_workflow(
            Greet.run, "Ada", id="greet-ada", task_queue=worker.task_queue
        )
        assert result == "Hello, Ada!"

`workflow_environment`   a WorkflowEnvironment whose time skips, one for each test
`workflow_client`        its client
`perdure_worker`         starts a Worker on it: `await perdure_worker(workflows=…, activities=…)`, with the
                         options of `Worker`; `task_queue` is one of its own unless given. Stopped with
                         the test
`activity_environment`   an ActivityEnvironment

The first three need pytest-asyncio (`pip install pytest-asyncio`), in either of its modes. An
environment for a whole session is a fixture of yours:

    @pytest_asyncio.fixture(scope="session", loop_scope="session")
    async def env():
        async with await WorkflowEnvironment.start_time_skipping() as env:
            yield env

A run that uses no fixture of these imports nothing of Perdure's but this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from perdure.testing import ActivityEnvironment


def pytest_configure(config: pytest.Config) -> None:
    """Async fixtures are made by pytest-asyncio, which need not be there."""
    if config.pluginmanager.hasplugin("asyncio"):
        from perdure.testing import _async_fixtures

        config.pluginmanager.register(_async_fixtures, "perdure-async-fixtures")


@pytest.fixture
def activity_environment() -> ActivityEnvironment:
    """Runs activities without a worker."""
    from perdure.testing import ActivityEnvironment

    return ActivityEnvironment()
