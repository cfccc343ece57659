"""Runs are deleted from a real database, by call and by retention, and a repeated call says so again."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import grpc
import psycopg
import pytest
from tests.channels import channel_to
from tests.engine_node import running_node
from tests.integration.server.calls import CALL_S, start_workflow, until

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_api.v1 import workflow_service_pb2_grpc

TABLES = ("executions", "history", "inbox", "snapshots", "visibility", "current_runs")


async def delete_workflow(address: str, workflow_id: str, run_id: str = "") -> None:
    request = pb.DeleteWorkflowRequest(
        namespace="default",
        workflow_id=workflow_id,
        run_id=run_id,
        request_id=str(uuid.uuid4()),
        identity="operator@host",
        reason="a mistake",
    )
    async with channel_to(address) as channel:
        stub: Any = workflow_service_pb2_grpc.WorkflowServiceStub(channel)
        await stub.DeleteWorkflow(request, timeout=CALL_S)


def rows_of(dsn: str, run_id: str) -> int:
    counts = [f"(select count(*) from {table} where run_id = %(run_id)s)" for table in TABLES]
    with psycopg.connect(dsn) as connection:
        row = connection.execute(f"select {' + '.join(counts)}", {"run_id": run_id}).fetchone()
    assert row is not None
    return int(row[0])


async def test_a_run_is_deleted_whole_and_only_it(database_dsn: str) -> None:
    async with running_node(database_dsn) as node:
        gone = await start_workflow(node.address, "gone")
        stays = await start_workflow(node.address, "stays")
        before = rows_of(database_dsn, stays)

        await delete_workflow(node.address, "gone")

        assert rows_of(database_dsn, gone) == 0
        assert rows_of(database_dsn, stays) == before > 0
        await delete_workflow(node.address, "gone", gone)  # the same again
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await delete_workflow(node.address, "gone")
        assert refusal.value.code() is grpc.StatusCode.NOT_FOUND
        assert await start_workflow(node.address, "gone") != gone


async def test_retention_is_enforced(database_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure_engine.history.retention.FIRST_PASS_AFTER_S", 0.05)
    async with running_node(database_dsn) as node:
        old, young = [await start_workflow(node.address, name) for name in ("old", "young")]
        await asyncio.gather(*(_terminate(node.address, name) for name in ("old", "young")))
    with psycopg.connect(database_dsn) as connection:
        connection.execute(
            "update visibility set close_time = close_time - interval '8 days' where run_id = %s",
            (old,),
        )

    async with running_node(database_dsn) as node:
        await until(lambda: not rows_of(database_dsn, old), CALL_S, "the old run is gone")
        assert rows_of(database_dsn, young)


async def _terminate(address: str, workflow_id: str) -> None:
    request = pb.TerminateWorkflowRequest(
        namespace="default", workflow_id=workflow_id, request_id=str(uuid.uuid4())
    )
    async with channel_to(address) as channel:
        stub: Any = workflow_service_pb2_grpc.WorkflowServiceStub(channel)
        await stub.TerminateWorkflow(request, timeout=CALL_S)
