"""Every event in every field: what the table of conversions must not forget."""

from typing import Any, get_args

import msgspec
import pytest
from tests.unit.core import samples

from perdure_api.v1 import common_pb2 as pb
from perdure_api.v1 import event_pb2
from perdure_engine.core import events as core
from perdure_engine.core import outside_events as out
from perdure_engine.core.failures import Failure, FailureKind, RetryState, TimeoutType
from perdure_engine.core.fan_out import WakeRule
from perdure_engine.core.id_policies import IdReusePolicy
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.parents import Parent, ParentClosePolicy
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.versions import Behavior, Versioning
from perdure_engine.transport.grpc.convert.events import ATTRIBUTES, event_message
from perdure_engine.transport.grpc.convert.failures import failure_message
from perdure_engine.transport.grpc.convert.search_attributes import attribute_fields
from perdure_engine.transport.grpc.convert.versions import versioning_fields

EVENT_TYPES = get_args(core.Event)
# What the wire calls otherwise, and what it does not carry.
RENAMED = {"history_bytes": "history_size_bytes", "behavior": "versioning_behavior"}
INTERNAL = {"namespace_id", "body_hash", "event_id", "time_us", "request_ids", "lineage"}
INTERNAL |= {"run_timeout_left_us", "execution_timeout_left_us"}  # describe says when they are due
UUIDS = {
    "run_id",
    "first_run_id",
    "request_id",
    "continued_from_run_id",
    "new_run_id",
    "base_run_id",
    "original_run_id",
    "reset_from_run_id",
    "reset_run_id",
}
PARENT = Parent("parent", b"p" * 16, 5, "root", b"r" * 16)
ON_THE_WIRE_OF_PARENT = {
    "parent_workflow_id": "parent",
    "parent_run_id": uuid_text(b"p" * 16),
    "parent_initiated_event_id": 5,
    "root_workflow_id": "root",
    "root_run_id": uuid_text(b"r" * 16),
}


def value_of(field: msgspec.structs.FieldInfo, number: int) -> Any:
    """A value that is not the default and differs from field to field."""
    if field.name in UUIDS or field.name == "namespace_id":
        return bytes([number]) * 16
    kinds: dict[Any, Any] = {
        int: number,
        str: f"text {number}",
        bytes: f"bytes {number}".encode(),
        bool: True,
        RetryState: RetryState.TIMEOUT,
        TimeoutType: TimeoutType.HEARTBEAT,
        core.Initiator: core.Initiator.CRON_SCHEDULE,
        core.WorkflowTaskFailedCause: core.WorkflowTaskFailedCause.DEADLOCK,
        ParentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        IdReusePolicy: IdReusePolicy.REJECT_DUPLICATE,
        out.StartChildFailedCause: out.StartChildFailedCause.ALREADY_EXISTS,
        out.ExternalFailedCause: out.ExternalFailedCause.LIMIT,
        Behavior: Behavior.AUTO_UPGRADE,
    }
    if field.name in ("request_ids", "lineage"):
        return ()
    if field.name == "parent":
        return PARENT
    if field.type in kinds:
        return kinds[field.type]
    if field.name == "search_attributes":
        return samples.ATTRIBUTES
    if RetryPolicy in (field.type, *get_args(field.type)):
        return RetryPolicy(number, 3.0, number * 10, 4, ("E",))
    if WakeRule in get_args(field.type):
        return (WakeRule([f"activity {number}"], number, 2, 1),)
    if Versioning in get_args(field.type):
        return Versioning(Behavior.PINNED, f"deployment {number}", f"build {number}")
    assert Failure in (field.type, *get_args(field.type))
    return Failure(FailureKind.SERVER, f"failure {number}", non_retryable=True)


def filled(event_type: Any) -> Any:
    fields = msgspec.structs.fields(event_type)
    return event_type(*[value_of(field, number) for number, field in enumerate(fields, start=1)])


def on_the_wire(name: str, value: Any) -> Any:
    if name in UUIDS:
        return uuid_text(value)
    if name == "search_attributes":
        return [pb.SearchAttribute(**fields) for fields in attribute_fields(value)]
    if isinstance(value, Versioning):
        return pb.Versioning(**versioning_fields(value))
    return failure_message(value) if isinstance(value, Failure) else value


def test_the_table_has_every_event() -> None:
    assert set(ATTRIBUTES) == set(EVENT_TYPES)


@pytest.mark.parametrize("event_type", EVENT_TYPES, ids=lambda event_type: event_type.__name__)
def test_an_event_keeps_its_number_and_every_field(event_type: Any) -> None:
    event = filled(event_type)

    message = event_pb2.HistoryEvent.FromString(event_message(event).SerializeToString())

    which = message.WhichOneof("attributes")
    assert which is not None
    number = message.DESCRIPTOR.fields_by_name[which].number
    assert number == 100 + event_type.__struct_config__.tag
    assert (message.event_id, message.time_us) == (event.event_id, event.time_us)
    attributes = getattr(message, which)
    expected = {
        RENAMED.get(name, name): on_the_wire(name, getattr(event, name))
        for name in event_type.__struct_fields__
        if name not in INTERNAL
    }
    if "parent" in expected:
        expected |= ON_THE_WIRE_OF_PARENT
        del expected["parent"]
    assert {field.name for field in attributes.DESCRIPTOR.fields} == set(expected)
    policy = expected.pop("retry_policy", None)
    for rule, shown in zip(
        expected.pop("wake_rules", ()), getattr(attributes, "wake_rules", ()), strict=True
    ):
        numbers = (shown.ended, shown.completed, shown.failed)
        assert (list(shown.activity_ids), *numbers) == msgspec.structs.astuple(rule)
    assert {name: getattr(attributes, name) for name in expected} == expected
    if policy is not None:
        assert attributes.retry_policy.initial_interval_ms == policy.initial_interval_ms
        assert attributes.retry_policy.backoff_coefficient == 3.0
        assert attributes.retry_policy.maximum_attempts == 4
        assert list(attributes.retry_policy.non_retryable_error_types) == ["E"]


def test_an_event_without_attributes_still_says_what_it_is() -> None:
    message = event_message(core.WorkflowExecutionTimedOut(9, 1, RetryState.NONE))

    read = event_pb2.HistoryEvent.FromString(message.SerializeToString())
    assert read.WhichOneof("attributes") == "workflow_execution_timed_out"


def test_search_attributes_are_told_of_a_run_that_is_no_part_of_a_chain() -> None:
    plain = msgspec.structs.replace(
        samples.STARTED,
        execution_deadline_us=0,
        initiator=core.Initiator.NONE,
        cron_schedule="",
        search_attributes=samples.ATTRIBUTES,
    )

    told = event_message(plain).workflow_execution_started.search_attributes
    assert [one.name for one in told] == [one.name for one in samples.ATTRIBUTES]


def test_the_engines_own_termination_names_no_request() -> None:
    message = event_message(core.WorkflowExecutionTerminated(9, 1, "too long", b"", "", b"", b""))

    assert message.workflow_execution_terminated.request_id == ""


def test_enumerations_have_the_same_numbers_on_both_sides() -> None:
    for name, number in event_pb2.WorkflowTaskFailedCause.items():
        short = name.removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")
        assert core.WorkflowTaskFailedCause[short] == int(number)
    for name, number in event_pb2.Initiator.items():
        short = name.removeprefix("INITIATOR_").replace("UNSPECIFIED", "NONE")
        assert core.Initiator[short] == int(number)
