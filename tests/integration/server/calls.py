"""Calls to a node, and waiting for what it does."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # no stubs
from prometheus_client.parser import text_string_to_metric_families
from tests.channels import channel_to

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_api.v1 import workflow_service_pb2_grpc

POLL_S = 0.02
CALL_S = 10.0


async def until(predicate: Callable[[], object], deadline_s: float, what: str) -> None:
    """As tests.waiting.wait_until, without holding up the loop that makes the condition true."""
    try:
        async with asyncio.timeout(deadline_s):
            while not predicate():  # noqa: ASYNC110  # what is waited for has no event to wait for
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise AssertionError(f"not within {deadline_s} s: {what}") from None


async def health_of(address: str) -> int:
    async with channel_to(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=CALL_S)
        status: int = answer.status
        return status


SERVING: int = health_pb2.HealthCheckResponse.SERVING


Shown = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def shown_on(http_address: str) -> Shown:
    """What /metrics says, by name and labels."""
    status, text = await asyncio.to_thread(get, http_address, "/metrics")
    assert status == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def start_workflow(address: str, workflow_id: str) -> str:
    """Start one that no worker will take; its run id."""
    request = pb.StartWorkflowRequest(
        namespace="default",
        workflow_id=workflow_id,
        workflow_type="Idle",
        task_queue="nobody",
        request_id=str(uuid.uuid4()),
    )
    async with channel_to(address) as channel:
        stub: Any = workflow_service_pb2_grpc.WorkflowServiceStub(channel)
        answer = await stub.StartWorkflow(request, timeout=CALL_S)
        run_id: str = answer.run_id
        return run_id


async def describe_workflow(address: str, workflow_id: str) -> str:
    """The run id of the workflow's newest run."""
    request = pb.DescribeWorkflowRequest(namespace="default", workflow_id=workflow_id)
    async with channel_to(address) as channel:
        stub: Any = workflow_service_pb2_grpc.WorkflowServiceStub(channel)
        answer = await stub.DescribeWorkflow(request, timeout=CALL_S)
        run_id: str = answer.info.run_id
        return run_id


def get(http_address: str, path: str) -> tuple[int, str]:
    """The status and the text of a page. Blocks."""
    try:
        with urllib.request.urlopen(f"http://{http_address}{path}", timeout=CALL_S) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
