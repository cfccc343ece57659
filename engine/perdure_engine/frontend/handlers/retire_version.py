"""RetireVersion: a version of workers goes, once nothing can need it any more."""

from __future__ import annotations

import msgspec

from perdure_engine.core import deployments, limits
from perdure_engine.core.audit import Action
from perdure_engine.core.deployments import Deployment
from perdure_engine.frontend import checks
from perdure_engine.frontend.deployment_actions import act, check
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.get_reachability import BuildReach, last_close, reach_of


class RetireVersion(msgspec.Struct, frozen=True, kw_only=True):
    namespace_id: bytes
    deployment_name: str
    build_id: str
    conflict_token: int
    identity: str
    reason: str
    grace_ms: int | None  # None: limits.VERSION_GRACE_MS


async def retire_version(frontend: Frontend, request: RetireVersion) -> BuildReach:
    """The runs are counted after the version was seen to get no new ones, and the row is changed only if
    its routing is still the one that was seen: a version that gets runs again meanwhile is not retired.
    """
    name, build_id = request.deployment_name, request.build_id
    check(request, unversioned=False)
    grace_ms = limits.VERSION_GRACE_MS if request.grace_ms is None else request.grace_ms
    checks.duration("grace_ms", grace_ms)
    namespace_id = request.namespace_id

    def shown(deployment: Deployment) -> str:
        build = deployment.build(build_id)
        return "RETIRED" if build is not None and build.retired_us else "NOT RETIRED"

    seen = await frontend.deployments.describe(namespace_id, name)
    reach = await reach_of(frontend, namespace_id, seen, seen.require(build_id))
    last_close_us = await last_close(frontend, namespace_id, name, build_id)
    now_us = frontend.db_now_us()
    _, after = await act(
        frontend,
        Action.RETIRE_VERSION,
        request,
        lambda found: deployments.retire(
            found,
            build_id,
            now_us,
            pinned_runs=reach.pinned_runs,
            last_close_us=last_close_us,
            grace_us=grace_ms * 1000,
        ),
        shown,
        token=request.conflict_token or seen.revision,
    )
    reach = await reach_of(frontend, namespace_id, after, after.require(build_id))
    if reach.pinned_runs:  # a task that was out meanwhile has pinned its run
        await act(
            frontend,
            Action.RETIRE_VERSION,
            request,
            lambda found: deployments.unretire(found, build_id),
            shown,
            token=0,
        )
        raise deployments.in_use(name, build_id, reach.pinned_runs)
    return reach
