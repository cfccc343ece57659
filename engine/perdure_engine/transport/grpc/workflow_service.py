"""WorkflowService: what clients call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.count_workflows import count_workflows
from perdure_engine.frontend.handlers.explain_workflow import explain_workflow
from perdure_engine.frontend.handlers.get_history import get_history
from perdure_engine.frontend.handlers.get_result import get_result
from perdure_engine.frontend.handlers.list_workflows import (
    list_archived_workflows,
    list_workflows,
)
from perdure_engine.frontend.handlers.poll_update import poll_update
from perdure_engine.frontend.handlers.update_with_start_workflow import (
    update_with_start_workflow,
)
from perdure_engine.transport.grpc.activity_calls import ActivityCalls
from perdure_engine.transport.grpc.batch import batch_call
from perdure_engine.transport.grpc.call_stream import CallStream, Serve
from perdure_engine.transport.grpc.calls import CALLS, namespace_of
from perdure_engine.transport.grpc.convert import archived, intents, replies, requests
from perdure_engine.transport.grpc.convert.archived import (
    archived_events,
    archived_row_message,
)
from perdure_engine.transport.grpc.convert.events import event_message
from perdure_engine.transport.grpc.convert.replies import (
    counted,
    explained,
    result_fields,
    row_message,
)
from perdure_engine.transport.grpc.decode import Context
from perdure_engine.transport.grpc.departure import Caller
from perdure_engine.transport.grpc.errors import Errors
from perdure_engine.transport.grpc.message_stream import MessageStream
from perdure_engine.transport.grpc.run_calls import RunCalls
from perdure_engine.transport.grpc.wait_results import WaitStream


class WorkflowService(ActivityCalls, RunCalls):
    """One function per RPC, by its name: message in, message out, errors raised."""

    def __init__(self, frontend: Frontend, errors: Errors) -> None:
        self._frontend = frontend
        self._errors = errors

    async def StartWorkflow(
        self, request: pb.StartWorkflowRequest, _: Context
    ) -> pb.StartWorkflowResponse:
        response: pb.StartWorkflowResponse = await self._call("start_workflow", request)
        return response

    async def SignalWorkflow(
        self, request: pb.SignalWorkflowRequest, _: Context
    ) -> pb.SignalWorkflowResponse:
        response: pb.SignalWorkflowResponse = await self._call("signal_workflow", request)
        return response

    async def SignalWithStartWorkflow(
        self, request: pb.SignalWithStartWorkflowRequest, _: Context
    ) -> pb.SignalWithStartWorkflowResponse:
        response: pb.SignalWithStartWorkflowResponse = await self._call(
            "signal_with_start_workflow", request
        )
        return response

    async def QueryWorkflow(
        self, request: pb.QueryWorkflowRequest, _: Context
    ) -> pb.QueryWorkflowResponse:
        response: pb.QueryWorkflowResponse = await self._call("query_workflow", request)
        return response

    async def CancelWorkflow(
        self, request: pb.CancelWorkflowRequest, _: Context
    ) -> pb.CancelWorkflowResponse:
        response: pb.CancelWorkflowResponse = await self._call("cancel_workflow", request)
        return response

    async def TerminateWorkflow(
        self, request: pb.TerminateWorkflowRequest, _: Context
    ) -> pb.TerminateWorkflowResponse:
        response: pb.TerminateWorkflowResponse = await self._call("terminate_workflow", request)
        return response

    async def DeleteWorkflow(
        self, request: pb.DeleteWorkflowRequest, _: Context
    ) -> pb.DeleteWorkflowResponse:
        response: pb.DeleteWorkflowResponse = await self._call("delete_workflow", request)
        return response

    async def DescribeWorkflow(
        self, request: pb.DescribeWorkflowRequest, _: Context
    ) -> pb.DescribeWorkflowResponse:
        response: pb.DescribeWorkflowResponse = await self._call("describe_workflow", request)
        return response

    async def ExplainWorkflow(
        self, request: pb.ExplainWorkflowRequest, _: Context
    ) -> pb.ExplainWorkflowResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        explain = intents.explain_workflow(request, namespace_id)
        return explained(await explain_workflow(self._frontend, explain))

    async def UpdateWorkflow(
        self, request: pb.UpdateWorkflowRequest, _: Context
    ) -> pb.UpdateWorkflowResponse:
        response: pb.UpdateWorkflowResponse = await self._call("update_workflow", request)
        return response

    async def PollUpdate(self, request: pb.PollUpdateRequest, _: Context) -> pb.PollUpdateResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        poll = intents.poll_update(request, namespace_id)
        return replies.polled_update(await poll_update(self._frontend, poll, request.timeout_ms))

    async def UpdateWithStartWorkflow(
        self, request: pb.UpdateWithStartWorkflowRequest, _: Context
    ) -> pb.UpdateWithStartWorkflowResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.start.namespace)
        start = intents.update_with_start_workflow(request, namespace_id)
        reply = await update_with_start_workflow(self._frontend, start, request.timeout_ms)
        return replies.updated_with_start(reply)

    async def ListWorkflows(
        self, request: pb.ListWorkflowsRequest, _: Context
    ) -> pb.ListWorkflowsResponse:
        where = requests.filter_of(
            request.filter, await self._frontend.namespaces.id_of(request.namespace)
        )
        list_, message = list_workflows, row_message
        if request.archived:
            list_, message = list_archived_workflows, archived_row_message
        answer = await list_(
            self._frontend, where, request.page_size, request.page_token, request.query
        )
        return pb.ListWorkflowsResponse(
            workflows=[message(row) for row in answer.rows],
            next_page_token=answer.next_page_token,
        )

    async def CountWorkflows(
        self, request: pb.CountWorkflowsRequest, _: Context
    ) -> pb.CountWorkflowsResponse:
        where = requests.filter_of(
            request.filter, await self._frontend.namespaces.id_of(request.namespace)
        )
        return counted(await count_workflows(self._frontend, where, request.query))

    async def GetHistory(self, request: pb.GetHistoryRequest, _: Context) -> pb.GetHistoryResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        answer = await get_history(self._frontend, requests.get_history(request, namespace_id))
        events = [event_message(event) for event in answer.events]
        return pb.GetHistoryResponse(
            events=events or archived_events(answer.archived),
            next_page_token=answer.next_page_token,
        )

    async def GetResult(self, request: pb.GetResultRequest, _: Context) -> pb.GetResultResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        wait = intents.wait_result(request, namespace_id)
        closed = await get_result(self._frontend, wait, request.timeout_ms)
        if closed is None:
            return pb.GetResultResponse()
        return pb.GetResultResponse(result=result_fields(archived.closed(closed)))

    async def BatchCall(self, request: pb.BatchCallRequest, _: Caller) -> pb.BatchCallResponse:
        return await batch_call(self._frontend, self._errors, request)

    async def Calls(self, stream: MessageStream) -> None:
        methods: Mapping[str, Serve] = {"batch_call": self.BatchCall}
        parking = self._frontend.parking
        await CallStream(stream, methods, pb.CallsResponse, self._errors, parking).serve()

    async def WaitResults(self, stream: MessageStream) -> None:
        await WaitStream(self._frontend, self._errors).serve(stream)

    async def _call(self, verb: str, request: Any) -> Any:
        namespace_id = await self._frontend.namespaces.id_of(namespace_of(verb, request))
        call = CALLS[verb]
        return call.answer(await call.submit(self._frontend, request, namespace_id))
