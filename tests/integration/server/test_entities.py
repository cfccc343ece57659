"""Entities end to end: client, engine, PostgreSQL, and a worker that is killed in a handler."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from tests.engine_node import running_node

from perdure import activity, workflow
from perdure.client import Client
from perdure.worker import Worker

QUEUE = "wallets"
SETTINGS = {"history.lease_s": 3}
LIMIT_S = 60.0


class Bank:
    """In the process that is killed, it never answers."""

    def __init__(self, *, answers: bool) -> None:
        self.asked: list[int] = []
        self._answers = answers

    @activity.defn(name="fee")
    async def fee(self, balance: int) -> int:
        self.asked.append(balance)
        if not self._answers:
            await asyncio.Event().wait()
        return 1


@workflow.entity(calls_per_run=3)
class Wallet:
    def __init__(self) -> None:
        self.balance = 0
        self.log: list[str] = []

    @workflow.entity_handler
    async def pay_in(self, amount: int) -> int:
        """What another call did in between would be lost."""
        before = self.balance
        fee: int = await workflow.execute_activity(
            "fee", before, start_to_close_timeout=timedelta(seconds=60)
        )
        self.balance = before + amount - fee
        self.log.append(f"{before} + {amount} - {fee}")
        return self.balance

    @workflow.entity_reader
    def entries(self) -> list[str]:
        return self.log


@asynccontextmanager
async def working(client: Client, bank: Bank) -> AsyncIterator[Worker]:
    async with Worker(
        client, task_queue=QUEUE, workflows=[Wallet], activities=[bank.fee]
    ) as worker:
        yield worker


DOOMED = """
import asyncio, sys
from perdure.client import Client
from tests.integration.server.test_entities import Bank, working

async def main(address):
    async with await Client.connect(address) as client:
        bank = Bank(answers=False)
        async with working(client, bank):
            while not bank.asked:
                await asyncio.sleep(0.01)
            print("it runs", flush=True)
            await asyncio.Event().wait()

asyncio.run(main(sys.argv[1]))
"""


async def test_a_worker_that_is_killed_in_a_handler_loses_no_call_and_does_none_twice(
    database_dsn: str,
) -> None:
    """Invariant: an acknowledged call is done exactly once. SIGKILL while the first handler waits and
    nine calls wait behind it."""
    async with (
        running_node(database_dsn, SETTINGS) as node,
        await Client.connect(node.address) as client,
    ):
        wallet = client.entity(Wallet, "ada", task_queue=QUEUE)
        doomed = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", DOOMED, node.address),
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, os.getcwd()])),
            },
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert doomed.stdout is not None
            for number in range(10):
                once = wallet.with_options(id=f"c-{number}")
                await once.tell(Wallet.pay_in, 10)
            assert await doomed.stdout.readline() == b"it runs\n"
        finally:
            doomed.kill()
            await doomed.wait()
        bank = Bank(answers=True)
        async with asyncio.timeout(LIMIT_S), working(client, bank):
            calls = [wallet.with_options(id=f"c-{n}").call(Wallet.pay_in, 10) for n in range(10)]
            assert await asyncio.gather(*calls) == [9 * n for n in range(1, 11)]
            assert await wallet.read(Wallet.entries) == [f"{9 * n} + 10 - 1" for n in range(10)]
    assert sorted(bank.asked) == [9 * n for n in range(10)]
