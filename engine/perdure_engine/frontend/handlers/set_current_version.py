"""SetCurrentVersion: from now on new runs, and those that upgrade by themselves, go to this version."""

from __future__ import annotations

import msgspec

from perdure_engine.core import deployments
from perdure_engine.core.deployments import Deployment
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


class SetCurrentVersion(msgspec.Struct, frozen=True, kw_only=True):
    namespace_id: bytes
    deployment_name: str
    build_id: str
    conflict_token: int
    identity: str
    ignore_missing_queues: bool
    allow_no_pollers: bool


async def set_current_version(
    frontend: Frontend, request: SetCurrentVersion
) -> tuple[Deployment, Deployment]:
    """Before and after."""
    check_routing(
        request.deployment_name, request.build_id, request.conflict_token, request.identity
    )
    now_us = frontend.db_now_us()
    return await frontend.deployments.change(
        request.namespace_id,
        request.deployment_name,
        lambda found: deployments.set_current(
            found,
            request.build_id,
            now_us,
            request.identity,
            ignore_missing_queues=request.ignore_missing_queues,
            allow_no_pollers=request.allow_no_pollers,
        ),
        token=request.conflict_token,
        new=request.allow_no_pollers,
    )


def check_routing(deployment_name: str, build_id: str, token: int, identity: str) -> None:
    """`build_id` may be "": workers that name no version."""
    checks.version("", deployment_name, build_id or "none")
    checks.label("identity", identity)
    checks.not_negative("conflict_token", token)
