"""DescribeDeployment, ListDeployments: the versions of workers and their open runs."""

from __future__ import annotations

import msgspec

from perdure_engine.core.deployments import Deployment
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.get_reachability import BuildReach, reach_of


class Described(msgspec.Struct, frozen=True):
    deployment: Deployment
    builds: list[BuildReach]


async def describe_deployment(frontend: Frontend, namespace_id: bytes, name: str) -> Described:
    checks.name("deployment_name", name)
    deployment = await frontend.deployments.describe(namespace_id, name)
    return await described(frontend, namespace_id, deployment)


async def list_deployments(frontend: Frontend, namespace_id: bytes) -> list[Described]:
    return [
        await described(frontend, namespace_id, deployment)
        for deployment in await frontend.deployments.list(namespace_id)
    ]


async def described(frontend: Frontend, namespace_id: bytes, deployment: Deployment) -> Described:
    builds = [
        await reach_of(frontend, namespace_id, deployment, build) for build in deployment.builds
    ]
    return Described(deployment, builds)
