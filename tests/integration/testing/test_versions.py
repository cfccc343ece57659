"""A mixed fleet: two versions of workers, while runs of both behaviours are under way (B16, T10)."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.integration.testing.versioned import (
    DEPLOYMENT,
    QUEUE,
    Chain,
    Following,
    Pinned,
    version,
    worker,
)
from typer.testing import CliRunner, Result

from perdure import workflow
from perdure.cli.app import app
from perdure.client import Client, WorkerVersionStatus, WorkflowHandle
from perdure.common import (
    AutoUpgradeVersioningOverride,
    PinnedVersioningOverride,
    VersioningBehavior,
    WorkerDeploymentVersion,
)
from perdure.errors import RPCError, RPCStatusCode
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker, WorkerDeploymentConfig
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


# ---- overrides, chains, workers without a version


@pytest.fixture
async def two(env: WorkflowEnvironment) -> AsyncIterator[Client]:
    """Both versions have workers, and the second is current."""
    async with worker(env.client, "1"), worker(env.client, "2"):
        await seen(env.client, "1", "2")
        await env.client.operator.set_current_worker_version(DEPLOYMENT, "2")
        yield env.client


async def test_a_start_can_choose_the_version(two: Client) -> None:
    on_one = PinnedVersioningOverride(version("1"))

    [pinned] = await results(await begin(two, Following.run, 1, 0, versioning_override=on_one))

    assert pinned == ["1", "1"]


async def test_a_start_can_have_a_pinned_workflow_follow(two: Client) -> None:
    handles = await begin(
        two, Pinned.run, 1, 1, versioning_override=AutoUpgradeVersioningOverride()
    )
    await two.operator.set_current_worker_version(DEPLOYMENT, "1")
    await tell(handles)

    assert await results(handles) == [["2", "2", "1", "1"]]


async def test_a_start_on_a_version_that_nobody_knows_is_refused(two: Client) -> None:
    with pytest.raises(RPCError, match="was ever seen"):
        await begin(
            two, Pinned.run, 1, 0, versioning_override=PinnedVersioningOverride(version("9"))
        )


async def test_continue_as_new_stays_on_the_version(two: Client) -> None:
    await two.operator.set_current_worker_version(DEPLOYMENT, "1")
    handle = await two.start_workflow(Chain.run, [], id="c", task_queue=QUEUE)
    while not (await handle.describe()).versioning_info:
        pass
    await two.operator.set_current_worker_version(DEPLOYMENT, "2")

    assert await handle.result() == ["1", "1"]


async def test_lists_and_describe_say_which_version_runs_what(two: Client) -> None:
    [pinned] = await begin(two, Pinned.run, 1, 1)
    await begin(two, Following.run, 2, 1)

    described = await pinned.describe()
    found = [
        one
        async for one in two.list_workflows(
            f"DeploymentName = '{DEPLOYMENT}' AND BuildId = '2' AND VersioningBehavior = 'Pinned'"
        )
    ]

    assert described.versioning_info is not None
    assert described.versioning_info.behavior is VersioningBehavior.PINNED
    assert described.versioning_info.deployment_version == version("2")
    assert [one.id for one in found] == [pinned.id]
    assert found[0].versioning_info == described.versioning_info
    assert len(found[0].typed_search_attributes) == 0, "they are no attributes of the user's"
    assert (await two.count_workflows("VersioningBehavior = 'AutoUpgrade'")).count == 2


async def test_workers_without_a_version_get_what_goes_to_none(env: WorkflowEnvironment) -> None:
    """A version that polls takes nothing before it is current; then everything new."""
    async with worker(env.client, ""), worker(env.client, "1"):
        await seen(env.client, "1")
        before = await results(await begin(env.client, Pinned.run, 3, 0))
        await env.client.operator.set_current_worker_version(DEPLOYMENT, "1")
        after = await results(await begin(env.client, Pinned.run, 3, 0))
        await env.client.operator.set_current_worker_version(DEPLOYMENT, None)
        again = await results(await begin(env.client, Pinned.run, 3, 0))

    assert before == again == [["", ""]] * 3
    assert after == [["1", "1"]] * 3


def test_a_worker_with_a_version_needs_to_know_what_its_runs_do(env: WorkflowEnvironment) -> None:
    @workflow.defn
    class Undecided:
        @workflow.run
        async def run(self) -> None: ...

    def made(build_id: str = "", **options: Any) -> Worker:
        config = WorkerDeploymentConfig(version("1"), True, **options)
        return Worker(
            env.client,
            task_queue=QUEUE,
            workflows=[Undecided],
            deployment_config=config,
            build_id=build_id,
        )

    with pytest.raises(ValueError, match="Undecided says no versioning_behavior"):
        made()
    made(default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
    with pytest.raises(ValueError, match="not both"):
        made("1")


@pytest.mark.parametrize(("name", "build_id"), [("a.b", "1"), ("", "1"), ("a", "")])
def test_a_version_that_is_none(name: str, build_id: str) -> None:
    with pytest.raises(ValueError, match="deployment name"):
        WorkerDeploymentVersion(name, build_id)


# ---- the command line


async def cli(client: Client, *arguments: str) -> Result:
    """In a thread of its own: the engine runs on this loop."""
    target = client.core.connection.target
    asked = [*arguments, "--address", target]
    return await asyncio.to_thread(CliRunner().invoke, app, asked)


async def test_versions_are_rolled_out_by_the_command_line(two: Client) -> None:
    handles = await begin(two, Pinned.run, 2, 1)

    ramped = await cli(two, "version", "ramp", "shop.1", "12.5", "-o", "json")
    assert json.loads(ramped.stdout)["ramping_percentage"] == 12.5
    listed = await cli(two, "version", "list")
    assert "shop.1" in listed.stdout
    assert "87.5 %" in listed.stdout
    assert (await cli(two, "version", "ramp", "shop", "--end")).exit_code == 0
    assert (await cli(two, "version", "set-current", "shop.1")).exit_code == 0
    reach = await cli(two, "version", "reachability", "shop.2", "-o", "json")
    assert json.loads(reach.stdout)["version"]["pinned_runs"] == 2
    in_use = await cli(two, "version", "retire", "shop.2")
    assert (in_use.exit_code, "2 open runs are pinned" in in_use.stderr) == (1, True)

    await tell(handles)
    await results(handles)
    too_soon = await cli(two, "version", "retire", "shop.2")
    assert (too_soon.exit_code, "may be retired in" in too_soon.stderr) == (1, True)
    waits = await cli(two, "version", "reachability", "shop.2")
    assert "from 20" in waits.stdout
    assert (await cli(two, "version", "retire", "shop.2", "--grace", "0s")).exit_code == 0
    assert "RETIRED" in (await cli(two, "version", "describe", "shop")).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("set-current", "shop"),
        ("set-current", "shop.1", "--unversioned"),
        ("ramp", "shop.1"),
        ("ramp", "shop", "5", "--end"),
        ("ramp", "shop.1", "101"),
        ("retire", "shop.1", "--grace", "soon"),
    ],
)
async def test_the_command_line_refuses_what_makes_no_sense(
    two: Client, arguments: tuple[str, ...]
) -> None:
    assert (await cli(two, "version", *arguments)).exit_code == 2


async def test_the_audit_log_tells_who_rolled_out_what_and_why(two: Client) -> None:
    """Each command's row, with the reason that it was given."""
    [handle] = await begin(two, Pinned.run, 1, 1)
    for words in (
        ("version", "override", handle.id, "shop.1"),
        ("version", "ramp", "shop.1", "5"),
        ("version", "set-current", "shop.1"),
        ("namespace", "create", "tenant"),
        ("namespace", "update", "tenant", "--description", "ours"),
    ):
        assert (await cli(two, *words, "--reason", f"because of {words[1]}")).exit_code == 0
    await tell([handle])
    await handle.result()
    assert (
        await cli(two, "version", "retire", "shop.2", "--grace", "0s", "--reason", "old")
    ).exit_code == 0

    log = [entry async for entry in two.operator.list_audit()]
    told = [(one.action, one.subject or one.workflow_id, one.reason) for one in log]
    assert sorted(told) == sorted(
        [
            ("deployment.retire", "shop.2", "old"),
            ("namespace.update", "tenant", "because of update"),
            ("namespace.create", "tenant", "because of create"),
            ("deployment.set_current", "shop.1", "because of set-current"),
            ("deployment.set_ramping", "shop.1", "because of ramp"),
            ("workflow.update_options", handle.id, "because of override"),
            ("deployment.set_current", "shop.2", ""),
        ]
    )
    (changed,) = [one for one in log if one.reason == "because of set-current"]
    assert (changed.before, changed.after) == ("current 2, 5 % to 1", "current 1")
    assert (await two.operator.verify_audit()).broken == []


async def test_an_open_run_is_moved_to_another_version_and_back(two: Client) -> None:
    """So the last runs of an old version can be taken along before it is retired."""
    [handle] = await begin(two, Pinned.run, 1, 3)

    assert (await cli(two, "version", "override", handle.id, "shop.1")).exit_code == 0
    await tell([handle])
    while len(await handle.query("so_far")) < 4:
        pass
    assert (await cli(two, "version", "override", handle.id, "--auto-upgrade")).exit_code == 0
    await tell([handle])
    while len(await handle.query("so_far")) < 6:
        pass
    assert (await cli(two, "version", "override", handle.id, "--unset")).exit_code == 0
    await tell([handle])

    # Without an override it is pinned to where its code ran last.
    assert await handle.result() == ["2", "2", "1", "1", "2", "2", "2", "2"]
    unknown = await cli(two, "version", "override", handle.id, "shop.9")
    assert (unknown.exit_code, "was ever seen" in unknown.stderr) == (3, True)
    assert (await cli(two, "version", "override", handle.id)).exit_code == 2
