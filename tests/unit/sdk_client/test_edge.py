"""The edge: which fields of the contract it changes, and what it does when it cannot."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from perdure._payload import Payload
from perdure._wire import edge as edge_module
from perdure._wire.edge import PLAIN, PayloadEdge
from perdure._wire.failures import failure_from_message
from perdure._wire.payload_fields import (
    KINDS,
    NOT_ENCODED,
    PAYLOAD_BYTES_MAX,
    holds_user_data,
)
from perdure._wire.payloads import (
    fields_from_bytes,
    fields_to_bytes,
    payload_from_bytes,
    payload_to_bytes,
    payloads_from_bytes,
    payloads_to_bytes,
)
from perdure.converter import PayloadCodec
from perdure.errors import (
    PayloadDecodeError,
    PayloadEncodeError,
    PayloadTooLargeError,
    UnknownKeyError,
)
from perdure_api.v1 import (
    common_pb2,
    event_pb2,
    job_service_pb2,
    namespace_service_pb2,
    operator_service_pb2,
    worker_service_pb2,
    workflow_service_pb2,
)

CONTRACT = (
    common_pb2,
    event_pb2,
    job_service_pb2,
    namespace_service_pb2,
    operator_service_pb2,
    worker_service_pb2,
    workflow_service_pb2,
)
# What user data is made of: its own fields are not places where it may be.
OF_PAYLOADS = {"Payload", "Payloads", "Header", "Memo"}
ONE, TWO = Payload("json/plain", b"1"), Payload("json/plain", b"2", {"a": b"b"})


class Reversing(PayloadCodec):
    """Turns data round; refuses what it is told to."""

    def __init__(self, *refused: bytes, error: Exception | None = None) -> None:
        self._refused = refused
        self._error = error or UnknownKeyError("k")

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._turn("turned", one) for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._turn("json/plain", one) for one in payloads]

    def _turn(self, encoding: str, payload: Payload) -> Payload:
        if payload.data in self._refused:
            raise self._error
        return Payload(encoding, payload.data[::-1], payload.metadata)


class Halving(PayloadCodec):
    """Makes one payload of a list."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload("joined", b"".join(one.data for one in payloads))]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        (one,) = payloads
        return [Payload("json/plain", bytes((byte,))) for byte in one.data]


def json(text: str) -> Payload:
    return Payload("json/plain", text.encode())


# --- which fields ---------------------------------------------------------------------------------


def messages() -> Iterator[Descriptor]:
    waiting = [
        one for module in CONTRACT for one in module.DESCRIPTOR.message_types_by_name.values()
    ]
    while waiting:
        message = waiting.pop()
        waiting.extend(message.nested_types)
        if (message.containing_type or message).name not in OF_PAYLOADS:
            yield message


def test_every_field_of_bytes_is_known_as_user_data_or_not() -> None:
    """A field that nobody has entered would let its values pass in clear."""
    unknown = [
        f"{message.full_name}.{field.name}"
        for message in messages()
        for field in message.fields
        if field.type == FieldDescriptor.TYPE_BYTES
        and field.name not in KINDS
        and field.name not in NOT_ENCODED
    ]
    assert unknown == [], "enter them in perdure/_wire/payload_fields.py"


def test_user_data_is_always_in_single_fields_of_bytes() -> None:
    """The walk knows no other place: no repeated bytes, no maps of them, no Payload fields."""
    odd = [
        f"{message.full_name}.{field.name}"
        for message in messages()
        for field in message.fields
        if (field.message_type is not None and field.message_type.name in OF_PAYLOADS)
        or (field.name in KINDS and field.type == FieldDescriptor.TYPE_BYTES and field.is_repeated)
    ]
    assert odd == []


# These are encoded and decoded by those who make and read their messages: `ClientCore` (BatchCall),
# `Completions`, `Decoding`, `Sealing`, `decoded_result`, `replay_page`.
BY_OTHERS = {"BatchCall", "CompleteTasks", "GetHistory", "Heartbeat", "PollTasks", "WaitResults"}


def test_every_other_call_with_user_data_passes_the_edge() -> None:
    """A door of its own has to take an edge, or codecs would let its values pass in clear."""
    carrying = {
        method.name
        for module in CONTRACT
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if holds_user_data(method.input_type) or holds_user_data(method.output_type)
    }
    forgotten = [
        f"{path.name}: {name}"
        for path in sorted(Path(edge_module.__file__).parent.glob("*.py"))
        for name, function in calls_of_stubs(path.read_text("utf-8"))
        if name in carrying - BY_OTHERS and "edge" not in function
    ]
    assert carrying >= BY_OTHERS
    assert forgotten == []


def calls_of_stubs(source: str) -> Iterator[tuple[str, str]]:
    """Which method of a service is called, and the source of the function that does."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    text = ast.get_source_segment(source, function)
                    assert text is not None
                    yield call.func.attr, text


# --- there and back -------------------------------------------------------------------------------


def history() -> workflow_service_pb2.GetHistoryResponse:
    failure = common_pb2.Failure(
        message="m",
        cause=common_pb2.Failure(
            application=common_pb2.ApplicationFailureInfo(details=payloads_to_bytes([TWO]))
        ),
    )
    return workflow_service_pb2.GetHistoryResponse(
        events=[
            event_pb2.HistoryEvent(
                event_id=1,
                workflow_execution_started=event_pb2.WorkflowExecutionStarted(
                    input=payloads_to_bytes([ONE, TWO]),
                    memo=fields_to_bytes({"name": json('"memo"')}),
                    header=fields_to_bytes({"trace": json('"header"')}),
                    static_summary=payload_to_bytes(json('"summary"')),
                ),
            ),
            event_pb2.HistoryEvent(
                event_id=7,
                activity_task_failed=event_pb2.ActivityTaskFailed(failure=failure),
            ),
        ]
    )


async def test_everything_but_headers_is_changed_and_changed_back() -> None:
    edge = PayloadEdge(Reversing())
    message = history()

    await edge.encode(message)

    started = message.events[0].workflow_execution_started
    assert [one.encoding for one in payloads_from_bytes(started.input)] == ["turned", "turned"]
    assert fields_from_bytes(started.memo) == {"name": Payload("turned", b'"omem"')}
    assert payload_from_bytes(started.static_summary) == Payload("turned", b'"yrammus"')
    assert fields_from_bytes(started.header) == {"trace": json('"header"')}
    cause = message.events[1].activity_task_failed.failure.cause
    assert payloads_from_bytes(cause.application.details)[0].encoding == "turned"

    await edge.decode(message)
    assert message == history()


async def test_a_name_that_a_memo_takes_away_stays_empty() -> None:
    message = workflow_service_pb2.WorkflowInfo(
        memo=fields_to_bytes({"gone": Payload("", b""), "kept": ONE})
    )
    await PayloadEdge(Reversing()).encode(message)
    fields = fields_from_bytes(message.memo)
    assert fields == {"gone": Payload("", b""), "kept": Payload("turned", b"1")}


async def test_a_codec_may_join_a_list_but_not_what_stands_alone() -> None:
    edge = PayloadEdge(Halving())
    args = workflow_service_pb2.QueryWorkflowRequest(args=payloads_to_bytes([ONE, json("2")]))

    await edge.encode(args)

    assert payloads_from_bytes(args.args) == [Payload("joined", b"12")]
    await edge.decode(args)
    assert payloads_from_bytes(args.args) == [ONE, json("2")]
    memo = workflow_service_pb2.WorkflowInfo(memo=fields_to_bytes({"a": Payload("joined", b"123")}))
    with pytest.raises(PayloadDecodeError, match=r"memo: .* made 3 payloads of one"):
        await edge.decode(memo)


# --- what goes wrong ------------------------------------------------------------------------------


async def test_an_error_keeps_its_name_and_says_where() -> None:
    edge = PayloadEdge(Reversing(b"1"))
    with pytest.raises(UnknownKeyError) as caught:
        await edge.decode(history())
    place = "event 1 workflow_execution_started.input"
    assert str(caught.value) == f"{place}: key 'k' is not in the key ring"


async def test_a_foreign_error_becomes_one_of_ours() -> None:
    edge = PayloadEdge(Reversing(b"1", error=ConnectionError("codec server is down")))
    expected = r"input: ConnectionError: codec server is down"
    with pytest.raises(PayloadDecodeError, match=expected) as caught:
        await edge.decode(history())
    assert isinstance(caught.value.__cause__, ConnectionError)
    with pytest.raises(PayloadEncodeError, match=expected):
        await edge.encode(history())


async def test_for_people_the_unreadable_stays_as_it_is() -> None:
    edge = PayloadEdge(Reversing(b'"yrammus"'))
    message = history()
    started = message.events[0].workflow_execution_started
    started.static_summary = payload_to_bytes(Payload("turned", b'"yrammus"'))

    await edge.decode(message, keeps_unreadable=True)

    assert payload_from_bytes(started.static_summary) == Payload("turned", b'"yrammus"')
    assert fields_from_bytes(started.memo) == {"name": Payload("json/plain", b'"omem"')}


async def test_b7_what_is_too_large_is_refused_before_it_is_sent() -> None:
    value = Payload("binary/plain", b"x" * PAYLOAD_BYTES_MAX)
    call = workflow_service_pb2.Call()
    call.start_workflow.memo = fields_to_bytes({"big": value})

    assert not PLAIN.passes(call.ByteSize())
    with pytest.raises(PayloadTooLargeError, match=r"start_workflow\.memo has \d+ bytes") as caught:
        await PLAIN.encode(call)
    assert caught.value.field == "start_workflow.memo"
    assert caught.value.size_bytes > caught.value.bytes_max == PAYLOAD_BYTES_MAX


async def test_what_fits_together_with_others_is_sent() -> None:
    """A start may carry 2 MiB of input and 2 MiB of memo."""
    almost = Payload("binary/plain", b"x" * (PAYLOAD_BYTES_MAX - 100))
    call = workflow_service_pb2.Call()
    call.start_workflow.memo = fields_to_bytes({"big": almost})
    call.start_workflow.input = payloads_to_bytes([almost])

    assert not PLAIN.passes(call.ByteSize())
    await PLAIN.encode(call)


# --- failures -------------------------------------------------------------------------------------


def chain() -> common_pb2.Failure:
    return common_pb2.Failure(
        message="outer secret",
        stack_trace="at secret",
        cause=common_pb2.Failure(message="inner secret"),
        application=common_pb2.ApplicationFailureInfo(type="Oops"),
    )


async def test_messages_and_traces_are_hidden_and_found_again() -> None:
    edge = PayloadEdge(Reversing(), encodes_failures=True)
    completion = worker_service_pb2.TaskCompletion(
        activity_failure=worker_service_pb2.ActivityFailure(failure=chain())
    )

    await edge.encode_completion(completion)

    failure = completion.activity_failure.failure
    assert (failure.message, failure.stack_trace) == ("Encoded failure", "")
    assert failure.cause.message == "Encoded failure"
    assert failure.application.type == "Oops"  # retry policies go by it
    assert b"secret" not in completion.SerializeToString()
    unread = failure_from_message(failure)
    assert unread.message == "Encoded failure"
    assert unread.encoded_attributes is not None
    await edge.decode(completion)
    assert failure_from_message(failure) == failure_from_message(chain())


async def test_hiding_without_a_codec_is_undone_by_everybody() -> None:
    failure = chain()
    await PayloadEdge(encodes_failures=True).encode(failure)

    assert failure.message == "Encoded failure"
    assert failure_from_message(failure) == failure_from_message(chain())


async def test_what_is_hidden_already_is_not_hidden_twice() -> None:
    edge = PayloadEdge(encodes_failures=True)
    failure = chain()
    await edge.encode(failure)
    once = failure.SerializeToString()
    await edge.encode(failure)
    assert failure.SerializeToString() == once


# --- what workers report --------------------------------------------------------------------------


def completion(**outcome: Any) -> worker_service_pb2.TaskCompletion:
    return worker_service_pb2.TaskCompletion(token=b"t", **outcome)


@pytest.mark.parametrize("hides", [False, True])
async def test_a_report_of_a_failure_is_sent_whatever_the_codec_does(hides: bool) -> None:
    """Left unsaid, the attempt would be handed out again at once, for ever; and what the codec
    should have hidden is not told instead."""
    edge = PayloadEdge(Reversing(b'"details secret"'), encodes_failures=hides)
    failure = chain()
    failure.application.details = payloads_to_bytes([json('"details secret"')])
    failed = completion(
        activity_failure={"failure": failure, "heartbeat_details": payloads_to_bytes([ONE])}
    )

    await edge.encode_completion(failed)

    told = failed.activity_failure.failure
    assert ("PayloadEncodeError" if hides else "UnknownKeyError") in told.message
    assert told.application.type == "Oops"
    assert b"secret" not in failed.SerializeToString()
    assert failed.activity_failure.heartbeat_details == b""


async def test_details_that_are_too_large_are_left_out_of_the_report() -> None:
    failure = chain()
    large = Payload("binary/plain", b"x" * PAYLOAD_BYTES_MAX)
    failure.application.details = payloads_to_bytes([large])
    failed = completion(workflow_task_failure={"failure": failure})

    await PLAIN.encode_completion(failed)

    told = failed.workflow_task_failure.failure
    assert told.message.startswith("outer secret (its details were left out: failure.application")
    assert told.cause.message == "inner secret"
    assert told.application.details == b""


async def test_a_result_that_cannot_be_encoded_is_an_error() -> None:
    edge = PayloadEdge(Reversing(b"1", error=ConnectionError("down")))
    with pytest.raises(PayloadEncodeError, match=r"^result: ConnectionError: down$"):
        await edge.encode_completion(
            completion(activity_success={"result": payloads_to_bytes([ONE])})
        )


async def test_what_was_done_ahead_is_encoded_with_the_result_and_once() -> None:
    """The arguments of what comes next, and what a run fails with."""
    edge = PayloadEdge(Reversing(), encodes_failures=True)
    scheduled = {"schedule_activity": {"input": payloads_to_bytes([ONE, TWO])}}
    ahead = {"success": {"commands": [scheduled, {"fail_workflow": {"failure": chain()}}]}}
    both = completion(activity_success={"result": payloads_to_bytes([ONE]), "ahead": ahead})

    await edge.encode_completion(both)

    told = both.activity_success
    schedules, fails = told.ahead.success.commands
    assert {payload.encoding for payload in payloads_from_bytes(told.result)} == {"turned"}
    inputs = payloads_from_bytes(schedules.schedule_activity.input)
    assert [payload.encoding for payload in inputs] == ["turned", "turned"]
    assert fails.fail_workflow.failure.message == "Encoded failure"
    assert b"secret" not in both.SerializeToString()
    await edge.decode(both)  # once: then all is as before
    assert payloads_from_bytes(told.result) == [ONE]
    assert payloads_from_bytes(schedules.schedule_activity.input) == [ONE, TWO]
    failure = failure_from_message(fails.fail_workflow.failure)
    assert failure == failure_from_message(chain())


async def test_answers_to_queries_fail_one_by_one() -> None:
    """A query must not keep the run from going on, nor one query another."""
    edge = PayloadEdge(Reversing(b"1"))
    task = completion(
        workflow_task_success={
            "commands": [{"complete_workflow": {"result": payloads_to_bytes([json("7")])}}]
        },
        query_results=[
            {"query_token": b"q1", "result": payloads_to_bytes([ONE])},
            {"query_token": b"q2", "result": payloads_to_bytes([TWO])},
        ],
    )

    await edge.encode_completion(task)

    refused, answered = task.query_results
    assert (refused.result, refused.failure.application.type) == (b"", "PayloadEncodeError")
    assert payloads_from_bytes(answered.result)[0].encoding == "turned"
    assert not answered.HasField("failure")
    command = task.workflow_task_success.commands[0]
    assert payloads_from_bytes(command.complete_workflow.result) == [Payload("turned", b"7")]
