"""What operators do to deployments: each change is saved with its row in the audit log, in one statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perdure_engine.core.audit import Action, Entry
from perdure_engine.core.deployments import WHOLE, Deployment
from perdure_engine.core.versions import version_name
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.store import DeploymentRow


class Asked(Protocol):
    """What every request of this kind has. `build_id` may be "": workers that name no version."""

    @property
    def namespace_id(self) -> bytes: ...
    @property
    def deployment_name(self) -> str: ...
    @property
    def build_id(self) -> str: ...
    @property
    def conflict_token(self) -> int: ...
    @property
    def identity(self) -> str: ...
    @property
    def reason(self) -> str: ...


def check(asked: Asked, *, unversioned: bool = True) -> None:
    """`unversioned`: whether it may name no build. Raises INVALID_ARGUMENT."""
    build_id = asked.build_id or ("none" if unversioned else "")
    checks.version("", asked.deployment_name, build_id)
    checks.label("identity", asked.identity)
    checks.prose("reason", asked.reason)
    checks.not_negative("conflict_token", asked.conflict_token)


async def act(
    frontend: Frontend,
    action: Action,
    asked: Asked,
    decide: Callable[[Deployment], Deployment],
    shown: Callable[[Deployment], str],
    *,
    token: int,
    new: bool = False,
) -> tuple[Deployment, Deployment]:
    """The deployment before and after, as `shown` in the log. A decision that changes nothing leaves no row."""
    now_us = frontend.db_now_us()
    name, build_id = asked.deployment_name, asked.build_id

    async def save(row: DeploymentRow, before: Deployment, after: Deployment) -> bool:
        entry = Entry(
            time_us=now_us,
            action=action,
            namespace_id=asked.namespace_id,
            identity=asked.identity,
            reason=asked.reason,
            subject=version_name(name, build_id) if build_id else name,
            before=shown(before),
            after=shown(after),
        )
        return await frontend.ledger.write(
            entry, lambda audited: frontend.deployments.put(row, audited)
        )

    return await frontend.deployments.change(
        asked.namespace_id, name, decide, token=token, new=new, save=save
    )


def routing(deployment: Deployment) -> str:
    """Build ids, as they get runs."""
    current = deployment.current or "(unversioned)"
    if not deployment.ramping:
        return f"current {current}"
    return f"current {current}, {deployment.ramp_share / (WHOLE / 100):g} % to {deployment.ramping}"
