"""A worker that says itself what becomes of its jobs, and jobs that it makes crash."""

from __future__ import annotations

import uuid
from typing import Any

import grpc

from perdure_api.v1 import worker_service_pb2 as pb
from perdure_api.v1.worker_service_pb2_grpc import WorkerServiceStub

QUEUE = "jobs"
CALL_S = 30.0
REPORT = pb.TaskCrash(message="killed by signal 11 (SIGSEGV)", report="its stacks")


class RawWorker:
    """Polls when it is told to, sends no heartbeats, and never says goodbye."""

    def __init__(self, channel: grpc.aio.Channel, pool: str = "") -> None:
        self._stub: Any = WorkerServiceStub(channel)
        self._worker: dict[str, Any] = {
            "namespace": "default",
            "worker_id": uuid.uuid4().bytes,
            "identity": "raw",
            "pool": pool,
        }

    async def poll(self, timeout_s: float = 5.0, most: int = 10) -> list[pb.JobTask]:
        request = pb.PollTasksRequest(
            **self._worker,
            task_queue=QUEUE,
            max_activity_tasks=most,
            timeout_ms=round(timeout_s * 1_000),
        )
        return list((await self._stub.PollTasks(request, timeout=CALL_S)).job_tasks)

    async def one(self, timeout_s: float = 5.0) -> pb.JobTask:
        (task,) = await self.poll(timeout_s)
        return task

    async def crashes(self, *tasks: pb.JobTask) -> None:
        """The process that each of them had to itself has died."""
        await self._tell([pb.TaskCompletion(token=one.token, task_crash=REPORT) for one in tasks])

    async def completes(self, *tasks: pb.JobTask) -> None:
        done = pb.ActivitySuccess()
        await self._tell([pb.TaskCompletion(token=t.token, activity_success=done) for t in tasks])

    async def _tell(self, completions: list[pb.TaskCompletion]) -> None:
        request = pb.CompleteTasksRequest(**self._worker, completions=completions)
        answer = await self._stub.CompleteTasks(request, timeout=CALL_S)
        assert not answer.failures
