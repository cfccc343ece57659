"""Two engine processes on one database: each tells of its own shards, says so, and together they tell all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.engine_node import running_node
from tests.integration.server.calls import POLL_S, get

from perdure import job
from perdure.client import Client
from perdure_engine.server.node import Node

QUEUE = "mails"
JOBS = 400
PATIENCE_S = 30.0  # a node reads the others every two seconds, and shards move a few at a time


@job.defn
async def send(number: int) -> int:
    return number


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await check():
                return
            await asyncio.sleep(POLL_S)


async def backlog(client: Client, nodes: int) -> int:
    """What the client's node tells; -1: it knows of another number of nodes."""
    found = await client.operator.describe_task_queue(QUEUE)
    cluster = await client.operator.describe_cluster()
    assert found.node_id == cluster.node_id
    return found.job.backlog_count if found.nodes == nodes else -1


async def gauge(node: Node) -> float:
    page = await asyncio.to_thread(get, node.http_address, "/metrics")
    wanted = f'perdure_backlog_count{{task_kind="job",task_queue="{QUEUE}"}} '
    lines = [line for line in page[1].splitlines() if line.startswith(wanted)]
    return sum(float(line.removeprefix(wanted)) for line in lines)


async def test_what_two_nodes_tell_of_a_queue_adds_up_to_all_of_it(many_shards_dsn: str) -> None:
    # each in the shard of its key
    many = [job.new(send, n, queue=QUEUE, idempotency_key=str(n)) for n in range(JOBS)]
    async with running_node(many_shards_dsn) as one, await Client.connect(one.address) as here:
        await here.jobs.create_many(many)
        assert await backlog(here, 1) == JOBS
        async with (
            running_node(many_shards_dsn) as other,
            await Client.connect(other.address) as there,
        ):

            async def shared() -> bool:
                """The gauges with it: while more shards are about to move, what is asked later may be without them."""
                of_one, of_other = await backlog(here, 2), await backlog(there, 2)
                gauges = [await gauge(one), await gauge(other)]
                return 0 < of_one < JOBS and gauges == [of_one, of_other] and sum(gauges) == JOBS

            await eventually(shared)

        async def alone() -> bool:
            return await backlog(here, 1) == JOBS

        await eventually(alone)
