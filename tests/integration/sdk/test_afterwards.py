"""What interceptors want done after a workflow task: only when the engine has taken it, and once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from tests.integration.sdk.fake_engine import FakeEngine
from tests.integration.sdk.fake_faults import UNAVAILABLE, Fault, status

from perdure import workflow
from perdure._replay.run import current_run
from perdure.client import Client
from perdure.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

QUEUE = "queue"


@workflow.defn
class Nothing:
    @workflow.run
    async def run(self) -> str:
        return "done"


class Telling(Interceptor):
    """Has `what` done after each workflow task that begins a run."""

    def __init__(self, what: Callable[[], None]) -> None:
        self.what = what

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        what = self.what

        class Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                current_run().do_afterwards(what)
                return await super().execute_workflow(input)

        return Inbound


def worker(client: Client, what: Callable[[], None]) -> Worker:
    return Worker(client, task_queue=QUEUE, workflows=[Nothing], interceptors=[Telling(what)])


async def test_a_completion_that_is_repeated_is_told_of_once(
    engine: FakeEngine, client: Client
) -> None:
    """The engine was away when it came first."""
    told: list[int] = []

    def tell() -> None:
        told.append(len(engine.requests["CompleteTasks"]))

    engine.fail("CompleteTasks", Fault(status(UNAVAILABLE, "before")))
    async with worker(client, tell):
        await client.execute_workflow(Nothing.run, id="w", task_queue=QUEUE)

    assert told == [2]  # not before the second one was sent


async def test_a_completion_that_is_refused_is_never_told_of(
    engine: FakeEngine, client: Client
) -> None:
    """B21: what the engine has not taken has not happened."""
    told: list[str] = []
    engine.fail("CompleteTasks", Fault(status(grpc.StatusCode.INVALID_ARGUMENT, "not that")))
    async with worker(client, lambda: told.append("x")):
        await client.start_workflow(Nothing.run, id="w", task_queue=QUEUE)
        await engine.until(lambda: bool(engine.completions("workflow_task_failure")))

    assert told == []


async def test_what_raises_costs_nobody_anything(
    engine: FakeEngine, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("an exporter's defect")

    async with worker(client, fail):
        for number in range(3):
            done = await client.execute_workflow(Nothing.run, id=f"w{number}", task_queue=QUEUE)
            assert done == "done"

    assert "an exporter's defect" in caplog.text
