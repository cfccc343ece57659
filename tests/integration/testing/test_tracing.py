"""Traces over processes: a collector here, workers in processes that send to it, one of them killed."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from opentelemetry.context import get_current
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, StatusCode, get_current_span
from tests.integration.testing import traced_worker
from tests.integration.testing.traced_worker import QUEUE, Order, charge, ship, traced_to

from perdure import activity, workflow
from perdure.client import WorkflowFailureError
from perdure.common import RetryPolicy
from perdure.contrib.opentelemetry import TracingInterceptor
from perdure.errors import ApplicationError, ApplicationErrorCategory
from perdure.testing import ActivityEnvironment, WorkflowEnvironment
from perdure.worker import ActivityInboundInterceptor, ExecuteActivityInput, Worker

DEADLINE_S = 60.0


class Collector(trace_service_pb2_grpc.TraceServiceServicer):  # type: ignore[misc]  # untyped
    """Takes spans over OTLP, in threads of its own."""

    def __init__(self) -> None:
        self.spans: list[trace_pb2.Span] = []
        self._came = threading.Condition()

    def Export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: Any
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        with self._came:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    self.spans.extend(scope.spans)
            self._came.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    async def has(self, name: str) -> None:
        """Returns when there is such a span."""

        def wait() -> bool:
            with self._came:
                return self._came.wait_for(
                    lambda: any(one.name == name for one in self.spans), DEADLINE_S
                )

        assert await asyncio.to_thread(wait), f"no {name} among {self.spans}"

    def named(self, name: str) -> trace_pb2.Span:
        (span,) = [one for one in self.spans if one.name == name]
        return span


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield collector, f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def worker_process(engine: str, collector: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-P", traced_worker.__file__, engine, collector]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait(DEADLINE_S)


async def test_a_killed_worker_and_the_one_that_replays_make_no_span_twice(
    collector: tuple[Collector, str],
) -> None:
    """B21: one trace over three processes, whole, each span once."""
    spans, endpoint = collector
    client_side = traced_to(endpoint)
    tracing = TracingInterceptor(client_side.get_tracer("client"))
    async with await WorkflowEnvironment.start_time_skipping(interceptors=[tracing]) as env:
        client = env.client
        engine = client.core.connection.target
        with worker_process(engine, endpoint) as first:
            handle = await client.start_workflow(Order.run, id="o1", task_queue=QUEUE)
            async for event in handle.fetch_history_events(wait_new_event=True):
                if event.event_type == "ActivityTaskCompleted":
                    break
            assert await handle.query(Order.is_paid) is False  # it waits for the signal now
            await spans.has("HandleQuery:is_paid")
            first.kill()  # SIGKILL, while it has the run in memory
            first.wait(DEADLINE_S)
        with worker_process(engine, endpoint):
            await handle.signal(Order.paid)
            assert await handle.result() == "shipped"
            await spans.has("RunWorkflow:Order")
    client_side.shutdown()

    assert Counter(one.name for one in spans.spans) == {
        "StartWorkflow:Order": 1,
        "StartActivity:charge": 1,
        "RunActivity:charge": 1,
        "SignalWorkflow:paid": 1,
        "HandleSignal:paid": 1,
        "StartActivity:ship": 1,
        "RunActivity:ship": 1,
        "packing": 1,
        "RunWorkflow:Order": 1,
        "QueryWorkflow:is_paid": 1,
        "HandleQuery:is_paid": 1,
    }
    by_id = {one.span_id: one for one in spans.spans}
    assert len(by_id) == len(spans.spans)
    above = {one.name: one.parent_span_id for one in spans.spans}
    start, run = spans.named("StartWorkflow:Order"), spans.named("RunWorkflow:Order")
    assert above["RunWorkflow:Order"] == start.span_id
    for name in ("StartActivity:charge", "StartActivity:ship", "HandleSignal:paid"):
        assert above[name] == run.span_id, name
    for name in ("charge", "ship"):
        starting = spans.named(f"StartActivity:{name}")
        assert above[f"RunActivity:{name}"] == starting.span_id
    assert above["packing"] == spans.named("RunActivity:ship").span_id
    (link,) = spans.named("HandleSignal:paid").links
    assert link.span_id == spans.named("SignalWorkflow:paid").span_id
    one_trace = [one for one in spans.spans if "Query" not in one.name and "Signal" not in one.name]
    assert {one.trace_id for one in one_trace} == {start.trace_id}


# --- activities, with the spans in memory ---------------------------------------------------------


@activity.defn
async def fail_once(secret: str) -> None:
    if activity.info().attempt == 1:
        raise ApplicationError(secret)


@activity.defn
async def stop() -> None:
    raise ApplicationError("no", non_retryable=True)


@workflow.defn
class Retrying:
    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(
            fail_once,
            "4711",
            start_to_close_timeout=traced_worker.SOON,
            retry_policy=RetryPolicy(initial_interval=traced_worker.SOON),
        )
        await workflow.execute_local_activity(charge, start_to_close_timeout=traced_worker.SOON)
        await workflow.execute_activity(stop, start_to_close_timeout=traced_worker.SOON)


async def test_attempts_of_activities_and_local_ones() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracing = TracingInterceptor(provider.get_tracer("test"), exception_messages=False)
    async with await WorkflowEnvironment.start_time_skipping(interceptors=[tracing]) as env:
        worker = Worker(
            env.client,
            task_queue=QUEUE,
            workflows=[Retrying, Order],
            activities=[fail_once, charge, stop, ship],
        )
        async with worker:
            with pytest.raises(WorkflowFailureError):
                await env.client.execute_workflow(Retrying.run, id="r", task_queue=QUEUE)

    spans = [*kept.get_finished_spans()]
    first, second = [one for one in spans if one.name == "RunActivity:fail_once"]
    assert first.status.status_code is StatusCode.ERROR
    assert second.status.status_code is StatusCode.UNSET
    assert first.attributes is not None
    assert first.attributes["perdureAttempt"] == 1
    assert first.attributes["messaging.destination.name"] == QUEUE
    assert not any("4711" in one.to_json() for one in spans)
    local, asked = [one for one in spans if one.name.endswith(":charge")]
    assert local.name == "RunActivity:charge"
    assert local.parent is not None
    assert asked.context is not None
    assert local.parent.span_id == asked.context.span_id
    (ran,) = [one for one in spans if one.name == "RunWorkflow:Retrying"]
    assert ran.status.status_code is StatusCode.ERROR


@activity.defn
async def not_yet() -> str:
    if activity.info().attempt == 1:
        raise ApplicationError("not yet", category=ApplicationErrorCategory.BENIGN)
    return "now"


@workflow.defn
class Polling:
    @workflow.run
    async def run(self) -> list[str]:
        retry = RetryPolicy(initial_interval=timedelta(milliseconds=1))
        soon = traced_worker.SOON
        return [
            await workflow.execute_activity(
                not_yet, start_to_close_timeout=soon, retry_policy=retry
            ),
            await workflow.execute_local_activity(
                not_yet, start_to_close_timeout=soon, retry_policy=retry
            ),
        ]


async def test_a_benign_failure_is_no_error_of_a_span_and_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracing = TracingInterceptor(provider.get_tracer("test"))
    async with await WorkflowEnvironment.start_time_skipping(interceptors=[tracing]) as env:
        worker = Worker(env.client, task_queue=QUEUE, workflows=[Polling], activities=[not_yet])
        with caplog.at_level(logging.DEBUG, "perdure"):
            async with worker:
                results = await env.client.execute_workflow(Polling.run, id="p", task_queue=QUEUE)
    assert results == ["now", "now"]

    spans = kept.get_finished_spans()
    ran = [one for one in spans if one.name == "RunActivity:not_yet"]
    assert [[event.name for event in one.events] for one in ran] == [["exception"], []] * 2
    assert {one.status.status_code for one in spans} == {StatusCode.UNSET}
    said = [one for one in caplog.records if "not yet" in one.getMessage()]
    assert [one.levelno for one in said] == [logging.DEBUG, logging.DEBUG]


class Last(ActivityInboundInterceptor):
    def __init__(self) -> None:
        pass

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return get_current_span().get_span_context()


async def test_an_attempt_long_after_it_was_asked_for_is_linked(
    activity_environment: ActivityEnvironment,
) -> None:
    """A retry an hour later begins a trace of its own, with a link to what asked for it."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracing = TracingInterceptor(provider.get_tracer("test"))
    with tracing.tracer.start_as_current_span("asks") as asking:
        old = tracing.carrier.into({}, get_current(), sent_us=1)

    async def attempt() -> SpanContext:
        given = ExecuteActivityInput(fn=charge, args=[], executor=None, headers=old)
        found: SpanContext = await tracing.intercept_activity(Last()).execute_activity(given)
        return found

    found = await activity_environment.run(attempt)

    _, ran = kept.get_finished_spans()
    assert ran.parent is None
    assert [one.context.span_id for one in ran.links] == [asking.get_span_context().span_id]
    assert ran.context is not None
    assert found.span_id == ran.context.span_id
    assert found.trace_id != asking.get_span_context().trace_id
