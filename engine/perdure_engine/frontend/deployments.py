"""The registry of deployments: what their rows say, in memory, and how they are changed.

Every node reads all rows once a second (`server.following`), so a change made elsewhere counts here
within two. A change made here counts at once. Nodes that know less for that second route by what was
true before: a task is then run by the version that was current, never by none or by two.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.audit import AuditRow
from perdure_engine.core.deployments import (
    Deployment,
    Route,
    register,
    require_not_retired,
    route_of,
)
from perdure_engine.core.errors import Code, Rejected, not_found, unavailable
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.versions import split_version
from perdure_engine.ports.store import DeploymentRow, DeploymentStore

TRIES_MAX = 20  # of a compare-and-set: all workers of a new version say so at the same time

Key = tuple[bytes, str]  # namespace id and name
Save = Callable[[DeploymentRow, Deployment, Deployment], Awaitable[bool]]
"""The row, the deployment before and after. Its answer is that of `Deployments.put`."""


class Deployments:
    """Implements ports.versions.Routing. `start` reads the rows; stopping twice is fine."""

    def __init__(self, store: DeploymentStore) -> None:
        self.active = False
        self._store = store
        self._known: dict[Key, Deployment] = {}
        self._routes: dict[Key, Route] = {}  # by queue
        self._served: set[tuple[bytes, str, str]] = set()  # namespace, deployment, queue
        self._listeners: list[Callable[[], None]] = []

    # ---- ports.versions.Routing

    def version_for(
        self, namespace_id: bytes, queue: str, kind: TaskKind, run_id: bytes, pinned: str
    ) -> str:
        """A pinned run's activities stay on its version too, on every queue that its deployment serves."""
        if pinned and (
            kind is TaskKind.WORKFLOW
            or (namespace_id, split_version(pinned)[0], queue) in self._served
        ):
            return pinned
        route = self._routes.get((namespace_id, queue))
        return "" if route is None else route.pick(run_id)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    # ---- what is known

    def find(self, namespace_id: bytes, name: str) -> Deployment | None:
        return self._known.get((namespace_id, name))

    def require_usable(self, namespace_id: bytes, name: str, build_id: str) -> None:
        """Raises NOT_FOUND for a version that this node has not heard of, FAILED_PRECONDITION for a retired one."""
        deployment = self.find(namespace_id, name) or Deployment(name)
        deployment.require(build_id)
        require_not_retired(deployment, build_id)

    def require_not_retired(self, namespace_id: bytes, name: str, build_id: str) -> None:
        deployment = self.find(namespace_id, name)
        if deployment is not None:
            require_not_retired(deployment, build_id)

    async def list(self, namespace_id: bytes) -> list[Deployment]:
        """As the store has them now, by name."""
        await self.refresh()
        return sorted(
            (one for (of, _), one in self._known.items() if of == namespace_id),
            key=lambda one: one.name,
        )

    async def describe(self, namespace_id: bytes, name: str) -> Deployment:
        """As the store has it now. Raises NOT_FOUND."""
        await self.refresh()
        found = self.find(namespace_id, name)
        if found is None:
            raise not_found("DEPLOYMENT", f"no worker of deployment {name!r} was ever seen")
        return found

    # ---- changes

    async def seen(
        self, namespace_id: bytes, name: str, build_id: str, queue: str, now_us: int
    ) -> None:
        """A worker of the version polls the queue: saved, the first time.

        Raises FAILED_PRECONDITION if the version is retired.
        """
        known = self.find(namespace_id, name)
        if known is not None:
            build = known.build(build_id)
            if build is not None and queue in build.queues and not build.retired_us:
                return
        await self.change(
            namespace_id, name, lambda found: register(found, build_id, queue, now_us), new=True
        )

    async def change(
        self,
        namespace_id: bytes,
        name: str,
        decide: Callable[[Deployment], Deployment],
        *,
        token: int = 0,
        new: bool = False,
        save: Save | None = None,
    ) -> tuple[Deployment, Deployment]:
        """Decide on what the store has now, and save it by compare-and-set. Returns before and after.

        `token` 0: whatever it is. `new`: it need not be there. `save`: instead of `put` alone. Raises ABORTED when
        another change came before.
        """
        for _ in range(TRIES_MAX):
            await self.refresh()
            before = self.find(namespace_id, name)
            if before is None:
                before = self._room_for(namespace_id, name, new)
            if token and before.revision != token:
                raise _conflict(name)
            after = decide(before)
            if after == before:
                return before, before
            row = DeploymentRow(namespace_id, name, before.revision, after)
            if await (self.put(row) if save is None else save(row, before, after)):
                saved = msgspec.structs.replace(after, revision=before.revision + 1)
                self._learn({**self._known, (namespace_id, name): saved})
                return before, saved
        if token:
            raise _conflict(name)
        raise unavailable("DEPLOYMENT_BUSY", f"deployment {name!r} is being changed by many")

    async def put(self, row: DeploymentRow, audited: AuditRow | None = None) -> bool:
        """False: another came first. Raises StoreError."""
        return await self._store.put_deployment(row, audited)

    def _room_for(self, namespace_id: bytes, name: str, new: bool) -> Deployment:
        if not new:
            raise not_found("DEPLOYMENT", f"no worker of deployment {name!r} was ever seen")
        if sum(of == namespace_id for of, _ in self._known) >= limits.DEPLOYMENTS_MAX:
            raise Rejected(
                Code.RESOURCE_EXHAUSTED,
                "TOO_MANY_DEPLOYMENTS",
                f"there may be {limits.DEPLOYMENTS_MAX} deployments in a namespace, and are",
                field="deployment_name",
            )
        return Deployment(name)

    # ---- what other nodes change

    async def refresh(self) -> None:
        """Read what the store has. What was saved here while the read was under way is not forgotten."""
        rows = await self._store.list_deployments()
        known = {(row.namespace_id, row.name): _read(row) for row in rows}
        for key, mine in self._known.items():
            theirs = known.get(key)
            if theirs is None or theirs.revision < mine.revision:
                known[key] = mine
        self._learn(known)

    def _learn(self, known: dict[Key, Deployment]) -> None:
        if known == self._known:
            return
        self._known = known
        self.active = bool(known)
        routes: dict[Key, Route] = {}
        served: set[tuple[bytes, str, str]] = set()
        # of two deployments on one queue, the one whose routing was changed last counts
        for (namespace_id, name), one in sorted(known.items(), key=lambda kv: kv[1].changed_us):
            for queue in {queue for build in one.builds for queue in build.queues}:
                served.add((namespace_id, name, queue))
                route = route_of(one, queue)
                if route.current or route.ramp_share:
                    routes[namespace_id, queue] = route
        if routes != self._routes or served != self._served:
            self._routes, self._served = routes, served
            for listener in self._listeners:
                listener()


def _read(row: DeploymentRow) -> Deployment:
    return msgspec.structs.replace(row.deployment, revision=row.conflict_token)


def _conflict(name: str) -> Rejected:
    return Rejected(
        Code.ABORTED,
        "DEPLOYMENT_CONFLICT",
        f"deployment {name!r} was changed since it was described",
        field="conflict_token",
    )
