"""The spans of one run. All of this is workflow code: no clock, no network, the same on each replay."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.util.types import Attributes

from perdure import workflow
from perdure._replay.run import WorkflowRun, current_run
from perdure.contrib.opentelemetry._carrier import Arrival
from perdure.contrib.opentelemetry._spans import Raised, SpanRecord, span_id_of, trace_id_of
from perdure.converter import Payload
from perdure.worker import (
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
    WorkflowOutboundInterceptor,
)

if TYPE_CHECKING:
    from perdure.contrib.opentelemetry._interceptor import TracingInterceptor

Headers = Mapping[str, Payload]

EXTERN = "__perdure_opentelemetry"
"""Under it the interceptor class finds its `TracingInterceptor`."""

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class RunTracing:
    """What a run's interceptors share. `context` None: the run is not traced."""

    def __init__(self, root: TracingInterceptor, run: WorkflowRun) -> None:
        self.root = root
        self._run = run
        started = run.started
        assert started is not None
        self._run_id = started.run_id
        self.workflow_type = started.workflow_type
        self._attributes: dict[str, Any] = {
            "perdureWorkflowID": started.workflow_id,
            "perdureRunID": started.run_id,
            "messaging.system": "perdure",
            "messaging.destination.name": started.task_queue,
        }
        self._counted: dict[str, int] = {}
        self.began_ns = run.now_us * 1000
        self.parent, self.links = self._origin(root.carrier.out_of(started.header))
        self.span_id = span_id_of(self._run_id, "RunWorkflow")
        self.context: Context | None = None
        if self.parent is not None:
            self.context = self._below(self.parent, self.span_id)

    def _origin(self, arrival: Arrival | None) -> tuple[Context | None, tuple[Link, ...]]:
        """Below what the run's own span is, and what it is linked with."""
        if arrival is None:
            return (Context() if self.root.always_create_workflow_spans else None), ()
        if arrival.is_old(self._run.now_us):
            # A trace of its own, which takes the baggage along and is sampled as the other one.
            return Context(), (Link(arrival.span),)
        return arrival.context, ()

    def _below(self, parent: Context, span_id: int) -> Context:
        above = get_current_span(parent).get_span_context()
        if above.is_valid:
            trace_id, flags, state = above.trace_id, above.trace_flags, above.trace_state
        else:
            trace_id, flags, state = trace_id_of(self._run_id), _SAMPLED, None
        span = SpanContext(trace_id, span_id, is_remote=False, trace_flags=flags, trace_state=state)
        return set_span_in_context(NonRecordingSpan(span), parent)

    def id_of(self, what: str) -> int:
        """Of the next span of that kind: the same number on each replay."""
        number = self._counted[what] = self._counted.get(what, 0) + 1
        return span_id_of(self._run_id, f"{what}/{number}")

    def link_to(self, headers: Headers) -> tuple[Link, ...]:
        arrival = self.root.carrier.out_of(headers)
        return () if arrival is None else (Link(arrival.span),)

    def record(self, name: str, span_id: int, parent: Context, **changes: Any) -> None:
        now_ns = self._run.now_us * 1000
        fields: dict[str, Any] = {
            "kind": SpanKind.SERVER,
            "links": (),
            "attributes": self._attributes,
            "start_ns": now_ns,
            "end_ns": now_ns,
            "raised": None,
        } | changes
        above = get_current_span(parent).get_span_context()
        trace_id = above.trace_id if above.is_valid else trace_id_of(self._run_id)
        record = SpanRecord(name=name, trace_id=trace_id, span_id=span_id, parent=parent, **fields)
        self._run.do_afterwards(partial(self.root.spans.make, record))

    @property
    def is_told(self) -> bool:
        """Has the world been told before of what happens now, or shall it not be?"""
        return self._run.replaying or self._run.is_evicted

    def raised(self, error: BaseException) -> Raised | None:
        return Raised.of(error, with_message=self.root.exception_messages)

    @contextmanager
    def span(
        self,
        name: str,
        span_id: int,
        parent: Context,
        *,
        start_ns: int | None = None,
        links: tuple[Link, ...] = (),
        update_id: str | None = None,
    ) -> Generator[None]:
        """The span is current in the block, and recorded at its end."""
        begun_ns = self._run.now_us * 1000 if start_ns is None else start_ns
        fields: dict[str, Any] = {"start_ns": begun_ns, "links": links}
        if update_id is not None:
            fields["attributes"] = {**self._attributes, "perdureUpdateID": update_id}
        token = attach(self._below(parent, span_id))
        try:
            yield
        except (workflow.ContinueAsNewError, asyncio.CancelledError):
            self._end(name, span_id, parent, fields)
            raise
        except Exception as error:
            # Also by a defect, for which the workflow task is tried again: that drops the span.
            fields["raised"] = self.raised(error)
            self._end(name, span_id, parent, fields)
            raise
        else:
            self._end(name, span_id, parent, fields)
        finally:
            detach(token)

    def _end(self, name: str, span_id: int, parent: Context, fields: dict[str, Any]) -> None:
        if not self.is_told:
            self.record(name, span_id, parent, **fields)

    def completed_span(
        self, name: str, attributes: Attributes, exception: BaseException | None
    ) -> None:
        span_id = self.id_of(name)
        if self.context is None or self.is_told:
            return
        raised = None if exception is None else self.raised(exception)
        self.record(
            name,
            span_id,
            get_current(),
            kind=SpanKind.INTERNAL,
            attributes={**self._attributes, **(attributes or {})},
            raised=raised,
        )

    def outgoing(self, what: str, name: str, headers: Headers) -> Headers:
        """The headers of what the code asks for now, below a span that says so."""
        if self.context is None:
            return headers
        full = f"{what}:{name}"
        span_id = self.id_of(full)
        parent = get_current()
        if not self.is_told:
            self.record(full, span_id, parent, kind=SpanKind.CLIENT)
        return self.root.carrier.into(headers, self._below(parent, span_id), self._run.now_us)


def tracing_of() -> RunTracing | None:
    """Of the run whose code calls."""
    inbound = current_run().inbound
    while inbound is not None:
        if isinstance(inbound, TracingWorkflowInboundInterceptor):
            return inbound.tracing
        inbound = getattr(inbound, "next", None)
    return None


class TracingWorkflowInboundInterceptor(WorkflowInboundInterceptor):
    def __init__(self, next: WorkflowInboundInterceptor) -> None:
        super().__init__(next)
        self.tracing = RunTracing(workflow.extern_functions()[EXTERN](), current_run())

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        self.next.init(_Outbound(outbound, self.tracing))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        tracing = self.tracing
        if tracing.parent is None:
            return await self.next.execute_workflow(input)
        name = f"RunWorkflow:{tracing.workflow_type}"
        with tracing.span(
            name,
            tracing.span_id,
            tracing.parent,
            start_ns=tracing.began_ns,
            links=tracing.links,
        ):
            return await self.next.execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        tracing = self.tracing
        if tracing.context is None:
            await self.next.handle_signal(input)
            return
        name = f"HandleSignal:{input.signal}"
        links = tracing.link_to(input.headers)
        with tracing.span(name, tracing.id_of(name), tracing.context, links=links):
            await self.next.handle_signal(input)

    async def handle_query(self, input: HandleQueryInput) -> Any:
        """Below what asked, at once: nobody asks for it again on replay."""
        tracing = self.tracing
        arrival = tracing.root.carrier.out_of(input.headers)
        if arrival is None:
            return await self.next.handle_query(input)
        name = f"HandleQuery:{input.query}"
        # The id of the query makes it one of its own; time stands still in a workflow: no length.
        span_id = span_id_of(input.id, name)
        links = () if tracing.context is None else (Link(_span_in(tracing.context)),)
        record = partial(
            tracing.record,
            name,
            span_id,
            arrival.context,
            links=links,
            start_ns=None,
            end_ns=None,
        )
        token = attach(arrival.context)
        try:
            result = await self.next.handle_query(input)
        except Exception as error:
            record(raised=tracing.raised(error))
            raise
        finally:
            detach(token)
        record()
        return result

    def handle_update_validator(self, input: HandleUpdateInput) -> None:
        tracing = self.tracing
        if tracing.context is None:
            self.next.handle_update_validator(input)
            return
        name = f"ValidateUpdate:{input.update}"
        # By the update's id and not by a number: no replay would count a refused one.
        span_id = span_id_of(input.id, f"{tracing.span_id}/{name}")
        links = tracing.link_to(input.headers)
        with tracing.span(name, span_id, tracing.context, links=links, update_id=input.id):
            self.next.handle_update_validator(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        tracing = self.tracing
        if tracing.context is None:
            return await self.next.handle_update_handler(input)
        name = f"HandleUpdate:{input.update}"
        span_id = span_id_of(input.id, f"{tracing.span_id}/{name}")
        links = tracing.link_to(input.headers)
        with tracing.span(name, span_id, tracing.context, links=links, update_id=input.id):
            return await self.next.handle_update_handler(input)


class _Outbound(WorkflowOutboundInterceptor):
    """Whatever else goes out of a run one day passes `RunTracing.outgoing` too."""

    def __init__(self, next: WorkflowOutboundInterceptor, tracing: RunTracing) -> None:
        super().__init__(next)
        self._tracing = tracing

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        tracing = self._tracing
        if tracing.context is not None:
            run = current_run()
            input.headers = tracing.root.carrier.into(input.headers, tracing.context, run.now_us)
        self.next.continue_as_new(input)

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        input.headers = self._tracing.outgoing("StartActivity", input.activity, input.headers)
        return self.next.start_activity(input)

    async def start_child_workflow(
        self, input: StartChildWorkflowInput
    ) -> workflow.ChildWorkflowHandle[Any, Any]:
        input.headers = self._tracing.outgoing("StartChildWorkflow", input.workflow, input.headers)
        return await self.next.start_child_workflow(input)

    async def signal_child_workflow(self, input: SignalChildWorkflowInput) -> None:
        input.headers = self._tracing.outgoing("SignalChildWorkflow", input.signal, input.headers)
        await self.next.signal_child_workflow(input)

    async def signal_external_workflow(self, input: SignalExternalWorkflowInput) -> None:
        input.headers = self._tracing.outgoing(
            "SignalExternalWorkflow", input.signal, input.headers
        )
        await self.next.signal_external_workflow(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:
        input.headers = self._tracing.outgoing("StartActivity", input.activity, input.headers)
        return self.next.start_local_activity(input)


def _span_in(context: Context) -> SpanContext:
    return get_current_span(context).get_span_context()
