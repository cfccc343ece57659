"""Calls of the client: how they share messages, how they are repeated, what they raise."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import grpc
import pytest
from google.rpc import error_details_pb2
from tests.integration.sdk.fake_engine import FakeEngine
from tests.integration.sdk.fake_faults import UNAVAILABLE, Fault, retry_info, status

from perdure._wire.batching import PORTION_MIN
from perdure.client import (
    Client,
    RPCError,
    WorkflowAlreadyStartedError,
    WorkflowHandle,
    WorkflowStatus,
)
from perdure.common import RetryPolicy
from perdure.errors import RPCStatusCode

QUEUE = "queue"


async def start(client: Client, id: str, **options: object) -> WorkflowHandle:
    return await client.start_workflow("Nothing", id=id, task_queue=QUEUE, **options)


async def test_calls_of_one_turn_travel_as_one_batch(engine: FakeEngine, client: Client) -> None:
    await asyncio.gather(*(start(client, f"id-{n}") for n in range(100)))

    (batch,) = engine.requests["BatchCall"]
    assert [call.start_workflow.workflow_id for call in batch.calls] == [
        f"id-{n}" for n in range(100)
    ]


async def test_calls_collect_while_batches_are_under_way(
    engine: FakeEngine, client: Client
) -> None:
    engine.gates["BatchCall"] = gate = asyncio.Event()
    tasks = [asyncio.create_task(start(client, "first"))]
    await engine.arrived("BatchCall", 1)
    for n in range(PORTION_MIN):  # enough for a second batch beside it
        tasks.append(asyncio.create_task(start(client, f"second-{n}")))
    await engine.arrived("BatchCall", 2)
    for n in range(50):
        tasks.append(asyncio.create_task(start(client, f"later-{n}")))
        await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)

    assert [len(batch.calls) for batch in engine.requests["BatchCall"]] == [1, PORTION_MIN, 50]


async def test_a_batch_is_cut_by_count_and_by_bytes(engine: FakeEngine, client: Client) -> None:
    await asyncio.gather(*(start(client, f"id-{n}") for n in range(300)))
    assert [len(batch.calls) for batch in engine.requests["BatchCall"]] == [256, 44]

    engine.requests.clear()
    large = "x" * 900_000
    await asyncio.gather(*(start(client, f"large-{n}", memo={"m": large}) for n in range(5)))
    assert [len(batch.calls) for batch in engine.requests["BatchCall"]] == [2, 2, 1]


async def test_a_slow_query_does_not_hold_a_start(engine: FakeEngine, client: Client) -> None:
    handle = await start(client, "slow")
    query = asyncio.create_task(handle.query("never answered"))
    await engine.until(lambda: len(engine.requests["BatchCall"]) == 2)

    await start(client, "quick")

    assert not query.done()
    query.cancel()


async def test_a_start_is_repeated_with_the_same_request_id(
    engine: FakeEngine, client: Client
) -> None:
    engine.fail(
        "BatchCall",
        Fault(status(UNAVAILABLE, "before")),
        Fault(status(UNAVAILABLE, "after"), after_effect=True),
    )
    handle = await start(client, "once")

    calls = engine.calls("start_workflow")
    assert len(calls) == 3
    assert len({call.request_id for call in calls}) == 1
    assert list(engine.runs.by_run_id) == [handle.result_run_id]


async def test_one_call_of_a_batch_is_repeated_alone(engine: FakeEngine, client: Client) -> None:
    moved = error_details_pb2.ErrorInfo(reason="SHARD_MOVED")
    engine.call_faults = [status(grpc.StatusCode.FAILED_PRECONDITION, "not here", moved)]

    await asyncio.gather(start(client, "moved"), start(client, "here"))

    assert [len(batch.calls) for batch in engine.requests["BatchCall"]] == [2, 1]
    assert [call.workflow_id for call in engine.calls("start_workflow")] == [
        "moved",
        "here",
        "moved",
    ]


async def test_a_busy_engine_says_when_to_come_back(engine: FakeEngine, client: Client) -> None:
    busy = status(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", retry_info(0.01))
    engine.call_faults = [busy]

    await start(client, "patient")

    assert len(engine.calls("start_workflow")) == 2


async def test_too_large_is_not_repeated_but_halved(engine: FakeEngine, client: Client) -> None:
    too_large = status(grpc.StatusCode.RESOURCE_EXHAUSTED, "message larger than max")
    engine.fail("BatchCall", Fault(too_large), Fault(too_large))

    outcomes = await asyncio.gather(
        *(start(client, f"id-{n}") for n in range(4)), return_exceptions=True
    )

    # 4 calls refused, then the first 2, then each of them alone, then the other 2
    assert [len(batch.calls) for batch in engine.requests["BatchCall"]] == [4, 2, 1, 1, 2]
    assert [type(one) for one in outcomes] == [WorkflowHandle] * 4

    engine.fail("BatchCall", Fault(too_large))
    with pytest.raises(RPCError) as caught:
        await start(client, "alone")
    assert caught.value.status is RPCStatusCode.RESOURCE_EXHAUSTED


async def test_the_deadline_ends_the_repeating(engine: FakeEngine, client: Client) -> None:
    await engine.kill()
    with pytest.raises(RPCError) as caught:
        await start(client, "hopeless", rpc_timeout=timedelta(seconds=0.3))
    assert caught.value.status is RPCStatusCode.UNAVAILABLE


async def test_a_call_that_is_not_answered_ends_at_its_own_deadline(
    engine: FakeEngine, client: Client
) -> None:
    engine.gates["BatchCall"] = gate = asyncio.Event()
    patient = asyncio.create_task(start(client, "patient"))
    hasty = asyncio.create_task(start(client, "hasty", rpc_timeout=timedelta(seconds=0.05)))

    with pytest.raises(RPCError) as caught:
        await hasty
    assert caught.value.status is RPCStatusCode.DEADLINE_EXCEEDED
    gate.set()
    await patient
    assert len(engine.requests["BatchCall"]) == 1


async def test_a_refusal_names_the_field(engine: FakeEngine, client: Client) -> None:
    bad = error_details_pb2.BadRequest(
        field_violations=[{"field": "workflow_id", "description": "too long"}]
    )
    engine.call_faults = [status(grpc.StatusCode.INVALID_ARGUMENT, "bad id", bad)]
    with pytest.raises(RPCError, match="bad id") as caught:
        await start(client, "x")
    assert caught.value.field_violations == [("workflow_id", "too long")]

    engine.fail("BatchCall", Fault(status(grpc.StatusCode.INVALID_ARGUMENT, "bad", bad)))
    with pytest.raises(RPCError) as whole:
        await start(client, "x")
    assert whole.value.field_violations == [("workflow_id", "too long")]


async def test_callers_that_fail_together_get_errors_of_their_own(
    engine: FakeEngine, client: Client
) -> None:
    engine.fail("BatchCall", Fault(status(grpc.StatusCode.INTERNAL, "defect")))
    one, other = await asyncio.gather(
        start(client, "a"), start(client, "b"), return_exceptions=True
    )
    assert isinstance(one, RPCError)
    assert isinstance(other, RPCError)
    assert one is not other


async def test_an_id_that_is_taken(engine: FakeEngine, client: Client) -> None:
    first = await start(client, "taken")
    with pytest.raises(WorkflowAlreadyStartedError) as caught:
        await start(client, "taken")
    assert caught.value.run_id == first.result_run_id
    assert caught.value.workflow_type == "Nothing"


async def test_a_cancelled_call_is_not_sent(engine: FakeEngine, client: Client) -> None:
    engine.gates["BatchCall"] = gate = asyncio.Event()
    under_way = [asyncio.create_task(start(client, "a"))]
    await engine.arrived("BatchCall", 1)
    under_way.append(asyncio.create_task(start(client, "b")))
    await engine.arrived("BatchCall", 2)
    given_up = asyncio.create_task(start(client, "given up"))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    gate.set()
    await asyncio.gather(*under_way)
    await start(client, "last")

    ids = [call.workflow_id for call in engine.calls("start_workflow")]
    assert ids == ["a", "b", "last"]


async def test_start_options_travel(engine: FakeEngine, client: Client) -> None:
    await start(
        client,
        "full",
        args=[1, "two"],
        execution_timeout=timedelta(hours=1),
        run_timeout=timedelta(minutes=1),
        task_timeout=timedelta(seconds=5),
        retry_policy=RetryPolicy(maximum_attempts=3),
        memo={"k": 7},
        start_delay=timedelta(milliseconds=1, microseconds=1),
        static_summary="a summary",
        cron_schedule="@daily",
    )
    (call,) = engine.calls("start_workflow")
    assert call.identity == "a test"
    assert call.namespace == "default"
    assert call.execution_timeout_ms == 3_600_000
    assert call.run_timeout_ms == 60_000
    assert call.task_timeout_ms == 5_000
    assert call.retry_policy.maximum_attempts == 3
    assert call.start_delay_ms == 2
    assert call.cron_schedule == "@daily"
    assert b"a summary" in call.static_summary
    described = await client.get_workflow_handle("full").describe()
    assert described.memo == {"k": 7}
    assert described.buffered_events == 3
    assert described.status is WorkflowStatus.RUNNING


async def test_signal_with_start(engine: FakeEngine, client: Client) -> None:
    handles = [
        await start(client, "signalled", start_signal="poke", start_signal_args=[n])
        for n in range(2)
    ]

    (run,) = engine.runs.by_run_id.values()
    assert [handle.result_run_id for handle in handles] == [run.run_id] * 2
    signals = [
        event.workflow_execution_signaled
        for event in run.events
        if event.WhichOneof("attributes") == "workflow_execution_signaled"
    ]
    assert [signal.signal_name for signal in signals] == ["poke", "poke"]
    assert [b"0" in signals[0].input, b"1" in signals[1].input] == [True, True]
    assert len(engine.calls("signal_with_start_workflow")) == 2


async def test_lists_are_read_page_by_page(engine: FakeEngine, client: Client) -> None:
    for n in range(7):
        await start(client, f"list-{n}")
    found = [one.id async for one in client.list_workflows(id_prefix="list-", page_size=3)]
    assert found == [f"list-{n}" for n in range(7)]
    assert len(engine.requests["ListWorkflows"]) == 3
    few = [one.id async for one in client.list_workflows(limit=4, page_size=3)]
    assert len(few) == 4
    assert (await client.count_workflows(status=WorkflowStatus.RUNNING)).count == 7
    assert (await client.count_workflows(status=[WorkflowStatus.FAILED])).count == 0


async def test_a_query_travels_as_it_is(engine: FakeEngine, client: Client) -> None:
    _ = [one async for one in client.list_workflows("Region = 'eu'")]
    found = await client.count_workflows("GROUP BY WorkflowType")

    assert [one.query for one in engine.requests["ListWorkflows"]] == ["Region = 'eu'"]
    assert [one.query for one in engine.requests["CountWorkflows"]] == ["GROUP BY WorkflowType"]
    assert (found.count, found.groups) == (0, [])


async def test_single_calls_are_repeated_too(engine: FakeEngine, client: Client) -> None:
    engine.fail("CountWorkflows", Fault(status(UNAVAILABLE, "away")))
    assert (await client.count_workflows()).count == 0
    assert len(engine.requests["CountWorkflows"]) == 2
    assert (await client.operator.describe_namespace()).retention == timedelta(hours=1)


async def test_history_is_read_page_by_page(engine: FakeEngine, client: Client) -> None:
    engine.page_events = 1
    handle = await start(client, "told", args=["a"])
    history = await handle.fetch_history()
    assert [event.event_type for event in history.events] == [
        "WorkflowExecutionStarted",
        "WorkflowTaskScheduled",
    ]
    assert history.events[0].attributes["input"][0].data == b'"a"'
    assert len(engine.requests["GetHistory"]) == 2


async def test_nobody_there(engine: FakeEngine) -> None:
    await engine.kill()
    lazy = await Client.connect(engine.address, lazy=True)
    await lazy.close()
    await lazy.close()
