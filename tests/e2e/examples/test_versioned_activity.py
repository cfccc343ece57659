"""sdk/examples/versioned_activity"""

from __future__ import annotations

from tests.e2e.examples.loading import load_example

from perdure.testing import WorkflowEnvironment

pricing = load_example("versioned_activity/pricing.py")


async def test_an_open_order_keeps_its_version(workflow_environment: WorkflowEnvironment) -> None:
    old, new = await pricing.roll_out(workflow_environment.client, "1")

    assert old == [1000, 1000]
    assert new == [1190, 1190]
