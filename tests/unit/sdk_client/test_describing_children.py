"""What a client is told of children and parents."""

from __future__ import annotations

from typing import Any

from perdure._wire.explanation import WaitKind, reasons_from_message
from perdure._wire.workflow_info import PendingChildWorkflow, description_from_message
from perdure_api.v1 import common_pb2
from perdure_api.v1 import workflow_service_pb2 as pb


def test_a_description_has_the_children_and_the_runs_above() -> None:
    message = pb.DescribeWorkflowResponse(
        info=pb.WorkflowInfo(workflow_id="w", run_id="r"),
        pending_children=[
            pb.PendingChildInfo(
                workflow_id="c",
                run_id="cr",
                workflow_type="Ship",
                initiated_event_id=5,
                parent_close_policy=common_pb2.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
            )
        ],
        parent_workflow_id="p",
        parent_run_id="pr",
        root_workflow_id="o",
        root_run_id="or",
    )

    found = description_from_message(message, lambda payload: payload)

    assert found.pending_children == [
        PendingChildWorkflow(
            id="c",
            run_id="cr",
            workflow_type="Ship",
            initiated_event_id=5,
            parent_close_policy="REQUEST_CANCEL",
        )
    ]
    assert (found.parent_id, found.parent_run_id) == ("p", "pr")
    assert (found.root_id, found.root_run_id) == ("o", "or")


def test_nobodys_child_has_no_parent() -> None:
    message = pb.DescribeWorkflowResponse(info=pb.WorkflowInfo(workflow_id="w", run_id="r"))

    found = description_from_message(message, lambda payload: payload)

    assert (found.parent_id, found.parent_run_id, found.pending_children) == (None, None, [])


def test_the_reasons_say_whom_it_waits_for() -> None:
    kinds = (WaitKind.CHILD_WORKFLOW_START, WaitKind.CHILD_WORKFLOW, WaitKind.EXTERNAL_WORKFLOW)
    message = pb.ExplainWorkflowResponse(
        reasons=[
            pb.WaitReason(kind=pb.WaitKind.ValueType(kind), subject="order-1") for kind in kinds
        ]
    )

    texts = [reason.text for reason in reasons_from_message(message)]

    assert texts == [
        "for the start of its child order-1, which is on its way",
        "for its child order-1 to close",
        "for an answer of workflow order-1, which it signals or cancels",
    ]


def test_the_reasons_say_which_version_and_what_an_operator_can_do() -> None:
    def text(kind: WaitKind, **fields: Any) -> str:
        reason = pb.WaitReason(kind=pb.WaitKind.ValueType(kind), **fields)
        [found] = reasons_from_message(pb.ExplainWorkflowResponse(reasons=[reason]))
        return found.text

    queue = {"task_queue": "orders", "version": "shop.7"}
    assert text(WaitKind.WORKER_FOR_WORKFLOW_TASK, **queue) == (
        "for a worker of version shop.7 that polls the task queue orders for workflows; nobody polls it"
    )
    assert text(WaitKind.WORKER_FOR_WORKFLOW_TASK, task_queue="orders", pollers=2) == (
        "for a worker that polls the task queue orders for workflows; 2 poll it"
    )
    assert text(WaitKind.WORKFLOW_TASK_BACKOFF, attempt=7).startswith("for attempt 7 of its code")
    assert text(WaitKind.RETRY_BACKOFF, attempt=2) == (
        "to begin its attempt 2: the run before has failed"
    )
    assert text(WaitKind.CRON, subject="0 * * * *").endswith("cron schedule 0 * * * *")
    assert text(WaitKind.UPDATE_ADMITTED, subject="u").endswith("take or refuse update u")
    assert text(WaitKind.UPDATE_RUNNING, subject="u").endswith("handler of update u to return")
    assert "compensation refund" in text(WaitKind.SAGA, subject="refund")


def test_every_kind_has_its_words_and_its_number_on_the_wire() -> None:
    assert {kind.value for kind in WaitKind} == set(pb.WaitKind.values())
    for kind in WaitKind:
        message = pb.ExplainWorkflowResponse(
            reasons=[pb.WaitReason(kind=pb.WaitKind.ValueType(kind))]
        )
        [found] = reasons_from_message(message)
        assert found.kind is kind
        assert ("does not know" in found.text) == (kind is WaitKind.UNSPECIFIED)
