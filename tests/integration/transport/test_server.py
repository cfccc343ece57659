"""The server itself: every method has a handler; start and stop; health and reflection."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # no stubs
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]  # no stubs
    reflection_pb2,
    reflection_pb2_grpc,
)
from tests.integration.transport.calls import refusal, start
from tests.integration.transport.conftest import Served
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, FakeHistory, Room, turn

from perdure_api.v1 import (
    common_pb2,
    job_service_pb2,
    namespace_service_pb2,
    operator_service_pb2,
    worker_service_pb2,
    workflow_service_pb2,
)
from perdure_api.v1 import namespace_service_pb2 as npb
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core.errors import Code
from perdure_engine.core.events import TimerFired, WorkflowExecutionCompleted
from perdure_engine.core.replies import Closed
from perdure_engine.core.status import Status
from perdure_engine.ports.history import EventsPage
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import NodeRow, ShardRow
from perdure_engine.transport.grpc import ages
from perdure_engine.transport.grpc.server import GrpcServer

SERVICES = [
    module.DESCRIPTOR.services_by_name[name]
    for module, name in (
        (workflow_service_pb2, "WorkflowService"),
        (worker_service_pb2, "WorkerService"),
        (namespace_service_pb2, "NamespaceService"),
        (operator_service_pb2, "OperatorService"),
        (job_service_pb2, "JobService"),
    )
]
UNARY = [
    f"/{service.full_name}/{method.name}"
    for service in SERVICES
    for method in service.methods
    if not method.client_streaming
]


@pytest.mark.parametrize("path", UNARY)
async def test_every_method_has_a_handler(served: Served, path: str) -> None:
    """An empty message is refused by a check, or answered; it is never UNIMPLEMENTED."""
    try:
        call: Any = served.channel.unary_unary(path)
        await call(b"")
    except grpc.aio.AioRpcError as error:
        assert error.code().name == "INVALID_ARGUMENT", error.details()  # noqa: PT017  # or none at all


async def test_a_method_that_does_not_exist_is_unimplemented(served: Served) -> None:
    call: Any = served.channel.unary_unary("/perdure_api.v1.WorkflowService/Nothing")

    assert (await refusal(call(b""))).code == Code.UNIMPLEMENTED


async def test_health_follows_the_servers_life(served: Served) -> None:
    health: Any = health_pb2_grpc.HealthStub(served.channel)
    for name in ("", "perdure_api.v1.WorkflowService", "perdure_api.v1.WorkerService"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    watch = health.Watch(health_pb2.HealthCheckRequest(service=""))
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    stopping = asyncio.ensure_future(served.server.stop(10))

    assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    watch.cancel()
    await stopping


async def test_bug_report_61_watches_that_are_forgotten_are_ended(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The channel lives on, so gRPC would keep them for ever."""
    monkeypatch.setattr(ages, "AGE_S", 0.1)
    health: Any = health_pb2_grpc.HealthStub(served.channel)
    reflection: Any = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    watches = [health.Watch(health_pb2.HealthCheckRequest(service="")) for _ in range(20)]
    asked = [reflection.ServerReflectionInfo() for _ in range(20)]
    for watch in watches:
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING

    for call in (*watches, *asked):
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_reflection_names_the_services(served: Served) -> None:
    reflection: Any = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    call = reflection.ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    listed = {service.name for service in (await call.read()).list_services_response.service}
    await call.done_writing()

    assert {service.full_name for service in SERVICES} <= listed


async def test_a_port_that_is_taken_is_an_error_and_not_shared(served: Served) -> None:
    second = GrpcServer(Room().frontend, f"127.0.0.1:{served.server.port}")

    with pytest.raises(OSError, match="cannot listen"):
        await second.start()


async def test_a_server_that_never_started_stops() -> None:
    await GrpcServer(Room().frontend, "127.0.0.1:0").stop(1)


async def test_stopping_twice_is_fine_and_new_calls_are_refused(served: Served) -> None:
    await served.server.stop(1)
    await served.server.stop(1)

    assert (await refusal(served.workflows.StartWorkflow(start()))).code == Code.UNAVAILABLE


async def test_a_call_that_is_being_answered_may_finish_while_the_server_stops(
    served: Served,
) -> None:
    asked = asyncio.Event()

    def hold(_: Any) -> Any:
        asked.set()
        return FakeHistory.PENDING

    served.history.answer = hold
    call = asyncio.ensure_future(
        served.workflows.SignalWorkflow(
            pb.SignalWorkflowRequest(
                namespace="default",
                workflow_id="w",
                signal_name="s",
                request_id=start().request_id,
            )
        )
    )
    await asked.wait()
    stopping = asyncio.ensure_future(served.server.stop(30))
    await turn()
    assert served.room.frontend.parking.closed
    served.history.futures[0].set_result(None)

    assert await call == pb.SignalWorkflowResponse()
    await stopping


async def test_parked_results_are_answered_empty_when_the_server_stops(served: Served) -> None:
    asked = asyncio.Event()

    def hold(_: Any) -> Any:
        asked.set()
        return FakeHistory.PENDING

    served.history.answer = hold
    call = asyncio.ensure_future(
        served.workflows.GetResult(pb.GetResultRequest(namespace="default", workflow_id="w"))
    )
    await asked.wait()
    await served.server.stop(10)

    assert not (await call).HasField("result")


async def test_results_histories_and_lists_come_back(served: Served) -> None:
    event = WorkflowExecutionCompleted(9, 1, b"r", 8)
    served.history.answer = lambda _: Closed(RUN_ID, Status.COMPLETED, event)
    target: dict[str, Any] = {"namespace": "default", "workflow_id": "w"}
    result = (await served.workflows.GetResult(pb.GetResultRequest(**target))).result
    assert (result.status, result.result) == (2, b"r")

    served.history.pages = [EventsPage([TimerFired(1, 2, "t", 1)], 0, True, RUN_ID)]
    history = await served.workflows.GetHistory(pb.GetHistoryRequest(**target))
    assert [found.event_id for found in history.events] == [1]

    served.room.store.runs = [
        VisibilityRow(1, RUN_ID, NAMESPACE_ID, 1, "w", "T", "q", 1, 5, None, 3, 300, b"", "{}")
    ]
    listing = pb.ListWorkflowsRequest(
        namespace="default",
        filter=pb.WorkflowFilter(
            statuses=[common_pb2.WORKFLOW_STATUS_RUNNING],
            workflow_type="T",
            workflow_id_prefix="w",
            start_time_max_us=9,
        ),
    )
    listed = await served.workflows.ListWorkflows(listing)
    assert [found.workflow_id for found in listed.workflows] == ["w"]
    counting = pb.CountWorkflowsRequest(namespace="default", filter=listing.filter)
    assert (await served.workflows.CountWorkflows(counting)).count == 1
    (asked, _, _), (counted, _, _) = served.room.store.lists
    assert asked == counted
    assert (asked.statuses, asked.workflow_type, asked.workflow_id_prefix) == ((1,), "T", "w")
    assert (asked.start_min_us, asked.start_max_us) == (0, 9)


async def test_namespaces_over_the_wire(served: Served) -> None:
    made = await served.namespaces.CreateNamespace(npb.CreateNamespaceRequest(name="shop"))
    assert made.namespace.retention_ms == 7 * 24 * 3_600_000
    again = npb.CreateNamespaceRequest(name="shop")
    assert (await refusal(served.namespaces.CreateNamespace(again))).code == Code.ALREADY_EXISTS

    described = await served.namespaces.DescribeNamespace(npb.DescribeNamespaceRequest(name="shop"))
    update = npb.UpdateNamespaceRequest(
        name="shop", description="", conflict_token=described.namespace.conflict_token
    )
    updated = await served.namespaces.UpdateNamespace(update)
    assert updated.namespace.conflict_token == described.namespace.conflict_token + 1
    assert (await refusal(served.namespaces.UpdateNamespace(update))).code == Code.ABORTED

    listed = await served.namespaces.ListNamespaces(npb.ListNamespacesRequest())
    assert [namespace.name for namespace in listed.namespaces] == ["default", "other", "shop"]
    assert (await served.workflows.StartWorkflow(start(namespace="shop"))).started


async def test_what_operators_look_at(served: Served) -> None:
    node = b"n" * 16
    served.room.store.nodes = [NodeRow(node, "here:1", "eu", "all", 1, 9, True)]
    served.room.store.shards = [ShardRow(1, node, "here:1", 0)]

    cluster = await served.operator.DescribeCluster(operator_service_pb2.DescribeClusterRequest())
    queue = await served.operator.DescribeTaskQueue(
        operator_service_pb2.DescribeTaskQueueRequest(namespace="default", task_queue="q")
    )

    assert (cluster.version, cluster.database) == ("0.1.0", "PostgreSQL 18.6")
    assert [(n.address, n.alive, list(n.shards)) for n in cluster.nodes] == [("here:1", True, [1])]
    assert queue.workflow.pollers == 0
