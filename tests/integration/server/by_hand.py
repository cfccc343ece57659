"""Workers and clients of a node by hand: raw messages, no SDK."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.rpc import code_pb2, status_pb2
from tests.channels import channel_to
from tests.integration.server.calls import CALL_S

from perdure_api.v1 import common_pb2, event_pb2, worker_service_pb2_grpc, workflow_service_pb2_grpc
from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_api.v1 import workflow_service_pb2 as pb

QUEUE = "by-hand"
WORKER_ID = b"by hand".ljust(16, b".")
POLL_MS = 1_000

Decide = Callable[[wpb.WorkflowTask], Sequence[wpb.Command] | None]
"""What a workflow's code asks for; None: nothing is answered, and the task is lost."""


class Hand:
    """Calls of one node."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._workflows: Any = workflow_service_pb2_grpc.WorkflowServiceStub(channel)
        self._workers: Any = worker_service_pb2_grpc.WorkerServiceStub(channel)

    async def start(self, workflow_id: str, workflow_type: str) -> str:
        request = pb.StartWorkflowRequest(
            namespace="default",
            workflow_id=workflow_id,
            workflow_type=workflow_type,
            task_queue=QUEUE,
            request_id=str(uuid.uuid4()),
        )
        answer = await self._workflows.StartWorkflow(request, timeout=CALL_S)
        run_id: str = answer.run_id
        return run_id

    async def terminate(self, workflow_id: str) -> None:
        request = pb.TerminateWorkflowRequest(
            namespace="default", workflow_id=workflow_id, request_id=str(uuid.uuid4())
        )
        await self._workflows.TerminateWorkflow(request, timeout=CALL_S)

    async def describe(self, workflow_id: str) -> pb.DescribeWorkflowResponse:
        request = pb.DescribeWorkflowRequest(namespace="default", workflow_id=workflow_id)
        described: pb.DescribeWorkflowResponse = await self._workflows.DescribeWorkflow(
            request, timeout=CALL_S
        )
        return described

    async def why(self, workflow_id: str) -> pb.ExplainWorkflowResponse:
        request = pb.ExplainWorkflowRequest(namespace="default", workflow_id=workflow_id)
        why: pb.ExplainWorkflowResponse = await self._workflows.ExplainWorkflow(
            request, timeout=CALL_S
        )
        return why

    async def history(self, workflow_id: str) -> list[event_pb2.HistoryEvent]:
        request = pb.GetHistoryRequest(namespace="default", workflow_id=workflow_id)
        answer = await self._workflows.GetHistory(request, timeout=CALL_S)
        return list(answer.events)

    async def poll(self) -> list[wpb.WorkflowTask]:
        request = wpb.PollTasksRequest(
            namespace="default",
            task_queue=QUEUE,
            worker_id=WORKER_ID,
            max_workflow_tasks=100,
            timeout_ms=POLL_MS,
        )
        answer = await self._workers.PollTasks(request, timeout=CALL_S)
        return list(answer.workflow_tasks)

    async def complete(
        self, task: wpb.WorkflowTask, commands: Sequence[wpb.Command], *, may_be_over: bool = False
    ) -> None:
        done = wpb.TaskCompletion(
            token=task.token, workflow_task_success=wpb.WorkflowTaskSuccess(commands=commands)
        )
        request = wpb.CompleteTasksRequest(
            namespace="default", worker_id=WORKER_ID, completions=[done]
        )
        answer = await self._workers.CompleteTasks(request, timeout=CALL_S)
        if answer.failures:
            (failure,) = answer.failures
            code = status_pb2.Status.FromString(failure.error).code
            assert may_be_over and code == code_pb2.NOT_FOUND, failure  # noqa: PT018  # one thing
            found = await self.describe(task.workflow_id)
            assert found.info.status != common_pb2.WORKFLOW_STATUS_RUNNING, failure

    async def work(self, decide: Decide) -> None:
        """Until it is cancelled. Of a run that has been terminated meanwhile the task is over."""
        while True:
            for task in await self.poll():
                commands = decide(task)
                if commands is not None:
                    await self.complete(task, commands, may_be_over=True)


@asynccontextmanager
async def at_hand(address: str) -> AsyncIterator[Hand]:
    async with channel_to(address) as channel:
        yield Hand(channel)


@asynccontextmanager
async def working(decide: Decide, *hands: Hand) -> AsyncIterator[None]:
    """With a worker at each of these nodes."""
    workers = [asyncio.ensure_future(hand.work(decide)) for hand in hands]
    try:
        yield
    finally:
        for worker in workers:
            worker.cancel()
        for ended in await asyncio.gather(*workers, return_exceptions=True):
            if not isinstance(ended, asyncio.CancelledError):
                raise ended


def names(events: Sequence[event_pb2.HistoryEvent]) -> list[str]:
    return [event.WhichOneof("attributes") or "" for event in events]
