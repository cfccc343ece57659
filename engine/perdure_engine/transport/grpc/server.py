"""The gRPC server: its services, its limits, its start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Never

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # no stubs are published for it
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]  # likewise
    reflection,
    reflection_pb2_grpc,
)

from perdure_api.internal.v1 import engine_service_pb2
from perdure_api.v1 import (
    audit_service_pb2,
    batch_service_pb2,
    job_service_pb2,
    namespace_service_pb2,
    operator_service_pb2,
    schedule_service_pb2,
    version_service_pb2,
    worker_service_pb2,
    workflow_service_pb2,
)
from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.delivery import Receiver
from perdure_engine.ports.metrics import Metrics
from perdure_engine.transport.grpc.ages import Ageing
from perdure_engine.transport.grpc.audit_service import AuditService
from perdure_engine.transport.grpc.batch_service import BatchService
from perdure_engine.transport.grpc.decode import method_handlers
from perdure_engine.transport.grpc.engine_service import EngineService
from perdure_engine.transport.grpc.errors import Errors
from perdure_engine.transport.grpc.job_service import JobService
from perdure_engine.transport.grpc.namespace_service import NamespaceService
from perdure_engine.transport.grpc.operator_service import OperatorService
from perdure_engine.transport.grpc.schedule_service import ScheduleService
from perdure_engine.transport.grpc.version_service import VersionService
from perdure_engine.transport.grpc.worker_service import WorkerService
from perdure_engine.transport.grpc.workflow_service import WorkflowService

# No maximum_concurrent_rpcs: it counts parked polls, and with 50 the 51st is refused at once.
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", limits.REQUEST_BYTES_MAX),
    # One task may hold an input and progress of 2 MiB each; answers are cut before they come here.
    ("grpc.max_send_message_length", 2 * limits.REQUEST_BYTES_MAX),
    ("grpc.keepalive_time_ms", 30_000),  # a client that vanished is noticed, and its polls end
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),  # clients may ask as often
    # Two servers on one port would share its connections without a word.
    ("grpc.so_reuseport", 0),
)


class Methods(grpc.GenericRpcHandler):
    """All methods of the server, found by name.

    Not registered with it: for each call that comes, grpc.aio waits anew for a call of every registered method, which
    costs 1.5 µs of CPU for each of them (60 methods doubled what a call costs an idle engine).
    """

    def __init__(self, errors: Errors) -> None:
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        self._errors = errors
        self._too_much_metadata: grpc.RpcMethodHandler[Any, Any] = (
            grpc.unary_unary_rpc_method_handler(self._refuse_metadata)
        )

    def add(self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]) -> None:
        self._handlers |= {f"/{service}/{name}": handler for name, handler in handlers.items()}

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        if len(handler_call_details.invocation_metadata) > limits.CALL_METADATA_MAX:
            return self._too_much_metadata
        return self._handlers.get(handler_call_details.method)

    async def _refuse_metadata(
        self, _: bytes, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Never:
        refusal = Rejected(
            Code.RESOURCE_EXHAUSTED,
            "TOO_MUCH_METADATA",
            f"a call may have at most {limits.CALL_METADATA_MAX} keys of metadata",
        )
        await self._errors.abort(context, self._errors.status(refusal))

    # ---- what generated code takes for a server

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        self.add(service, handlers)

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """The same methods, told a second time."""


class GrpcServer:
    """Serves a frontend on one address. Start once; stop waits; stopping twice is fine."""

    def __init__(
        self,
        frontend: Frontend,
        address: str,
        receiver: Receiver | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """`address` is host:port; port 0 takes a free one, which `port` tells after `start`. `receiver` None: there
        are no other nodes."""
        self._metrics = metrics or Metrics()
        self._frontend = frontend
        self._receiver = receiver
        self._address = address
        self._server: grpc.aio.Server | None = None
        self._health = health.aio.HealthServicer()
        self._port = 0

    @property
    def port(self) -> int:
        assert self._port, "started servers have a port"
        return self._port

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be bound."""
        assert self._server is None, "start once"
        self._server = server = grpc.aio.server(options=OPTIONS)
        errors = Errors(self._frontend.ids)
        names = []
        methods = Methods(errors)
        for service, servicer in self._services(errors):
            methods.add(
                service.full_name, method_handlers(service, servicer, errors, self._metrics)
            )
            names.append(service.full_name)
        server.add_generic_rpc_handlers((methods,))
        ageing = Ageing(methods)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, ageing)
        reflector = reflection.aio.ReflectionServicer(
            [*names, health.SERVICE_NAME, reflection.SERVICE_NAME]
        )
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflector, ageing)
        try:
            self._port = server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self._address}") from error
        for name in ("", *names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await server.start()

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls, answer what waits as if its time were over, let the others finish.

        What is not done after `grace_s` is aborted.
        """
        if self._server is None:
            return
        await self._health.enter_graceful_shutdown()
        stopping = asyncio.get_running_loop().create_task(self._server.stop(grace_s))
        self._frontend.parking.close()
        await stopping

    def _services(self, errors: Errors) -> list[tuple[ServiceDescriptor, object]]:
        def named(module: object, name: str) -> ServiceDescriptor:
            descriptor: ServiceDescriptor = module.DESCRIPTOR.services_by_name[name]  # type: ignore[attr-defined]  # generated
            return descriptor

        frontend = self._frontend
        engine: list[tuple[ServiceDescriptor, object]] = []
        if self._receiver is not None:
            service = EngineService(frontend, self._receiver)
            engine.append((named(engine_service_pb2, "EngineService"), service))
        return [
            (
                named(workflow_service_pb2, "WorkflowService"),
                WorkflowService(frontend, errors),
            ),
            (named(worker_service_pb2, "WorkerService"), WorkerService(frontend, errors)),
            (named(namespace_service_pb2, "NamespaceService"), NamespaceService(frontend)),
            (named(operator_service_pb2, "OperatorService"), OperatorService(frontend)),
            (named(version_service_pb2, "VersionService"), VersionService(frontend)),
            (named(audit_service_pb2, "AuditService"), AuditService(frontend)),
            (named(batch_service_pb2, "BatchService"), BatchService(frontend)),
            (named(job_service_pb2, "JobService"), JobService(frontend, errors)),
            (named(schedule_service_pb2, "ScheduleService"), ScheduleService(frontend)),
            *engine,
        ]
