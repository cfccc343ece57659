"""sdk/examples/fan_out"""

from __future__ import annotations

import pytest
from tests.e2e.examples.loading import load_example

from perdure.client import WorkflowFailureError
from perdure.testing import WorkflowEnvironment

fan_out = load_example("fan_out/fan_out.py")


async def test_a_thousand_of_which_some_may_fail(workflow_environment: WorkflowEnvironment) -> None:
    client = workflow_environment.client
    async with fan_out.make_worker(client):
        report = await fan_out.shrink_all(client, "t", fan_out.pictures(1000, broken=3))

    assert report.broken == ["broken-0000", "broken-0001", "broken-0002"]
    assert report.bytes_total == 997 * (100 + len("holiday-0000"))


async def test_too_many_that_fail(workflow_environment: WorkflowEnvironment) -> None:
    client = workflow_environment.client
    async with fan_out.make_worker(client):
        with pytest.raises(WorkflowFailureError, match="2 of 100 failed, 1 are tolerated"):
            await fan_out.shrink_all(client, "t", fan_out.pictures(100, broken=2))
