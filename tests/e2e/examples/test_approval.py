"""sdk/examples/approval_with_reminder: a month in some milliseconds"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from tests.e2e.command_line import CommandLine
from tests.e2e.examples.loading import EXAMPLES, load_example

from perdure.testing import WorkflowEnvironment

approval = load_example("approval_with_reminder/approval.py")
REQUEST = approval.Request("a new coffee machine", "Ada")


@pytest.fixture
async def env(workflow_environment: WorkflowEnvironment) -> AsyncIterator[WorkflowEnvironment]:
    async with approval.make_worker(workflow_environment.client):
        yield workflow_environment


async def ask(env: WorkflowEnvironment) -> Any:
    return await approval.ask(env.client, "a", REQUEST)


async def test_nobody_decides(env: WorkflowEnvironment) -> None:
    before = await env.get_current_time()

    outcome = await (await ask(env)).result()

    assert outcome == approval.Outcome(None, reminders=29)
    took = await env.get_current_time() - before
    assert timedelta(days=30) <= took < timedelta(days=30, minutes=1)


async def test_a_decision_on_the_third_day(env: WorkflowEnvironment) -> None:
    handle = await ask(env)
    await env.sleep(timedelta(days=2, hours=12))
    assert (await handle.query(approval.Approval.state)).reminders == 2

    decision = approval.Decision(by="Ada", approved=False)
    await handle.signal(approval.Approval.decide, decision)

    assert await handle.result() == approval.Outcome(decision, reminders=2)


async def test_asking_twice_is_asking_once(env: WorkflowEnvironment) -> None:
    first, second = await ask(env), await ask(env)

    assert first.result_run_id == second.result_run_id


def test_it_runs_with_one_command(dev: CommandLine) -> None:
    program = dev.folder / "approval.py"
    source = EXAMPLES / "approval_with_reminder/approval.py"
    program.write_text(source.read_text("utf-8"), "utf-8")

    assert dev.start_program(program).wait(60) == 0

    assert "approved=True" in program.with_suffix(".log").read_text("utf-8")
