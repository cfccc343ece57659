"""BatchCall: every call answered as if it had come alone, in order, one commit for all."""

from typing import Any

import pytest
from tests.integration.transport.calls import (
    REQUEST_ID,
    refusal,
    refusal_in,
    signal,
    start,
)
from tests.integration.transport.conftest import Served
from tests.unit.frontend.fakes import RUN_ID, FakeHistory

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import limits
from perdure_engine.core.errors import Code, not_found
from perdure_engine.core.intents import (
    CancelWorkflow,
    DescribeWorkflow,
    QueryWorkflow,
    SignalWorkflow,
    StartWorkflow,
    UpdateStage,
    UpdateWorkflow,
)
from perdure_engine.core.replies import Description, QueryAnswer, RunInfo, Started, UpdateStatus
from perdure_engine.core.status import Status

TARGET: dict[str, Any] = {"namespace": "default", "workflow_id": "order-1"}
INFO = RunInfo("order-1", RUN_ID, "Order", "orders", Status.RUNNING, 1, 0, 3, 300, b"")


def answer(intent: Any) -> Any:
    match intent:
        case StartWorkflow():
            return Started(intent.run_id, True)
        case QueryWorkflow():
            return QueryAnswer(b"state", None)
        case DescribeWorkflow():
            return Description(INFO, 1, 2, 3, [], [], None, False, 0)
        case UpdateWorkflow():
            return UpdateStatus(RUN_ID, intent.update_id, UpdateStage.COMPLETED, b"done")
        case CancelWorkflow():
            return not_found("WORKFLOW", "no such run")
        case _:
            return None


async def test_each_call_is_answered_in_its_place(served: Served) -> None:
    served.history.answer = answer
    request = pb.BatchCallRequest(
        calls=[
            pb.Call(start_workflow=start()),
            pb.Call(signal_workflow=signal()),
            pb.Call(start_workflow=start(workflow_id="")),
            pb.Call(
                signal_with_start_workflow=pb.SignalWithStartWorkflowRequest(
                    start=start(), signal_name="paid"
                )
            ),
            pb.Call(query_workflow=pb.QueryWorkflowRequest(**TARGET, query_type="q")),
            pb.Call(cancel_workflow=pb.CancelWorkflowRequest(**TARGET, request_id=REQUEST_ID)),
            pb.Call(
                terminate_workflow=pb.TerminateWorkflowRequest(**TARGET, request_id=REQUEST_ID)
            ),
            pb.Call(describe_workflow=pb.DescribeWorkflowRequest(**TARGET)),
            pb.Call(start_workflow=start(namespace="nowhere")),
            pb.Call(),
            pb.Call(
                update_workflow=pb.UpdateWorkflowRequest(**TARGET, update_id="u", update_name="n")
            ),
            pb.Call(update_workflow=pb.UpdateWorkflowRequest(**TARGET, update_id="u")),
        ]
    )

    results = (await served.workflows.BatchCall(request)).results

    assert [result.WhichOneof("response") for result in results] == [
        "start_workflow",
        "signal_workflow",
        None,
        "signal_with_start_workflow",
        "query_workflow",
        None,
        "terminate_workflow",
        "describe_workflow",
        None,
        None,
        "update_workflow",
        None,
    ]
    refusals = {i: refusal_in(result.error) for i, result in enumerate(results) if result.error}
    assert {i: (refused.code, refused.field) for i, refused in refusals.items()} == {
        2: (Code.INVALID_ARGUMENT, "workflow_id"),
        5: (Code.NOT_FOUND, ""),
        8: (Code.NOT_FOUND, ""),
        9: (Code.INVALID_ARGUMENT, "call"),
        11: (Code.INVALID_ARGUMENT, "update_name"),
    }
    assert results[0].start_workflow.started
    assert results[4].query_workflow.result == b"state"
    assert results[10].update_workflow.outcome.result == b"done"
    assert results[7].describe_workflow.info.workflow_id == "order-1"


async def test_all_are_submitted_in_order_before_any_is_answered(served: Served) -> None:
    def last_one_answers_all(intent: Any) -> Any:
        if intent.workflow_id == "w255":
            for pending in served.history.futures:
                if not pending.done():
                    pending.set_result(Started(RUN_ID, True))
        return FakeHistory.PENDING

    served.history.answer = last_one_answers_all
    calls = [pb.Call(start_workflow=start(workflow_id=f"w{n}")) for n in range(256)]

    response = await served.workflows.BatchCall(pb.BatchCallRequest(calls=calls))

    assert len(response.results) == 256
    assert [intent.workflow_id for _, intent in served.history.submitted] == [
        f"w{n}" for n in range(256)
    ]
    assert all(result.start_workflow.started for result in response.results)


async def test_too_many_calls_are_refused_whole(served: Served) -> None:
    calls = [pb.Call(start_workflow=start())] * (limits.BATCH_CALLS_MAX + 1)

    refused = await refusal(served.workflows.BatchCall(pb.BatchCallRequest(calls=calls)))

    assert (refused.code, refused.field) == (Code.INVALID_ARGUMENT, "calls")
    assert not served.room.touched


async def test_a_caller_who_goes_away_leaves_no_future_behind(served: Served) -> None:
    served.history.answer = lambda _: FakeHistory.PENDING
    call = served.workflows.BatchCall(
        pb.BatchCallRequest(calls=[pb.Call(signal_workflow=signal())] * 2)
    )
    gone: Any = served.channel.unary_unary("/perdure_api.v1.WorkflowService/ListWorkflows")
    while len(served.history.futures) < 2:
        await refusal(gone(b"\xff"))  # a round trip, so that the batch has arrived
    call.cancel()
    for future in served.history.futures:
        with pytest.raises(BaseException):  # noqa: B017, PT011  # CancelledError is no Exception
            await future

    assert all(future.cancelled() for future in served.history.futures)


async def test_a_future_that_history_cancels_is_unavailable_to_its_caller(
    served: Served,
) -> None:
    def cancel_it(intent: Any) -> Any:
        if isinstance(intent, SignalWorkflow):
            served.history.futures[-1].cancel()
            return FakeHistory.PENDING
        return answer(intent)

    served.history.answer = cancel_it
    request = pb.BatchCallRequest(
        calls=[pb.Call(signal_workflow=signal()), pb.Call(start_workflow=start())]
    )

    results = (await served.workflows.BatchCall(request)).results

    assert refusal_in(results[0].error).code == Code.UNAVAILABLE
    assert results[1].start_workflow.started
    alone = await refusal(served.workflows.SignalWorkflow(signal()))
    assert alone.code == Code.UNAVAILABLE


async def test_reads_that_do_not_fit_are_refused_and_changes_are_answered(
    served: Served,
) -> None:
    served.history.answer = lambda intent: (
        QueryAnswer(bytes(limits.PAYLOAD_BYTES_MAX // 2), None)
        if isinstance(intent, QueryWorkflow)
        else answer(intent)
    )
    query = pb.Call(query_workflow=pb.QueryWorkflowRequest(**TARGET, query_type="q"))
    calls = [query, query, query, pb.Call(start_workflow=start())]

    results = (await served.workflows.BatchCall(pb.BatchCallRequest(calls=calls))).results

    assert [bool(result.error) for result in results] == [False, False, True, False]
    assert refusal_in(results[2].error).code == Code.RESOURCE_EXHAUSTED
