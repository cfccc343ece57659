"""Versions of workers, for those who roll them out."""

from __future__ import annotations

from datetime import timedelta

from perdure._client.core import ClientCore
from perdure._versioning import VersioningOverride, WorkerDeploymentVersion
from perdure._wire.version_service import (
    VersionService,
    WorkerDeployment,
    WorkerVersion,
    WorkerVersionReachability,
)


class VersionOperations:
    """A part of `Operator`. A change counts on every node within two seconds.

    `conflict_token`, as it was described, makes a change ABORTED when another came since. `reason`
    stands in the audit log, with the identity of the client.
    """

    _core: ClientCore

    @property
    def _versions(self) -> VersionService:
        return self._core.version_service

    async def list_worker_deployments(
        self, *, rpc_timeout: timedelta | None = None
    ) -> list[WorkerDeployment]:
        return await self._core.unary(
            lambda timeout_s: self._versions.list_deployments(self._core.namespace, timeout_s),
            rpc_timeout,
        )

    async def describe_worker_deployment(
        self, name: str, *, rpc_timeout: timedelta | None = None
    ) -> WorkerDeployment:
        """NOT_FOUND until a worker of the deployment was seen."""
        return await self._core.unary(
            lambda timeout_s: self._versions.describe_deployment(
                self._core.namespace, name, timeout_s
            ),
            rpc_timeout,
        )

    async def worker_version_reachability(
        self, version: WorkerDeploymentVersion, *, rpc_timeout: timedelta | None = None
    ) -> WorkerVersionReachability:
        return await self._core.unary(
            lambda timeout_s: self._versions.reachability(self._core.namespace, version, timeout_s),
            rpc_timeout,
        )

    async def set_current_worker_version(
        self,
        name: str,
        build_id: str | None,
        *,
        conflict_token: int = 0,
        ignore_missing_task_queues: bool = False,
        allow_no_pollers: bool = False,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> WorkerDeployment:
        """New runs and those of AUTO_UPGRADE go to this build of the deployment from now on; None:
        to workers without a version.

        FAILED_PRECONDITION for a retired one, and for one that does not poll every task queue of
        the current one; NOT_FOUND for one without workers.
        """
        return await self._core.unary(
            lambda timeout_s: self._versions.set_current(
                self._core.namespace,
                name,
                build_id or "",
                timeout_s,
                conflict_token=conflict_token,
                identity=self._core.identity,
                reason=reason,
                ignore_missing_task_queues=ignore_missing_task_queues,
                allow_no_pollers=allow_no_pollers,
            ),
            rpc_timeout,
        )

    async def set_ramping_worker_version(
        self,
        name: str,
        build_id: str | None,
        percentage: float = 0,
        *,
        conflict_token: int = 0,
        ignore_missing_task_queues: bool = False,
        allow_no_pollers: bool = False,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> WorkerDeployment:
        """This share of them goes to this build, chosen by run id; None: the ramp ends."""
        return await self._core.unary(
            lambda timeout_s: self._versions.set_ramping(
                self._core.namespace,
                name,
                build_id or "",
                timeout_s,
                percentage=percentage,
                conflict_token=conflict_token,
                identity=self._core.identity,
                reason=reason,
                ignore_missing_task_queues=ignore_missing_task_queues,
                allow_no_pollers=allow_no_pollers,
            ),
            rpc_timeout,
        )

    async def retire_worker_version(
        self,
        version: WorkerDeploymentVersion,
        *,
        grace: timedelta | None = None,
        conflict_token: int = 0,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> WorkerVersion:
        """Its workers get no more tasks, and their polls are refused.

        FAILED_PRECONDITION while it gets new runs, while open ones are pinned to it, and until
        `grace` (24 h) after both have ended.
        """
        return await self._core.unary(
            lambda timeout_s: self._versions.retire(
                self._core.namespace,
                version,
                grace,
                conflict_token,
                self._core.identity,
                timeout_s,
                reason=reason,
            ),
            rpc_timeout,
        )

    async def update_workflow_versioning_override(
        self,
        workflow_id: str,
        override: VersioningOverride | None,
        *,
        run_id: str | None = None,
        reason: str = "",
        rpc_timeout: timedelta | None = None,
    ) -> None:
        """Pins an open run to a version, has it upgrade, or (None) leaves it to its code again.

        What waits for a worker goes where that says at once; a task that a worker has, ends there.
        The workflow is not woken. Code that cannot replay what the run has done fails its next
        workflow task, until the override is another one.
        """
        core = self._core
        request_id = core.surroundings.new_uuid()
        await core.unary(
            lambda timeout_s: self._versions.update_workflow_options(
                core.namespace,
                workflow_id,
                run_id or "",
                override,
                core.identity,
                request_id,
                timeout_s,
                reason=reason,
            ),
            rpc_timeout,
        )
