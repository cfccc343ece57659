"""An update as its client holds it, and how it is asked for until it is decided.

A call is repeated with the same update id until the update is accepted or has failed: from then on it has an outcome,
and is only asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar

from perdure._client.core import ClientCore, seconds
from perdure._client.interceptors import (
    StartWorkflowUpdateInput,
    UpdateWithStartUpdateWorkflowInput,
)
from perdure._client.options import arguments
from perdure._definitions import update_definition
from perdure._failures import failure_to_exception
from perdure._wire.calls import NO_HEADER, Start, Target
from perdure._wire.updates import UpdateAnswer, UpdateRequest, WorkflowUpdateStage
from perdure.errors import (
    RPCError,
    RPCStatusCode,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)

R = TypeVar("R")

# One wait stays parked in the engine for so long; the contract's maximum is 60 s.
_WAIT_MS = 20_000
_TIME_IS_UP = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)

Send = Callable[[int, float], Awaitable[UpdateAnswer]]
"""Asks once: how long the engine may wait (ms), and how long the call may take (s)."""


class WorkflowUpdateHandle(Generic[R]):
    """An update that was accepted, or whose id is known. Making one asks nobody."""

    def __init__(
        self,
        core: ClientCore,
        id: str,
        workflow_id: str,
        *,
        workflow_run_id: str | None = None,
        result_type: Any = Any,
        known: UpdateAnswer | None = None,
    ) -> None:
        self._core = core
        self._id = id
        self._workflow_id = workflow_id
        self._workflow_run_id = workflow_run_id
        self._result_type = result_type
        self._known = known  # its outcome

    @property
    def id(self) -> str:
        return self._id

    @property
    def workflow_id(self) -> str:
        return self._workflow_id

    @property
    def workflow_run_id(self) -> str | None:
        return self._workflow_run_id

    @property
    def has_failed(self) -> bool:
        """It is known already to have been refused or to have failed."""
        return self._known is not None and self._known.failure is not None

    async def result(self, *, rpc_timeout: timedelta | None = None) -> R:
        """Waits for the outcome, without limit unless `rpc_timeout` sets one.

        Raises WorkflowUpdateFailedError, whose cause says why, when the update was refused or
        failed; WorkflowUpdateRPCTimeoutOrCancelledError when the time was up.
        """
        converter = self._core.converter
        outcome = await self.outcome(rpc_timeout)
        if outcome.failure is not None:
            raise WorkflowUpdateFailedError(failure_to_exception(outcome.failure, converter))
        payloads = outcome.result
        value: R = (
            converter.from_payload(payloads[0], self._result_type) if payloads else None  # type: ignore[assignment]  # a result without a value
        )
        return value

    async def outcome(self, rpc_timeout: timedelta | None) -> UpdateAnswer:
        """As `result`, and not yet made into a value or an error."""
        if self._known is None:
            core, completed = self._core, WorkflowUpdateStage.COMPLETED
            target = Target(core.namespace, self._workflow_id, self._workflow_run_id or "")

            async def poll(wait_ms: int, timeout_s: float) -> UpdateAnswer:
                return await core.update_service.poll(
                    target, self._id, completed, wait_ms, timeout_s
                )

            self._known = await _until(core, poll, completed, rpc_timeout)
        return self._known


async def start_update(
    core: ClientCore,
    target: Target,
    update: str | Callable[..., Any],
    arg: Any,
    args: Sequence[Any],
    *,
    wait_for_stage: WorkflowUpdateStage,
    id: str | None,
    result_type: Any,
    rpc_timeout: timedelta | None,
    chain: str | None = None,
) -> WorkflowUpdateHandle[Any]:
    """Returns when the stage is reached, or raises."""
    name, result_type = name_and_result(update, result_type)
    asked = StartWorkflowUpdateInput(
        id=target.workflow_id,
        run_id=target.run_id or None,
        update_id=id,
        update=name,
        args=arguments(arg, args),
        wait_for_stage=wait_for_stage,
        headers=NO_HEADER,
        ret_type=result_type,
        rpc_timeout=rpc_timeout,
        first_execution_run_id=chain,
    )
    if core.outbound is not None:
        return await core.outbound.start_workflow_update(asked)
    return await send_update(core, target, asked)


async def send_update(
    core: ClientCore,
    to: Target | Start,
    asked: StartWorkflowUpdateInput | UpdateWithStartUpdateWorkflowInput,
) -> WorkflowUpdateHandle[Any]:
    """Behind all interceptors: to a run, or with the start of one."""
    wait_for_stage, rpc_timeout = asked.wait_for_stage, asked.rpc_timeout
    if wait_for_stage is WorkflowUpdateStage.ADMITTED:
        raise ValueError("wait for ACCEPTED or COMPLETED: an admitted update may yet be refused")
    chain = asked.first_execution_run_id if isinstance(asked, StartWorkflowUpdateInput) else None
    request = UpdateRequest(
        asked.update_id or core.surroundings.new_uuid(),
        asked.update,
        core.converter.to_payloads(asked.args),
        asked.headers,
        chain or "",
    )

    async def send(wait_ms: int, timeout_s: float) -> UpdateAnswer:
        service = core.update_service
        if isinstance(to, Start):
            return await service.update_with_start(to, request, wait_for_stage, wait_ms, timeout_s)
        return await service.update(to, request, core.identity, wait_for_stage, wait_ms, timeout_s)

    answer = await _until(core, send, WorkflowUpdateStage.ACCEPTED, rpc_timeout)
    completed = answer.stage is WorkflowUpdateStage.COMPLETED
    handle: WorkflowUpdateHandle[Any] = WorkflowUpdateHandle(
        core,
        request.update_id,
        to.workflow_id,
        workflow_run_id=answer.run_id,
        result_type=asked.ret_type,
        known=answer if completed else None,
    )
    if wait_for_stage is WorkflowUpdateStage.COMPLETED:
        await handle.outcome(rpc_timeout)
    return handle


def name_and_result(update: str | Callable[..., Any], result_type: Any) -> tuple[str, Any]:
    if isinstance(update, str):
        return update, result_type
    definition = update_definition(update)
    if definition.name is None:
        raise TypeError("a dynamic update has no name of its own: give the name as a text")
    return definition.name, definition.signature.result


async def _until(
    core: ClientCore, send: Send, stage: WorkflowUpdateStage, rpc_timeout: timedelta | None
) -> UpdateAnswer:
    """Asks again until the stage is reached, or the time is up."""
    loop = asyncio.get_running_loop()
    deadline_s = None if rpc_timeout is None else loop.time() + rpc_timeout.total_seconds()
    left_s = seconds(rpc_timeout)
    while True:
        wait_ms = _WAIT_MS if deadline_s is None else max(1, min(_WAIT_MS, int(left_s * 1000)))
        try:
            answer = await core.unary(
                lambda timeout_s, wait_ms=wait_ms: send(wait_ms, timeout_s),  # type: ignore[misc]
                timedelta(seconds=left_s),
            )
        except RPCError as error:
            if error.status in _TIME_IS_UP:
                raise WorkflowUpdateRPCTimeoutOrCancelledError from error
            raise
        if answer.stage >= stage:
            return answer
        if deadline_s is not None:
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                raise WorkflowUpdateRPCTimeoutOrCancelledError
