"""Versions of workers on a real node: PostgreSQL, gRPC, the SDK's client and workers."""

from __future__ import annotations

import pytest
from tests.engine_node import running_node
from tests.integration.testing.test_versions import begin, results, seen, tell
from tests.integration.testing.versioned import DEPLOYMENT, Following, Pinned, version, worker

from perdure.client import Client, WorkerVersionStatus
from perdure.errors import RPCError


async def test_b16_versions_and_their_runs_survive_the_node(database_dsn: str) -> None:
    """Routing, the version of each run and of each waiting task are saved; what is retired stays so."""
    async with running_node(database_dsn) as node:
        client = await Client.connect(node.address)
        async with client, worker(client, "1"):
            await seen(client, "1")
            await client.operator.set_current_worker_version(DEPLOYMENT, "1")
            pinned = [handle.id for handle in await begin(client, Pinned.run, 3, 1)]
            following = [handle.id for handle in await begin(client, Following.run, 3, 1)]

    async with running_node(database_dsn) as node:
        client = await Client.connect(node.address)
        async with client, worker(client, "1"), worker(client, "2"):
            await seen(client, "1", "2")
            found = await client.operator.set_current_worker_version(DEPLOYMENT, "2")
            assert {one.version: one.status for one in found.versions} == {
                version("1"): WorkerVersionStatus.DRAINING,
                version("2"): WorkerVersionStatus.CURRENT,
            }
            stays = [client.get_workflow_handle(id) for id in pinned]
            moves = [client.get_workflow_handle(id) for id in following]
            await tell([*stays, *moves])
            assert await results(stays) == [["1"] * 4] * 3
            assert await results(moves) == [["1", "1", "2", "2"]] * 3
            with pytest.raises(RPCError, match="may be retired in"):
                await client.operator.retire_worker_version(version("1"))
            reach = await client.operator.worker_version_reachability(version("1"))
            assert reach.last_close_time is not None
            assert reach.retirable_time is not None
