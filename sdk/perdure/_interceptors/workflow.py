"""Around workflows: what comes in to a run, and what its code asks for.

Interceptors of workflows are workflow code: they run again on replay, and must do the same then.
`workflow.unsafe.is_replaying()` says whether what they tell the world has been told before; what has not
may still be told again, or be of a way that the run does not take (see there).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from perdure._payload import Payload
from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.external_messages import ParentClosePolicy
from perdure._replay.machines.activity import ActivityCancellationType
from perdure._replay.machines.child import ChildWorkflowCancellationType
from perdure.common import (
    Priority,
    RetryPolicy,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIdReusePolicy,
)

if TYPE_CHECKING:
    from perdure._replay.child_handle import ChildWorkflowHandle
    from perdure.workflow import Info


@dataclass(frozen=True)
class WorkflowInterceptorClassInput:
    unsafe_extern_functions: MutableMapping[str, Callable[..., Any]]
    """What the interceptor's class finds again by `workflow.extern_functions()`."""


# --- what comes in --------------------------------------------------------------------------------


@dataclass(kw_only=True)
class ExecuteWorkflowInput:
    type: type
    run_fn: Callable[..., Awaitable[Any]]
    """Takes the workflow object first."""
    args: Sequence[Any]
    headers: Mapping[str, Payload]


@dataclass(kw_only=True)
class HandleSignalInput:
    """For a dynamic handler `args` are the `RawValue`s."""

    signal: str
    args: Sequence[Any]
    headers: Mapping[str, Payload]


@dataclass(kw_only=True)
class HandleQueryInput:
    id: str
    query: str
    args: Sequence[Any]
    headers: Mapping[str, Payload]


@dataclass(kw_only=True)
class HandleUpdateInput:
    """Of the validator and of the handler alike: each gets one of its own."""

    id: str
    update: str
    args: Sequence[Any]
    headers: Mapping[str, Payload]


class WorkflowInboundInterceptor:
    """Made for one run in a worker's memory, before its workflow object is."""

    def __init__(self, next: WorkflowInboundInterceptor) -> None:
        self.next = next

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        """Before anything else. To see what the code asks for, wrap `outbound` for `next`."""
        self.next.init(outbound)

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        return await self.next.execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        """Only of signals that have a handler, once they have it."""
        await self.next.handle_signal(input)

    async def handle_query(self, input: HandleQueryInput) -> Any:
        """It must not wait for anything, nor change the run."""
        return await self.next.handle_query(input)

    def handle_update_validator(self, input: HandleUpdateInput) -> None:
        """Raises what the update is refused with. Not called on replay."""
        self.next.handle_update_validator(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        return await self.next.handle_update_handler(input)


# --- what goes out --------------------------------------------------------------------------------


@dataclass(kw_only=True)
class ContinueAsNewInput:
    """What is None is as it is in this run."""

    workflow: str | None
    args: Sequence[Any]
    task_queue: str | None
    run_timeout: timedelta | None
    task_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    memo: Mapping[str, Any] | None
    headers: Mapping[str, Payload]
    search_attributes: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None = None


@dataclass(kw_only=True)
class StartActivityInput:
    activity: str
    args: Sequence[Any]
    activity_id: str | None
    task_queue: str | None
    schedule_to_close_timeout: timedelta | None
    schedule_to_start_timeout: timedelta | None
    start_to_close_timeout: timedelta | None
    heartbeat_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    cancellation_type: ActivityCancellationType
    headers: Mapping[str, Payload]
    summary: str | None
    priority: Priority | None
    ret_type: Any
    version: int | None
    """None: it was called by name."""


@dataclass(kw_only=True)
class StartLocalActivityInput:
    activity: str
    args: Sequence[Any]
    activity_id: str | None
    schedule_to_close_timeout: timedelta | None
    schedule_to_start_timeout: timedelta | None
    start_to_close_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    local_retry_threshold: timedelta | None
    cancellation_type: ActivityCancellationType
    headers: Mapping[str, Payload]
    ret_type: Any


@dataclass(kw_only=True)
class StartChildWorkflowInput:
    """See `workflow.ChildWorkflowOptions`."""

    workflow: str
    args: Sequence[Any]
    id: str
    headers: Mapping[str, Payload]
    ret_type: Any
    task_queue: str | None = None
    cancellation_type: ChildWorkflowCancellationType = (
        ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED
    )
    parent_close_policy: ParentClosePolicy = ParentClosePolicy.TERMINATE
    execution_timeout: timedelta | None = None
    run_timeout: timedelta | None = None
    task_timeout: timedelta | None = None
    id_reuse_policy: WorkflowIdReusePolicy = WorkflowIdReusePolicy.ALLOW_DUPLICATE
    retry_policy: RetryPolicy | None = None
    cron_schedule: str = ""
    memo: Mapping[str, Any] | None = None
    search_attributes: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None = None
    priority: Priority = Priority()  # noqa: RUF009 - frozen
    static_summary: str | None = None
    static_details: str | None = None


@dataclass(kw_only=True)
class SignalChildWorkflowInput:
    signal: str
    args: Sequence[Any]
    child_workflow_id: str
    headers: Mapping[str, Payload]


@dataclass(kw_only=True)
class SignalExternalWorkflowInput:
    signal: str
    args: Sequence[Any]
    namespace: str
    workflow_id: str
    workflow_run_id: str | None
    headers: Mapping[str, Payload]


class WorkflowOutboundInterceptor:
    """What workflow code asks for. Another way out of a run gets a method here, one in `RootOutbound`
    (`perdure/workflow/_outbound.py`), and an `if` where the code asks."""

    def __init__(self, next: WorkflowOutboundInterceptor) -> None:
        self.next = next

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        self.next.continue_as_new(input)

    def info(self) -> Info:
        return self.next.info()

    def start_activity(self, input: StartActivityInput) -> ActivityHandle[Any]:
        return self.next.start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> ActivityHandle[Any]:
        return self.next.start_local_activity(input)

    async def start_child_workflow(
        self, input: StartChildWorkflowInput
    ) -> ChildWorkflowHandle[Any, Any]:
        return await self.next.start_child_workflow(input)

    async def signal_child_workflow(self, input: SignalChildWorkflowInput) -> None:
        await self.next.signal_child_workflow(input)

    async def signal_external_workflow(self, input: SignalExternalWorkflowInput) -> None:
        await self.next.signal_external_workflow(input)
