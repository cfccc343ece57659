"""WorkerService: what workers call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

from google.protobuf.message import Message

from perdure_api.v1 import worker_service_pb2 as pb
from perdure_engine.core.errors import Rejected
from perdure_engine.core.versions import version_name
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.complete_tasks import Said, complete_tasks
from perdure_engine.frontend.handlers.get_task_history import get_task_history
from perdure_engine.frontend.handlers.goodbye import goodbye
from perdure_engine.frontend.handlers.heartbeat import heartbeat
from perdure_engine.frontend.handlers.poll_tasks import (
    PollTasks,
    check_worker,
    give_back,
    poll_tasks,
    wanted_with_completions,
)
from perdure_engine.ports.history import HeldVerdict, WorkerRef
from perdure_engine.ports.matching import PollAnswer
from perdure_engine.transport.grpc.call_stream import CallStream, Serve
from perdure_engine.transport.grpc.convert.completions import completion_of, held_of
from perdure_engine.transport.grpc.convert.events import event_message
from perdure_engine.transport.grpc.convert.handed import tasks_fields
from perdure_engine.transport.grpc.decode import Context
from perdure_engine.transport.grpc.departure import Caller, StreamedCall, undo_if_lost
from perdure_engine.transport.grpc.errors import Errors
from perdure_engine.transport.grpc.message_stream import MessageStream

M = TypeVar("M", bound=Message)


class WorkerService:
    """One function per RPC, by its name: message in, message out, errors raised."""

    def __init__(self, frontend: Frontend, errors: Errors) -> None:
        self._frontend = frontend
        self._errors = errors

    async def Work(self, stream: MessageStream) -> None:
        worker_id = b""

        def of_worker(serve: Serve) -> Serve:
            @wraps(serve)
            async def noted(request: Any, caller: StreamedCall) -> Message:
                nonlocal worker_id
                worker_id = request.worker_id
                return await serve(request, caller)

            return noted

        methods: Mapping[str, Serve] = {
            "poll_tasks": of_worker(self.PollTasks),
            "complete_tasks": of_worker(self.CompleteTasks),
        }
        parking = self._frontend.parking
        calls = CallStream(stream, methods, pb.WorkResponse, self._errors, parking)
        try:
            await calls.serve()
        finally:
            # A worker that was killed shows here first, also one that had no call under way. It looks as if it had
            # asked all.
            if worker_id and not (parking.closed or calls.idle):
                self._frontend.history.poll_broken(worker_id)

    async def PollTasks(self, request: pb.PollTasksRequest, caller: Caller) -> pb.PollTasksResponse:
        poll = PollTasks(
            namespace_id=await self._frontend.namespaces.id_of(request.namespace),
            task_queue=request.task_queue,
            worker=worker_of(request),
            max_workflow_tasks=request.max_workflow_tasks,
            max_activity_tasks=request.max_activity_tasks,
            timeout_ms=request.timeout_ms,
        )
        answer = await poll_tasks(self._frontend, poll)
        if answer is None:
            return pb.PollTasksResponse()
        return self._delivered(answer, caller, pb.PollTasksResponse)

    def _delivered(self, answer: PollAnswer, caller: Caller, make: Callable[..., M]) -> M:
        """`make` of the answer's tasks; given back if that does not leave.

        What is lost later, on its way, is found by the leases.
        """
        if not answer.workflow_tasks and not answer.activity_tasks and not answer.job_tasks:
            return make()
        try:
            message = make(**tasks_fields(self._frontend, answer))
        except BaseException:
            give_back(self._frontend, answer)
            raise
        undo_if_lost(caller, lambda: give_back(self._frontend, answer))
        return message

    async def CompleteTasks(
        self, request: pb.CompleteTasksRequest, caller: Caller
    ) -> pb.CompleteTasksResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        worker = worker_of(request)
        check_worker(worker)
        wanted = wanted_with_completions(
            PollTasks(
                namespace_id=namespace_id,
                task_queue=request.task_queue,
                worker=worker,
                max_workflow_tasks=request.max_workflow_tasks,
                max_activity_tasks=request.max_activity_tasks,
                timeout_ms=0,
            )
        )
        said: list[Said] = []
        for message in request.completions:
            try:
                said.append(completion_of(message, self._frontend.sealer, namespace_id, worker))
            except Rejected as rejected:
                said.append(rejected)
        taker = None if wanted is None else self._frontend.matching.announce(wanted)
        try:
            settled = await complete_tasks(self._frontend, said, worker.identity)
            make = partial(
                pb.CompleteTasksResponse,
                failures=[
                    pb.CompletionFailure(index=index, error=self._errors.encoded(error))
                    for index, error in settled.failures
                ],
                went_ahead=settled.went_ahead,
            )
            return make() if taker is None else self._delivered(taker.take(), caller, make)
        except asyncio.CancelledError:
            # as with a broken poll: what the worker holds is judged sooner, unless it is heard of
            self._frontend.history.poll_broken(worker.worker_id)
            raise
        finally:
            if taker is not None:
                taker.leave()

    async def Heartbeat(self, request: pb.HeartbeatRequest, _: Context) -> pb.HeartbeatResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        worker = WorkerRef(request.worker_id, request.identity, "")
        held = held_of(request.held, self._frontend.sealer, namespace_id)
        verdicts = heartbeat(self._frontend, worker, held)
        return pb.HeartbeatResponse(
            notices=[
                pb.HeldTaskNotice(index=index, state=_held_state(verdict))
                for index, verdict in enumerate(verdicts)
                if verdict is not None
            ]
        )

    async def Goodbye(self, request: pb.GoodbyeRequest, _: Context) -> pb.GoodbyeResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        released = [
            self._frontend.sealer.open_task(f"released_tokens[{index}]", sealed, namespace_id)
            for index, sealed in enumerate(request.released_tokens)
        ]
        goodbye(self._frontend, WorkerRef(request.worker_id, request.identity, ""), released)
        return pb.GoodbyeResponse()

    async def GetTaskHistory(
        self, request: pb.GetTaskHistoryRequest, _: Context
    ) -> pb.GetTaskHistoryResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        page = await get_task_history(self._frontend, namespace_id, request.page_token)
        return pb.GetTaskHistoryResponse(
            events=[event_message(event) for event in page.events],
            next_page_token=page.next_page_token,
        )


def worker_of(request: pb.PollTasksRequest | pb.CompleteTasksRequest) -> WorkerRef:
    name, build_id = request.deployment_name, request.build_id
    if not name:
        return WorkerRef(request.worker_id, request.identity, build_id, pool=request.pool)
    version = version_name(name, build_id)
    return WorkerRef(request.worker_id, request.identity, build_id, name, version, request.pool)


def _held_state(verdict: HeldVerdict) -> pb.HeldTaskState.ValueType:
    if verdict.lost:
        return pb.HELD_TASK_STATE_LOST
    if verdict.cancel_requested:
        return pb.HELD_TASK_STATE_CANCEL_REQUESTED
    if verdict.paused:
        return pb.HELD_TASK_STATE_PAUSED
    return pb.HELD_TASK_STATE_UNSPECIFIED
