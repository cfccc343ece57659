"""VersionService: versions of workers."""

from __future__ import annotations

from perdure_api.v1 import version_service_pb2 as pb
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.describe_deployment import (
    describe_deployment,
    described,
    list_deployments,
)
from perdure_engine.frontend.handlers.get_reachability import get_reachability
from perdure_engine.frontend.handlers.retire_version import RetireVersion, retire_version
from perdure_engine.frontend.handlers.set_current_version import (
    SetCurrentVersion,
    set_current_version,
)
from perdure_engine.frontend.handlers.set_ramping_version import (
    SetRampingVersion,
    set_ramping_version,
)
from perdure_engine.frontend.handlers.update_workflow_options import update_workflow_options
from perdure_engine.transport.grpc.convert import intents
from perdure_engine.transport.grpc.convert.versions import (
    deployment_fields,
    percentage_of,
    reachability,
    share_of_percentage,
    version_fields,
)
from perdure_engine.transport.grpc.decode import Context


class VersionService:
    """One function per RPC, by its name: message in, message out, errors raised."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def ListDeployments(
        self, request: pb.ListDeploymentsRequest, _: Context
    ) -> pb.ListDeploymentsResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        found = await list_deployments(self._frontend, namespace_id)
        return pb.ListDeploymentsResponse(
            deployments=[deployment_fields(one.deployment, one.builds) for one in found]
        )

    async def DescribeDeployment(
        self, request: pb.DescribeDeploymentRequest, _: Context
    ) -> pb.DescribeDeploymentResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        one = await describe_deployment(self._frontend, namespace_id, request.deployment_name)
        return pb.DescribeDeploymentResponse(
            deployment=deployment_fields(one.deployment, one.builds)
        )

    async def GetReachability(
        self, request: pb.GetReachabilityRequest, _: Context
    ) -> pb.GetReachabilityResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        return reachability(
            await get_reachability(
                self._frontend, namespace_id, request.deployment_name, request.build_id
            )
        )

    async def SetCurrentVersion(
        self, request: pb.SetCurrentVersionRequest, _: Context
    ) -> pb.SetCurrentVersionResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        asked = SetCurrentVersion(
            namespace_id=namespace_id,
            deployment_name=request.deployment_name,
            build_id=request.build_id,
            conflict_token=request.conflict_token,
            identity=request.identity,
            reason=request.reason,
            ignore_missing_queues=request.ignore_missing_task_queues,
            allow_no_pollers=request.allow_no_pollers,
        )
        before, after = await set_current_version(self._frontend, asked)
        one = await described(self._frontend, namespace_id, after)
        return pb.SetCurrentVersionResponse(
            deployment=deployment_fields(one.deployment, one.builds),
            previous_build_id=before.current,
        )

    async def SetRampingVersion(
        self, request: pb.SetRampingVersionRequest, _: Context
    ) -> pb.SetRampingVersionResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        asked = SetRampingVersion(
            namespace_id=namespace_id,
            deployment_name=request.deployment_name,
            build_id=request.build_id,
            ramp_share=share_of_percentage(request.percentage),
            conflict_token=request.conflict_token,
            identity=request.identity,
            reason=request.reason,
            ignore_missing_queues=request.ignore_missing_task_queues,
            allow_no_pollers=request.allow_no_pollers,
        )
        before, after = await set_ramping_version(self._frontend, asked)
        one = await described(self._frontend, namespace_id, after)
        return pb.SetRampingVersionResponse(
            deployment=deployment_fields(one.deployment, one.builds),
            previous_build_id=before.ramping,
            previous_percentage=percentage_of(before.ramp_share),
        )

    async def RetireVersion(
        self, request: pb.RetireVersionRequest, _: Context
    ) -> pb.RetireVersionResponse:
        asked = RetireVersion(
            namespace_id=await self._frontend.namespaces.id_of(request.namespace),
            deployment_name=request.deployment_name,
            build_id=request.build_id,
            conflict_token=request.conflict_token,
            identity=request.identity,
            reason=request.reason,
            grace_ms=request.grace_ms if request.HasField("grace_ms") else None,
        )
        reach = await retire_version(self._frontend, asked)
        return pb.RetireVersionResponse(version=version_fields(reach))

    async def UpdateWorkflowOptions(
        self, request: pb.UpdateWorkflowOptionsRequest, _: Context
    ) -> pb.UpdateWorkflowOptionsResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        intent = intents.update_workflow_options(request, namespace_id)
        await update_workflow_options(self._frontend, intent)
        return pb.UpdateWorkflowOptionsResponse()
