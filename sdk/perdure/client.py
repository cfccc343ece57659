"""Starting workflows and talking to them.

    client = await Client.connect("localhost:7233")
    handle = await client.start_workflow(Greet.run, "Ada", id="greet-ada", task_queue="greetings")
    print(await handle.result())

A client belongs to the event loop in which it was connected, and one is enough for a process: calls
made at the same time travel together, and all waits for results share one stream. Calls are
repeated, with the same request id, while the engine is not available and their time lasts: 60 s
unless `rpc_timeout` says otherwise. Waiting for a result lasts as long as the workflow does.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from perdure import schedule as schedule_classes
from perdure._client import interceptors as interceptor_classes
from perdure._client import requests
from perdure._client.async_activity import AsyncActivities, AsyncActivityHandle
from perdure._client.core import ClientCore
from perdure._client.entities import ClientEntities, EntityHandle
from perdure._client.handle import WorkflowHandle
from perdure._client.history import WorkflowHistory
from perdure._client.interceptors import *  # noqa: F403 - public, all of it
from perdure._client.interceptors import Interceptor, StartWorkflowInput
from perdure._client.job_handle import JobHandle
from perdure._client.jobs import CreateJobOptions, Jobs
from perdure._client.lists import ClientLists, WorkflowExecutionAsyncIterator
from perdure._client.operator import Operator
from perdure._client.options import NO_ARGUMENT, StartOptions, arguments
from perdure._client.outbound import bind as bind_interceptors
from perdure._client.plugins import (
    ClientConfig,
    ConnectConfig,
    Plugin,
    ServiceClient,
    connected_by,
)
from perdure._client.schedules import ClientSchedules
from perdure._client.updates import WorkflowUpdateHandle
from perdure._client.with_start import ClientUpdates, WithStartWorkflowOperation
from perdure._definitions import startable_workflow, workflow_definition
from perdure._jobs import JobStatus
from perdure._versioning import WorkflowVersioningInfo
from perdure._wire.audit_service import AuditEntry, AuditHead, AuditVerification, BrokenChain
from perdure._wire.batch_service import (
    BatchOperationInfo,
    BatchOperationState,
    BatchOperationType,
)
from perdure._wire.calls import NO_HEADER
from perdure._wire.connection import Connection
from perdure._wire.explanation import WaitKind, WaitReason
from perdure._wire.history import HistoryEvent
from perdure._wire.job_info import JobBatchInfo, JobCount, JobDescription, JobFailure, JobInfo
from perdure._wire.operator_service import (
    ClusterInfo,
    NamespaceInfo,
    NodeInfo,
    TaskQueueInfo,
    TaskQueueKindInfo,
)
from perdure._wire.surroundings import Surroundings
from perdure._wire.updates import WorkflowUpdateStage
from perdure._wire.version_service import (
    WorkerDeployment,
    WorkerVersion,
    WorkerVersionReachability,
    WorkerVersionStatus,
)
from perdure._wire.workflow_info import (
    PendingActivity,
    PendingActivityState,
    PendingChildWorkflow,
    PendingTimer,
    PendingWorkflowTask,
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowExecutionCountAggregationGroup,
    WorkflowExecutionDescription,
)
from perdure.common import QueryRejectCondition, WorkflowStatus
from perdure.converter import DataConverter
from perdure.errors import (
    AsyncActivityCancelledError,
    JobCancelledError,
    JobError,
    JobFailedError,
    JobSkippedError,
    JobsRefusedError,
    RPCError,
    RPCStatusCode,
    RPCTimeoutOrCancelledError,
    WorkflowAlreadyStartedError,
    WorkflowContinuedAsNewError,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from perdure.schedule import *  # noqa: F403 - public, all of it

__all__ = [
    "AsyncActivityCancelledError",
    "AsyncActivityHandle",
    "AuditEntry",
    "AuditHead",
    "AuditVerification",
    "BatchOperationInfo",
    "BatchOperationState",
    "BatchOperationType",
    "BrokenChain",
    "Client",
    "ClientConfig",
    "ClusterInfo",
    "ConnectConfig",
    "CreateJobOptions",
    "EntityHandle",
    "HistoryEvent",
    "JobBatchInfo",
    "JobCancelledError",
    "JobCount",
    "JobDescription",
    "JobError",
    "JobFailedError",
    "JobFailure",
    "JobHandle",
    "JobInfo",
    "JobSkippedError",
    "JobStatus",
    "Jobs",
    "JobsRefusedError",
    "NamespaceInfo",
    "NodeInfo",
    "Operator",
    "PendingActivity",
    "PendingActivityState",
    "PendingChildWorkflow",
    "PendingTimer",
    "PendingWorkflowTask",
    "Plugin",
    "RPCError",
    "RPCStatusCode",
    "RPCTimeoutOrCancelledError",
    "ServiceClient",
    "StartOptions",
    "TaskQueueInfo",
    "TaskQueueKindInfo",
    "WaitKind",
    "WaitReason",
    "WithStartWorkflowOperation",
    "WorkerDeployment",
    "WorkerVersion",
    "WorkerVersionReachability",
    "WorkerVersionStatus",
    "WorkflowAlreadyStartedError",
    "WorkflowContinuedAsNewError",
    "WorkflowExecution",
    "WorkflowExecutionAsyncIterator",
    "WorkflowExecutionCount",
    "WorkflowExecutionCountAggregationGroup",
    "WorkflowExecutionDescription",
    "WorkflowExecutionStatus",
    "WorkflowFailureError",
    "WorkflowHandle",
    "WorkflowHistory",
    "WorkflowQueryFailedError",
    "WorkflowQueryRejectedError",
    "WorkflowStatus",
    "WorkflowUpdateFailedError",
    "WorkflowUpdateHandle",
    "WorkflowUpdateRPCTimeoutOrCancelledError",
    "WorkflowUpdateStage",
    "WorkflowVersioningInfo",
]
__all__ += interceptor_classes.__all__
__all__ += schedule_classes.__all__

S = TypeVar("S")
A = TypeVar("A")
R = TypeVar("R")
P = ParamSpec("P")

WorkflowExecutionStatus = WorkflowStatus  # Temporal's name

DEFAULT_TARGET = "localhost:7233"
# An engine that is up answers in milliseconds; one that is just starting, within this.
_CONNECT_TIMEOUT_S = 10.0


async def _connect(config: ConnectConfig) -> ServiceClient:
    connection = Connection(config.target_host)
    if not config.lazy:
        try:
            await connection.wait_ready(_CONNECT_TIMEOUT_S)
        except BaseException:
            await connection.close()
            raise
    return connection


def _surroundings() -> Surroundings:
    return Surroundings(
        monotonic_s=time.monotonic,
        sleep=asyncio.sleep,
        random=random.random,
        new_uuid=lambda: str(uuid.uuid4()),
    )


class Client(ClientUpdates, ClientLists, AsyncActivities, ClientEntities, ClientSchedules):
    """A connection to one namespace of an engine. Made by `connect`."""

    def __init__(
        self,
        service_client: ServiceClient,
        *,
        namespace: str = "default",
        identity: str | None = None,
        data_converter: DataConverter = DataConverter.default,
        interceptors: Sequence[Interceptor] = (),
        plugins: Sequence[Plugin] = (),
        default_workflow_query_reject_condition: QueryRejectCondition | None = None,
    ) -> None:
        """Another client on a connection that is there: `Client(**{**client.config(), …})`.

        Its `close` leaves the connection to the client that was connected. `plugins` may change it
        as in `connect`, except for how it connects.
        """
        config: ClientConfig = {
            "service_client": service_client,
            "namespace": namespace,
            "identity": identity,
            "data_converter": data_converter,
            "interceptors": interceptors,
            "plugins": plugins,
            "default_workflow_query_reject_condition": default_workflow_query_reject_condition,
        }
        for plugin in plugins:
            config = plugin.configure_client(config)
        who = config["identity"] or f"{os.getpid()}@{socket.gethostname()}"
        self._core = core = ClientCore(
            service_client, config["namespace"], who, config["data_converter"], _surroundings()
        )
        core.plugins = plugins
        core.query_reject_condition = config["default_workflow_query_reject_condition"]
        bind_interceptors(core, config["interceptors"])
        self._operator = Operator(core)
        self._jobs = Jobs(core)

    @classmethod
    async def connect(
        cls,
        target_host: str = DEFAULT_TARGET,
        *,
        namespace: str = "default",
        identity: str | None = None,
        data_converter: DataConverter = DataConverter.default,
        lazy: bool = False,
        interceptors: Sequence[Interceptor] = (),
        plugins: Sequence[Plugin] = (),
        default_workflow_query_reject_condition: QueryRejectCondition | None = None,
    ) -> Self:
        """Raises RPCError UNAVAILABLE when no engine answers within 10 s.

        `target_host` is HOST:PORT; ValueError for a web address, such as old programs of Temporal's
        SDK have.
        With `lazy` nothing is asked: the first call then meets whatever is there. `identity` is
        shown where a workflow's history says who asked; by default it is process and host.
        `interceptors` are around every call, the first one outermost; `plugins` may change all of
        this. Either that is for workers too serves every worker of this client.
        `default_workflow_query_reject_condition` is that of queries which give none.
        """
        if target_host.startswith(("http://", "https://")):
            raise ValueError(f"target_host is HOST:PORT, without the scheme: {target_host!r}")
        connection = await connected_by(plugins, _connect)(ConnectConfig(target_host, lazy))
        try:
            client = cls(
                connection,
                namespace=namespace,
                identity=identity,
                data_converter=data_converter,
                interceptors=interceptors,
                plugins=plugins,
                default_workflow_query_reject_condition=default_workflow_query_reject_condition,
            )
        except BaseException:  # of a plug-in or an interceptor
            await connection.close()
            raise
        client._core.owns_connection = True
        return client

    def config(self) -> ClientConfig:
        """What it is made of, after its plug-ins: the arguments of `Client`."""
        core = self._core
        return {
            "service_client": core.connection,
            "namespace": core.namespace,
            "identity": core.identity,
            "data_converter": core.data_converter,
            "interceptors": core.interceptors,
            "plugins": core.plugins,
            "default_workflow_query_reject_condition": core.query_reject_condition,
        }

    async def close(self) -> None:
        """Ends the connection, if this client made it; calls and waits of this client that are under
        way fail. Closing twice is fine."""
        await self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def core(self) -> ClientCore:
        """For Perdure's own worker, not part of what is promised to others."""
        return self._core

    @property
    def namespace(self) -> str:
        return self._core.namespace

    @property
    def identity(self) -> str:
        return self._core.identity

    @property
    def data_converter(self) -> DataConverter:
        return self._core.data_converter

    @property
    def operator(self) -> Operator:
        """Namespaces, task queues, the cluster."""
        return self._operator

    @property
    def jobs(self) -> Jobs:
        """Functions that run once each, now or at a time, without a workflow behind them."""
        return self._jobs

    @overload
    async def start_workflow(
        self, workflow: Callable[[S], Awaitable[R]], **options: Unpack[StartOptions]
    ) -> WorkflowHandle[S, R]: ...

    @overload
    async def start_workflow(
        self, workflow: Callable[[S, A], Awaitable[R]], arg: A, **options: Unpack[StartOptions]
    ) -> WorkflowHandle[S, R]: ...

    @overload
    async def start_workflow(
        self,
        workflow: Callable[Concatenate[S, P], Awaitable[R]],
        *,
        args: Sequence[Any],
        **options: Unpack[StartOptions],
    ) -> WorkflowHandle[S, R]: ...

    @overload
    async def start_workflow(
        self,
        workflow: str,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        result_type: Any = Any,
        **options: Unpack[StartOptions],
    ) -> WorkflowHandle[Any, Any]: ...

    async def start_workflow(
        self,
        workflow: str | Callable[..., Awaitable[Any]],
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        result_type: Any = Any,
        **options: Unpack[StartOptions],
    ) -> WorkflowHandle[Any, Any]:
        """Returns when the start is saved: from then on the workflow runs, whatever dies.

        `workflow` is the run method of a workflow class, or a name. Options: see `StartOptions`.
        Raises WorkflowAlreadyStartedError when the id is taken and the policies do not allow it.
        """
        core = self._core
        if isinstance(workflow, str):
            name = workflow
        else:
            definition = startable_workflow(workflow)
            name, result_type = definition.name, definition.signature.result
        values = arguments(arg, args)
        if core.outbound is not None:
            asked = StartWorkflowInput(
                workflow=name, args=values, headers=NO_HEADER, ret_type=result_type, **options
            )
            return await core.outbound.start_workflow(asked)
        started = await requests.start(core, name, values, options, None)
        return WorkflowHandle(
            core,
            options["id"],
            result_run_id=started.run_id,
            first_execution_run_id=started.run_id,
            chain=started.run_id if started.started else None,
            result_type=result_type,
        )

    @overload
    async def execute_workflow(
        self, workflow: Callable[[S], Awaitable[R]], **options: Unpack[StartOptions]
    ) -> R: ...

    @overload
    async def execute_workflow(
        self, workflow: Callable[[S, A], Awaitable[R]], arg: A, **options: Unpack[StartOptions]
    ) -> R: ...

    @overload
    async def execute_workflow(
        self,
        workflow: Callable[Concatenate[S, P], Awaitable[R]],
        *,
        args: Sequence[Any],
        **options: Unpack[StartOptions],
    ) -> R: ...

    @overload
    async def execute_workflow(
        self,
        workflow: str,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        result_type: Any = Any,
        **options: Unpack[StartOptions],
    ) -> Any: ...

    async def execute_workflow(
        self,
        workflow: Any,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        result_type: Any = Any,
        **options: Unpack[StartOptions],
    ) -> Any:
        """`start_workflow`, then the handle's `result`; `rpc_timeout` is that of the start."""
        handle: WorkflowHandle[Any, Any] = await self.start_workflow(
            workflow, arg, args=args, result_type=result_type, **options
        )
        return await handle.result()

    def get_workflow_handle(
        self,
        workflow_id: str,
        *,
        run_id: str | None = None,
        first_execution_run_id: str | None = None,
        result_type: Any = Any,
    ) -> WorkflowHandle[Any, Any]:
        """Asks nobody: that there is no such workflow is told by the first call."""
        return WorkflowHandle(
            self._core,
            workflow_id,
            run_id=run_id,
            result_run_id=run_id,
            first_execution_run_id=first_execution_run_id,
            chain=first_execution_run_id,
            result_type=result_type,
        )

    def get_workflow_handle_for(
        self,
        workflow: Callable[Concatenate[S, P], Awaitable[R]],
        workflow_id: str,
        *,
        run_id: str | None = None,
        first_execution_run_id: str | None = None,
    ) -> WorkflowHandle[S, R]:
        """The same, typed by the run method of the workflow's class."""
        return self.get_workflow_handle(
            workflow_id,
            run_id=run_id,
            first_execution_run_id=first_execution_run_id,
            result_type=workflow_definition(workflow).signature.result,
        )
