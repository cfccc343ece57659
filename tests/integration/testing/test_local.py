"""`WorkflowEnvironment.start_local`: an engine on an embedded PostgreSQL of its own."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.integration.testing import programs

from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker


async def test_it_runs_in_real_time_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with await WorkflowEnvironment.start_local(identity="a test") as env:
        assert os.listdir(tmp_path) != []
        assert env.client.identity == "a test"
        assert not env.supports_time_skipping
        assert abs(await env.get_current_time() - datetime.now(UTC)) < timedelta(minutes=1)
        async with Worker(env.client, task_queue="q", workflows=[programs.Waiter]):
            result = await env.client.execute_workflow(
                programs.Waiter.run, args=[0.01], id="w", task_queue="q"
            )
        assert result == "timed out"
        await env.sleep(timedelta())

    assert os.listdir(tmp_path) == []


async def test_a_start_that_fails_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perdure_engine.server.embedded import EmbeddedPostgres, EmbeddedPostgresError

    def refuse(self: EmbeddedPostgres) -> str:
        raise EmbeddedPostgresError("no PostgreSQL here", "install one")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(EmbeddedPostgres, "start", refuse)

    with pytest.raises(RuntimeError, match="no PostgreSQL here"):
        await WorkflowEnvironment.start_local()

    assert os.listdir(tmp_path) == []
