"""Metrics of clients and workers, read as a reader of OpenTelemetry's reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from perdure import activity, workflow
from perdure.client import RPCError, WorkflowFailureError
from perdure.contrib.opentelemetry import MetricsPlugin
from perdure.contrib.opentelemetry._metrics import NAMES_MAX, Names
from perdure.errors import ApplicationError, ApplicationErrorCategory
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker

QUEUE = "queue"
SOON = timedelta(minutes=1)

reached, goes_on = asyncio.Event(), asyncio.Event()


@activity.defn
async def held() -> None:
    reached.set()
    await goes_on.wait()


@activity.defn
async def fail() -> None:
    raise ApplicationError("secret 4711", non_retryable=True)


@workflow.defn
class Order:
    @workflow.run
    async def run(self, how: str) -> None:
        await workflow.execute_activity(how, start_to_close_timeout=SOON)


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    yield reader
    reader.shutdown()


def points(reader: InMemoryMetricReader) -> dict[str, dict[tuple[Any, ...], Any]]:
    """By metric: the values, or the counts of a histogram, by the values of their labels."""
    found: dict[str, dict[tuple[Any, ...], Any]] = {}
    data = reader.get_metrics_data()
    assert data is not None
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                found[metric.name] = {
                    tuple(sorted((point.attributes or {}).values())): getattr(
                        point, "count", getattr(point, "value", None)
                    )
                    for point in metric.data.data_points
                }
    return found


async def test_a_worker_is_measured(reader: InMemoryMetricReader) -> None:
    reached.clear()
    goes_on.clear()
    plugin = MetricsPlugin(MeterProvider([reader], shutdown_on_exit=False).get_meter("test"))
    async with await WorkflowEnvironment.start_time_skipping(plugins=[plugin]) as env:
        client = env.client
        worker = Worker(
            client,
            task_queue=QUEUE,
            workflows=[Order],
            activities=[held, fail],
            max_concurrent_activities=7,
        )
        assert worker.usage().activity_slots == 0
        async with worker:
            handle = await client.start_workflow(Order.run, "held", id="o1", task_queue=QUEUE)
            await reached.wait()
            now = points(reader)
            assert now["perdure_worker_running_activities"] == {(QUEUE,): 1}
            assert now["perdure_worker_activity_slots"] == {(QUEUE,): 7}
            goes_on.set()
            await handle.result()
            with pytest.raises(WorkflowFailureError):
                await client.execute_workflow(Order.run, "fail", id="o2", task_queue=QUEUE)
            with pytest.raises(RPCError):
                await client.get_workflow_handle("nobody").describe()
            now = points(reader)

    assert now["perdure_worker_running_activities"] == {(QUEUE,): 0}
    assert now["perdure_worker_cached_workflows"] == {(QUEUE,): 0}
    assert now["perdure_worker_activity_seconds"] == {
        ("completed", "held", QUEUE): 1,
        (*sorted(("failed", "fail", QUEUE)),): 1,
    }
    assert now["perdure_worker_activity_wait_seconds"] == {(QUEUE,): 2}
    assert now["perdure_worker_workflow_closed_total"] == {
        ("Order", "completed", QUEUE): 1,
        ("Order", "failed", QUEUE): 1,
    }
    assert now["perdure_client_request_seconds"] == {
        ("OK", "start_workflow"): 2,
        ("NOT_FOUND", "describe_workflow"): 1,
    }
    after = points(reader)  # the worker is gone, and so are its gauges
    assert after.get("perdure_worker_activity_slots", {}) == {}
    assert "4711" not in str(reader.get_metrics_data())


@activity.defn
async def not_today() -> None:
    raise ApplicationError("no", non_retryable=True, category=ApplicationErrorCategory.BENIGN)


async def test_a_benign_failure_is_counted_apart(reader: InMemoryMetricReader) -> None:
    plugin = MetricsPlugin(MeterProvider([reader], shutdown_on_exit=False).get_meter("test"))
    async with await WorkflowEnvironment.start_time_skipping(plugins=[plugin]) as env:
        client = env.client
        async with Worker(client, task_queue=QUEUE, workflows=[Order], activities=[not_today]):
            with pytest.raises(WorkflowFailureError):
                await client.execute_workflow(Order.run, "not_today", id="o1", task_queue=QUEUE)
        counted = points(reader)["perdure_worker_activity_seconds"]
        assert counted == {("benign", "not_today", QUEUE): 1}


async def test_what_is_replayed_is_not_counted_again(reader: InMemoryMetricReader) -> None:
    """B21: a worker that keeps no runs replays every task; the close is counted once."""
    goes_on.set()
    plugin = MetricsPlugin(MeterProvider([reader], shutdown_on_exit=False).get_meter("test"))
    async with await WorkflowEnvironment.start_time_skipping(plugins=[plugin]) as env:
        worker = Worker(
            env.client,
            task_queue=QUEUE,
            workflows=[Order],
            activities=[held],
            max_cached_workflows=0,
        )
        async with worker:
            handle = await env.client.start_workflow(Order.run, "held", id="o1", task_queue=QUEUE)
            await handle.result()
            await handle.query("__stack_trace")
            await handle.query("__stack_trace")

    closed = points(reader)["perdure_worker_workflow_closed_total"]
    assert closed == {("Order", "completed", QUEUE): 1}


def test_labels_are_bounded() -> None:
    names = Names()
    for number in range(NAMES_MAX):
        assert names.label(f"n{number}") == f"n{number}"

    assert names.label("one too many") == "_other_"
    assert names.label("n0") == "n0"
