"""Batch operations and the audit log on a real database, with an engine that is killed in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import LiteralString

import psycopg
from tests.engine_node import running_node
from tests.integration.server.calls import POLL_S
from tests.integration.server.engine_process import EngineProcess
from tests.integration.server.test_commands import ANY_FREE_PORTS, database

from perdure.client import BatchOperationInfo, BatchOperationState, BatchOperationType, Client
from perdure.errors import RPCError, RPCStatusCode

RUNS = 300
QUERY = "WorkflowType = 'Idle'"
TERMINATED = 5


async def start_many(client: Client, count: int) -> list[str]:
    ids = [f"idle-{number}" for number in range(count)]
    await asyncio.gather(
        *(client.start_workflow("Idle", id=one, task_queue="nobody") for one in ids)
    )
    return ids


async def described(
    client: Client, job_id: str, done: int, deadline_s: float
) -> BatchOperationInfo:
    """Once it has done so many, or come to its end."""
    async with asyncio.timeout(deadline_s):
        while True:
            try:
                found = await client.operator.describe_batch_operation(job_id)
            except RPCError as error:
                if error.status is not RPCStatusCode.UNAVAILABLE:
                    raise
            else:
                if found.done >= done or found.state is not BatchOperationState.RUNNING:
                    return found
            await asyncio.sleep(POLL_S)


async def test_300_runs_end_once_each_though_the_engine_is_killed_in_the_middle(
    database_dsn: str,
) -> None:
    """Invariants 3, 9, 28: acknowledged work is done, once for each run, and each is in a log that holds."""
    environment = database(database_dsn)
    with EngineProcess("server", *ANY_FREE_PORTS, more=environment) as killed:
        client = await Client.connect(killed.grpc_address(), identity="op@host")
        await start_many(client, RUNS)
        await client.start_workflow("Other", id="other", task_queue="nobody")
        job_id = await client.operator.start_batch_operation(
            QUERY, BatchOperationType.TERMINATE, reason="outage", rps=150
        )
        found = await described(client, job_id, 40, 20)
        assert 0 < found.done < RUNS
        killed.stop(signal.SIGKILL)
        await client.close()

    with EngineProcess("server", *ANY_FREE_PORTS, more=environment) as heir:
        client = await Client.connect(heir.grpc_address(), identity="op@host")
        again = await client.operator.start_batch_operation(
            QUERY, BatchOperationType.TERMINATE, reason="outage", rps=150, job_id=job_id
        )
        assert again == job_id
        found = await described(client, job_id, RUNS, 40)
        while found.state is BatchOperationState.RUNNING:
            found = await client.operator.describe_batch_operation(job_id)
        assert found.state is BatchOperationState.COMPLETED
        assert (found.total, found.done, found.failed) == (RUNS, RUNS, 0)

        verified = await client.operator.verify_audit()
        assert (verified.rows, verified.broken) == (RUNS + 1, [])
        entries = [entry async for entry in client.operator.list_audit()]
        ended = [entry.workflow_id for entry in entries if entry.action == "workflow.terminate"]
        assert sorted(ended) == sorted(f"idle-{number}" for number in range(RUNS))
        assert {entry.identity for entry in entries} == {"op@host"}
        assert {entry.reason for entry in entries} == {"outage"}
        await client.close()
        assert heir.stop(signal.SIGTERM) == 0

    with psycopg.connect(database_dsn) as connection:
        counted = connection.execute(
            "select status, count(*) from executions group by status order by status"
        ).fetchall()
    assert counted == [(1, 1), (TERMINATED, RUNS)]


def perdure(address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, as an operator has it."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "perdure", *arguments],
        env={**os.environ, "PERDURE_ADDRESS": address, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


TAMPERINGS: dict[str, LiteralString] = {
    "change": "update audit set content = content || 'x' where shard_id = 1 and seq = 2",
    "column": "update audit set workflow_id = 'innocent' where shard_id = 1 and seq = 2",
    "delete": "delete from audit where shard_id = 1 and seq = 2",
    "swap": "update audit set seq = case seq when 2 then 13 else 12 end"
    " where shard_id = 1 and seq in (2, 3);"
    " update audit set seq = seq - 10 where shard_id = 1 and seq in (12, 13)",
    "cut": "delete from audit where shard_id = 1 and seq >= 2",
}


async def test_tampering_with_the_table_is_found(database_dsn: str, tmp_path: Path) -> None:
    """Reliability §5 point 10. A tail that was cut off shows by a head that was kept."""
    async with running_node(database_dsn) as node:
        client = await Client.connect(node.address, identity="op@host")
        for one in await start_many(client, 24):
            await client.get_workflow_handle(one).terminate(reason="over")
        await client.operator.create_namespace("tenant")
        kept = await asyncio.to_thread(perdure, node.address, "audit", "head")
        file = tmp_path / "heads"
        file.write_text(kept.stdout)
        heads = await client.operator.audit_heads()
        assert [json.loads(line)["seq"] for line in kept.stdout.splitlines()] == [
            head.seq for head in heads
        ]
        assert next(head.seq for head in heads if head.chain == 1) >= 3, "choose another chain"
        whole = await client.operator.verify_audit(heads)
        assert (whole.rows, whole.broken) == (25, [])

        with psycopg.connect(database_dsn, autocommit=True) as connection:
            connection.execute("create table kept as select * from audit")
            for what, statements in TAMPERINGS.items():
                connection.execute("delete from audit")
                connection.execute("insert into audit select * from kept")
                for statement in statements.split(";"):
                    connection.execute(statement)
                found = await client.operator.verify_audit(heads)
                assert [(one.chain, one.seq) for one in found.broken] == [(1, 2)], what
            connection.execute("drop table kept")
        await client.close()

        shown = await asyncio.to_thread(
            perdure, node.address, "audit", "verify", "--head", str(file)
        )
        assert shown.returncode == 1
        assert "chain 1, row 2:" in shown.stderr
