"""`perdure workflow reset`, `pause`, `unpause` and `resume`, against a client that remembers what it was asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.cli.test_commands import FakeClient, client, run

from perdure.common import ResetReapplyExcludeType, ResetType
from perdure.errors import RPCError, RPCStatusCode

__all__ = ["client"]  # a fixture

NOTHING: dict[str, Any] = {
    "event_id": None,
    "reset_type": None,
    "build_id": "",
    "reapply_exclude": [],
    "reason": "",
}
BOTH = list(ResetReapplyExcludeType)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (("--event-id", "4"), {"event_id": 4}),
        (("-e", "4", "--reason", "a bug"), {"event_id": 4, "reason": "a bug"}),
        (("--type", "first-workflow-task"), {"reset_type": ResetType.FIRST_WORKFLOW_TASK}),
        (("-t", "last-workflow-task"), {"reset_type": ResetType.LAST_WORKFLOW_TASK}),
        (
            ("--type", "build-id", "--build-id", "b1"),
            {"reset_type": ResetType.BUILD_ID, "build_id": "b1"},
        ),
        (
            ("-e", "4", "--reapply-exclude", "signal, Update"),
            {"event_id": 4, "reapply_exclude": BOTH},
        ),
        (("-e", "4", "--reapply-exclude", "all"), {"event_id": 4, "reapply_exclude": BOTH}),
    ],
)
def test_reset_passes_everything_on_and_prints_the_new_run(
    client: FakeClient, options: tuple[str, ...], asked: dict[str, Any]
) -> None:
    found = run("workflow", "reset", "order-1", *options, "-o", "json")

    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout) == {"workflow_id": "order-1", "run_id": "run-1"}
    [(_, _, given)] = [one for one in client.asked if one[0] == "reset"]
    given.pop("rpc_timeout")
    assert given == NOTHING | asked
    assert "run-1" in run("workflow", "reset", "order-1", *options).stdout


@pytest.mark.parametrize(
    "options",
    [
        ("-e", "0"),
        ("-e", "four"),
        ("--type", "middle"),
        ("-e", "4", "--reapply-exclude", "timer"),
    ],
)
def test_a_mistake_needs_no_engine(client: FakeClient, options: tuple[str, ...]) -> None:
    found = run("workflow", "reset", "order-1", *options)

    assert found.exit_code == 2
    assert client.asked == []


def test_a_reset_that_does_not_say_where_to_is_a_mistake(client: FakeClient) -> None:
    client.value = ValueError("a reset takes event_id or reset_type: one of them")

    found = run("workflow", "reset", "order-1")

    assert found.exit_code == 2
    assert "--event-id" in found.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [("pause", "is paused"), ("unpause", "goes on"), ("resume", "workers of the surgical pool")],
)
def test_pause_unpause_and_resume(client: FakeClient, command: str, said: str) -> None:
    found = run("workflow", command, "order-1", "--reason", "provider is down")

    assert (found.exit_code, found.stdout) == (0, "")
    assert said in found.stderr
    assert (command, "order-1", "provider is down") in client.asked
    client.value = RPCError("is paused already", RPCStatusCode.FAILED_PRECONDITION)
    assert run("workflow", command, "order-1").exit_code == 1
