"""The engine's doors for workers, as plain calls: on the event loop, and blocking for threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from perdure._replay.messages import Event
from perdure._wire.call_stream import CallStream
from perdure._wire.completions import Completion
from perdure._wire.connection import Connection, open_blocking_channel
from perdure._wire.edge import PLAIN, PayloadEdge
from perdure._wire.errors import error_from_call, error_from_status
from perdure._wire.events import event_from_message
from perdure._wire.held import HeldTaskNews, HeldTaskState
from perdure._wire.tasks import EventMessage, PolledTasks, polled_from_message
from perdure.errors import RPCError
from perdure_api.v1 import worker_service_pb2 as pb
from perdure_api.v1.worker_service_pb2_grpc import WorkerServiceStub

# The pool of the workers that get the poisoned tasks.
SURGICAL = "surgical"
# How long a poll stays parked; the contract's maximum.
POLL_TIMEOUT_MS = 60_000
# An answer that takes this much longer is not coming.
_ANSWER_TIME_S = 10.0
# A commit takes milliseconds, one that has to be resolved first seconds.
COMPLETE_TIMEOUT_S = 30.0
_HISTORY_TIMEOUT_S = 30.0
_STATES = {int(state): state for state in HeldTaskState}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """Who a worker is. `worker_id`: 16 random bytes, new with every start."""

    namespace: str
    worker_id: bytes
    identity: str
    build_id: str
    deployment_name: str = ""
    """Empty: it takes the tasks that go to no version."""


class WorkerService:
    """Every method raises RPCError, and sends once: trying again is the caller's decision."""

    def __init__(
        self,
        connection: Connection,
        identity: WorkerIdentity,
        task_queue: str,
        edge: PayloadEdge = PLAIN,
    ) -> None:
        self._stub = WorkerServiceStub(connection.channel)
        self._calls = CallStream(self._stub.Work, pb.WorkRequest)
        self._edge = edge
        self._identity = identity
        self._task_queue = task_queue

    async def poll_tasks(
        self, max_workflow_tasks: int, max_activity_tasks: int, pool: str = ""
    ) -> PolledTasks:
        """Returns as soon as there is one task, with up to that many; empty after a minute.

        `pool`: SURGICAL for poisoned tasks, and nothing else.
        """
        who = self._identity
        request = pb.PollTasksRequest(
            namespace=who.namespace,
            task_queue=self._task_queue,
            worker_id=who.worker_id,
            identity=who.identity,
            build_id=who.build_id,
            max_workflow_tasks=max_workflow_tasks,
            max_activity_tasks=max_activity_tasks,
            timeout_ms=POLL_TIMEOUT_MS,
            deployment_name=who.deployment_name,
            pool=pool,
        )

        def fill(call: pb.WorkCall) -> None:
            call.poll_tasks.CopyFrom(request)

        answer: pb.WorkAnswer = await self._calls.call(
            fill, POLL_TIMEOUT_MS / 1000 + _ANSWER_TIME_S
        )
        return polled_from_message(answer.poll_tasks)

    async def complete_tasks(
        self, completions: list[Completion], max_workflow_tasks: int, max_activity_tasks: int
    ) -> tuple[dict[int, RPCError], PolledTasks]:
        """Returns when all of it is saved, with the errors of those that were not taken, and with
        up to that many of the tasks that are there by then."""

        def fill(call: pb.WorkCall) -> None:
            request = call.complete_tasks
            _fill_completions(request, self._identity, completions)
            request.task_queue = self._task_queue
            request.max_workflow_tasks = max_workflow_tasks
            request.max_activity_tasks = max_activity_tasks

        size = sum([completion.size for completion in completions])
        answer: pb.WorkAnswer = await self._calls.call(fill, COMPLETE_TIMEOUT_S, size)
        response = answer.complete_tasks
        for index in response.went_ahead:
            completions[index].went_ahead = True
        errors = {one.index: error_from_status(one.error) for one in response.failures}
        return errors, polled_from_message(response)

    async def close(self) -> None:
        """Ends the stream of calls. Closing twice is fine."""
        await self._calls.close()

    async def task_history(self, page_token: bytes) -> tuple[list[Event], bytes]:
        """The events past the token, and the token of the next page, empty after the last.

        Raises PayloadDecodeError too.
        """
        events, next_page_token = await self.task_history_messages(page_token)
        return [event_from_message(one) for one in events], next_page_token

    async def task_history_messages(self, page_token: bytes) -> tuple[list[EventMessage], bytes]:
        """The same, not read yet."""
        request = pb.GetTaskHistoryRequest(
            namespace=self._identity.namespace, page_token=page_token
        )
        try:
            response = await self._stub.GetTaskHistory(request, timeout=_HISTORY_TIMEOUT_S)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        await self._edge.decode(response)
        return list(response.events), response.next_page_token

    async def say_goodbye(self, released_tokens: Sequence[bytes], timeout_s: float) -> None:
        request = pb.GoodbyeRequest(
            namespace=self._identity.namespace,
            worker_id=self._identity.worker_id,
            identity=self._identity.identity,
            released_tokens=released_tokens,
        )
        try:
            await self._stub.Goodbye(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None


class BlockingWorkerService:
    """What the guard thread says while the event loop may be stuck, on a connection of its own."""

    def __init__(self, target: str, identity: WorkerIdentity) -> None:
        self._channel = open_blocking_channel(target)
        self._stub = WorkerServiceStub(self._channel)
        self._identity = identity

    def heartbeat(
        self, held: Sequence[HeldTaskNews], loop_stalled_ms: int, timeout_s: float
    ) -> list[tuple[int, HeldTaskState]]:
        """States by index in `held`, of those tasks only that need something done."""
        request = pb.HeartbeatRequest(
            namespace=self._identity.namespace,
            worker_id=self._identity.worker_id,
            identity=self._identity.identity,
            held=[
                pb.HeldTask(
                    token=one.token,
                    heartbeat_details=one.heartbeat_details or b"",
                    has_details=one.heartbeat_details is not None,
                    progress_version=one.progress_version,
                )
                for one in held
            ],
            loop_stalled_ms=loop_stalled_ms,
        )
        try:
            response = self._stub.Heartbeat(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        return [
            (notice.index, _STATES[notice.state])
            for notice in response.notices
            if notice.state in _STATES
        ]

    def complete_tasks(self, completions: list[Completion], timeout_s: float) -> None:
        """Those that were not taken came too late, and nobody needs to know."""
        try:
            request = pb.CompleteTasksRequest()
            _fill_completions(request, self._identity, completions)
            self._stub.CompleteTasks(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None

    def close(self) -> None:
        self._channel.close()


def _fill_completions(
    request: pb.CompleteTasksRequest, identity: WorkerIdentity, completions: list[Completion]
) -> None:
    request.namespace = identity.namespace
    request.worker_id = identity.worker_id
    request.identity = identity.identity
    request.build_id = identity.build_id
    request.deployment_name = identity.deployment_name
    for completion in completions:
        content = completion.content
        if isinstance(content, dict):
            request.completions.add(**content)
        else:
            request.completions.append(content)
