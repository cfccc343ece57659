"""Update-with-start: one transaction, neither without the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from perdure._client.core import ClientCore
from perdure._client.handle import WorkflowHandle
from perdure._client.interceptors import (
    StartWorkflowUpdateWithStartInput,
    UpdateWithStartStartWorkflowInput,
    UpdateWithStartUpdateWorkflowInput,
)
from perdure._client.options import NO_ARGUMENT, StartOptions, arguments
from perdure._client.outbound import RootOutbound
from perdure._client.updates import WorkflowUpdateHandle, name_and_result
from perdure._definitions import workflow_definition
from perdure._wire.calls import NO_HEADER
from perdure._wire.errors import EngineError
from perdure._wire.updates import WorkflowUpdateStage
from perdure.common import WorkflowIdConflictPolicy
from perdure.errors import RPCStatusCode, WorkflowAlreadyStartedError

if TYPE_CHECKING:
    from perdure.workflow import UpdateMethodMultiParam

S = TypeVar("S")
A = TypeVar("A")
R = TypeVar("R")
U = TypeVar("U")
P = ParamSpec("P")

_COMPLETED = WorkflowUpdateStage.COMPLETED


class WithStartWorkflowOperation(Generic[S, R]):
    """A start that goes along with an update; for one call. Its `id_conflict_policy` must be said."""

    @overload
    def __init__(
        self, workflow: Callable[[S], Awaitable[R]], **options: Unpack[StartOptions]
    ) -> None: ...

    @overload
    def __init__(
        self, workflow: Callable[[S, A], Awaitable[R]], arg: A, **options: Unpack[StartOptions]
    ) -> None: ...

    @overload
    def __init__(
        self,
        workflow: Callable[Concatenate[S, P], Awaitable[R]],
        *,
        args: Sequence[Any],
        **options: Unpack[StartOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: WithStartWorkflowOperation[Any, Any],
        workflow: str,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        result_type: Any = Any,
        **options: Unpack[StartOptions],
    ) -> None: ...

    def __init__(
        self,
        workflow: str | Callable[..., Awaitable[Any]],
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        result_type: Any = Any,
        **options: Unpack[StartOptions],
    ) -> None:
        if isinstance(workflow, str):
            self.workflow_type, self.result_type = workflow, result_type
        else:
            definition = workflow_definition(workflow)
            self.workflow_type, self.result_type = definition.name, definition.signature.result
        unsaid = WorkflowIdConflictPolicy.UNSPECIFIED
        if options.get("id_conflict_policy", unsaid) is unsaid:
            raise ValueError("id_conflict_policy is required: what if a run with that id is open?")
        if "start_signal" in options:
            raise ValueError("a start goes along with a signal or with an update, not with both")
        self.args = arguments(arg, args)
        self.options: StartOptions = options
        self._used = False
        self._known = asyncio.Event()
        self._handle: WorkflowHandle[S, R] | None = None
        self._error: BaseException | None = None

    async def workflow_handle(self) -> WorkflowHandle[S, R]:
        """Of the run that was started or used: waits for the call, and raises what it raised."""
        await self._known.wait()
        if self._handle is None:
            assert self._error is not None
            raise self._error
        return self._handle

    def settle(self, core: ClientCore, run_id: str) -> None:
        """The call was answered: this is its run."""
        self._handle = WorkflowHandle(
            core,
            self.options["id"],
            result_run_id=run_id,
            first_execution_run_id=run_id,
            result_type=self.result_type,
        )
        self._known.set()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._known.set()

    def take(self) -> UpdateWithStartStartWorkflowInput:
        """For the one call that it is for; RuntimeError for a second one."""
        if self._used:
            raise RuntimeError("a WithStartWorkflowOperation is for one call: make a new one")
        self._used = True
        options: dict[str, Any] = {**self.options}
        return UpdateWithStartStartWorkflowInput(
            workflow=self.workflow_type,
            args=self.args,
            headers=NO_HEADER,
            ret_type=self.result_type,
            **options,
        )


class ClientUpdates:
    """The part of `Client` that is about updates."""

    _core: ClientCore

    @overload
    async def execute_update_with_start_workflow(
        self,
        update: UpdateMethodMultiParam[[S], U],
        *,
        start_workflow_operation: WithStartWorkflowOperation[S, Any],
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> U: ...

    @overload
    async def execute_update_with_start_workflow(
        self,
        update: UpdateMethodMultiParam[[S, A], U],
        arg: A,
        *,
        start_workflow_operation: WithStartWorkflowOperation[S, Any],
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> U: ...

    @overload
    async def execute_update_with_start_workflow(
        self,
        update: UpdateMethodMultiParam[Concatenate[S, P], U],
        *,
        args: Sequence[Any],
        start_workflow_operation: WithStartWorkflowOperation[S, Any],
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> U: ...

    @overload
    async def execute_update_with_start_workflow(
        self,
        update: str,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        start_workflow_operation: WithStartWorkflowOperation[Any, Any],
        id: str | None = None,
        result_type: Any = Any,
        rpc_timeout: timedelta | None = None,
    ) -> Any: ...

    async def execute_update_with_start_workflow(
        self,
        update: Any,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        start_workflow_operation: WithStartWorkflowOperation[Any, Any],
        id: str | None = None,
        result_type: Any = Any,
        rpc_timeout: timedelta | None = None,
    ) -> Any:
        """Starts a workflow, or takes the open one of that id, and updates it: one transaction.

        Returns what the update's handler returns; raises as `WorkflowHandle.execute_update` and
        `start_workflow` do.
        """
        handle = await self._update_with_start(
            update, arg, args, start_workflow_operation, _COMPLETED, id, result_type, rpc_timeout
        )
        return await handle.result(rpc_timeout=rpc_timeout)

    @overload
    async def start_update_with_start_workflow(
        self,
        update: UpdateMethodMultiParam[[S], U],
        *,
        wait_for_stage: WorkflowUpdateStage,
        start_workflow_operation: WithStartWorkflowOperation[S, Any],
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowUpdateHandle[U]: ...

    @overload
    async def start_update_with_start_workflow(
        self,
        update: UpdateMethodMultiParam[[S, A], U],
        arg: A,
        *,
        wait_for_stage: WorkflowUpdateStage,
        start_workflow_operation: WithStartWorkflowOperation[S, Any],
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowUpdateHandle[U]: ...

    @overload
    async def start_update_with_start_workflow(
        self,
        update: UpdateMethodMultiParam[Concatenate[S, P], U],
        *,
        args: Sequence[Any],
        wait_for_stage: WorkflowUpdateStage,
        start_workflow_operation: WithStartWorkflowOperation[S, Any],
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowUpdateHandle[U]: ...

    @overload
    async def start_update_with_start_workflow(
        self,
        update: str,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        wait_for_stage: WorkflowUpdateStage,
        start_workflow_operation: WithStartWorkflowOperation[Any, Any],
        id: str | None = None,
        result_type: Any = Any,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowUpdateHandle[Any]: ...

    async def start_update_with_start_workflow(
        self,
        update: Any,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        wait_for_stage: WorkflowUpdateStage,
        start_workflow_operation: WithStartWorkflowOperation[Any, Any],
        id: str | None = None,
        result_type: Any = Any,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowUpdateHandle[Any]:
        """The same, without waiting for more than the stage."""
        return await self._update_with_start(
            update,
            arg,
            args,
            start_workflow_operation,
            wait_for_stage,
            id,
            result_type,
            rpc_timeout,
        )

    async def _update_with_start(
        self,
        update: Any,
        arg: Any,
        args: Sequence[Any],
        operation: WithStartWorkflowOperation[Any, Any],
        wait_for_stage: WorkflowUpdateStage,
        id: str | None,
        result_type: Any,
        rpc_timeout: timedelta | None,
    ) -> WorkflowUpdateHandle[Any]:
        core, start = self._core, operation.take()
        try:
            name, result_type = name_and_result(update, result_type)
            asked = UpdateWithStartUpdateWorkflowInput(
                update_id=id,
                update=name,
                args=arguments(arg, args),
                wait_for_stage=wait_for_stage,
                headers=NO_HEADER,
                ret_type=result_type,
                rpc_timeout=rpc_timeout,
            )
            outbound = core.outbound or RootOutbound(core)
            handle = await outbound.start_update_with_start_workflow(
                StartWorkflowUpdateWithStartInput(
                    start_workflow_input=start, update_workflow_input=asked
                )
            )
        except BaseException as error:
            told = _told(error, operation)
            operation.fail(told)
            raise told from None
        operation.settle(self._core, handle.workflow_run_id or "")
        return handle


def _told(error: BaseException, operation: WithStartWorkflowOperation[Any, Any]) -> BaseException:
    if isinstance(error, EngineError) and error.status is RPCStatusCode.ALREADY_EXISTS:
        return WorkflowAlreadyStartedError(
            operation.options["id"], operation.workflow_type, run_id=error.facts.get("run_id")
        )
    return error
