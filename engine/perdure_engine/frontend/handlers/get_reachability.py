"""GetReachability: what still needs a version of workers, and whether it can get new runs."""

from __future__ import annotations

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.deployments import (
    Build,
    Deployment,
    VersionStatus,
    retirable_us,
    status_of,
)
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.filters import (
    And,
    Column,
    Compare,
    CompareAttribute,
    IsNull,
    Operator,
    Order,
)
from perdure_engine.ports.store import VisibilityFilter


class BuildReach(msgspec.Struct, frozen=True):
    """One version and its open runs."""

    build: Build
    status: VersionStatus
    pinned_runs: int
    upgrading_runs: int  # whose last workflow task it ran


class Reachability(msgspec.Struct, frozen=True):
    reach: BuildReach
    new_runs: bool
    last_close_us: int
    retirable_us: int  # 0: not as it is now


async def get_reachability(
    frontend: Frontend, namespace_id: bytes, name: str, build_id: str
) -> Reachability:
    checks.version("", name, build_id)
    deployment = await frontend.deployments.describe(namespace_id, name)
    build = deployment.require(build_id)
    reach = await reach_of(frontend, namespace_id, deployment, build)
    last_close_us = await last_close(frontend, namespace_id, name, build_id)
    new_runs = build_id in (deployment.current, deployment.ramping)
    may_go = not (new_runs or reach.pinned_runs or build.retired_us)
    grace_us = limits.VERSION_GRACE_MS * 1000
    return Reachability(
        reach,
        new_runs,
        last_close_us,
        max(retirable_us(build, last_close_us, grace_us), 1) if may_go else 0,
    )


async def reach_of(
    frontend: Frontend, namespace_id: bytes, deployment: Deployment, build: Build
) -> BuildReach:
    pinned, upgrading = [
        await frontend.visibility.count_runs(
            _runs(
                namespace_id,
                deployment.name,
                build.build_id,
                CompareAttribute("VersioningBehavior", Operator.EQ, behavior),
                IsNull(Column.CLOSE_TIME),  # a paused run has a status of its own, and is open
            )
        )
        for behavior in ("Pinned", "AutoUpgrade")
    ]
    return BuildReach(build, status_of(deployment, build, pinned), pinned, upgrading)


async def last_close(frontend: Frontend, namespace_id: bytes, name: str, build_id: str) -> int:
    """When the run of the version that closed last did so; 0: none that is kept."""
    closed = Compare(Column.CLOSE_TIME, Operator.GT, 0)
    where = _runs(namespace_id, name, build_id, closed)
    rows = (await frontend.visibility.list_runs(where, None, 1, Order.CLOSE_DESC)).rows
    return (rows[0].close_us or 0) if rows else 0


def _runs(
    namespace_id: bytes, name: str, build_id: str, *more: Compare | CompareAttribute | IsNull
) -> VisibilityFilter:
    terms = (
        CompareAttribute("DeploymentName", Operator.EQ, name),
        CompareAttribute("BuildId", Operator.EQ, build_id),
        *more,
    )
    return VisibilityFilter(namespace_id, expression=And(terms))
