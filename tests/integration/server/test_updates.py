"""Updates end to end: client, engine, PostgreSQL, worker."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import grpc
import pytest
from tests.channels import channel_to
from tests.engine_node import running_node
from tests.integration.server.engine_process import EngineProcess

from perdure import activity, workflow
from perdure.client import (
    Client,
    RPCError,
    RPCStatusCode,
    WithStartWorkflowOperation,
    WorkflowAlreadyStartedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from perdure.common import WorkflowIdConflictPolicy
from perdure.errors import ApplicationError
from perdure.worker import Worker
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_api.v1.workflow_service_pb2_grpc import WorkflowServiceStub

QUEUE = "carts"
LIMIT = timedelta(seconds=20)
ACCEPTED, COMPLETED = WorkflowUpdateStage.ACCEPTED, WorkflowUpdateStage.COMPLETED
USE_EXISTING = WorkflowIdConflictPolicy.USE_EXISTING


@activity.defn
async def price(item: str) -> int:
    return len(item)


@workflow.defn
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.released = 0
        self.closed = False

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_condition(lambda: self.closed)
        return self.items

    @workflow.update
    async def add(self, item: str) -> int:
        """Its price, and it is in the cart."""
        cost = await workflow.execute_activity(
            price, item, start_to_close_timeout=timedelta(seconds=10)
        )
        self.items.append(item)
        return cost

    @add.validator
    def check_add(self, item: str) -> None:
        if item in self.items:
            raise ApplicationError(f"{item} is there", type="Twice")

    @workflow.update
    async def wait(self) -> str:
        before = self.released
        await workflow.wait_condition(lambda: self.released > before)
        info = workflow.current_update_info()
        assert info is not None
        return info.id

    @workflow.update
    def fail(self) -> None:
        raise ValueError("broken")

    @workflow.update
    def close(self) -> int:
        self.closed = True
        return len(self.items)

    @workflow.signal
    def release(self) -> None:
        self.released += 1

    @workflow.signal
    def end(self) -> None:
        self.closed = True


def worker(client: Client) -> Worker:
    return Worker(client, task_queue=QUEUE, workflows=[Cart], activities=[price])


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Client]:
    async with running_node(dsn) as node, await Client.connect(node.address) as client:
        yield client


async def started_cart(client: Client, id: str = "cart") -> None:
    await client.start_workflow(Cart.run, id=id, task_queue=QUEUE)


async def test_updates_are_validated_handled_and_answered(database_dsn: str) -> None:
    async with connected(database_dsn) as client, worker(client):
        handle = await client.start_workflow(Cart.run, id="cart", task_queue=QUEUE)

        assert await handle.execute_update(Cart.add, "apple", id="u-1", rpc_timeout=LIMIT) == 5
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update(Cart.add, "apple", rpc_timeout=LIMIT)
        with pytest.raises(WorkflowUpdateFailedError) as failed:
            await handle.execute_update(Cart.fail, rpc_timeout=LIMIT)
        # once per id: for whoever asks again, at the same time too
        again = [handle.execute_update(Cart.add, "apple", id="u-1") for _ in range(3)]
        same = [handle.execute_update(Cart.add, "pear", id="u-2") for _ in range(3)]
        assert await asyncio.gather(*again, *same) == [5, 5, 5, 4, 4, 4]
        with pytest.raises(RPCError, match="was used before") as reused:
            await handle.execute_update(Cart.add, "plum", id="u-1")
        assert await handle.execute_update(Cart.close, id="u-3", rpc_timeout=LIMIT) == 2
        assert await handle.result(rpc_timeout=LIMIT) == ["apple", "pear"]
        # of the closed run, too
        assert await handle.get_update_handle_for(Cart.add, "u-2").result(rpc_timeout=LIMIT) == 4
        with pytest.raises(RPCError) as late:
            await handle.execute_update(Cart.add, "late", rpc_timeout=LIMIT)
        with pytest.raises(RPCError) as unknown:
            await handle.get_update_handle("u-9").result(rpc_timeout=LIMIT)
        history = await handle.fetch_history()

    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "Twice"
    assert isinstance(failed.value.cause, ApplicationError)
    assert (failed.value.cause.type, failed.value.cause.message) == ("ValueError", "broken")
    assert reused.value.status is RPCStatusCode.INVALID_ARGUMENT
    assert reused.value.field_violations[0][0] == "update_id"
    assert late.value.status is RPCStatusCode.NOT_FOUND
    assert (unknown.value.status, unknown.value.reason) == (
        RPCStatusCode.NOT_FOUND,
        "UPDATE_NOT_FOUND",
    )
    accepted = [e for e in history.events if e.event_type == "WorkflowExecutionUpdateAccepted"]
    assert [event.attributes["update_name"] for event in accepted] == [
        "add",
        "fail",
        "add",
        "close",
    ]


async def test_an_accepted_update_goes_on_with_another_worker(database_dsn: str) -> None:
    async with connected(database_dsn) as client:
        handle = await client.start_workflow(Cart.run, id="cart", task_queue=QUEUE)
        async with worker(client):
            update = await handle.start_update(
                Cart.wait, wait_for_stage=ACCEPTED, id="u-1", rpc_timeout=LIMIT
            )
            with pytest.raises(WorkflowUpdateRPCTimeoutOrCancelledError):
                await update.result(rpc_timeout=timedelta(milliseconds=50))
        async with worker(client):
            await handle.signal(Cart.release)
            assert await update.result(rpc_timeout=LIMIT) == "u-1"
            waiting = await handle.start_update(
                Cart.wait, wait_for_stage=ACCEPTED, id="u-2", rpc_timeout=LIMIT
            )
            await handle.signal(Cart.end)
            with pytest.raises(WorkflowUpdateFailedError) as cut_off:
                await waiting.result(rpc_timeout=LIMIT)

    assert isinstance(cut_off.value.cause, ApplicationError)
    assert cut_off.value.cause.type == "AcceptedUpdateCompletedWorkflow"


async def test_admitted_updates_survive_the_engine_and_are_limited_in_number(
    database_dsn: str,
) -> None:
    """Invariant 43, and semantics §6: an update that was admitted is never lost."""
    async with connected(database_dsn) as client:
        await started_cart(client)
        async with channel_to(client.core.connection.target) as channel:
            stub = WorkflowServiceStub(channel)
            for number in range(10):
                answer = await stub.UpdateWorkflow(_admitting(client, number))
                assert answer.stage == pb.UPDATE_STAGE_ADMITTED
            with pytest.raises(grpc.aio.AioRpcError) as full:
                await stub.UpdateWorkflow(_admitting(client, 10))
            waits = _admitting(client, 0)
            waits.wait_stage, waits.timeout_ms = pb.UPDATE_STAGE_COMPLETED, 50
            assert (await stub.UpdateWorkflow(waits)).stage == pb.UPDATE_STAGE_ADMITTED
    assert full.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    async with connected(database_dsn) as client, worker(client):
        handle = client.get_workflow_handle_for(Cart.run, "cart")
        updates = [handle.get_update_handle(f"u-{number}", result_type=int) for number in range(10)]
        assert [await update.result(rpc_timeout=LIMIT) for update in updates] == [5] * 10


def _admitting(client: Client, number: int) -> pb.UpdateWorkflowRequest:
    (value,) = client.data_converter.payload_converter.to_payloads([f"item{number % 10}"])
    return pb.UpdateWorkflowRequest(
        namespace="default",
        workflow_id="cart",
        update_id=f"u-{number}",
        update_name="add",
        args=_payloads(value.encoding, value.data),
        wait_stage=pb.UPDATE_STAGE_ADMITTED,
    )


async def test_update_with_start(database_dsn: str) -> None:
    async with connected(database_dsn) as client, worker(client):

        def operation(
            policy: WorkflowIdConflictPolicy = USE_EXISTING,
        ) -> WithStartWorkflowOperation[Cart, list[str]]:
            return WithStartWorkflowOperation(
                Cart.run, id="cart", task_queue=QUEUE, id_conflict_policy=policy
            )

        first, second = operation(), operation()
        begun = await client.execute_update_with_start_workflow(
            Cart.add, "apple", start_workflow_operation=first, rpc_timeout=LIMIT
        )
        update = await client.start_update_with_start_workflow(
            Cart.add,
            "pear",
            wait_for_stage=ACCEPTED,
            start_workflow_operation=second,
            rpc_timeout=LIMIT,
        )
        joined = await update.result(rpc_timeout=LIMIT)
        taken = operation(WorkflowIdConflictPolicy.FAIL)
        with pytest.raises(WorkflowAlreadyStartedError):
            await client.execute_update_with_start_workflow(
                Cart.add, "plum", start_workflow_operation=taken, rpc_timeout=LIMIT
            )
        with pytest.raises(WorkflowAlreadyStartedError):
            await taken.workflow_handle()
        handle = await first.workflow_handle()
        same = await second.workflow_handle()
        await handle.signal(Cart.end)
        assert await handle.result(rpc_timeout=LIMIT) == ["apple", "pear"]

    assert (begun, joined) == (5, 4)
    assert handle.result_run_id == same.result_run_id == update.workflow_run_id


async def test_bad_input_names_its_field_and_admits_nothing(database_dsn: str) -> None:
    async with connected(database_dsn) as client:
        await started_cart(client)
        async with channel_to(client.core.connection.target) as channel:
            stub = WorkflowServiceStub(channel)
            for field, change in (
                ("update_id", {"update_id": ""}),
                ("update_id", {"update_id": "x" * 501}),
                ("update_name", {"update_name": ""}),
                ("workflow_id", {"workflow_id": ""}),
                ("run_id", {"run_id": "no uuid"}),
                ("wait_stage", {"wait_stage": 9}),
                ("timeout_ms", {"timeout_ms": -1}),
                ("args", {"args": b"x" * (2 * 1024 * 1024 + 1)}),
            ):
                request = _admitting(client, 1)
                for name, value in change.items():
                    setattr(request, name, value)
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await stub.UpdateWorkflow(request)
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, field
                assert (refused.value.details() or "").startswith(field), field
            start = pb.StartWorkflowRequest(namespace="default", workflow_id="other")
            with pytest.raises(grpc.aio.AioRpcError, match=r"start\.id_conflict_policy"):
                await stub.UpdateWithStartWorkflow(
                    pb.UpdateWithStartWorkflowRequest(start=start, update_id="u", update_name="n")
                )
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await stub.PollUpdate(
                    pb.PollUpdateRequest(namespace="default", workflow_id="cart", update_id="u-1")
                )
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


def _payloads(encoding: str, data: bytes) -> bytes:
    from perdure_api.v1 import common_pb2

    payload = common_pb2.Payload(encoding=encoding, data=data)
    return common_pb2.Payloads(payloads=[payload]).SerializeToString()


async def test_an_admitted_update_survives_the_kill_of_its_engine(database_dsn: str) -> None:
    """Semantics §6: admission is saved before it is acknowledged. SIGKILL right after, no worker anywhere."""
    more = {"PERDURE_DATABASE_URL": database_dsn, "PERDURE_DATABASE_ALLOW_UNSAFE": "true"}
    ports = ("--grpc-port", "0", "--http-port", "0")
    with EngineProcess("server", *ports, more=more) as engine:
        address = engine.grpc_address()
        async with await Client.connect(address) as client, channel_to(address) as c:
            await started_cart(client)
            answer = await WorkflowServiceStub(c).UpdateWorkflow(_admitting(client, 1))
            engine.stop(signal.SIGKILL)
    assert answer.stage == pb.UPDATE_STAGE_ADMITTED

    async with connected(database_dsn) as client, worker(client):
        handle = client.get_workflow_handle_for(Cart.run, "cart")
        assert await handle.get_update_handle("u-1").result(rpc_timeout=LIMIT) == len("item1")
