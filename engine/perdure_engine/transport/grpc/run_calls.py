"""The calls of WorkflowService with which operators act on whole runs: reset, pause, unpause, resume."""

from __future__ import annotations

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.replies import Started
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.pause_workflow import pause_workflow
from perdure_engine.frontend.handlers.reset_workflow import reset_workflow
from perdure_engine.frontend.handlers.resume_workflow import resume_workflow
from perdure_engine.frontend.handlers.unpause_workflow import unpause_workflow
from perdure_engine.transport.grpc.convert import run_intents as convert
from perdure_engine.transport.grpc.decode import Context


class RunCalls:
    """One function per RPC, by its name: message in, message out, errors raised."""

    _frontend: Frontend

    async def ResetWorkflow(
        self, request: pb.ResetWorkflowRequest, _: Context
    ) -> pb.ResetWorkflowResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        intent = convert.reset_workflow(request, namespace_id)
        begun = await reset_workflow(self._frontend, intent)
        assert isinstance(begun, Started)
        return pb.ResetWorkflowResponse(run_id=uuid_text(begun.run_id))

    async def PauseWorkflow(
        self, request: pb.PauseWorkflowRequest, _: Context
    ) -> pb.PauseWorkflowResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        await pause_workflow(self._frontend, convert.pause_workflow(request, namespace_id))
        return pb.PauseWorkflowResponse()

    async def UnpauseWorkflow(
        self, request: pb.UnpauseWorkflowRequest, _: Context
    ) -> pb.UnpauseWorkflowResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        await unpause_workflow(self._frontend, convert.unpause_workflow(request, namespace_id))
        return pb.UnpauseWorkflowResponse()

    async def ResumeWorkflow(
        self, request: pb.ResumeWorkflowRequest, _: Context
    ) -> pb.ResumeWorkflowResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        await resume_workflow(self._frontend, convert.resume_workflow(request, namespace_id))
        return pb.ResumeWorkflowResponse()
