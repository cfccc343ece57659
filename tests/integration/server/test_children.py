"""Children over real gRPC and PostgreSQL, with workers by hand: a killed engine, two nodes, close policies."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import psycopg
import pytest
from tests.channels import channel_to
from tests.engine_node import DEFAULTS, running_node
from tests.integration.server.by_hand import Hand, at_hand, names, working
from tests.integration.server.calls import until
from tests.integration.server.engine_process import EngineProcess
from tests.integration.server.test_commands import ANY_FREE_PORTS, database
from tests.waiting import wait_until

from perdure_api.internal.v1 import engine_service_pb2, engine_service_pb2_grpc
from perdure_api.v1 import common_pb2
from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core.tasks import TaskState
from perdure_engine.server.config_layers import load
from perdure_engine.server.wiring import start_node

CHILDREN = 8
ANSWER_S = 30.0
COMPLETE = wpb.Command(complete_workflow=wpb.CompleteWorkflow(result=b"home"))
POLICIES = ("TERMINATE", "ABANDON", "REQUEST_CANCEL")


def start_child(workflow_id: str, **fields: Any) -> wpb.Command:
    child = wpb.StartChildWorkflow(workflow_id=workflow_id, workflow_type="Child", **fields)
    return wpb.Command(start_child_workflow=child)


def waits_for_its_children(task: wpb.WorkflowTask) -> Sequence[wpb.Command]:
    if task.workflow_type == "Child":
        return [COMPLETE]
    seen = names(task.events)
    if "start_child_workflow_execution_initiated" not in seen:
        return [start_child(f"{task.workflow_id}-{n}") for n in range(CHILDREN)]
    if seen.count("child_workflow_execution_completed") < CHILDREN:
        return []
    return [COMPLETE]


def leaves_its_children(task: wpb.WorkflowTask) -> Sequence[wpb.Command]:
    if task.workflow_type == "Child":
        return []
    seen = names(task.events)
    if "start_child_workflow_execution_initiated" not in seen:
        return [
            start_child(
                f"{task.workflow_id}-{policy}",
                parent_close_policy=common_pb2.ParentClosePolicy.Value(
                    f"PARENT_CLOSE_POLICY_{policy}"
                ),
            )
            for policy in POLICIES
        ]
    return []


async def described(
    hand: Hand, workflow_id: str, is_so: Callable[[pb.DescribeWorkflowResponse], bool]
) -> pb.DescribeWorkflowResponse:
    """As soon as it is so."""
    async with asyncio.timeout(ANSWER_S):
        while True:
            try:
                found = await hand.describe(workflow_id)
            except grpc.aio.AioRpcError as error:
                if error.code() not in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE):
                    raise
            else:
                if is_so(found):
                    return found
            await asyncio.sleep(0.02)


def is_closed(found: pb.DescribeWorkflowResponse) -> bool:
    return found.info.status != common_pb2.WORKFLOW_STATUS_RUNNING


async def test_a_parent_waits_for_its_children(database_dsn: str) -> None:
    """Invariants 5, 6, 48, on one node."""
    async with (
        running_node(database_dsn) as node,
        at_hand(node.address) as hand,
        working(waits_for_its_children, hand),
    ):
        run_id = await hand.start("family", "Parent")

        parent = await described(hand, "family", is_closed)

        assert parent.info.status == common_pb2.WORKFLOW_STATUS_COMPLETED
        seen = names(await hand.history("family"))
        assert seen.count("child_workflow_execution_started") == CHILDREN
        assert seen.count("child_workflow_execution_completed") == CHILDREN
        child = await hand.describe("family-0")
        assert (child.parent_workflow_id, child.parent_run_id) == ("family", run_id)
        assert (child.root_workflow_id, child.root_run_id) == ("family", run_id)
    with psycopg.connect(database_dsn) as connection:
        left = connection.execute(
            "select count(*) from tasks where state = %s", [TaskState.TO_SEND]
        ).fetchone()
        listed = connection.execute("select count(*) from visibility").fetchone()
    assert (left, listed) == ((0,), (1 + CHILDREN,))


async def test_inv49_children_are_told_by_their_policies(database_dsn: str) -> None:
    async with (
        running_node(database_dsn) as node,
        at_hand(node.address) as hand,
        working(leaves_its_children, hand),
    ):
        await hand.start("leaver", "Parent")
        parent = await described(
            hand, "leaver", lambda found: all(one.run_id for one in found.pending_children)
            and len(found.pending_children) == len(POLICIES),
        )  # fmt: skip
        assert [one.workflow_id for one in parent.pending_children] == [
            f"leaver-{policy}" for policy in POLICIES
        ]
        kinds = {reason.kind for reason in (await hand.why("leaver")).reasons}
        assert pb.WAIT_KIND_CHILD_WORKFLOW in kinds

        await hand.terminate("leaver")

        ended = await described(hand, "leaver-TERMINATE", is_closed)
        assert ended.info.status == common_pb2.WORKFLOW_STATUS_TERMINATED
        await described(hand, "leaver-REQUEST_CANCEL", lambda found: found.cancel_requested)
        abandoned = await hand.describe("leaver-ABANDON")
        assert not is_closed(abandoned)
        assert not abandoned.cancel_requested


async def test_two_nodes_carry_messages_to_each_other(many_shards_dsn: str) -> None:
    """Invariants 48, 49 between nodes: the parent's shard and its children's have different owners."""
    async with (
        running_node(many_shards_dsn) as first,
        running_node(many_shards_dsn) as second,
        at_hand(first.address) as one,
        at_hand(second.address) as other,
    ):
        everything = frozenset(range(1, first.number_of_shards + 1))
        await until(
            lambda: (
                first.owned_shards() | second.owned_shards() == everything
                and not first.owned_shards() & second.owned_shards()
            ),
            20.0,
            "each shard has one of the two nodes",
        )
        async with working(waits_for_its_children, one, other):
            for number in range(4):
                await start_somewhere(f"family-{number}", one, other)
            for number in range(4):
                hand = await owner_of(f"family-{number}", one, other)
                parent = await described(hand, f"family-{number}", is_closed)
                assert parent.info.status == common_pb2.WORKFLOW_STATUS_COMPLETED
                seen = names(await hand.history(f"family-{number}"))
                assert seen.count("child_workflow_execution_started") == CHILDREN
                assert seen.count("child_workflow_execution_completed") == CHILDREN
        await only_nodes_may_deliver(first.address)


async def start_somewhere(workflow_id: str, *hands: Hand) -> None:
    for hand in hands:
        try:
            await hand.start(workflow_id, "Parent")
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
        else:
            return
    raise AssertionError("no node has its shard")


async def owner_of(workflow_id: str, *hands: Hand) -> Hand:
    for hand in hands:
        try:
            await hand.describe(workflow_id)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
        else:
            return hand
    raise AssertionError("no node has its shard")


async def only_nodes_may_deliver(address: str) -> None:
    """Invariant 67: who has not the cluster's key reaches no run."""
    async with channel_to(address) as channel:
        stub: Any = engine_service_pb2_grpc.EngineServiceStub(channel)
        for seal in (b"", b"\0" * 100):
            request = engine_service_pb2.DeliverRequest(shard_id=1, intent=b"x", seal=seal)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Deliver(request, timeout=5)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_inv48_an_engine_is_killed_between_initiated_and_started(database_dsn: str) -> None:
    """kill -9 while the child's first statement is on its way, its outcome unknown: there is one child."""
    with (
        EngineProcess("server", *ANY_FREE_PORTS, more=database(database_dsn)) as killed,
        psycopg.connect(database_dsn) as blocker,
    ):
        async with at_hand(killed.grpc_address()) as hand:
            await hand.start("family", "Parent")
            (task,) = await hand.poll()
            # whoever begins a run waits from here on
            blocker.execute("lock table current_runs in share row exclusive mode")
            await hand.complete(task, [start_child("family-0")])
        await asyncio.to_thread(wait_until, lambda: statement_waits(database_dsn), 10.0, "it waits")
        killed.stop(signal.SIGKILL)
        node_id = nodes(database_dsn)
        blocker.rollback()

    options = {"database.url": database_dsn}
    node = await start_node(
        load(environment={}, options=options, defaults=DEFAULTS), dead_nodes=node_id
    )
    try:
        async with at_hand(node.address) as hand:
            parent = await described(
                hand, "family", lambda found: any(one.run_id for one in found.pending_children)
            )
            seen = names(await hand.history("family"))
            assert seen.count("child_workflow_execution_started") == 1
            child = await hand.describe("family-0")
            assert child.info.run_id == parent.pending_children[0].run_id
    finally:
        await node.stop()
    with psycopg.connect(database_dsn) as connection:
        runs = connection.execute(
            "select count(*) from executions where workflow_id = 'family-0'"
        ).fetchone()
    assert runs == (1,)


def statement_waits(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "select count(*) from pg_locks where not granted and relation = 'current_runs'::regclass"
        ).fetchone()
    return row is not None and row[0] > 0


def nodes(dsn: str) -> list[bytes]:
    with psycopg.connect(dsn) as connection:
        return [
            row[0].bytes if hasattr(row[0], "bytes") else row[0]
            for row in connection.execute("select node_id from nodes").fetchall()
        ]
