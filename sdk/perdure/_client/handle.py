"""A workflow as its client holds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from perdure._client import requests
from perdure._client.core import ClientCore
from perdure._client.handle_operations import HandleOperations, reset_run
from perdure._client.handle_updates import HandleUpdates
from perdure._client.history import WorkflowHistory, run_id_of
from perdure._client.interceptors import (
    CancelWorkflowInput,
    DeleteWorkflowInput,
    DescribeWorkflowInput,
    FetchWorkflowHistoryEventsInput,
    GetWorkflowResultInput,
    QueryWorkflowInput,
    SignalWorkflowInput,
    TerminateWorkflowInput,
)
from perdure._client.options import NO_ARGUMENT, arguments
from perdure._definitions import query_definition, signal_definition
from perdure._wire.calls import NO_HEADER, Target
from perdure._wire.explanation import WaitReason
from perdure._wire.history import HistoryEvent
from perdure._wire.workflow_info import WorkflowExecutionDescription
from perdure.common import QueryRejectCondition, ResetReapplyExcludeType, ResetType

S = TypeVar("S")
A = TypeVar("A")
Q = TypeVar("Q")
R = TypeVar("R")
P = ParamSpec("P")


class WorkflowHandle(HandleUpdates[S], HandleOperations, Generic[S, R]):
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
        # First run of the only chain that may be cancelled, terminated or updated; None: of any.
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
        core, result_type = self._core, self._result_type
        value: R
        if core.outbound is not None:
            asked = GetWorkflowResultInput(
                id=self._id,
                run_id=self._result_run_id,
                follow_runs=follow_runs,
                ret_type=result_type,
                rpc_timeout=rpc_timeout,
            )
            value = await core.outbound.get_workflow_result(asked)
        else:
            target = Target(core.namespace, self._id, self._result_run_id or "")
            value = await requests.result(
                core, target, result_type, rpc_timeout, follow_runs=follow_runs
            )
        return value

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
        values = arguments(arg, args)
        if core.outbound is not None:
            asked = SignalWorkflowInput(
                id=self._id,
                run_id=self._run_id,
                signal=name,
                args=values,
                headers=NO_HEADER,
                rpc_timeout=rpc_timeout,
            )
            await core.outbound.signal_workflow(asked)
        else:
            await requests.signal(core, self._target, name, values, None, rpc_timeout)

    @overload
    async def query(
        self,
        query: Callable[[S], Q],
        *,
        reject_condition: QueryRejectCondition | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> Q: ...

    @overload
    async def query(
        self,
        query: Callable[[S, A], Q],
        arg: A,
        *,
        reject_condition: QueryRejectCondition | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> Q: ...

    @overload
    async def query(
        self,
        query: Callable[Concatenate[S, P], Q],
        *,
        args: Sequence[Any],
        reject_condition: QueryRejectCondition | None = None,
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
        reject_condition: QueryRejectCondition | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> Any: ...

    async def query(
        self,
        query: str | Callable[..., Any],
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        result_type: Any = Any,
        reject_condition: QueryRejectCondition | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> Any:
        """What the query returns, of a state with every write that was acknowledged before.

        Raises WorkflowQueryFailedError when its code raised, RPCError FAILED_PRECONDITION when no
        worker polls the workflow's queue, and with a `reject_condition` WorkflowQueryRejectedError when
        the run is not open, or has closed in another way than by completing.
        """
        core = self._core
        if isinstance(query, str):
            name = query
        else:
            definition = query_definition(query)
            name, result_type = definition.name, definition.signature.result
        values = arguments(arg, args)
        reject_condition = reject_condition or core.query_reject_condition
        if core.outbound is not None:
            asked = QueryWorkflowInput(
                id=self._id,
                run_id=self._run_id,
                query=name,
                args=values,
                headers=NO_HEADER,
                ret_type=result_type,
                rpc_timeout=rpc_timeout,
                reject_condition=reject_condition,
            )
            return await core.outbound.query_workflow(asked)
        return await requests.query(
            core, self._target, name, values, result_type, None, rpc_timeout, reject_condition
        )

    async def cancel(self, *, reason: str = "", rpc_timeout: timedelta | None = None) -> None:
        """Asks the run to stop; its code may clean up first, or go on.

        A handle that started the run, or was made with its `first_execution_run_id`, reaches its
        chain only: RPCError NOT_FOUND when the id has been started anew since.
        """
        core = self._core
        if core.outbound is None:
            await requests.cancel(core, self._target, reason, rpc_timeout, self._chain)
            return
        await core.outbound.cancel_workflow(
            CancelWorkflowInput(
                id=self._id,
                run_id=self._run_id,
                first_execution_run_id=self._chain,
                reason=reason,
                rpc_timeout=rpc_timeout,
            )
        )

    async def terminate(
        self, *args: Any, reason: str = "", rpc_timeout: timedelta | None = None
    ) -> None:
        """Ends the run at once, without its code. `args` are saved as details. See `cancel` for
        which run that is."""
        core = self._core
        if core.outbound is None:
            await requests.terminate(core, self._target, reason, args, rpc_timeout, self._chain)
            return
        await core.outbound.terminate_workflow(
            TerminateWorkflowInput(
                id=self._id,
                run_id=self._run_id,
                first_execution_run_id=self._chain,
                args=args,
                reason=reason,
                rpc_timeout=rpc_timeout,
            )
        )

    async def delete(self, *, reason: str = "", rpc_timeout: timedelta | None = None) -> None:
        """Removes the run with its history and its row in the lists; an open one is terminated first.

        Returns when it is gone. Deleting a run that is gone is no error.
        """
        core = self._core
        if core.outbound is None:
            await requests.delete(core, self._target, reason, rpc_timeout)
            return
        await core.outbound.delete_workflow(
            DeleteWorkflowInput(
                id=self._id, run_id=self._run_id, reason=reason, rpc_timeout=rpc_timeout
            )
        )

    async def reset(
        self,
        *,
        event_id: int | None = None,
        reset_type: ResetType | None = None,
        build_id: str = "",
        reapply_exclude: Sequence[ResetReapplyExcludeType] = (),
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> WorkflowHandle[S, R]:
        """Begins a new run with the history of this one, open or closed, up to a workflow task's end.

        Where to: `event_id`, of a WorkflowTaskCompleted (Failed, TimedOut, Started), or a
        `reset_type`; `build_id` goes to the first task that this build completed. What the task
        decided does not happen in the new run; activities that were pending are scheduled again,
        timers keep their time. Signals and updates that came after it are applied again, unless
        they are excluded. The open run of the id is terminated: who waits for its result hears
        that. Returns a handle whose `result` is the new run's.

        Raises ValueError unless exactly one thing says where to, RPCError INVALID_ARGUMENT for an
        event that is no workflow task's end, FAILED_PRECONDITION when there is no such task.
        """
        run_id = await reset_run(
            self._core,
            self._target,
            event_id=event_id,
            reset_type=reset_type,
            build_id=build_id,
            exclude=reapply_exclude,
            reason=reason,
            rpc_timeout=rpc_timeout,
        )
        return WorkflowHandle(
            self._core,
            self._id,
            result_run_id=run_id,
            first_execution_run_id=self._first_execution_run_id,
            result_type=self._result_type,
        )

    async def describe(
        self, *, rpc_timeout: timedelta | None = None
    ) -> WorkflowExecutionDescription:
        core = self._core
        if core.outbound is None:
            return await requests.describe(core, self._target, rpc_timeout)
        return await core.outbound.describe_workflow(
            DescribeWorkflowInput(id=self._id, run_id=self._run_id, rpc_timeout=rpc_timeout)
        )

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
        if core.outbound is None:
            events = requests.history_events(
                core, self._target, rpc_timeout, wait_new_event=wait_new_event
            )
        else:
            asked = FetchWorkflowHistoryEventsInput(
                id=self._id,
                run_id=self._run_id,
                wait_new_event=wait_new_event,
                rpc_timeout=rpc_timeout,
            )
            events = core.outbound.fetch_workflow_history_events(asked)
        async for event in events:
            yield event
