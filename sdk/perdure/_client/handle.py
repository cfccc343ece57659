"""A workflow as its client holds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from perdure._client.core import ClientCore
from perdure._client.handle_updates import HandleUpdates
from perdure._client.history import WorkflowHistory, run_id_of
from perdure._client.options import NO_ARGUMENT, arguments
from perdure._definitions import query_definition, signal_definition
from perdure._failures import failure_to_exception
from perdure._wire.calls import (
    Target,
    cancel_workflow,
    delete_workflow,
    describe_workflow,
    query_workflow,
    signal_workflow,
    terminate_workflow,
)
from perdure._wire.explanation import WaitReason
from perdure._wire.history import HistoryEvent
from perdure._wire.results import RunResult
from perdure._wire.workflow_info import WorkflowExecutionDescription
from perdure.common import WorkflowStatus
from perdure.converter import Payload, PayloadConverter
from perdure.errors import (
    FailureError,
    RPCError,
    WorkflowContinuedAsNewError,
    WorkflowFailureError,
    WorkflowQueryFailedError,
)

S = TypeVar("S")
A = TypeVar("A")
Q = TypeVar("Q")
R = TypeVar("R")
P = ParamSpec("P")

# The engine's word for a query whose code raised.
_QUERY_FAILED = "QUERY_FAILED"
# How long one wait for new events of a history stays parked; the contract's maximum is 60 s.
_HISTORY_WAIT_MS = 50_000


class WorkflowHandle(HandleUpdates[S], Generic[S, R]):
    """A workflow of the type S, whose run returns R. Making one asks nobody.

    Calls go to `run_id`, or when that is None to whatever run of the id is current. `result` waits
    for `result_run_id`: for a handle from a start the run that was started. Every call takes
    `rpc_timeout` and raises RPCError: NOT_FOUND when there is no such run, DEADLINE_EXCEEDED when
    the time was up.
    """

    def __init__(
        self,
        core: ClientCore,
        id: str,
        *,
        run_id: str | None = None,
        result_run_id: str | None = None,
        first_execution_run_id: str | None = None,
        chain: str | None = None,
        result_type: Any = Any,
    ) -> None:
        self._core = core
        self._id = id
        self._run_id = run_id
        self._result_run_id = result_run_id
        self._first_execution_run_id = first_execution_run_id
        # First run of the only chain that may be cancelled or terminated; None: of any.
        self._chain = chain
        self._result_type = result_type
        self._target = Target(core.namespace, id, run_id or "")

    @property
    def id(self) -> str:
        return self._id

    @property
    def run_id(self) -> str | None:
        """The run that calls go to; None: the current one."""
        return self._run_id

    @property
    def result_run_id(self) -> str | None:
        """The run that `result` waits for; None: the current one when it is called."""
        return self._result_run_id

    @property
    def first_execution_run_id(self) -> str | None:
        """The run that was started, when this handle comes from a start."""
        return self._first_execution_run_id

    async def result(self, *, follow_runs: bool = True, rpc_timeout: timedelta | None = None) -> R:
        """Waits until the run has closed, without limit unless `rpc_timeout` sets one.

        `follow_runs`: when another run follows (continue-as-new, retry, cron), that one is waited
        for. Without it a run that continued as new raises WorkflowContinuedAsNewError. Raises
        WorkflowFailureError, whose cause says how, when it did not complete.
        """
        core = self._core
        target = Target(core.namespace, self._id, self._result_run_id or "")
        outcome = await core.result(target, rpc_timeout, follow_runs=follow_runs)
        if outcome.status is WorkflowStatus.CONTINUED_AS_NEW:
            raise WorkflowContinuedAsNewError(outcome.next_run_id)
        if outcome.status is not WorkflowStatus.COMPLETED:
            raise WorkflowFailureError(cause=_failure_of(outcome, core.converter))
        result: R = _only_value(outcome.result, self._result_type, core.converter)
        return result

    @overload
    async def signal(
        self,
        signal: Callable[[S], Awaitable[None] | None],
        *,
        rpc_timeout: timedelta | None = None,
    ) -> None: ...

    @overload
    async def signal(
        self,
        signal: Callable[[S, A], Awaitable[None] | None],
        arg: A,
        *,
        rpc_timeout: timedelta | None = None,
    ) -> None: ...

    @overload
    async def signal(
        self,
        signal: Callable[Concatenate[S, P], Awaitable[None] | None],
        *,
        args: Sequence[Any],
        rpc_timeout: timedelta | None = None,
    ) -> None: ...

    @overload
    async def signal(
        self,
        signal: str,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        rpc_timeout: timedelta | None = None,
    ) -> None: ...

    async def signal(
        self,
        signal: str | Callable[..., Any],
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        rpc_timeout: timedelta | None = None,
    ) -> None:
        """Returns when the signal is saved. The workflow sees it exactly once."""
        core = self._core
        name = signal if isinstance(signal, str) else signal_definition(signal).name
        call = signal_workflow(
            self._target,
            name,
            core.converter.to_payloads(arguments(arg, args)),
            request_id=core.surroundings.new_uuid(),
            identity=core.identity,
        )
        await core.call(call, rpc_timeout)

    @overload
    async def query(
        self, query: Callable[[S], Q], *, rpc_timeout: timedelta | None = None
    ) -> Q: ...

    @overload
    async def query(
        self, query: Callable[[S, A], Q], arg: A, *, rpc_timeout: timedelta | None = None
    ) -> Q: ...

    @overload
    async def query(
        self,
        query: Callable[Concatenate[S, P], Q],
        *,
        args: Sequence[Any],
        rpc_timeout: timedelta | None = None,
    ) -> Q: ...

    @overload
    async def query(
        self,
        query: str,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        result_type: Any = Any,
        rpc_timeout: timedelta | None = None,
    ) -> Any: ...

    async def query(
        self,
        query: str | Callable[..., Any],
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        result_type: Any = Any,
        rpc_timeout: timedelta | None = None,
    ) -> Any:
        """What the query returns, of a state with every write that was acknowledged before.

        Raises WorkflowQueryFailedError when its code raised, RPCError FAILED_PRECONDITION when no
        worker polls the workflow's queue.
        """
        core = self._core
        if isinstance(query, str):
            name = query
        else:
            definition = query_definition(query)
            name, result_type = definition.name, definition.signature.result
        payloads = core.converter.to_payloads(arguments(arg, args))
        try:
            answer = await core.query(query_workflow(self._target, name, payloads), rpc_timeout)
        except RPCError as error:
            if error.reason == _QUERY_FAILED:
                raise WorkflowQueryFailedError(error.message) from None
            raise
        return _only_value(answer, result_type, core.converter)

    async def cancel(self, *, reason: str = "", rpc_timeout: timedelta | None = None) -> None:
        """Asks the run to stop; its code may clean up first, or go on.

        A handle that started the run, or was made with its `first_execution_run_id`, reaches its
        chain only: RPCError NOT_FOUND when the id has been started anew since.
        """
        core = self._core
        call = cancel_workflow(
            self._target,
            reason,
            request_id=core.surroundings.new_uuid(),
            identity=core.identity,
            first_run_id=self._chain or "",
        )
        await core.call(call, rpc_timeout)

    async def terminate(
        self, *args: Any, reason: str = "", rpc_timeout: timedelta | None = None
    ) -> None:
        """Ends the run at once, without its code. `args` are saved as details. See `cancel` for
        which run that is."""
        core = self._core
        call = terminate_workflow(
            self._target,
            reason,
            core.converter.to_payloads(args),
            request_id=core.surroundings.new_uuid(),
            identity=core.identity,
            first_run_id=self._chain or "",
        )
        await core.call(call, rpc_timeout)

    async def delete(self, *, reason: str = "", rpc_timeout: timedelta | None = None) -> None:
        """Removes the run with its history and its row in the lists; an open one is terminated first.

        Returns when it is gone. Deleting a run that is gone is no error.
        """
        core = self._core
        run_id = self._target.run_id or (await self.describe(rpc_timeout=rpc_timeout)).run_id
        call = delete_workflow(
            replace(self._target, run_id=run_id),
            reason,
            request_id=core.surroundings.new_uuid(),
            identity=core.identity,
        )
        await core.call(call, rpc_timeout)

    async def describe(
        self, *, rpc_timeout: timedelta | None = None
    ) -> WorkflowExecutionDescription:
        call = describe_workflow(self._target, self._core.decode_or_keep)
        return await self._core.call(call, rpc_timeout)

    async def explain(self, *, rpc_timeout: timedelta | None = None) -> Sequence[WaitReason]:
        """Why the run does not move: what it waits for, since when, and what will wake it.

        At least one reason, as the engine has it now.
        """
        core = self._core
        return await core.unary(
            lambda timeout_s: core.workflow_service.explain(self._target, timeout_s), rpc_timeout
        )

    async def fetch_history(self, *, rpc_timeout: timedelta | None = None) -> WorkflowHistory:
        """All events that there are now, of one run.

        Payloads stay as they are saved; `DataConverter.decode` and `Replayer` read encoded ones.
        """
        events = [event async for event in self.fetch_history_events(rpc_timeout=rpc_timeout)]
        return WorkflowHistory(self._id, self._run_id or run_id_of(events), events)

    async def fetch_history_events(
        self, *, wait_new_event: bool = False, rpc_timeout: timedelta | None = None
    ) -> AsyncIterator[HistoryEvent]:
        """The events in order, page by page; with `wait_new_event` as they come, until the close.

        `rpc_timeout` is that of each page.
        """
        core = self._core
        wait_ms = _HISTORY_WAIT_MS if wait_new_event else 0
        token = b""
        while True:

            async def page(timeout_s: float, token: bytes = token) -> tuple[list[Any], bytes]:
                return await core.workflow_service.history_page(
                    self._target, token, wait_ms, timeout_s
                )

            events, token = await core.unary(page, rpc_timeout)
            for event in events:
                yield event
            if not token:
                return


def _only_value(payloads: list[Payload], hint: Any, converter: PayloadConverter) -> Any:
    return converter.from_payload(payloads[0], hint) if payloads else None


def _failure_of(outcome: RunResult, converter: PayloadConverter) -> BaseException:
    if outcome.failure is None:
        return FailureError(f"the run has ended as {outcome.status.name}")
    return failure_to_exception(outcome.failure, converter)
