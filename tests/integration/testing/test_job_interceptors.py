"""Jobs pass the client's interceptors, and what these send along reaches those of the worker."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import perdure.client
import perdure.worker
from perdure import job
from perdure.client import (
    CreateJobInput,
    CreateJobsInput,
    JobHandle,
    JobInfo,
    ListJobsInput,
    OutboundInterceptor,
)
from perdure.contrib.opentelemetry import TracingInterceptor
from perdure.converter import Payload
from perdure.errors import RPCError
from perdure.job import JobStatus
from perdure.testing import WorkflowEnvironment
from perdure.worker import ActivityInboundInterceptor, ExecuteActivityInput, Worker

QUEUE = "q"

PLAIN = (
    *("get_job_result", "describe_job", "cancel_job", "reschedule_job", "resume_job"),
    *("count_jobs", "redrive_jobs", "describe_job_batch"),
)


@job.defn
async def double(number: int) -> int:
    return 2 * number


@job.defn
async def note(told: dict[str, Any]) -> int:
    return int(told["total"])


class Both(perdure.client.Interceptor, perdure.worker.Interceptor):
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.came: list[tuple[str, Payload]] = []

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return Outbound(next, self.asked)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return Inbound(next, self.came)


class Outbound(OutboundInterceptor):
    """Notes each call, and sends with a creation what it is."""

    def __init__(self, next: OutboundInterceptor, asked: list[str]) -> None:
        super().__init__(next)
        for name in PLAIN:
            setattr(self, name, self._noted(asked, name, getattr(next, name)))
        self._asked = asked

    def _noted(
        self, asked: list[str], name: str, call: Callable[[Any], Awaitable[Any]]
    ) -> Callable[[Any], Awaitable[Any]]:
        async def noted(input: Any) -> Any:
            asked.append(name)
            return await call(input)

        return noted

    def list_jobs(self, input: ListJobsInput) -> AsyncIterator[JobInfo]:
        self._asked.append("list_jobs")
        return super().list_jobs(dataclasses.replace(input, task_name="note"))

    async def create_job(self, input: CreateJobInput) -> JobHandle[Any]:
        self._asked.append("create_job")
        input.headers = {**input.headers, "by": Payload("json/plain", b'"create_job"')}
        return await super().create_job(input)

    async def create_jobs(self, input: CreateJobsInput) -> list[JobHandle[Any]]:
        self._asked.append(f"create_jobs {len(input.jobs)}")
        input.headers = {"by": Payload("json/plain", b'"create_jobs"')}
        return await super().create_jobs(input)


class Inbound(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, came: list[tuple[str, Payload]]) -> None:
        super().__init__(next)
        self._came = came

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        self._came.append((job.info().task_name, input.headers["by"]))
        return await super().execute_activity(input)


async def test_every_call_passes_and_headers_reach_the_worker() -> None:
    both = Both()
    async with (
        await WorkflowEnvironment.start_time_skipping(interceptors=[both]) as env,
        Worker(env.client, task_queue=QUEUE, activities=[double, note]),
    ):
        jobs = env.client.jobs
        assert await jobs.execute(double, 1, queue=QUEUE) == 2
        many = await jobs.create_many([job.new(double, n, queue=QUEUE) for n in range(3)])
        assert [await one.result() for one in many] == [0, 2, 4]
        last = job.callback(note, queue=QUEUE)
        await jobs.batch("b", [job.new(double, 5, queue=QUEUE)], callback=last)
        later = await jobs.create(double, 1, queue="nobody", delay=timedelta(days=1))
        await later.reschedule(None)
        with pytest.raises(RPCError, match="poisoned"):
            await later.resume()
        assert await later.cancel() is JobStatus.CANCELLED
        assert (await later.describe()).status is JobStatus.CANCELLED
        async for found in jobs.list():
            assert await jobs.get(found.id).result() == 1
        assert (await jobs.describe_batch("b")).total == 1
        assert (await jobs.count(task_name="note")).count == 1
        assert await jobs.redrive(task_name="note", dry_run=True) == 0

    assert both.asked == [
        *("create_job", "get_job_result", "create_jobs 3"),
        *["get_job_result"] * 3,
        *("create_jobs 1", "create_job", "reschedule_job", "resume_job"),
        *("cancel_job", "describe_job"),
        *("list_jobs", "get_job_result", "describe_job_batch", "count_jobs", "redrive_jobs"),
    ]
    by = {name: payload.data for name, payload in both.came[-2:]}
    assert by == {"double": b'"create_jobs"', "note": b'"create_jobs"'}
    assert both.came[0] == ("double", Payload("json/plain", b'"create_job"'))


async def test_an_interceptor_may_change_what_is_made() -> None:
    class Doubling(OutboundInterceptor):
        async def create_job(self, input: CreateJobInput) -> JobHandle[Any]:
            input.job = job.new(double, 100, queue=QUEUE)
            return await super().create_job(input)

        async def create_jobs(self, input: CreateJobsInput) -> list[JobHandle[Any]]:
            changed = dataclasses.replace(input, jobs=[*input.jobs, *input.jobs])
            return await super().create_jobs(changed)

    class Root(perdure.client.Interceptor):
        def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
            return Doubling(next)

    async with (
        await WorkflowEnvironment.start_time_skipping(interceptors=[Root()]) as env,
        Worker(env.client, task_queue=QUEUE, activities=[double]),
    ):
        assert await env.client.jobs.execute(double, 1, queue=QUEUE) == 200
        made = await env.client.jobs.create_many([job.new(double, 4, queue=QUEUE)])
        assert [await one.result() for one in made] == [8, 8]


async def test_a_job_is_in_the_trace_of_whoever_made_it() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracing = TracingInterceptor(provider.get_tracer("test"))
    async with (
        await WorkflowEnvironment.start_time_skipping(interceptors=[tracing]) as env,
        Worker(env.client, task_queue=QUEUE, activities=[double]),
    ):
        jobs = env.client.jobs
        handle = await jobs.create(double, 1, queue=QUEUE, idempotency_key="once")
        await handle.result()
        # Its trace is another, the job is the same.
        again = await jobs.create(double, 1, queue=QUEUE, idempotency_key="once")
        many = await jobs.create_many([job.new(double, n, queue=QUEUE) for n in range(3)])
        for one in many:
            await one.result()

    assert (again.id, again.created) == (handle.id, False)
    spans = kept.get_finished_spans()
    asked = [one for one in spans if one.name == "CreateJob:double"]
    ran = [one for one in spans if one.name == "RunJob:double"]
    assert (len(asked), len(ran)) == (2, 4)
    assert ran[0].parent is not None
    assert asked[0].context is not None
    assert ran[0].parent.span_id == asked[0].context.span_id
    assert ran[0].attributes is not None
    assert ran[0].attributes["perdureJobID"] == handle.id
    (together,) = [one for one in spans if one.name == "CreateJobs"]
    assert together.context is not None
    assert {one.parent and one.parent.span_id for one in ran[1:]} == {together.context.span_id}
