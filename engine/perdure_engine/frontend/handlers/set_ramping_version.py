"""SetRampingVersion: a share of the runs goes to this version."""

from __future__ import annotations

import msgspec

from perdure_engine.core import deployments
from perdure_engine.core.deployments import Deployment
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.set_current_version import check_routing


class SetRampingVersion(msgspec.Struct, frozen=True, kw_only=True):
    namespace_id: bytes
    deployment_name: str
    build_id: str
    ramp_share: int  # of core.deployments.WHOLE
    conflict_token: int
    identity: str
    ignore_missing_queues: bool
    allow_no_pollers: bool


async def set_ramping_version(
    frontend: Frontend, request: SetRampingVersion
) -> tuple[Deployment, Deployment]:
    """Before and after."""
    check_routing(
        request.deployment_name, request.build_id, request.conflict_token, request.identity
    )
    now_us = frontend.db_now_us()
    return await frontend.deployments.change(
        request.namespace_id,
        request.deployment_name,
        lambda found: deployments.set_ramping(
            found,
            request.build_id,
            request.ramp_share,
            now_us,
            request.identity,
            ignore_missing_queues=request.ignore_missing_queues,
            allow_no_pollers=request.allow_no_pollers,
        ),
        token=request.conflict_token,
        new=request.allow_no_pollers,
    )
