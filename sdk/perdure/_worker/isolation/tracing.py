"""Says every step of a task, as its worker's innermost interceptor, so that a report can name the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from perdure import activity
from perdure._interceptors.activity import ActivityInboundInterceptor, ExecuteActivityInput
from perdure._interceptors.worker import Interceptor
from perdure._interceptors.workflow import (
    ContinueAsNewInput,
    ExecuteWorkflowInput,
    HandleQueryInput,
    HandleSignalInput,
    HandleUpdateInput,
    SignalChildWorkflowInput,
    SignalExternalWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.child_handle import ChildWorkflowHandle
from perdure.workflow import unsafe

Say = Callable[[str], None]


class Tracing(Interceptor):
    def __init__(self, say: Say) -> None:
        self._say = say
        self._replayed = 0

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Activity(next, self._say)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        tracing = self

        class Traced(_Inbound):
            def __init__(self, next: WorkflowInboundInterceptor) -> None:
                super().__init__(next, tracing.of_workflow)

        return Traced

    def of_workflow(self, step: str) -> None:
        """What a history repeats is counted only: there may be tens of thousands."""
        if unsafe.is_replaying():
            self._replayed += 1
            return
        if self._replayed:
            self._say(f"workflow: {self._replayed} steps of its history repeated")
            self._replayed = 0
        self._say(f"workflow: {step}")


class _Activity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, say: Say) -> None:
        super().__init__(next)
        self._say = say

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        kind = "local activity" if info.is_local else "job" if info.job else "activity"
        what = f"{kind} {info.activity_type} ({info.activity_id}), attempt {info.attempt}"
        self._say(f"{what}: begins")
        try:
            result = await super().execute_activity(input)
        except BaseException as error:
            self._say(f"{what}: raises {type(error).__name__}")
            raise
        self._say(f"{what}: returns")
        return result


class _Inbound(WorkflowInboundInterceptor):
    def __init__(self, next: WorkflowInboundInterceptor, say: Say) -> None:
        super().__init__(next)
        self._say = say

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound, self._say))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        self._say("its code begins")
        return await super().execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        self._say(f"signal {input.signal}")
        await super().handle_signal(input)

    async def handle_query(self, input: HandleQueryInput) -> Any:
        self._say(f"query {input.query}")
        return await super().handle_query(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        self._say(f"update {input.update}")
        return await super().handle_update_handler(input)


class _Outbound(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor, say: Say) -> None:
        super().__init__(next)
        self._say = say

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        self._say("continues as new")
        super().continue_as_new(input)

    def start_activity(self, input: StartActivityInput) -> ActivityHandle[Any]:
        self._say(f"starts activity {input.activity}")
        return super().start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> ActivityHandle[Any]:
        self._say(f"starts local activity {input.activity}")
        return super().start_local_activity(input)

    async def start_child_workflow(
        self, input: StartChildWorkflowInput
    ) -> ChildWorkflowHandle[Any, Any]:
        self._say(f"starts child workflow {input.workflow}")
        return await super().start_child_workflow(input)

    async def signal_child_workflow(self, input: SignalChildWorkflowInput) -> None:
        self._say(f"signals a child workflow: {input.signal}")
        await super().signal_child_workflow(input)

    async def signal_external_workflow(self, input: SignalExternalWorkflowInput) -> None:
        self._say(f"signals a workflow: {input.signal}")
        await super().signal_external_workflow(input)
