"""Headers on their way over a whole node on PostgreSQL: saved, and found again by another node."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NoReturn

import pytest
from tests.engine_node import running_node

import perdure.client
import perdure.worker
from perdure import activity, workflow
from perdure.client import Client, OutboundInterceptor, RPCError, RPCStatusCode
from perdure.common import RetryPolicy
from perdure.converter import Payload
from perdure.errors import ApplicationError
from perdure.worker import (
    ActivityInboundInterceptor,
    ContinueAsNewInput,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    HandleSignalInput,
    StartActivityInput,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

QUEUE = "queue"


def stamp(who: str) -> Payload:
    return Payload("json/plain", b'"%b"' % who.encode())


class Stamping(perdure.client.Interceptor, perdure.worker.Interceptor):
    """What is asked has a stamp of who asks; what comes in is noted with the stamp it has."""

    def __init__(self, size: int = 0) -> None:
        self.seen: list[str] = []
        self.extra: Mapping[str, Payload] = {"large": stamp("x" * size)} if size else {}

    def see(self, what: str, headers: Mapping[str, Payload]) -> None:
        self.seen.append(f"{what} {headers['who'].data.decode()}")

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Asking(next, self)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Acting(next, self)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        input.unsafe_extern_functions["see"] = self.see
        return _Running


class _Asking(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, root: Stamping) -> None:
        super().__init__(next)
        self._stamps = {"who": stamp("client"), **root.extra}

    async def start_workflow(self, input: perdure.client.StartWorkflowInput) -> Any:
        input.headers = self._stamps
        return await super().start_workflow(input)

    async def signal_workflow(self, input: perdure.client.SignalWorkflowInput) -> None:
        input.headers = self._stamps
        await super().signal_workflow(input)


class _Acting(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, root: Stamping) -> None:
        super().__init__(next)
        self._root = root

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        self._root.see(f"attempt {activity.info().attempt}", input.headers)
        return await super().execute_activity(input)


class _Running(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Going(outbound))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        if not workflow.unsafe.is_replaying():
            workflow.extern_functions()["see"]("execute", input.headers)
        return await super().execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        if not workflow.unsafe.is_replaying():
            workflow.extern_functions()["see"]("signal", input.headers)
        await super().handle_signal(input)


class _Going(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        input.headers = {"who": stamp("workflow")}
        return super().start_activity(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        input.headers = {"who": stamp("the run before")}
        super().continue_as_new(input)


@activity.defn
async def second_time() -> None:
    if activity.info().attempt == 1:
        raise ApplicationError("not yet")


@workflow.defn
class Twice:
    def __init__(self) -> None:
        self._told = False

    @workflow.run
    async def run(self, again: bool) -> str:
        await workflow.execute_activity(
            second_time,
            start_to_close_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=1)),
        )
        if again:
            await workflow.wait_condition(lambda: self._told)
            workflow.continue_as_new(False)
        return "done"

    @workflow.signal
    def tell(self) -> None:
        self._told = True


async def test_headers_are_saved_and_found_by_another_node(database_dsn: str) -> None:
    """What a start, a signal, an activity and the next run carry outlives the node that took it."""
    stamping = Stamping()
    async with (
        running_node(database_dsn) as node,
        await Client.connect(node.address, interceptors=[stamping]) as client,
    ):
        handle = await client.start_workflow(Twice.run, True, id="t1", task_queue=QUEUE)
        await handle.signal(Twice.tell)
    async with (
        running_node(database_dsn) as node,
        await Client.connect(node.address, interceptors=[stamping]) as client,
        Worker(client, task_queue=QUEUE, workflows=[Twice], activities=[second_time]),
    ):
        assert await client.get_workflow_handle("t1").result() == "done"

    assert sorted(stamping.seen) == sorted(
        [
            'execute "client"',
            'signal "client"',
            *['attempt 1 "workflow"', 'attempt 2 "workflow"'] * 2,
            'execute "the run before"',
        ]
    )


async def test_a_header_that_is_too_large_is_refused_by_name(database_dsn: str) -> None:
    stamping = Stamping(size=300 * 1024)
    async with (
        running_node(database_dsn) as node,
        await Client.connect(node.address, interceptors=[stamping]) as client,
    ):
        with pytest.raises(RPCError, match="header") as caught:
            await client.start_workflow(Twice.run, True, id="t1", task_queue=QUEUE)
        assert caught.value.status is RPCStatusCode.INVALID_ARGUMENT
        assert (await client.count_workflows()).count == 0  # nothing is half written
