"""What a workflow's handle can do with updates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from perdure._client.core import ClientCore
from perdure._client.options import NO_ARGUMENT
from perdure._client.updates import WorkflowUpdateHandle, name_and_result, start_update
from perdure._wire.calls import Target
from perdure._wire.updates import WorkflowUpdateStage

if TYPE_CHECKING:
    from perdure.workflow import UpdateMethodMultiParam

S = TypeVar("S")
A = TypeVar("A")
R = TypeVar("R")
P = ParamSpec("P")


class HandleUpdates(Generic[S]):
    """The part of `WorkflowHandle` that is about updates. They reach the chain that `cancel` does."""

    _core: ClientCore
    _id: str
    _run_id: str | None
    _chain: str | None
    _target: Target

    @overload
    async def execute_update(
        self,
        update: UpdateMethodMultiParam[[S], R],
        *,
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> R: ...

    @overload
    async def execute_update(
        self,
        update: UpdateMethodMultiParam[[S, A], R],
        arg: A,
        *,
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> R: ...

    @overload
    async def execute_update(
        self,
        update: UpdateMethodMultiParam[Concatenate[S, P], R],
        *,
        args: Sequence[Any],
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> R: ...

    @overload
    async def execute_update(
        self,
        update: str,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        id: str | None = None,
        result_type: Any = Any,
        rpc_timeout: timedelta | None = None,
    ) -> Any: ...

    async def execute_update(
        self,
        update: Any,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        id: str | None = None,
        result_type: Any = Any,
        rpc_timeout: timedelta | None = None,
    ) -> Any:
        """What the update's handler returns. Waits without limit unless `rpc_timeout` sets one.

        Raises WorkflowUpdateFailedError when it was refused or failed. `id` makes the call
        repeatable, by others and later too: there is one outcome for all.
        """
        handle = await start_update(
            self._core,
            self._target,
            update,
            arg,
            args,
            wait_for_stage=WorkflowUpdateStage.COMPLETED,
            id=id,
            result_type=result_type,
            rpc_timeout=rpc_timeout,
            chain=self._chain,
        )
        return await handle.result(rpc_timeout=rpc_timeout)

    @overload
    async def start_update(
        self,
        update: UpdateMethodMultiParam[[S], R],
        *,
        wait_for_stage: WorkflowUpdateStage,
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowUpdateHandle[R]: ...

    @overload
    async def start_update(
        self,
        update: UpdateMethodMultiParam[[S, A], R],
        arg: A,
        *,
        wait_for_stage: WorkflowUpdateStage,
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowUpdateHandle[R]: ...

    @overload
    async def start_update(
        self,
        update: UpdateMethodMultiParam[Concatenate[S, P], R],
        *,
        args: Sequence[Any],
        wait_for_stage: WorkflowUpdateStage,
        id: str | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowUpdateHandle[R]: ...

    @overload
    async def start_update(
        self,
        update: str,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        wait_for_stage: WorkflowUpdateStage,
        id: str | None = None,
        result_type: Any = Any,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowUpdateHandle[Any]: ...

    async def start_update(
        self,
        update: Any,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        wait_for_stage: WorkflowUpdateStage,
        id: str | None = None,
        result_type: Any = Any,
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowUpdateHandle[Any]:
        """Returns when the stage is reached: ACCEPTED or COMPLETED. A refused update has completed:
        the handle's `result` raises."""
        return await start_update(
            self._core,
            self._target,
            update,
            arg,
            args,
            wait_for_stage=wait_for_stage,
            id=id,
            result_type=result_type,
            rpc_timeout=rpc_timeout,
            chain=self._chain,
        )

    def get_update_handle(
        self, id: str, *, workflow_run_id: str | None = None, result_type: Any = Any
    ) -> WorkflowUpdateHandle[Any]:
        """Asks nobody: that there is no such update is told by its `result`."""
        return WorkflowUpdateHandle(
            self._core,
            id,
            self._id,
            workflow_run_id=workflow_run_id or self._run_id,
            result_type=result_type,
        )

    def get_update_handle_for(
        self,
        update: UpdateMethodMultiParam[P, R],
        id: str,
        *,
        workflow_run_id: str | None = None,
    ) -> WorkflowUpdateHandle[R]:
        """The same, typed by the update's method."""
        _, result_type = name_and_result(update, Any)
        return self.get_update_handle(id, workflow_run_id=workflow_run_id, result_type=result_type)
