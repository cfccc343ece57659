"""SetCurrentVersion: from now on new runs, and those that upgrade by themselves, go to this version."""

from __future__ import annotations

import msgspec

from perdure_engine.core import deployments
from perdure_engine.core.audit import Action
from perdure_engine.core.deployments import Deployment
from perdure_engine.frontend.deployment_actions import act, check, routing
from perdure_engine.frontend.frontend import Frontend


class SetCurrentVersion(msgspec.Struct, frozen=True, kw_only=True):
    namespace_id: bytes
    deployment_name: str
    build_id: str
    conflict_token: int
    identity: str
    reason: str
    ignore_missing_queues: bool
    allow_no_pollers: bool


async def set_current_version(
    frontend: Frontend, request: SetCurrentVersion
) -> tuple[Deployment, Deployment]:
    """Before and after."""
    check(request)
    now_us = frontend.db_now_us()
    return await act(
        frontend,
        Action.SET_CURRENT_VERSION,
        request,
        lambda found: deployments.set_current(
            found,
            request.build_id,
            now_us,
            request.identity,
            ignore_missing_queues=request.ignore_missing_queues,
            allow_no_pollers=request.allow_no_pollers,
        ),
        routing,
        token=request.conflict_token,
        new=request.allow_no_pollers,
    )
