"""Client verbs: checked, sent to the right shard, answered by history's own future."""

from typing import Any

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, FakeHistory, Room

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import shard_of
from perdure_engine.core.intents import (
    CancelWorkflow,
    DescribeWorkflow,
    QueryWorkflow,
    SignalWorkflow,
    StartSignal,
    StartWorkflow,
    TerminateWorkflow,
    WaitResult,
)
from perdure_engine.core.replies import QueryAnswer
from perdure_engine.frontend.handlers import query_workflow as query_module
from perdure_engine.frontend.handlers.cancel_workflow import cancel_workflow
from perdure_engine.frontend.handlers.describe_workflow import describe_workflow
from perdure_engine.frontend.handlers.get_result import get_result
from perdure_engine.frontend.handlers.query_workflow import query_workflow
from perdure_engine.frontend.handlers.signal_with_start_workflow import (
    signal_with_start_workflow,
)
from perdure_engine.frontend.handlers.signal_workflow import signal_workflow
from perdure_engine.frontend.handlers.start_workflow import start_workflow
from perdure_engine.frontend.handlers.terminate_workflow import terminate_workflow
from perdure_engine.frontend.handlers.wait_results import wait_result

TARGET: dict[str, Any] = {"namespace_id": NAMESPACE_ID, "workflow_id": "order-1", "run_id": b""}
REQUEST: dict[str, Any] = {**TARGET, "request_id": RUN_ID, "body_hash": b"h" * 8}


def start(**changes: Any) -> StartWorkflow:
    fields = {**REQUEST, "run_id": RUN_ID, "workflow_type": "Order", "task_queue": "orders"}
    return StartWorkflow(**{**fields, **changes})


def signal(**changes: Any) -> SignalWorkflow:
    return SignalWorkflow(**{**REQUEST, "signal_name": "paid", **changes})


def query(**changes: Any) -> QueryWorkflow:
    return QueryWorkflow(**{**TARGET, "query_type": "status", **changes})


VERBS: list[tuple[Any, Any]] = [
    (start_workflow, start()),
    (signal_with_start_workflow, start(signal=StartSignal("paid", b""))),
    (signal_workflow, signal()),
    (cancel_workflow, CancelWorkflow(**REQUEST)),
    (terminate_workflow, TerminateWorkflow(**REQUEST)),
    (describe_workflow, DescribeWorkflow(**TARGET)),
    (wait_result, WaitResult(**TARGET)),
]


@pytest.mark.parametrize(("verb", "intent"), VERBS)
async def test_a_verb_reaches_the_shard_of_its_workflow_id(verb: Any, intent: Any) -> None:
    room = Room()

    future = verb(room.frontend, intent)

    shard_id = shard_of(NAMESPACE_ID, "order-1", room.history.number_of_shards)
    assert room.history.submitted == [(shard_id, intent)]
    assert future is room.history.futures[0]


MEGABYTES = bytes(limits.PAYLOAD_BYTES_MAX + 1)


@pytest.mark.parametrize(
    ("verb", "intent", "field"),
    [
        (start_workflow, start(workflow_id=""), "workflow_id"),
        (start_workflow, start(workflow_type="a/b"), "workflow_type"),
        (start_workflow, start(task_queue="__internal"), "task_queue"),
        (start_workflow, start(identity="\x1b"), "identity"),
        (start_workflow, start(input=MEGABYTES), "input"),
        (start_workflow, start(memo=MEGABYTES), "memo"),
        (start_workflow, start(header=bytes(limits.HEADER_BYTES_MAX + 1)), "header"),
        (start_workflow, start(static_summary=MEGABYTES), "static_summary"),
        (start_workflow, start(static_details=MEGABYTES), "static_details"),
        (start_workflow, start(execution_timeout_ms=-1), "execution_timeout_ms"),
        (start_workflow, start(run_timeout_ms=-1), "run_timeout_ms"),
        (start_workflow, start(task_timeout_ms=120_001), "task_timeout_ms"),
        (start_workflow, start(start_delay_ms=1 << 60), "start_delay_ms"),
        (start_workflow, start(priority=6), "priority"),
        (start_workflow, start(cron_schedule="10-5 * * * *"), "cron_schedule"),
        (start_workflow, start(cron_schedule="@daily", start_delay_ms=1), "start_delay_ms"),
        (
            signal_with_start_workflow,
            start(signal=StartSignal("paid", b""), workflow_id=""),
            "start.workflow_id",
        ),
        (signal_with_start_workflow, start(signal=StartSignal("", b"")), "signal_name"),
        (
            signal_with_start_workflow,
            start(signal=StartSignal("paid", MEGABYTES)),
            "signal_input",
        ),
        (signal_workflow, signal(signal_name="\0"), "signal_name"),
        (signal_workflow, signal(input=MEGABYTES), "input"),
        (cancel_workflow, CancelWorkflow(**REQUEST, reason="x" * 5_000), "reason"),
        (terminate_workflow, TerminateWorkflow(**REQUEST, details=MEGABYTES), "details"),
        (query_workflow, query(query_type=" "), "query_type"),
        (query_workflow, query(args=MEGABYTES), "args"),
    ],
)
async def test_bad_values_do_not_reach_history(verb: Any, intent: Any, field: str) -> None:
    room = Room()

    with pytest.raises(Rejected) as caught:
        verb(room.frontend, intent)

    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, field)
    assert not room.touched


async def test_a_query_is_answered_by_the_worker() -> None:
    room = Room()
    room.history.answer = lambda _: QueryAnswer(b"result", None)

    assert await query_workflow(room.frontend, query()) == QueryAnswer(b"result", None)


async def test_a_query_whose_code_raised_is_refused_with_its_message() -> None:
    room = Room()
    failure = Failure(FailureKind.APPLICATION, "no such order", type="KeyError")
    room.history.answer = lambda _: QueryAnswer(b"", failure)

    with pytest.raises(Rejected) as caught:
        await query_workflow(room.frontend, query())

    assert (caught.value.code, caught.value.reason) == (Code.INVALID_ARGUMENT, "QUERY_FAILED")
    assert caught.value.message == "no such order"
    assert caught.value.metadata == {"type": "KeyError"}


async def test_a_query_that_history_refuses_is_refused() -> None:
    room = Room()
    refusal = Rejected(Code.FAILED_PRECONDITION, "NO_POLLERS", "nobody polls the queue")
    room.history.answer = lambda _: refusal

    with pytest.raises(Rejected) as caught:
        await query_workflow(room.frontend, query())

    assert caught.value is refusal


async def test_b35_a_query_that_no_worker_answers_ends_and_pins_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Room()
    room.history.answer = lambda _: FakeHistory.PENDING
    monkeypatch.setattr(query_module, "QUERY_TIMEOUT_S", 0)

    with pytest.raises(Rejected) as caught:
        await query_workflow(room.frontend, query())

    assert caught.value.code == Code.DEADLINE_EXCEEDED
    assert room.history.futures[0].cancelled()


async def test_a_query_that_nobody_waits_for_is_taken_back() -> None:
    room = Room()
    room.history.answer = lambda _: FakeHistory.PENDING
    future = query_workflow(room.frontend, query())
    settled = room.history.futures[0]

    future.cancel()

    with pytest.raises(BaseException):  # noqa: B017, PT011  # CancelledError is no Exception
        await settled
    assert settled.cancelled()


async def test_get_result_answers_empty_when_the_time_is_over() -> None:
    room = Room()

    assert await get_result(room.frontend, WaitResult(**TARGET), 1) is None
    assert room.history.futures[0].cancelled()
