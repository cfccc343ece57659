"""A mixed fleet: two versions of workers, while runs of both behaviours are under way (B16, T10)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.integration.testing.versioned import (
    DEPLOYMENT,
    QUEUE,
    Following,
    Pinned,
    version,
    worker,
)

from perdure.client import Client, WorkerVersionStatus, WorkflowHandle
from perdure.errors import RPCError, RPCStatusCode
from perdure.testing import WorkflowEnvironment
from perdure_engine.core.deployments import WHOLE, share_of

HOUR = timedelta(hours=1)


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping() as env:
        yield env


async def seen(client: Client, *build_ids: str) -> None:
    """Until a worker of each has polled: only then may it become current."""
    known: set[str] = set()
    while not known >= set(build_ids):
        found = await client.operator.list_worker_deployments()
        known = {version.version.build_id for one in found for version in one.versions}


async def begin(
    client: Client, workflow: Any, count: int, signals: int, **options: Any
) -> list[WorkflowHandle[Any, list[str]]]:
    """Started, and each has ended its first activity."""
    handles = await asyncio.gather(
        *[
            client.start_workflow(
                workflow, signals, id=str(uuid.uuid4()), task_queue=QUEUE, **options
            )
            for _ in range(count)
        ]
    )
    for handle in handles:
        builds: list[str] = []
        while len(builds) < 2:
            builds = await handle.query("so_far")
    return list(handles)


async def tell(handles: Sequence[WorkflowHandle[Any, Any]]) -> None:
    await asyncio.gather(*[handle.signal("go_on") for handle in handles])


async def results(handles: Sequence[WorkflowHandle[Any, list[str]]]) -> list[list[str]]:
    return list(await asyncio.gather(*[handle.result() for handle in handles]))


async def refused(version_: Any, client: Client, **options: Any) -> RPCError:
    with pytest.raises(RPCError) as caught:
        await client.operator.retire_worker_version(version_, **options)
    assert caught.value.status is RPCStatusCode.FAILED_PRECONDITION
    return caught.value


async def mixed_fleet(env: WorkflowEnvironment, runs: int) -> None:
    """`runs` of each behaviour are under way while version 2 takes over from version 1."""
    client, operator = env.client, env.client.operator
    async with worker(client, "1"), worker(client, "2"):
        await seen(client, "1", "2")
        await operator.set_current_worker_version(DEPLOYMENT, "1")
        pinned = await begin(client, Pinned.run, runs, 2)
        following = await begin(client, Following.run, runs, 2)

        await operator.set_ramping_worker_version(DEPLOYMENT, "2", 30)
        ramped = await begin(client, Pinned.run, runs, 0)
        for handle, builds in zip(ramped, await results(ramped), strict=True):
            run_id = uuid.UUID(handle.result_run_id).bytes
            expected = "2" if share_of(run_id) < 0.3 * WHOLE else "1"
            assert builds == [expected] * 2

        await operator.set_current_worker_version(DEPLOYMENT, "2")
        await tell(pinned + following)
        assert (await refused(version("1"), client)).reason == "VERSION_IN_USE"
        reach = await operator.worker_version_reachability(version("1"))
        assert (reach.version.status, reach.new_runs) == (WorkerVersionStatus.DRAINING, False)
        assert reach.version.pinned_runs == runs

        await tell(pinned + following)
        for builds in await results(pinned):
            assert builds == ["1"] * 6
        for builds in await results(following):
            assert builds[:2] == ["1", "1"]
            assert builds[2:] == ["2"] * 4
        failed = "ExecutionStatus IN ('Failed', 'TimedOut', 'Terminated')"
        assert (await client.count_workflows(failed)).count == 0

        assert "may be retired in" in (await refused(version("1"), client)).message
        await env.sleep(25 * HOUR)
        retired = await operator.retire_worker_version(version("1"))
        assert retired.status is WorkerVersionStatus.RETIRED


async def test_b16_a_mixed_fleet(env: WorkflowEnvironment) -> None:
    """Pinned runs end where they began, the others follow; the old version goes when nothing needs it."""
    await mixed_fleet(env, 20)

    with pytest.raises(RPCError) as caught:
        await worker(env.client, "1").run()

    assert caught.value.reason == "VERSION_RETIRED"
    assert "new build id" in caught.value.message


@pytest.mark.soak
async def test_b16_a_mixed_fleet_of_a_thousand(env: WorkflowEnvironment) -> None:
    await mixed_fleet(env, 334)


async def test_the_share_of_a_ramp_is_what_was_asked_for() -> None:
    on = sum(share_of(uuid.uuid4().bytes) < WHOLE // 4 for _ in range(20_000))

    assert 4_500 < on < 5_500  # ±7 standard deviations
