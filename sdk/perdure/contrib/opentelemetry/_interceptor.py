"""The interceptor: spans of clients and activities; those of workflows are next door."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, SpanKind, Tracer, get_tracer, set_span_in_context
from opentelemetry.util.types import Attributes, AttributeValue

import perdure.client
import perdure.worker
from perdure import activity
from perdure.client import (
    CreateJobInput,
    CreateJobsInput,
    JobHandle,
    OutboundInterceptor,
    QueryWorkflowInput,
    SignalWorkflowInput,
    StartWorkflowInput,
    StartWorkflowUpdateInput,
    StartWorkflowUpdateWithStartInput,
    WorkflowHandle,
    WorkflowUpdateHandle,
)
from perdure.contrib.opentelemetry._carrier import Carrier, default_text_map_propagator
from perdure.contrib.opentelemetry._spans import Raised, SpanMaker, mark_failed
from perdure.contrib.opentelemetry._workflows import EXTERN, TracingWorkflowInboundInterceptor
from perdure.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)


class TracingInterceptor(perdure.client.Interceptor, perdure.worker.Interceptor):
    """Give it to the client; its workers have it from there.

    By default a workflow makes spans only when the client that started it did;
    `always_create_workflow_spans` has it begin a trace itself. Spans name exceptions and their
    messages; where failures are encrypted switch `exception_messages` off.
    """

    def __init__(
        self,
        tracer: Tracer | None = None,
        *,
        header_key: str = "_tracer-data",
        text_map_propagator: TextMapPropagator = default_text_map_propagator,
        always_create_workflow_spans: bool = False,
        exception_messages: bool = True,
    ) -> None:
        """`tracer` is by default the one of the global provider, also if that is set later."""
        self.tracer = tracer or get_tracer("perdure")
        self.always_create_workflow_spans = always_create_workflow_spans
        self.exception_messages = exception_messages
        self.carrier = Carrier(header_key, text_map_propagator)
        self.spans = SpanMaker(lambda: self.tracer)

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _ClientOutbound(next, self)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _ActivityInbound(next, self)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        input.unsafe_extern_functions[EXTERN] = lambda: self
        return TracingWorkflowInboundInterceptor

    @contextmanager
    def span(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        *,
        parent: Context | None = None,
        links: tuple[Link, ...] = (),
    ) -> Generator[Context]:
        """Current in the block. `parent` None: what is current already."""
        above = get_current() if parent is None else parent
        span = self.tracer.start_span(
            name, context=above, kind=kind, attributes=attributes, links=links
        )
        context = set_span_in_context(span, above)
        token = attach(context)
        try:
            yield context
        except Exception as error:
            raised = Raised.of(error, with_message=self.exception_messages)
            assert raised is not None
            mark_failed(span, raised)
            raise
        finally:
            detach(token)
            span.end()


class _ClientOutbound(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, root: TracingInterceptor) -> None:
        super().__init__(next)
        self._root = root

    @contextmanager
    def _asking(
        self, name: str, input: Any, workflow_id: str, update_id: str | None = None
    ) -> Generator[Context]:
        """A span, which the input's headers take along."""
        attributes = {"perdureWorkflowID": workflow_id}
        if update_id is not None:
            attributes["perdureUpdateID"] = update_id
        with self._root.span(name, SpanKind.CLIENT, attributes) as context:
            input.headers = self._root.carrier.into(input.headers, context, _now_us())
            yield context

    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
        what = "StartWorkflow" if input.start_signal is None else "SignalWithStartWorkflow"
        with self._asking(f"{what}:{input.workflow}", input, input.id):
            return await self.next.start_workflow(input)

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:
        with self._asking(f"SignalWorkflow:{input.signal}", input, input.id):
            await self.next.signal_workflow(input)

    async def query_workflow(self, input: QueryWorkflowInput) -> Any:
        with self._asking(f"QueryWorkflow:{input.query}", input, input.id):
            return await self.next.query_workflow(input)

    async def start_workflow_update(
        self, input: StartWorkflowUpdateInput
    ) -> WorkflowUpdateHandle[Any]:
        with self._asking(f"StartWorkflowUpdate:{input.update}", input, input.id, input.update_id):
            return await self.next.start_workflow_update(input)

    async def start_update_with_start_workflow(
        self, input: StartWorkflowUpdateWithStartInput
    ) -> WorkflowUpdateHandle[Any]:
        start, update = input.start_workflow_input, input.update_workflow_input
        name = f"StartUpdateWithStartWorkflow:{start.workflow}"
        with self._asking(name, start, start.id, update.update_id) as context:
            update.headers = self._root.carrier.into(update.headers, context, _now_us())
            return await self.next.start_update_with_start_workflow(input)

    async def create_job(self, input: CreateJobInput) -> JobHandle[Any]:
        name = f"CreateJob:{input.job.name}"
        with self._root.span(name, SpanKind.CLIENT, {}) as context:
            input.headers = self._root.carrier.into(input.headers, context, _now_us())
            return await self.next.create_job(input)

    async def create_jobs(self, input: CreateJobsInput) -> list[JobHandle[Any]]:
        """One span for all: they are thousands."""
        attributes: Attributes = {"messaging.batch.message_count": len(input.jobs)}
        with self._root.span("CreateJobs", SpanKind.CLIENT, attributes) as context:
            input.headers = self._root.carrier.into(input.headers, context, _now_us())
            return await self.next.create_jobs(input)


class _ActivityInbound(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, root: TracingInterceptor) -> None:
        super().__init__(next)
        self._root = root

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        attributes: Attributes = {
            **_of_whom(info),
            "perdureAttempt": info.attempt,
            "messaging.system": "perdure",
            "messaging.destination.name": info.task_queue,
        }
        arrival = self._root.carrier.out_of(input.headers)
        parent = Context()
        links: tuple[Link, ...] = ()
        if arrival is not None and arrival.is_old(_now_us()):
            links = (Link(arrival.span),)
        elif arrival is not None:
            parent = arrival.context
        name = f"Run{'Activity' if info.job is None else 'Job'}:{info.activity_type}"
        with self._root.span(name, SpanKind.SERVER, attributes, parent=parent, links=links):
            return await self.next.execute_activity(input)


def _of_whom(info: activity.Info) -> Mapping[str, AttributeValue]:
    if info.job is not None:
        return {"perdureJobID": info.job.job_id}
    assert info.workflow_id is not None
    assert info.workflow_run_id is not None
    return {
        "perdureWorkflowID": info.workflow_id,
        "perdureRunID": info.workflow_run_id,
        "perdureActivityID": info.activity_id,
    }


def _now_us() -> int:
    return time.time_ns() // 1000
