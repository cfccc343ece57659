"""Clients' messages to intents."""

from typing import Any

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID

from perdure_api.v1 import common_pb2
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core.errors import Rejected
from perdure_engine.core.intents import (
    IdConflictPolicy,
    IdReusePolicy,
    QueryRejectCondition,
    StartSignal,
    StartWorkflow,
)
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute
from perdure_engine.core.versions import Behavior, Versioning
from perdure_engine.transport.grpc.convert import intents

REQUEST_ID = "123e4567-e89b-12d3-a456-426614174000"
REQUEST_BYTES = bytes.fromhex(REQUEST_ID.replace("-", ""))
ATTRIBUTE = common_pb2.SearchAttribute(name="Region", type=2, text="eu")
RUN_TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"


def start(**changes: Any) -> pb.StartWorkflowRequest:
    return pb.StartWorkflowRequest(
        **{
            "namespace": "default",
            "workflow_id": "order-1",
            "workflow_type": "Order",
            "task_queue": "orders",
            "request_id": REQUEST_ID,
            **changes,
        }
    )


def converted(message: pb.StartWorkflowRequest) -> Any:
    return intents.start_workflow(message, NAMESPACE_ID)


@pytest.mark.parametrize(
    ("number", "condition"),
    [
        (0, QueryRejectCondition.NEVER),
        (1, QueryRejectCondition.NEVER),
        (2, QueryRejectCondition.NOT_OPEN),
        (3, QueryRejectCondition.NOT_COMPLETED_CLEANLY),
    ],
)
def test_of_which_runs_a_query_is_not_asked(number: int, condition: QueryRejectCondition) -> None:
    message = pb.QueryWorkflowRequest(workflow_id="order-1", reject_condition=number)  # type: ignore[arg-type]  # as it comes

    assert intents.query_workflow(message, NAMESPACE_ID).reject_condition is condition


def test_a_reject_condition_of_a_newer_client_is_refused() -> None:
    message = pb.QueryWorkflowRequest(workflow_id="order-1", reject_condition=4)  # type: ignore[arg-type]  # of a newer client

    with pytest.raises(Rejected, match="reject_condition"):
        intents.query_workflow(message, NAMESPACE_ID)


def test_what_a_start_does_not_say_takes_its_default() -> None:
    intent = converted(start())

    assert intent.run_id == converted(start()).run_id, "a repeat of the request names the same run"
    assert intent.request_id == REQUEST_BYTES
    assert intent.task_timeout_ms == 10_000
    assert intent.priority == 3
    assert intent.retry_policy is None
    assert intent.id_reuse_policy == IdReusePolicy.ALLOW_DUPLICATE
    assert intent.id_conflict_policy == IdConflictPolicy.FAIL


def test_a_start_brings_every_field() -> None:
    message = start(
        run_id=RUN_TEXT,
        input=b"input",
        identity="me",
        id_reuse_policy=3,
        id_conflict_policy=3,
        execution_timeout_ms=1,
        run_timeout_ms=2,
        task_timeout_ms=3,
        retry_policy=common_pb2.RetryPolicy(maximum_attempts=5),
        memo=b"memo",
        header=b"header",
        start_delay_ms=4,
        priority=5,
        static_summary=b"summary",
        static_details=b"details",
        cron_schedule="@hourly",
        search_attributes=[ATTRIBUTE],
        versioning_override=common_pb2.Versioning(
            behavior=1, deployment_name="orders", build_id="2"
        ),
    )
    intent = converted(message)

    assert {field.name for field, _ in message.ListFields()} == {
        field.name for field in message.DESCRIPTOR.fields
    }
    assert intent == StartWorkflow(
        namespace_id=NAMESPACE_ID,
        workflow_id="order-1",
        run_id=RUN_ID,
        request_id=REQUEST_BYTES,
        body_hash=intents.body_hash(message),
        workflow_type="Order",
        task_queue="orders",
        input=b"input",
        header=b"header",
        memo=b"memo",
        execution_timeout_ms=1,
        run_timeout_ms=2,
        task_timeout_ms=3,
        retry_policy=RetryPolicy(maximum_attempts=5),
        identity="me",
        id_reuse_policy=IdReusePolicy.REJECT_DUPLICATE,
        id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING,
        start_delay_ms=4,
        priority=5,
        static_summary=b"summary",
        static_details=b"details",
        cron_schedule="@hourly",
        search_attributes=(SearchAttribute("Region", AttributeType.KEYWORD, "eu"),),
        versioning_override=Versioning(Behavior.PINNED, "orders", "2"),
    )


@pytest.mark.parametrize(
    ("attribute", "field"),
    [
        (common_pb2.SearchAttribute(name="n", text="x"), "type"),
        (common_pb2.SearchAttribute(name="n", type=99, text="x"), "type"),
        (common_pb2.SearchAttribute(name="n", type=3, text="x"), "text"),
        (common_pb2.SearchAttribute(name="n", type=2, int_value=0), "int_value"),
    ],
)
def test_b58_an_attribute_of_the_wrong_type(
    attribute: common_pb2.SearchAttribute, field: str
) -> None:
    with pytest.raises(Rejected) as caught:
        converted(start(search_attributes=[ATTRIBUTE, attribute]))

    assert caught.value.field == f"search_attributes[1].{field}"


def test_a_signal_with_start_uses_the_existing_run_unless_it_says_otherwise() -> None:
    def policy(**changes: Any) -> Any:
        message = pb.SignalWithStartWorkflowRequest(
            start=start(**changes), signal_name="paid", signal_input=b"1"
        )
        intent = intents.signal_with_start_workflow(message, NAMESPACE_ID)
        assert intent.signal == StartSignal("paid", b"1")
        return intent.id_conflict_policy

    assert policy() == IdConflictPolicy.USE_EXISTING
    assert policy(id_conflict_policy=1) == IdConflictPolicy.FAIL


def test_the_same_body_has_the_same_hash_and_another_body_another() -> None:
    assert len(intents.body_hash(start())) == 8
    assert intents.body_hash(start()) == intents.body_hash(start())
    assert intents.body_hash(start()) != intents.body_hash(start(input=b"1"))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"request_id": ""}, "request_id"),
        ({"request_id": "1"}, "request_id"),
        ({"run_id": "now"}, "run_id"),
        ({"id_reuse_policy": 9}, "id_reuse_policy"),
        ({"id_conflict_policy": 9}, "id_conflict_policy"),
    ],
)
def test_what_is_wrong_by_its_form_names_the_field(changes: Any, field: str) -> None:
    with pytest.raises(Rejected) as caught:
        converted(start(**changes))
    assert caught.value.field == field

    both = pb.SignalWithStartWorkflowRequest(start=start(**changes), signal_name="s")
    with pytest.raises(Rejected) as nested:
        intents.signal_with_start_workflow(both, NAMESPACE_ID)
    assert nested.value.field == f"start.{field}"


TARGETED: list[tuple[Any, Any]] = [
    (
        intents.signal_workflow,
        pb.SignalWorkflowRequest(
            signal_name="s", input=b"i", request_id=REQUEST_ID, identity="me", header=b"h"
        ),
    ),
    (
        intents.cancel_workflow,
        pb.CancelWorkflowRequest(request_id=REQUEST_ID, identity="me", reason="r"),
    ),
    (
        intents.terminate_workflow,
        pb.TerminateWorkflowRequest(request_id=REQUEST_ID, identity="me", reason="r", details=b"d"),
    ),
    (intents.describe_workflow, pb.DescribeWorkflowRequest()),
    (intents.query_workflow, pb.QueryWorkflowRequest(query_type="q", args=b"a", header=b"h")),
    (intents.wait_result, pb.GetResultRequest()),
    (intents.wait_result, pb.Wait()),
]


@pytest.mark.parametrize(("convert", "message"), TARGETED)
def test_calls_on_a_run_bring_every_field(convert: Any, message: Any) -> None:
    message.namespace, message.workflow_id, message.run_id = "default", "order-1", RUN_TEXT

    intent = convert(message, NAMESPACE_ID)

    given = {
        field.name: value
        for field, value in message.ListFields()
        if field.name not in ("namespace", "run_id", "request_id")
    }
    assert {name: getattr(intent, name) for name in given} == given
    assert (intent.namespace_id, intent.run_id) == (NAMESPACE_ID, RUN_ID)
    if "request_id" in message.DESCRIPTOR.fields_by_name:
        assert intent.request_id == REQUEST_BYTES
        assert intent.body_hash == intents.body_hash(message)
    message.run_id = ""
    assert convert(message, NAMESPACE_ID).run_id == b""
    message.run_id = "x"
    with pytest.raises(Rejected) as caught:
        convert(message, NAMESPACE_ID)
    assert caught.value.field == "run_id"
