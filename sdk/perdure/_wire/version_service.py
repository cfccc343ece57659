"""Versions of workers, as plain calls."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, TypeVar

import grpc

from perdure._versioning import (
    AutoUpgradeVersioningOverride,
    PinnedVersioningOverride,
    VersioningBehavior,
    VersioningOverride,
    WorkerDeploymentVersion,
    WorkflowVersioningInfo,
)
from perdure._wire.connection import Connection
from perdure._wire.errors import error_from_call
from perdure._wire.policies import duration_to_ms, instant_from_us
from perdure_api.v1 import common_pb2
from perdure_api.v1 import version_service_pb2 as pb
from perdure_api.v1.version_service_pb2_grpc import VersionServiceStub

T = TypeVar("T")

_BEHAVIORS = {int(behavior): behavior for behavior in VersioningBehavior}


class WorkerVersionStatus(IntEnum):
    UNSPECIFIED = 0
    INACTIVE = 1
    """Was never current nor ramping."""
    CURRENT = 2
    RAMPING = 3
    DRAINING = 4
    """Gets no new runs; some that are pinned to it are open."""
    DRAINED = 5
    RETIRED = 6


_STATUSES = {int(status): status for status in WorkerVersionStatus}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerVersion:
    version: WorkerDeploymentVersion
    status: WorkerVersionStatus
    created_time: datetime | None
    stopped_time: datetime | None
    """When it was current or ramping last; None: it is, or never was."""
    retired_time: datetime | None
    task_queues: Sequence[str]
    pinned_runs: int
    """Open ones."""
    upgrading_runs: int
    """Open ones of AUTO_UPGRADE whose last workflow task it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeployment:
    name: str
    conflict_token: int
    """Changes with every change."""
    current_build_id: str
    """Empty: workers without a version."""
    ramping_build_id: str
    ramping_percentage: float
    versions: Sequence[WorkerVersion]
    changed_by: str
    changed_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerVersionReachability:
    version: WorkerVersion
    new_runs: bool
    """It is current or ramping: new runs may come to it."""
    last_close_time: datetime | None
    """Of the run of it that closed last, as far as such are kept."""
    retirable_time: datetime | None
    """When it may be retired, if nothing changes; None: not as it is now."""


class VersionService:
    """Every method raises RPCError, and sends once: trying again is the caller's decision."""

    def __init__(self, connection: Connection) -> None:
        self._stub = VersionServiceStub(connection.channel)

    async def list_deployments(self, namespace: str, timeout_s: float) -> list[WorkerDeployment]:
        request = pb.ListDeploymentsRequest(namespace=namespace)
        response = await _answer(self._stub.ListDeployments(request, timeout=timeout_s))
        return [_deployment(one) for one in response.deployments]

    async def describe_deployment(
        self, namespace: str, name: str, timeout_s: float
    ) -> WorkerDeployment:
        request = pb.DescribeDeploymentRequest(namespace=namespace, deployment_name=name)
        response = await _answer(self._stub.DescribeDeployment(request, timeout=timeout_s))
        return _deployment(response.deployment)

    async def reachability(
        self, namespace: str, version: WorkerDeploymentVersion, timeout_s: float
    ) -> WorkerVersionReachability:
        name = version.deployment_name
        request = pb.GetReachabilityRequest(
            namespace=namespace, deployment_name=name, build_id=version.build_id
        )
        response = await _answer(self._stub.GetReachability(request, timeout=timeout_s))
        return WorkerVersionReachability(
            version=_version(name, response.version),
            new_runs=response.new_runs,
            last_close_time=instant_from_us(response.last_close_time_us),
            retirable_time=instant_from_us(response.retirable_time_us),
        )

    async def set_current(
        self, namespace: str, name: str, build_id: str, timeout_s: float, **options: Any
    ) -> WorkerDeployment:
        request = pb.SetCurrentVersionRequest(
            namespace=namespace, deployment_name=name, build_id=build_id, **options
        )
        response = await _answer(self._stub.SetCurrentVersion(request, timeout=timeout_s))
        return _deployment(response.deployment)

    async def set_ramping(
        self, namespace: str, name: str, build_id: str, timeout_s: float, **options: Any
    ) -> WorkerDeployment:
        request = pb.SetRampingVersionRequest(
            namespace=namespace, deployment_name=name, build_id=build_id, **options
        )
        response = await _answer(self._stub.SetRampingVersion(request, timeout=timeout_s))
        return _deployment(response.deployment)

    async def retire(
        self,
        namespace: str,
        version: WorkerDeploymentVersion,
        grace: timedelta | None,
        conflict_token: int,
        identity: str,
        timeout_s: float,
        *,
        reason: str,
    ) -> WorkerVersion:
        name = version.deployment_name
        request = pb.RetireVersionRequest(
            namespace=namespace,
            deployment_name=name,
            build_id=version.build_id,
            conflict_token=conflict_token,
            identity=identity,
            reason=reason,
            grace_ms=None if grace is None else duration_to_ms(grace),
        )
        response = await _answer(self._stub.RetireVersion(request, timeout=timeout_s))
        return _version(name, response.version)

    async def update_workflow_options(
        self,
        namespace: str,
        workflow_id: str,
        run_id: str,
        override: VersioningOverride | None,
        identity: str,
        request_id: str,
        timeout_s: float,
        *,
        reason: str,
    ) -> None:
        request = pb.UpdateWorkflowOptionsRequest(
            namespace=namespace,
            workflow_id=workflow_id,
            run_id=run_id,
            request_id=request_id,
            identity=identity,
            reason=reason,
            versioning_override=override_message(override),
        )
        await _answer(self._stub.UpdateWorkflowOptions(request, timeout=timeout_s))


async def _answer(call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.RpcError as error:
        raise error_from_call(error) from None


def override_message(override: VersioningOverride | None) -> common_pb2.Versioning | None:
    if override is None:
        return None
    if isinstance(override, PinnedVersioningOverride):
        version = override.version
        return common_pb2.Versioning(
            behavior=common_pb2.VERSIONING_BEHAVIOR_PINNED,
            deployment_name=version.deployment_name,
            build_id=version.build_id,
        )
    return common_pb2.Versioning(behavior=common_pb2.VERSIONING_BEHAVIOR_AUTO_UPGRADE)


def override_from_message(message: common_pb2.Versioning) -> VersioningOverride | None:
    match message.behavior:
        case common_pb2.VERSIONING_BEHAVIOR_PINNED:
            return PinnedVersioningOverride(
                WorkerDeploymentVersion(message.deployment_name, message.build_id)
            )
        case common_pb2.VERSIONING_BEHAVIOR_AUTO_UPGRADE:
            return AutoUpgradeVersioningOverride()
        case _:
            return None


def versioning_from_message(message: common_pb2.Versioning) -> WorkflowVersioningInfo:
    version = None
    if message.deployment_name and message.build_id:
        version = WorkerDeploymentVersion(message.deployment_name, message.build_id)
    behavior = _BEHAVIORS.get(message.behavior, VersioningBehavior.UNSPECIFIED)
    return WorkflowVersioningInfo(behavior=behavior, deployment_version=version)


def _deployment(message: pb.Deployment) -> WorkerDeployment:
    return WorkerDeployment(
        name=message.name,
        conflict_token=message.conflict_token,
        current_build_id=message.current_build_id,
        ramping_build_id=message.ramping_build_id,
        ramping_percentage=message.ramping_percentage,
        versions=[_version(message.name, one) for one in message.versions],
        changed_by=message.changed_by,
        changed_time=instant_from_us(message.changed_time_us),
    )


def _version(deployment_name: str, message: pb.Version) -> WorkerVersion:
    return WorkerVersion(
        version=WorkerDeploymentVersion(deployment_name, message.build_id),
        status=_STATUSES.get(message.status, WorkerVersionStatus.UNSPECIFIED),
        created_time=instant_from_us(message.created_time_us),
        stopped_time=instant_from_us(message.stopped_time_us),
        retired_time=instant_from_us(message.retired_time_us),
        task_queues=list(message.task_queues),
        pinned_runs=message.pinned_runs,
        upgrading_runs=message.upgrading_runs,
    )
