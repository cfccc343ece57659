"""A worker that says itself what becomes of its tasks: that they have crashed, above all."""

from __future__ import annotations

import uuid
from typing import Any

import grpc

from perdure_api.v1 import worker_service_pb2 as pb
from perdure_api.v1.worker_service_pb2_grpc import WorkerServiceStub

QUEUE = "jobs"
CALL_S = 30.0
TASKS_MAX = 10
REPORT = pb.TaskCrash(message="killed by signal 11 (SIGSEGV)", report="its stacks")


async def crash_in_a_row(channel: grpc.aio.Channel, times: int = 3) -> None:
    """The one task there is takes down a worker, and the next, …"""
    for crashes in range(times):
        worker = RawWorker(channel)
        task = await worker.one()
        assert task.crashes == crashes
        await worker.crashes(task)


class RawWorker:
    """Polls when it is told to, sends no heartbeats, and never says goodbye."""

    def __init__(self, channel: grpc.aio.Channel, pool: str = "", queue: str = QUEUE) -> None:
        self._stub: Any = WorkerServiceStub(channel)
        self._worker: dict[str, Any] = {
            "namespace": "default",
            "worker_id": uuid.uuid4().bytes,
            "identity": "raw",
            "pool": pool,
        }
        self._queue = queue

    async def poll(self, timeout_s: float = 5.0, *, workflows: bool = False) -> list[Any]:
        """Workflow tasks, or else activities and jobs."""
        request = pb.PollTasksRequest(
            **self._worker,
            task_queue=self._queue,
            max_workflow_tasks=TASKS_MAX if workflows else 0,
            max_activity_tasks=0 if workflows else TASKS_MAX,
            timeout_ms=round(timeout_s * 1_000),
        )
        answer = await self._stub.PollTasks(request, timeout=CALL_S)
        return [*answer.workflow_tasks, *answer.activity_tasks, *answer.job_tasks]

    async def one(self, timeout_s: float = 5.0, *, workflows: bool = False) -> Any:
        (task,) = await self.poll(timeout_s, workflows=workflows)
        return task

    async def crashes(self, *tasks: Any, report: pb.TaskCrash = REPORT) -> None:
        """The process that each of them had to itself has died."""
        await self._tell([pb.TaskCompletion(token=one.token, task_crash=report) for one in tasks])

    async def completes(self, *tasks: Any) -> None:
        done = pb.ActivitySuccess()
        await self._tell([pb.TaskCompletion(token=t.token, activity_success=done) for t in tasks])

    async def _tell(self, completions: list[pb.TaskCompletion]) -> None:
        request = pb.CompleteTasksRequest(**self._worker, completions=completions)
        answer = await self._stub.CompleteTasks(request, timeout=CALL_S)
        assert not answer.failures
