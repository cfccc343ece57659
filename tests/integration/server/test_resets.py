"""Reset, pause and unpause end to end: client, command line's words, gRPC, PostgreSQL, worker."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from tests.channels import channel_to
from tests.engine_node import running_node

from perdure import activity, workflow
from perdure.client import Client, RPCError, RPCStatusCode, WaitKind, WorkflowHistory
from perdure.common import ResetType, WorkflowStatus
from perdure.worker import Replayer, Worker
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_api.v1.workflow_service_pb2_grpc import WorkflowServiceStub

QUEUE = "orders"
LIMIT = timedelta(seconds=20)


@activity.defn
async def charge(amount: int) -> str:
    return f"charged {amount}"


@workflow.defn
class Order:
    def __init__(self) -> None:
        self.words: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        receipt = await workflow.execute_activity(
            charge, 7, start_to_close_timeout=timedelta(seconds=10)
        )
        await workflow.wait_condition(lambda: len(self.words) > 1)
        return [receipt, *self.words]

    @workflow.signal
    def tell(self, word: str) -> None:
        self.words.append(word)

    @workflow.update
    def ask(self, word: str) -> int:
        self.words.append(word)
        return len(self.words)

    @workflow.query
    def heard(self) -> list[str]:
        return self.words


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[tuple[Client, str]]:
    async with running_node(dsn) as node, await Client.connect(node.address) as client:
        yield client, node.address


def worker(client: Client) -> Worker:
    return Worker(client, task_queue=QUEUE, workflows=[Order], activities=[charge])


def ends(history: WorkflowHistory) -> list[int]:
    return [e.event_id for e in history.events if e.event_type == "WorkflowTaskCompleted"]


async def test_a_run_is_reset_and_comes_to_its_end_again(database_dsn: str) -> None:
    """Open and closed, over a restart of the engine between them."""
    async with connected(database_dsn) as (client, _), worker(client):
        handle = await client.start_workflow(Order.run, id="order", task_queue=QUEUE)
        await handle.signal(Order.tell, "signal")
        assert await handle.query(Order.heard, rpc_timeout=LIMIT) == ["signal"]
        open_run = await handle.reset(reset_type=ResetType.FIRST_WORKFLOW_TASK, reason="again")
        assert await handle.execute_update(Order.ask, "update", rpc_timeout=LIMIT) == 2
        assert await open_run.result(rpc_timeout=LIMIT) == ["charged 7", "signal", "update"]
        old = await client.get_workflow_handle("order", run_id=handle.result_run_id).describe()
        assert (old.status, old.reset_run_id) == (
            WorkflowStatus.TERMINATED,
            open_run.result_run_id,
        )
    async with connected(database_dsn) as (client, _), worker(client):
        closed = client.get_workflow_handle_for(Order.run, "order")
        history = await closed.fetch_history()
        new = await closed.reset(event_id=ends(history)[-1])
        assert await new.result(rpc_timeout=LIMIT) == ["charged 7", "signal", "update"]
        again = await closed.fetch_history()
        await Replayer(workflows=[Order]).replay_workflow(again)
        said = await closed.describe()
        assert said.original_run_id == handle.result_run_id
        assert said.reset_from_run_id == open_run.result_run_id
        runs = [one async for one in client.list_workflows("WorkflowId = 'order'")]
        assert len({one.run_id for one in runs}) == 3


async def test_a_pause_holds_over_a_restart_and_lists_show_it(database_dsn: str) -> None:
    async with connected(database_dsn) as (client, _), worker(client):
        handle = await client.start_workflow(Order.run, id="order", task_queue=QUEUE)
        await handle.signal(Order.tell, "one")
        assert await handle.query(Order.heard, rpc_timeout=LIMIT) == ["one"]
        await handle.pause(reason="audit")
    async with connected(database_dsn) as (client, _), worker(client):
        handle = client.get_workflow_handle_for(Order.run, "order")
        await handle.signal(Order.tell, "two")
        assert await handle.query(Order.heard, rpc_timeout=LIMIT) == ["one"]
        listed = [one async for one in client.list_workflows("ExecutionStatus = 'Paused'")]
        assert [(one.id, one.status) for one in listed] == [("order", WorkflowStatus.PAUSED)]
        counted = await client.count_workflows("GROUP BY ExecutionStatus")
        assert [(one.count, one.group_values) for one in counted.groups] == [(1, ["Paused"])]
        reason, *_ = await handle.explain()
        assert (reason.kind, reason.subject) == (WaitKind.PAUSED, "audit")
        with pytest.raises(RPCError) as twice:
            await handle.pause()
        assert twice.value.status is RPCStatusCode.FAILED_PRECONDITION
        await handle.unpause()
        assert await handle.result(rpc_timeout=LIMIT) == ["charged 7", "one", "two"]


GOOD: dict[str, Any] = {
    "namespace": "default",
    "workflow_id": "order",
    "workflow_task_finish_event_id": 4,
}
BAD_RESETS: list[tuple[dict[str, Any], str]] = [
    ({"request_id": ""}, "request_id"),
    ({"request_id": "7"}, "request_id"),
    ({"run_id": "not a uuid"}, "run_id"),
    ({"workflow_id": ""}, "workflow_id"),
    ({"reason": "a" * 5_000}, "reason"),
    ({"identity": "a\u202eb"}, "identity"),
    ({"workflow_task_finish_event_id": 0}, "workflow_task_finish_event_id"),
    ({"workflow_task_finish_event_id": -1}, "workflow_task_finish_event_id"),
    ({"workflow_task_finish_event_id": 99}, "workflow_task_finish_event_id"),
    ({"reset_type": 1}, "reset_type"),
    ({"workflow_task_finish_event_id": 0, "reset_type": 9}, "reset_type"),
    ({"workflow_task_finish_event_id": 0, "reset_type": 3}, "build_id"),
    ({"build_id": "b"}, "build_id"),
    ({"reapply_exclude_types": [1, 7]}, "reapply_exclude_types[1]"),
]


async def test_bad_input_names_the_field_and_a_repeat_is_answered_the_same(
    database_dsn: str,
) -> None:
    """B56 and its neighbours, over the wire: INVALID_ARGUMENT, nothing half-written."""
    async with connected(database_dsn) as (client, address), worker(client):
        handle = await client.start_workflow(Order.run, id="order", task_queue=QUEUE)
        assert await handle.query(Order.heard, rpc_timeout=LIMIT) == []
        async with channel_to(address) as channel:
            stub: Any = WorkflowServiceStub(channel)
            for changes, field in BAD_RESETS:
                fields = GOOD | {"request_id": str(uuid.uuid4())} | changes
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await stub.ResetWorkflow(pb.ResetWorkflowRequest(**fields), timeout=10)
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, changes
                assert str(refused.value.details()).startswith(field), changes
            assert (await handle.describe()).status is WorkflowStatus.RUNNING
            assert (await client.count_workflows()).count == 1
            request = pb.ResetWorkflowRequest(**GOOD, request_id=str(uuid.uuid4()))
            first = await stub.ResetWorkflow(request, timeout=10)
            assert await stub.ResetWorkflow(request, timeout=10) == first
            gone = pb.ResetWorkflowRequest(
                **GOOD, request_id=str(uuid.uuid4()), run_id=str(uuid.uuid4())
            )
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await stub.ResetWorkflow(gone, timeout=10)
            assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
            for call in (stub.PauseWorkflow, stub.UnpauseWorkflow):
                kind = (
                    pb.PauseWorkflowRequest
                    if call == stub.PauseWorkflow
                    else (pb.UnpauseWorkflowRequest)
                )
                with pytest.raises(grpc.aio.AioRpcError) as bad:
                    await call(kind(namespace="default", workflow_id="order"), timeout=10)
                assert str(bad.value.details()).startswith("request_id")
