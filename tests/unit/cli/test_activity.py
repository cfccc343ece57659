"""`perdure activity` against a client that remembers what it was asked."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from perdure.cli.app import app
from perdure.client import Client
from perdure.common import ActivityOptionsUpdate, Priority, RetryPolicy
from perdure.errors import ApplicationError

ONE = {"activity_id": "a", "activity_type": "", "run_id": None}
TYPE = {"activity_id": "", "activity_type": "charge", "run_id": None}


class Asked:
    """A client, its operator and its handle in one: every call is noted with what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.core = SimpleNamespace(connection=SimpleNamespace(wait_ready=self._ready))
        self.operator = self

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **options: Any) -> None:
            options.pop("rpc_timeout", None)
            self.calls.append((name, args, options))

        return call

    def get_async_activity_handle(self, **ids: Any) -> Asked:
        self.calls.append(("handle", (), ids))
        return self

    async def close(self) -> None: ...

    async def _ready(self, _: float) -> None: ...


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    client = Asked()

    async def connect(*_: Any, **__: Any) -> Asked:
        return client

    monkeypatch.setattr(Client, "connect", connect)
    return client


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["activity", *words])


@pytest.mark.parametrize(
    ("words", "name", "args", "options"),
    [
        (["pause", "w", "a", "--reason", "r"], "pause_activity", ("w",), {**ONE, "reason": "r"}),
        (["pause", "w", "--type", "charge"], "pause_activity", ("w",), {**TYPE, "reason": ""}),
        (
            ["unpause", "w", "a", "--reset-attempts"],
            "unpause_activity",
            ("w",),
            {**ONE, "reset_attempts": True, "reset_heartbeat": False, "reason": ""},
        ),
        (
            ["reset", "w", "a", "--keep-paused", "--reset-heartbeat", "--run-id", "r"],
            "reset_activity",
            ("w",),
            {
                **ONE,
                "run_id": "r",
                "reset_heartbeat": True,
                "keep_paused": True,
                "restore_original_options": False,
                "reason": "",
            },
        ),
        (
            ["update-options", "w", "a", "--heartbeat-timeout", "5s", "--priority", "2"],
            "update_activity_options",
            (
                "w",
                ActivityOptionsUpdate(
                    heartbeat_timeout=timedelta(seconds=5), priority=Priority(priority_key=2)
                ),
            ),
            {**ONE, "reason": ""},
        ),
        (
            ["update-options", "w", "--type", "charge", "--maximum-attempts", "3"],
            "update_activity_options",
            ("w", ActivityOptionsUpdate(retry_policy=RetryPolicy(maximum_attempts=3))),
            {**TYPE, "reason": ""},
        ),
        (
            ["update-options", "w", "a", "--restore-original", "--reason", "r"],
            "update_activity_options",
            ("w", None),
            {**ONE, "reason": "r"},
        ),
    ],
)
def test_what_is_asked_of_the_engine(
    asked: Asked, words: list[str], name: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    result = run(*words)

    assert result.exit_code == 0, result.output
    assert asked.calls == [(name, args, options)]


def test_complete_and_fail_go_to_the_activity(asked: Asked) -> None:
    assert run("complete", "w", "a", "--result", '{"ok": true}').exit_code == 0
    assert run("fail", "w", "a", "--reason", "wrong").exit_code == 0

    ids = ("handle", (), {"workflow_id": "w", "run_id": None, "activity_id": "a"})
    assert asked.calls[:3] == [ids, ("complete", ({"ok": True},), {}), ids]
    name, (error,), _ = asked.calls[3]
    assert name == "fail"
    assert isinstance(error, ApplicationError)
    assert (error.message, error.non_retryable) == ("wrong", True)


@pytest.mark.parametrize(
    "words",
    [
        ["pause", "w"],
        ["pause", "w", "a", "--type", "charge"],
        ["update-options", "w", "a"],
        ["update-options", "w", "a", "--restore-original", "--task-queue", "q"],
        ["update-options", "w", "a", "--heartbeat-timeout", "soon"],
        ["complete", "w", "a", "--result", "bare"],
    ],
)
def test_what_is_no_use_is_said_before_anything_is_asked(asked: Asked, words: list[str]) -> None:
    assert run(*words).exit_code == 2
    assert asked.calls == []
