"""A gRPC server on loopback, over a frontend whose ports are the small fakes of the unit tests."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from tests.unit.frontend.fakes import Room

from perdure_api.v1 import (
    job_service_pb2_grpc,
    namespace_service_pb2_grpc,
    operator_service_pb2_grpc,
    worker_service_pb2_grpc,
    workflow_service_pb2_grpc,
)
from perdure_engine.ports.metrics import Metrics
from perdure_engine.transport.grpc.server import GrpcServer


class Served:
    """The server, what stands behind it, and a client's stubs."""

    def __init__(
        self, room: Room, server: GrpcServer, metrics: Metrics, channel: grpc.aio.Channel
    ) -> None:
        self.room = room
        self.history = room.history
        self.matching = room.matching
        self.server = server
        self.metrics = metrics
        self.channel = channel
        self.workflows: Any = workflow_service_pb2_grpc.WorkflowServiceStub(channel)
        self.workers: Any = worker_service_pb2_grpc.WorkerServiceStub(channel)
        self.namespaces: Any = namespace_service_pb2_grpc.NamespaceServiceStub(channel)
        self.jobs: Any = job_service_pb2_grpc.JobServiceStub(channel)
        self.operator: Any = operator_service_pb2_grpc.OperatorServiceStub(channel)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    room = Room()
    metrics = Metrics()
    server = GrpcServer(room.frontend, "127.0.0.1:0", metrics=metrics)
    await server.start()
    options = (("grpc.max_send_message_length", -1),)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options) as channel:
        yield Served(room, server, metrics, channel)
    await server.stop(0)
