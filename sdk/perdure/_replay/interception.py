"""The interceptors of a run, from outside in, with the run itself behind the last of them.

A run without interceptors has none of this: `WorkflowRun.inbound` and `outbound` are None, and the
code that would ask them does what it does by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure._interceptors.worker import Interceptor
from perdure._interceptors.workflow import (
    ExecuteWorkflowInput,
    HandleQueryInput,
    HandleSignalInput,
    HandleUpdateInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from perdure.errors import ApplicationError

if TYPE_CHECKING:
    from perdure._replay.run import WorkflowRun

MakeOutbound = Callable[["WorkflowRun"], WorkflowOutboundInterceptor]


class Interception:
    """What a worker's interceptors make of each of its runs."""

    __slots__ = ("_classes", "_make_outbound", "extern_functions")

    def __init__(
        self,
        classes: Sequence[type[WorkflowInboundInterceptor]],
        extern_functions: Mapping[str, Callable[..., Any]],
        make_outbound: MakeOutbound,
    ) -> None:
        """The first class is the outermost."""
        self._classes = classes
        self._make_outbound = make_outbound
        self.extern_functions = extern_functions

    @classmethod
    def of(
        cls, interceptors: Sequence[Interceptor], make_outbound: MakeOutbound
    ) -> Interception | None:
        """None: none of them has to do with workflows."""
        if not interceptors:
            return None
        externs: dict[str, Callable[..., Any]] = {}
        asked = WorkflowInterceptorClassInput(externs)
        classes = [one.workflow_interceptor_class(asked) for one in interceptors]
        wanted = [one for one in classes if one is not None]
        return cls(wanted, externs, make_outbound) if wanted else None

    def bind(self, run: WorkflowRun) -> None:
        """Before the run's code exists: what it asks for at once passes them too."""
        inbound: WorkflowInboundInterceptor = _RootInbound(run)
        for one in reversed(self._classes):
            inbound = one(inbound)
        inbound.init(self._make_outbound(run))
        run.inbound = inbound


class _RootInbound(WorkflowInboundInterceptor):
    def __init__(self, run: WorkflowRun) -> None:
        self._run = run  # and no `next`

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        self._run.outbound = outbound

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        return await input.run_fn(self._run.workflow, *input.args)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        run = self._run
        handler = run.signals.handler_for(input.signal)
        if handler is None:
            raise _unknown("signal", input.signal)
        args = [input.signal, input.args] if handler.dynamic else list(input.args)
        answer = handler.call(run.workflow, args)
        if handler.is_async:
            await answer

    async def handle_query(self, input: HandleQueryInput) -> Any:
        run = self._run
        handler = run.query_handler_for(input.query)
        if handler is None:
            raise _unknown("query", input.query)
        args = [input.query, input.args] if handler.dynamic else list(input.args)
        return handler.call(run.workflow, args)

    def handle_update_validator(self, input: HandleUpdateInput) -> None:
        run = self._run
        handler = run.updates.handler_for(input.update)
        if handler is None:
            raise _unknown("update", input.update)
        if handler.validator is not None:
            handler.validator(run.workflow, *_update_args(handler.name, input))

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        run = self._run
        handler = run.updates.handler_for(input.update)
        if handler is None:
            raise _unknown("update", input.update)
        answer = handler.function(run.workflow, *_update_args(handler.name, input))
        return await answer if handler.is_async else answer


def _update_args(name: str | None, input: HandleUpdateInput) -> Sequence[Any]:
    return [input.update, input.args] if name is None else input.args


def _unknown(kind: str, name: str) -> ApplicationError:
    return ApplicationError(
        f"an interceptor passed on the {kind} {name!r}, which has no handler", type="Unknown"
    )


def completed(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that must not wait: there is nothing that could wake it."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    coroutine.close()
    raise RuntimeError("an interceptor of queries must not wait for anything")
