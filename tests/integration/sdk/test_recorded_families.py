"""Histories of parents, as an engine wrote them once: what is deployed today must go on with them.

The file is never edited, only appended to. It was recorded with the workflows of family.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.sdk.family import ALL

from perdure import workflow
from perdure.client import WorkflowHistory
from perdure.errors import NondeterminismError
from perdure.worker import Replayer

LINES = Path(__file__).with_name("recorded_families.jsonl").read_text(encoding="utf-8").splitlines()
RECORDED: dict[str, Any] = {
    one["name"]: one["history"] for one in (json.loads(line) for line in LINES)
}


def recorded(name: str) -> WorkflowHistory:
    return WorkflowHistory.from_json(f"p-{name}", json.dumps(RECORDED[name]))


@pytest.mark.parametrize("name", list(RECORDED))
async def test_what_was_recorded_replays(name: str) -> None:
    await Replayer(workflows=ALL).replay_workflow(recorded(name))


def test_every_event_of_children_and_other_runs_is_among_them() -> None:
    seen = {event["event_type"] for one in RECORDED.values() for event in one["events"]}
    assert {kind for kind in seen if "Child" in kind or "External" in kind} == {
        "StartChildWorkflowExecutionInitiated",
        "StartChildWorkflowExecutionFailed",
        "ChildWorkflowExecutionStarted",
        "ChildWorkflowExecutionCompleted",
        "ChildWorkflowExecutionFailed",
        "ChildWorkflowExecutionCanceled",
        "ChildWorkflowExecutionTimedOut",
        "ChildWorkflowExecutionTerminated",
        "SignalExternalWorkflowExecutionInitiated",
        "SignalExternalWorkflowExecutionFailed",
        "ExternalWorkflowExecutionSignaled",
        "RequestCancelExternalWorkflowExecutionInitiated",
        "RequestCancelExternalWorkflowExecutionFailed",
        "ExternalWorkflowExecutionCancelRequested",
    }


@workflow.defn(name="Parent")
class AnotherChild:
    @workflow.run
    async def run(self, what: str, options: dict[str, Any]) -> None:
        await workflow.execute_child_workflow("Child", what, id="another")


@workflow.defn(name="Parent")
class NoChild:
    @workflow.run
    async def run(self, what: str, options: dict[str, Any]) -> None:
        await workflow.sleep(1)


@workflow.defn(name="Talking")
class OtherWords:
    @workflow.run
    async def run(self, how: str) -> None:
        await workflow.get_external_workflow_handle("o").signal("other words")


@pytest.mark.parametrize(
    ("name", "changed", "did"),
    [
        ("completed", AnotherChild, "StartChildWorkflow(workflow_id='another', "),
        ("completed", NoChild, "StartTimer(timer_id='1')"),
        ("not found", OtherWords, "SignalExternalWorkflow(workflow_id='o', signal_name='other"),
    ],
)
async def test_code_that_goes_another_way_is_found(name: str, changed: type, did: str) -> None:
    with pytest.raises(NondeterminismError) as caught:
        await Replayer(workflows=[changed]).replay_workflow(recorded(name))
    error = caught.value
    assert error.event_id == 5
    assert f"but the workflow's code did {did}" in str(error)
    assert __file__ in str(error)
