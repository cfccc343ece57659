"""What workers reach of the fake engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import grpc
from tests.integration.sdk.fake_faults import status
from tests.integration.sdk.fake_streams import serve_calls

from perdure_api.v1 import namespace_service_pb2 as namespace_pb
from perdure_api.v1 import worker_service_pb2 as worker_pb
from perdure_api.v1.namespace_service_pb2_grpc import NamespaceServiceServicer
from perdure_api.v1.worker_service_pb2_grpc import WorkerServiceServicer

if TYPE_CHECKING:
    from tests.integration.sdk.fake_engine import FakeEngine


class WorkerDoor(WorkerServiceServicer):
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._runs = engine.runs

    async def Work(self, requests: AsyncIterator[worker_pb.WorkRequest], context: Any) -> None:
        methods = {"poll_tasks": self.PollTasks, "complete_tasks": self.CompleteTasks}
        await serve_calls(requests, context, methods, worker_pb.WorkResponse)

    async def PollTasks(
        self, request: worker_pb.PollTasksRequest, context: Any
    ) -> worker_pb.PollTasksResponse:
        await self._engine.enter("PollTasks", request, context)
        if self._engine.polls_are_empty:
            self._engine.polls_are_empty -= 1
            return worker_pb.PollTasksResponse()
        try:
            async with asyncio.timeout(request.timeout_ms / 1000):
                while True:
                    response = self._take(request)
                    if response.workflow_tasks or response.activity_tasks:
                        return response
                    self._runs.ready.clear()
                    await self._runs.ready.wait()
        except TimeoutError:
            return worker_pb.PollTasksResponse()

    def _take(
        self, request: worker_pb.PollTasksRequest | worker_pb.CompleteTasksRequest
    ) -> worker_pb.PollTasksResponse:
        response = worker_pb.PollTasksResponse()
        for _ in range(request.max_workflow_tasks):
            workflow_task = self._runs.take_workflow_task(request.worker_id, request.pool)
            if workflow_task is None:
                break
            self._cut(workflow_task)
            response.workflow_tasks.append(workflow_task)
        for _ in range(request.max_activity_tasks):
            activity_task = self._runs.take_activity_task(request.pool)
            if activity_task is None:
                break
            response.activity_tasks.append(activity_task)
        return response

    def _cut(self, task: worker_pb.WorkflowTask) -> None:
        if len(task.events) > self._engine.page_events:
            del task.events[self._engine.page_events :]
            task.next_page_token = f"{task.run_id} {task.events[-1].event_id}".encode()

    async def CompleteTasks(
        self, request: worker_pb.CompleteTasksRequest, context: Any
    ) -> worker_pb.CompleteTasksResponse:
        fault = await self._engine.enter("CompleteTasks", request, context)
        response = worker_pb.CompleteTasksResponse()
        for index, completion in enumerate(request.completions):
            refusal = self._engine.refused_outcomes.get(completion.WhichOneof("outcome") or "")
            if refusal is not None:
                response.failures.add(index=index, error=refusal.SerializeToString())
            elif not self._runs.complete(completion, request.worker_id):
                error = status(grpc.StatusCode.NOT_FOUND, "too late")
                response.failures.add(index=index, error=error.SerializeToString())
        if self._engine.completions_bring_tasks:
            tasks = self._take(request)
            response.workflow_tasks.extend(tasks.workflow_tasks)
            response.activity_tasks.extend(tasks.activity_tasks)
        await self._engine.notify()
        if fault is not None:
            await self._engine.abort(context, fault.status)
        return response

    async def Heartbeat(
        self, request: worker_pb.HeartbeatRequest, context: Any
    ) -> worker_pb.HeartbeatResponse:
        await self._engine.enter("Heartbeat", request, context)
        return worker_pb.HeartbeatResponse(
            notices=[
                worker_pb.HeldTaskNotice(index=index, state=self._engine.notices[held.token])
                for index, held in enumerate(request.held)
                if held.token in self._engine.notices
            ]
        )

    async def Goodbye(
        self, request: worker_pb.GoodbyeRequest, context: Any
    ) -> worker_pb.GoodbyeResponse:
        await self._engine.enter("Goodbye", request, context)
        return worker_pb.GoodbyeResponse()

    async def GetTaskHistory(
        self, request: worker_pb.GetTaskHistoryRequest, context: Any
    ) -> worker_pb.GetTaskHistoryResponse:
        await self._engine.enter("GetTaskHistory", request, context)
        run_id, last_id = request.page_token.decode().split()
        run = self._runs.by_run_id[run_id]
        events = run.events[int(last_id) : int(last_id) + self._engine.page_events]
        more = events[-1].event_id < len(run.events)
        token = f"{run_id} {events[-1].event_id}".encode() if more else b""
        return worker_pb.GetTaskHistoryResponse(events=events, next_page_token=token)


class NamespaceDoor(NamespaceServiceServicer):
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    async def DescribeNamespace(
        self, request: namespace_pb.DescribeNamespaceRequest, context: Any
    ) -> namespace_pb.DescribeNamespaceResponse:
        await self._engine.enter("DescribeNamespace", request, context)
        info = namespace_pb.NamespaceInfo(name=request.name, retention_ms=3_600_000)
        return namespace_pb.DescribeNamespaceResponse(namespace=info)
