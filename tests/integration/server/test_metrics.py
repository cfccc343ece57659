"""What a node says of itself: on /metrics, and to a collector by OTLP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1 import (
    metrics_service_pb2 as pb,
)
from opentelemetry.proto.collector.metrics.v1 import (
    metrics_service_pb2_grpc,
)
from tests.channels import channel_to
from tests.engine_node import running_node
from tests.integration.server.calls import shown_on, start_workflow, until

from perdure import activity, workflow
from perdure.client import Client, WorkflowFailureError
from perdure.common import RetryPolicy
from perdure.errors import ApplicationError
from perdure.worker import Worker

QUEUE = "measured"


@activity.defn
def flaky() -> int:
    if activity.info().attempt == 1:
        raise RuntimeError("once")
    return activity.info().attempt


@workflow.defn
class Measured:
    @workflow.run
    async def run(self, fails: bool) -> int:
        await workflow.sleep(0.01)
        attempt = await workflow.execute_activity(
            flaky,
            start_to_close_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=10)),
        )
        if fails:
            raise ApplicationError("as asked")
        return attempt


async def work(address: str) -> None:
    """One run that completes, one that fails, and a call that is refused."""
    client = await Client.connect(address)
    async with Worker(client, task_queue=QUEUE, workflows=[Measured], activities=[flaky]):
        done = await client.execute_workflow(Measured.run, False, id="m-1", task_queue=QUEUE)
        assert done == 2
        with pytest.raises(WorkflowFailureError):
            await client.execute_workflow(Measured.run, True, id="m-2", task_queue=QUEUE)
    await client.close()
    async with channel_to(address) as channel:
        describe: Any = channel.unary_unary("/perdure_api.v1.WorkflowService/DescribeWorkflow")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await describe(b"\xff\xff")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    await start_workflow(address, "idle")  # waits for a worker that never comes


async def test_metrics_tell_what_happened(database_dsn: str) -> None:
    async with running_node(database_dsn) as node:
        await work(node.address)
        shown = await shown_on(node.http_address)

    def value(name: str, **labels: str) -> float:
        return shown.get((f"perdure_{name}", tuple(sorted(labels.items()))), 0.0)

    assert value("shards_owned") == 4
    assert value("workflow_started_total") == 3
    assert value("workflow_closed_total", status="COMPLETED") == 1
    assert value("workflow_closed_total", status="FAILED") == 1
    assert value("activity_completed_total") == 2
    assert value("activity_retries_total") == 2
    assert value("history_events_count") == 2
    assert value("workflow_tasks_ahead_total", outcome="counted") >= 1
    assert (
        value("workflow_task_schedule_to_start_seconds_count")
        + value("workflow_tasks_ahead_total", outcome="counted")
        == 6
    )
    assert value("activity_schedule_to_start_seconds_count") == 4
    # two sleeps and two retries; what is fired early would have broken a promise (invariant 24)
    assert value("timer_lateness_seconds_count") >= 4
    assert value("timer_early_total") == 0
    refused = {"operation": "DescribeWorkflow", "code": "INVALID_ARGUMENT"}
    assert value("requests_total", **refused) == 1
    assert value("requests_total", operation="StartWorkflow", code="OK") == 1
    assert value("request_seconds_count", operation="DescribeWorkflow") == 1
    assert value("db_txn_seconds_count", op="commit") >= value("db_batch_intents_count") > 0
    idle = {"task_queue": "nobody", "task_kind": "workflow"}
    assert value("backlog_count", **idle) == 1
    assert value("no_poller_tasks") == 1
    assert value("runs_in_memory") == 3
    assert abs(value("clock_skew_seconds")) < 60  # the same machine
    assert not [key for key in shown if key[0] == "perdure_invariant_violations_total"]


class Collector(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def Export(self, request: Any, context: Any) -> Any:  # gRPC's name
        self.requests.append(request)
        return pb.ExportMetricsServiceResponse()

    def metric(self, name: str) -> Any:
        """The newest of that name."""
        for request in reversed(self.requests):
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        if metric.name == name:
                            return metric
        return None


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[Collector, str]]:
    servicer = Collector()
    server = grpc.aio.server()
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield servicer, f"http://127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def test_a_collector_hears_the_same(database_dsn: str) -> None:
    """B21: the last figures are sent at the stop too."""
    async with collector() as (heard, endpoint):
        settings = {"metrics.otlp_endpoint": endpoint, "metrics.otlp_every_s": 0.2}
        async with running_node(database_dsn, settings) as node:
            await until(lambda: heard.metric("perdure_shards_owned"), 20, "figures arrive")
            await work(node.address)

        closed = heard.metric("perdure_workflow_closed_total")
        assert closed.sum.is_monotonic
        numbers = {
            point.attributes[0].value.string_value: point.as_int for point in closed.sum.data_points
        }
        assert numbers == {"COMPLETED": 1, "FAILED": 1}
        waits = heard.metric("perdure_activity_schedule_to_start_seconds")
        assert waits.unit == "s"
        assert waits.histogram.data_points[0].count == 4
        resource = heard.requests[-1].resource_metrics[0].resource
        names = {one.key: one.value.string_value for one in resource.attributes}
        assert (names["service.name"], names["service.instance.id"]) == (
            "perdure",
            node.node_id.hex(),
        )


async def test_a_collector_that_is_away_costs_nothing(database_dsn: str) -> None:
    settings = {"metrics.otlp_endpoint": "http://127.0.0.1:9", "metrics.otlp_every_s": 0.05}
    async with running_node(database_dsn, settings) as node:
        await work(node.address)
        assert node.ready()
