"""Failures and retry policies, there and back, and cut to what the engine keeps."""

from typing import Any

import pytest

from perdure_api.v1 import common_pb2
from perdure_engine.core import limits
from perdure_engine.core.errors import Rejected
from perdure_engine.core.failures import Failure, FailureKind, RetryState, TimeoutType
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.transport.grpc.convert.failures import cut, failure_message, failure_of
from perdure_engine.transport.grpc.convert.retries import policy_fields, policy_of

EXAMPLES = [
    Failure(FailureKind.APPLICATION, "m", "trace", "PythonSDK", type="ValueError"),
    Failure(
        FailureKind.APPLICATION,
        "m",
        type="E",
        non_retryable=True,
        details=b"d",
        next_retry_delay_ms=0,
        category="benign",
    ),
    Failure(FailureKind.TIMEOUT, "m", details=b"beat", timeout_type=TimeoutType.HEARTBEAT),
    Failure(FailureKind.CANCELED, "m", details=b"d"),
    Failure(FailureKind.TERMINATED, "m", details=b"d"),
    Failure(FailureKind.SERVER, "m", non_retryable=True),
    Failure(FailureKind.CANCELED, "Encoded failure", encoded_attributes=b"unread"),
    Failure(
        FailureKind.ACTIVITY,
        "m",
        cause=Failure(FailureKind.WORKER_LOST, "gone", identity="w@host"),
        type="charge",
        scheduled_event_id=5,
        started_event_id=6,
        identity="w@host",
        activity_id="1",
        retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
    ),
    Failure(
        FailureKind.CHILD_WORKFLOW,
        "m",
        cause=Failure(FailureKind.APPLICATION, "no paper", type="Empty"),
        type="pack",
        scheduled_event_id=5,
        started_event_id=6,
        identity="run",
        activity_id="workflow",
        category="namespace",
        retry_state=RetryState.RETRY_POLICY_NOT_SET,
    ),
]


@pytest.mark.parametrize("failure", EXAMPLES, ids=lambda failure: failure.kind.name)
def test_there_and_back(failure: Failure) -> None:
    raw = failure_message(failure).SerializeToString()

    assert failure_of("failure", common_pb2.Failure.FromString(raw)) == failure


def test_what_a_child_workflows_failure_says_has_its_own_fields_on_the_wire() -> None:
    said = failure_message(EXAMPLES[-1]).child_workflow

    assert {field.name: value for field, value in said.ListFields()} == {
        "namespace": "namespace",
        "workflow_id": "workflow",
        "run_id": "run",
        "workflow_type": "pack",
        "initiated_event_id": 5,
        "started_event_id": 6,
        "retry_state": common_pb2.RETRY_STATE_RETRY_POLICY_NOT_SET,
    }


def test_a_failure_that_does_not_say_what_it_is_is_the_applications() -> None:
    assert failure_of("failure", common_pb2.Failure(message="m")).kind == FailureKind.APPLICATION


def test_b41_deep_chains_and_long_texts_are_cut() -> None:
    message = common_pb2.Failure(message="the innermost")
    for depth in range(40):
        message = common_pb2.Failure(message=f"{depth}", cause=message)
    message.message = "Ω" * limits.FAILURE_MESSAGE_BYTES_MAX
    message.stack_trace = "x" * (limits.STACK_TRACE_BYTES_MAX + 1)

    failure = failure_of("failure", message)

    assert len(failure.message.encode()) == limits.FAILURE_MESSAGE_BYTES_MAX
    assert len(failure.stack_trace) == limits.STACK_TRACE_BYTES_MAX
    depth, link = 1, failure
    while link.cause is not None:
        depth, link = depth + 1, link.cause
    assert depth == limits.FAILURE_DEPTH_MAX


def test_a_cut_never_leaves_half_a_character() -> None:
    assert cut("aΩ", 2) == "a"
    assert cut("aΩ", 3) == "aΩ"
    assert cut("abc", 2) == "ab"


@pytest.mark.parametrize(
    ("info", "field"),
    [
        ({"application": {"details": bytes(limits.PAYLOAD_BYTES_MAX + 1)}}, "application.details"),
        ({"canceled": {"details": bytes(limits.PAYLOAD_BYTES_MAX + 1)}}, "canceled.details"),
        ({"application": {"next_retry_delay_ms": -1}}, "application.next_retry_delay_ms"),
    ],
)
def test_b7_b25_what_cannot_be_cut_is_refused(info: dict[str, Any], field: str) -> None:
    inner = common_pb2.Failure(message="m", **info)

    with pytest.raises(Rejected) as caught:
        failure_of("failure", common_pb2.Failure(message="outer", cause=inner))

    assert caught.value.field == f"failure.cause.{field}"


def test_numbers_of_a_newer_version_read_as_not_said() -> None:
    raw = common_pb2.Failure(timeout=common_pb2.TimeoutFailureInfo())
    raw.timeout.timeout_type = 99  # type: ignore[assignment]  # what a newer sender may send

    assert failure_of("failure", raw).timeout_type == TimeoutType.NONE


def test_retry_policies_there_and_back() -> None:
    for policy in (RetryPolicy(), RetryPolicy(5, 1.5, 50, 3, ("A", "B"))):
        assert policy_of(common_pb2.RetryPolicy(**policy_fields(policy))) == policy
    assert policy_of(common_pb2.RetryPolicy()) == RetryPolicy()


def test_b27_a_zero_that_was_said_is_not_a_default() -> None:
    assert policy_of(common_pb2.RetryPolicy(initial_interval_ms=0)).initial_interval_ms == 0


@pytest.mark.parametrize(
    ("enumeration", "numbers", "prefix"),
    [
        (Status, common_pb2.WorkflowStatus, "WORKFLOW_STATUS_"),
        (TimeoutType, common_pb2.TimeoutType, "TIMEOUT_TYPE_"),
        (RetryState, common_pb2.RetryState, "RETRY_STATE_"),
    ],
)
def test_enumerations_have_the_same_numbers(enumeration: Any, numbers: Any, prefix: str) -> None:
    wire = {name.removeprefix(prefix): number for name, number in numbers.items() if number}

    assert wire == {member.name: int(member) for member in enumeration if member}
