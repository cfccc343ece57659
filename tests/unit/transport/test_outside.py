"""Children and other runs at the edges: commands from workers, intents between nodes, descriptions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.core import samples

from perdure_api.v1 import common_pb2, worker_service_pb2
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import commands as core
from perdure_engine.core import intents, replies
from perdure_engine.core.errors import Rejected
from perdure_engine.core.explain import WaitKind
from perdure_engine.core.id_policies import IdReusePolicy
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.parents import ChildOf, Parent, ParentClosePolicy
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.transport.grpc.convert.commands import commands_of
from perdure_engine.transport.grpc.convert.delivered import decode_intent, encode_intent
from perdure_engine.transport.grpc.convert.replies import described

RUN = bytes(range(16))
PARENT = Parent("parent", RUN, 5, "root", bytes(16))


def command(**fields: Any) -> worker_service_pb2.Command:
    return worker_service_pb2.Command(**fields)


# ---- commands


def test_a_child_keeps_every_field() -> None:
    message = worker_service_pb2.StartChildWorkflow(
        workflow_id="child-1",
        workflow_type="Ship",
        task_queue="ships",
        input=b"i",
        header=b"h",
        execution_timeout_ms=1,
        run_timeout_ms=2,
        task_timeout_ms=3,
        retry_policy=common_pb2.RetryPolicy(maximum_attempts=4),
        parent_close_policy=common_pb2.PARENT_CLOSE_POLICY_ABANDON,
        id_reuse_policy=common_pb2.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
        cron_schedule="@daily",
        memo=b"m",
        priority=5,
        static_summary=b"s",
        static_details=b"d",
    )

    assert commands_of([command(start_child_workflow=message)]) == [
        core.StartChildWorkflow(
            workflow_id="child-1",
            workflow_type="Ship",
            task_queue="ships",
            input=b"i",
            header=b"h",
            execution_timeout_ms=1,
            run_timeout_ms=2,
            task_timeout_ms=3,
            retry_policy=RetryPolicy(maximum_attempts=4),
            parent_close_policy=ParentClosePolicy.ABANDON,
            id_reuse_policy=IdReusePolicy.REJECT_DUPLICATE,
            cron_schedule="@daily",
            memo=b"m",
            priority=5,
            static_summary=b"s",
            static_details=b"d",
        )
    ]
    assert {field.name for field in message.DESCRIPTOR.fields} == set(
        core.StartChildWorkflow.__struct_fields__
    )


def test_what_is_not_said_of_a_child_is_the_default() -> None:
    message = worker_service_pb2.StartChildWorkflow(workflow_id="c", workflow_type="Ship")

    assert commands_of([command(start_child_workflow=message)]) == [
        core.StartChildWorkflow(workflow_id="c", workflow_type="Ship")
    ]


def test_signals_and_cancels_of_others_keep_every_field() -> None:
    signal = worker_service_pb2.SignalExternalWorkflow(
        workflow_id="o",
        run_id=uuid_text(RUN),
        signal_name="paid",
        input=b"i",
        header=b"h",
        child_workflow_only=True,
    )
    cancel = worker_service_pb2.RequestCancelExternalWorkflow(
        workflow_id="o", child_workflow_only=True, reason="unwanted"
    )

    assert commands_of(
        [command(signal_external_workflow=signal), command(request_cancel_external_workflow=cancel)]
    ) == [
        core.SignalExternalWorkflow(
            workflow_id="o",
            run_id=RUN,
            signal_name="paid",
            input=b"i",
            header=b"h",
            child_workflow_only=True,
        ),
        core.RequestCancelExternalWorkflow(
            workflow_id="o", child_workflow_only=True, reason="unwanted"
        ),
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        (
            {"start_child_workflow": {"parent_close_policy": 9}},
            "commands[0].start_child_workflow.parent_close_policy",
        ),
        (
            {"start_child_workflow": {"id_reuse_policy": 9}},
            "commands[0].start_child_workflow.id_reuse_policy",
        ),
        (
            {"signal_external_workflow": {"run_id": "no"}},
            "commands[0].signal_external_workflow.run_id",
        ),
        (
            {"request_cancel_external_workflow": {"run_id": "no"}},
            "commands[0].request_cancel_external_workflow.run_id",
        ),
    ],
)
def test_what_is_wrong_by_its_form_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Rejected) as refused:
        commands_of([command(**fields)])

    assert refused.value.field == field


# ---- between nodes

IDS: dict[str, Any] = {
    "namespace_id": samples.NAMESPACE,
    "workflow_id": "order ✓",
    "run_id": RUN,
    "request_id": RUN,
    "body_hash": b"h",
}
DELIVERED: list[intents.DeliveredIntent] = [
    intents.StartWorkflow(
        **IDS,
        workflow_type="Ship",
        task_queue="ships",
        input=b"i",
        retry_policy=samples.POLICY,
        id_reuse_policy=IdReusePolicy.REJECT_DUPLICATE,
        search_attributes=samples.ATTRIBUTES,
        parent=PARENT,
    ),
    intents.SignalWorkflow(**IDS, signal_name="paid", input=b"i", child_of=ChildOf(RUN, 5)),
    intents.CancelWorkflow(**IDS, reason="unwanted", child_of=ChildOf(RUN)),
    intents.TerminateWorkflow(**IDS, reason="by parent close policy"),
    intents.CloseChild(
        namespace_id=samples.NAMESPACE,
        workflow_id="parent",
        run_id=RUN,
        initiated_event_id=5,
        child_workflow_id="child-1",
        child_run_id=RUN,
        child_workflow_type="Ship",
        closed=samples.TERMINATED,
    ),
    intents.AskChild(
        namespace_id=samples.NAMESPACE,
        workflow_id="child-1",
        run_id=b"",
        child_of=ChildOf(RUN, 5),
    ),
    intents.AskRun(
        namespace_id=samples.NAMESPACE, workflow_id="nightly", run_id=b"", first_run_id=RUN
    ),
]


@pytest.mark.parametrize("intent", DELIVERED, ids=lambda intent: type(intent).__name__)
def test_an_intent_comes_back_as_it_was(intent: intents.DeliveredIntent) -> None:
    assert decode_intent("intent", encode_intent(intent)) == intent


def test_every_end_of_a_child_travels() -> None:
    (close,) = [one for one in DELIVERED if isinstance(one, intents.CloseChild)]
    for event in samples.EVENTS[1:4]:
        told = msgspec.structs.replace(close, closed=event)
        assert decode_intent("intent", encode_intent(told)) == told


def test_a_field_of_a_later_version_is_passed_over() -> None:
    number, fields = msgspec.msgpack.decode(encode_intent(DELIVERED[2]))
    payload = msgspec.msgpack.encode((number, fields | {"of a later version": 1}))

    assert decode_intent("intent", payload) == DELIVERED[2]


@pytest.mark.parametrize("payload", [b"", b"\xc1", msgspec.msgpack.encode((99, {}))])
def test_bytes_that_are_no_intent_are_refused(payload: bytes) -> None:
    with pytest.raises(Rejected) as refused:
        decode_intent("intent", payload)

    assert refused.value.field == "intent"


# ---- descriptions


def test_a_description_names_children_and_parents() -> None:
    info = replies.RunInfo("w", RUN, "Order", "q", Status.RUNNING, 1, 0, 5, 6, b"")
    children = [replies.PendingChild("c", RUN, "Ship", 5, ParentClosePolicy.ABANDON)]
    reply = replies.Description(
        info,
        0,
        0,
        0,
        [],
        [],
        None,
        False,
        0,
        children=children,
        parent=PARENT,
        root_workflow_id="root",
        root_run_id=RUN,
    )

    message = described(reply)

    (child,) = message.pending_children
    assert child == pb.PendingChildInfo(
        workflow_id="c",
        run_id=uuid_text(RUN),
        workflow_type="Ship",
        initiated_event_id=5,
        parent_close_policy=common_pb2.PARENT_CLOSE_POLICY_ABANDON,
    )
    assert (message.parent_workflow_id, message.parent_run_id) == ("parent", uuid_text(RUN))
    assert (message.root_workflow_id, message.root_run_id) == ("root", uuid_text(RUN))


def test_the_kinds_of_waits_have_the_numbers_of_the_wire() -> None:
    assert {f"WAIT_KIND_{kind.name}": int(kind) for kind in WaitKind} == {
        name: number for name, number in pb.WaitKind.items() if number
    }
