"""The engine's doors for clients, as plain calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from perdure._replay.messages import Event
from perdure._wire.call_stream import CallStream
from perdure._wire.calls import Call, Target
from perdure._wire.connection import Connection
from perdure._wire.edge import PLAIN, PayloadEdge
from perdure._wire.errors import error_from_call
from perdure._wire.events import event_from_message
from perdure._wire.explanation import WaitReason, reasons_from_message
from perdure._wire.history import HistoryEvent, history_event_from_message
from perdure._wire.results import ResultWait, WaitedResult, wait_to_message, waited_from_message
from perdure._wire.tasks import EventMessage
from perdure._wire.workflow_info import (
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowExecutionCountAggregationGroup,
    WorkflowFilter,
    execution_from_message,
    filter_to_message,
)
from perdure.converter import Payload
from perdure.errors import RPCError, RPCStatusCode
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_api.v1.workflow_service_pb2_grpc import WorkflowServiceStub

# What a wait for new events allows the engine beyond the wait itself.
_ANSWER_TIME_S = 10.0


class WorkflowService:
    """Every method raises RPCError, and sends once: trying again is the caller's decision."""

    def __init__(self, connection: Connection, edge: PayloadEdge = PLAIN) -> None:
        self._stub = WorkflowServiceStub(connection.channel)
        self._calls = CallStream(self._stub.Calls, pb.CallsRequest)
        self._edge = edge

    async def batch_call(self, calls: list[Call[Any]], timeout_s: float) -> list[Any]:
        """One answer per call, in order: what the call asked for, or the error it met."""

        def fill(message: pb.NumberedCall) -> None:
            message.batch_call.calls.extend([call.message for call in calls])

        size = sum([call.size for call in calls])
        answer: pb.NumberedAnswer = await self._calls.call(fill, timeout_s, size)
        results = answer.batch_call.results
        if len(results) != len(calls):
            raise RPCError("the engine did not answer each call", RPCStatusCode.INTERNAL)
        return [call.read(result) for call, result in zip(calls, results, strict=True)]

    async def close(self) -> None:
        """Ends the stream of calls. Closing twice is fine."""
        await self._calls.close()

    def open_results(self) -> ResultStream:
        return ResultStream(self._stub.WaitResults())

    async def list_workflows(
        self,
        namespace: str,
        wanted: WorkflowFilter,
        query: str,
        page_size: int,
        page_token: bytes,
        decode: Callable[[Payload], Any],
        timeout_s: float,
        *,
        archived: bool,
    ) -> tuple[list[WorkflowExecution], bytes]:
        """A page, and the token of the next one, empty after the last. A page may be empty.

        `decode` turns the payloads of memos into values.
        """
        request = pb.ListWorkflowsRequest(
            namespace=namespace,
            filter=filter_to_message(wanted),
            query=query,
            page_size=page_size,
            page_token=page_token,
            archived=archived,
        )
        try:
            response = await self._stub.ListWorkflows(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        await self._edge.decode(response, keeps_unreadable=True)
        executions = [execution_from_message(one, decode) for one in response.workflows]
        return executions, response.next_page_token

    async def count_workflows(
        self, namespace: str, wanted: WorkflowFilter, query: str, timeout_s: float
    ) -> WorkflowExecutionCount:
        request = pb.CountWorkflowsRequest(
            namespace=namespace, filter=filter_to_message(wanted), query=query
        )
        try:
            response = await self._stub.CountWorkflows(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        groups = [
            WorkflowExecutionCountAggregationGroup(group.count, list(group.values))
            for group in response.groups
        ]
        return WorkflowExecutionCount(response.count, groups)

    async def explain(self, target: Target, timeout_s: float) -> Sequence[WaitReason]:
        request = pb.ExplainWorkflowRequest(
            namespace=target.namespace, workflow_id=target.workflow_id, run_id=target.run_id
        )
        try:
            response = await self._stub.ExplainWorkflow(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        await self._edge.decode(response, keeps_unreadable=True)
        return reasons_from_message(response)

    async def history_page(
        self, target: Target, page_token: bytes, wait_ms: int, timeout_s: float
    ) -> tuple[list[HistoryEvent], bytes]:
        """A page for reading, with its payloads as they are saved. With `wait_ms` it waits that long
        for an event past the token."""
        response = await self._history_page(target, page_token, wait_ms, timeout_s)
        return [history_event_from_message(one) for one in response.events], (
            response.next_page_token
        )

    async def replay_page(
        self, target: Target, page_token: bytes, timeout_s: float
    ) -> tuple[list[Event], bytes]:
        """A page for replaying. Raises PayloadDecodeError."""
        events, token = await self.replay_page_messages(target, page_token, timeout_s)
        return [event_from_message(one) for one in events], token

    async def replay_page_messages(
        self, target: Target, page_token: bytes, timeout_s: float
    ) -> tuple[list[EventMessage], bytes]:
        """The same, not read yet."""
        response = await self._history_page(target, page_token, 0, timeout_s)
        await self._edge.decode(response)
        return list(response.events), response.next_page_token

    async def _history_page(
        self, target: Target, page_token: bytes, wait_ms: int, timeout_s: float
    ) -> pb.GetHistoryResponse:
        request = pb.GetHistoryRequest(
            namespace=target.namespace,
            workflow_id=target.workflow_id,
            run_id=target.run_id,
            page_token=page_token,
            wait_new_event=wait_ms > 0,
            timeout_ms=wait_ms,
        )
        if wait_ms:
            timeout_s = min(timeout_s, wait_ms / 1000 + _ANSWER_TIME_S)
        try:
            return await self._stub.GetHistory(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise error_from_call(error) from None


_ResultCall = grpc.aio.StreamStreamCall[pb.WaitResultsRequest, pb.WaitResultsResponse]


class ResultStream:
    """One stream that carries waits there and results back."""

    def __init__(self, call: _ResultCall) -> None:
        self._call = call

    async def send(self, waits: Sequence[ResultWait], forget: Sequence[int]) -> None:
        """Raises RPCError UNAVAILABLE when the stream is over; `receive` knows why."""
        request = pb.WaitResultsRequest(
            waits=[wait_to_message(one) for one in waits], forget=forget
        )
        try:
            await self._call.write(request)
        except (grpc.RpcError, asyncio.InvalidStateError):
            raise RPCError("the stream is over", RPCStatusCode.UNAVAILABLE) from None

    async def receive(self) -> list[WaitedResult]:
        """The next answers. Raises RPCError when the stream is over, however it ended."""
        try:
            response = await self._call.read()
        except grpc.RpcError as error:
            raise error_from_call(error) from None
        if not isinstance(response, pb.WaitResultsResponse):  # EOF
            raise RPCError("the engine ended the stream", RPCStatusCode.UNAVAILABLE)
        return [waited_from_message(one) for one in response.results]

    def cancel(self) -> None:
        self._call.cancel()
