"""Two versions of one program: each says of every workflow task and activity which build ran it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from perdure import activity, workflow
from perdure.client import Client
from perdure.common import VersioningBehavior, WorkerDeploymentVersion
from perdure.worker import Worker, WorkerDeploymentConfig

QUEUE = "orders"
DEPLOYMENT = "shop"
SECOND = timedelta(seconds=1)


class _Order:
    """Begins, waits for as many signals as asked, does something after each, and ends."""

    def __init__(self) -> None:
        self.heard = 0
        self.builds: list[str] = []

    async def go(self, signals: int) -> list[str]:
        for heard in range(signals + 1):
            await workflow.wait_condition(lambda heard=heard: self.heard >= heard)
            self.builds.append(workflow.info().get_current_build_id())
            self.builds.append(
                await workflow.execute_activity("where", start_to_close_timeout=60 * SECOND)
            )
        return self.builds


@workflow.defn(versioning_behavior=VersioningBehavior.PINNED)
class Pinned(_Order):
    @workflow.run
    async def run(self, signals: int) -> list[str]:
        return await self.go(signals)

    @workflow.signal
    def go_on(self) -> None:
        self.heard += 1

    @workflow.query
    def so_far(self) -> list[str]:
        return self.builds


@workflow.defn(versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class Following(_Order):
    @workflow.run
    async def run(self, signals: int) -> list[str]:
        return await self.go(signals)

    @workflow.signal
    def go_on(self) -> None:
        self.heard += 1

    @workflow.query
    def so_far(self) -> list[str]:
        return self.builds


@workflow.defn(versioning_behavior=VersioningBehavior.PINNED)
class Chain:
    """Two runs, each of which says which build ran it."""

    @workflow.run
    async def run(self, builds: list[str]) -> list[str]:
        builds = [*builds, workflow.info().get_current_build_id()]
        await workflow.sleep(SECOND)
        if len(builds) < 2:
            workflow.continue_as_new(builds)
        return builds


def version(build_id: str) -> WorkerDeploymentVersion:
    return WorkerDeploymentVersion(DEPLOYMENT, build_id)


def where(build_id: str) -> Callable[[], Any]:
    @activity.defn(name="where")
    async def where() -> str:
        return build_id

    return where


def worker(client: Client, build_id: str, **options: Any) -> Worker:
    """Of one version; `build_id` "": of none."""
    config = WorkerDeploymentConfig(version(build_id), True) if build_id else None
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Pinned, Following, Chain],
        activities=[where(build_id)],
        deployment_config=config,
        graceful_shutdown_timeout=timedelta(),
        **options,
    )
