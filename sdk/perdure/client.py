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
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from perdure._client.async_activity import AsyncActivities, AsyncActivityHandle
from perdure._client.core import ClientCore
from perdure._client.handle import WorkflowHandle
from perdure._client.history import WorkflowHistory
from perdure._client.operator import Operator
from perdure._client.options import (
    NO_ARGUMENT,
    StartOptions,
    arguments,
    build_start,
    workflow_filter,
)
from perdure._client.updates import WorkflowUpdateHandle
from perdure._client.with_start import ClientUpdates, WithStartWorkflowOperation
from perdure._definitions import startable_workflow, workflow_definition
from perdure._wire.calls import signal_with_start_workflow, start_workflow
from perdure._wire.connection import Connection
from perdure._wire.errors import EngineError
from perdure._wire.explanation import WaitKind, WaitReason
from perdure._wire.history import HistoryEvent
from perdure._wire.operator_service import (
    ClusterInfo,
    NamespaceInfo,
    NodeInfo,
    TaskQueueInfo,
    TaskQueueKindInfo,
)
from perdure._wire.surroundings import Surroundings
from perdure._wire.updates import WorkflowUpdateStage
from perdure._wire.workflow_info import (
    PendingActivity,
    PendingActivityState,
    PendingTimer,
    PendingWorkflowTask,
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowExecutionCountAggregationGroup,
    WorkflowExecutionDescription,
)
from perdure.common import WorkflowStatus
from perdure.converter import DataConverter
from perdure.errors import (
    AsyncActivityCancelledError,
    RPCError,
    RPCStatusCode,
    RPCTimeoutOrCancelledError,
    WorkflowAlreadyStartedError,
    WorkflowContinuedAsNewError,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)

__all__ = [
    "AsyncActivityCancelledError",
    "AsyncActivityHandle",
    "Client",
    "ClusterInfo",
    "HistoryEvent",
    "NamespaceInfo",
    "NodeInfo",
    "Operator",
    "PendingActivity",
    "PendingActivityState",
    "PendingTimer",
    "PendingWorkflowTask",
    "RPCError",
    "RPCStatusCode",
    "RPCTimeoutOrCancelledError",
    "StartOptions",
    "TaskQueueInfo",
    "TaskQueueKindInfo",
    "WaitKind",
    "WaitReason",
    "WithStartWorkflowOperation",
    "WorkflowAlreadyStartedError",
    "WorkflowContinuedAsNewError",
    "WorkflowExecution",
    "WorkflowExecutionCount",
    "WorkflowExecutionCountAggregationGroup",
    "WorkflowExecutionDescription",
    "WorkflowExecutionStatus",
    "WorkflowFailureError",
    "WorkflowHandle",
    "WorkflowHistory",
    "WorkflowQueryFailedError",
    "WorkflowStatus",
    "WorkflowUpdateFailedError",
    "WorkflowUpdateHandle",
    "WorkflowUpdateRPCTimeoutOrCancelledError",
    "WorkflowUpdateStage",
]

S = TypeVar("S")
A = TypeVar("A")
R = TypeVar("R")
P = ParamSpec("P")

WorkflowExecutionStatus = WorkflowStatus  # Temporal's name

DEFAULT_TARGET = "localhost:7233"
# An engine that is up answers in milliseconds; one that is just starting, within this.
_CONNECT_TIMEOUT_S = 10.0
_PAGE_SIZE = 100


def _surroundings() -> Surroundings:
    return Surroundings(
        monotonic_s=time.monotonic,
        sleep=asyncio.sleep,
        random=random.random,
        new_uuid=lambda: str(uuid.uuid4()),
    )


class Client(ClientUpdates, AsyncActivities):
    """A connection to one namespace of an engine. Made by `connect`."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core
        self._operator = Operator(core)

    @classmethod
    async def connect(
        cls,
        target_host: str = DEFAULT_TARGET,
        *,
        namespace: str = "default",
        identity: str | None = None,
        data_converter: DataConverter = DataConverter.default,
        lazy: bool = False,
    ) -> Self:
        """Raises RPCError UNAVAILABLE when no engine answers within 10 s.

        `target_host` is HOST:PORT; ValueError for a web address, such as old programs of Temporal's
        SDK have.
        With `lazy` nothing is asked: the first call then meets whatever is there. `identity` is
        shown where a workflow's history says who asked; by default it is process and host.
        """
        if target_host.startswith(("http://", "https://")):
            raise ValueError(f"target_host is HOST:PORT, without the scheme: {target_host!r}")
        connection = Connection(target_host)
        if not lazy:
            try:
                await connection.wait_ready(_CONNECT_TIMEOUT_S)
            except BaseException:
                await connection.close()
                raise
        who = identity or f"{os.getpid()}@{socket.gethostname()}"
        return cls(ClientCore(connection, namespace, who, data_converter, _surroundings()))

    async def close(self) -> None:
        """Ends the connection; calls and waits that are under way fail. Closing twice is fine."""
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
        start = build_start(
            options,
            workflow_type=name,
            args=arguments(arg, args),
            namespace=core.namespace,
            identity=core.identity,
            request_id=core.surroundings.new_uuid(),
            converter=core.converter,
        )
        signal = options.get("start_signal")
        if signal is None:
            call = start_workflow(start)
        else:
            signal_args = core.converter.to_payloads(options.get("start_signal_args", ()))
            call = signal_with_start_workflow(start, signal, signal_args)
        try:
            started = await core.call(call, options.get("rpc_timeout"))
        except EngineError as error:
            if error.status is RPCStatusCode.ALREADY_EXISTS:
                run_id = error.facts.get("run_id")
                raise WorkflowAlreadyStartedError(options["id"], name, run_id=run_id) from None
            raise
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

    async def list_workflows(
        self,
        query: str | None = None,
        *,
        status: WorkflowStatus | Sequence[WorkflowStatus] = (),
        workflow_type: str = "",
        id_prefix: str = "",
        start_time_min: datetime | None = None,
        start_time_max: datetime | None = None,
        page_size: int = _PAGE_SIZE,
        limit: int | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> AsyncIterator[WorkflowExecution]:
        """Runs that fit every filter given, newest start first, fetched as they are read.

        `query` is a text like "WorkflowType = 'Order' AND Region IN ('eu', 'us') AND
        StartTime > '2h' ORDER BY CloseTime DESC": = != < <= > >=, IN, BETWEEN, STARTS_WITH, IS NULL,
        AND, OR, NOT over search attributes and WorkflowId, RunId, WorkflowType, TaskQueue,
        ExecutionStatus, StartTime, CloseTime, HistoryLength, HistorySizeBytes, Stuck.
        Start times are from `start_time_min`, inclusive, to `start_time_max`, exclusive.
        """
        core = self._core
        wanted = workflow_filter(status, workflow_type, id_prefix, start_time_min, start_time_max)
        text = query or ""
        left = limit
        token = b""
        while left is None or left > 0:
            size = page_size if left is None else min(page_size, left)

            async def page(
                timeout_s: float, size: int = size, token: bytes = token
            ) -> tuple[list[WorkflowExecution], bytes]:
                return await core.workflow_service.list_workflows(
                    core.namespace, wanted, text, size, token, core.decode_or_keep, timeout_s
                )

            executions, token = await core.unary(page, rpc_timeout)
            for execution in executions:
                yield execution
            if left is not None:
                left -= len(executions)
            if not token:
                return

    async def count_workflows(
        self,
        query: str | None = None,
        *,
        status: WorkflowStatus | Sequence[WorkflowStatus] = (),
        workflow_type: str = "",
        id_prefix: str = "",
        start_time_min: datetime | None = None,
        start_time_max: datetime | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowExecutionCount:
        """How many runs a list would show; `groups` when `query` has a GROUP BY ExecutionStatus or
        GROUP BY WorkflowType at its end."""
        core = self._core
        wanted = workflow_filter(status, workflow_type, id_prefix, start_time_min, start_time_max)
        return await core.unary(
            lambda timeout_s: core.workflow_service.count_workflows(
                core.namespace, wanted, query or "", timeout_s
            ),
            rpc_timeout,
        )
