"""Tests of workflows and activities, without an engine beside them.

    from perdure.testing import WorkflowEnvironment

    async def test_reminds_every_day() -> None:
        async with await WorkflowEnvironment.start_time_skipping() as env:
            async with Worker(env.client, task_queue="t", workflows=[Approval]):
                result = await env.client.execute_workflow(
                    Approval.run, id="a-1", task_queue="t"
                )  # thirty days in some milliseconds
                assert result == "timed out"

`WorkflowEnvironment` runs the whole engine in the test's own process and event loop, on a store in
memory, with a clock that skips; it needs the extra `perdure[server]`. `ActivityEnvironment` runs one
activity, and needs nothing. `perdure.worker.Replayer` runs workflow code against recorded histories.
`perdure.testing.pytest_plugin` has fixtures for all of it, and is loaded by pytest by itself.

What is named here is imported when it is first used, so that a pytest run that uses none of it pays
for none of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.testing._activity_environment import ActivityEnvironment
    from perdure.testing._workflow_environment import WorkflowEnvironment

__all__ = ["ActivityEnvironment", "WorkflowEnvironment"]

_HOMES = {
    "ActivityEnvironment": "perdure.testing._activity_environment",
    "WorkflowEnvironment": "perdure.testing._workflow_environment",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
