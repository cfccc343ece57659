"""Bad input of reliability §4, by its rows: the right status, nothing reached the rooms, still
alive.

B8 (nested JSON), B49 and B50 (how payloads are decoded) are the HTTP door's and the SDK's; here
they mean that the engine passes payloads through unread. B18, B19, B32, B36 to B38 depend on a
run's state: here the door must carry history's answer out unchanged.
"""

from typing import Any

import grpc
import pytest
from tests.integration.transport.calls import (
    WORKER_ID,
    complete,
    poll,
    refusal,
    refusal_in,
    signal,
    start,
)
from tests.integration.transport.conftest import Served
from tests.unit.frontend.fakes import OTHER_NAMESPACE_ID, RUN_ID, task_token

from perdure_api.v1 import common_pb2
from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, not_found
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.intents import FailWorkflowTask
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import QueryToken
from perdure_engine.ports.history import HeldVerdict
from perdure_engine.ports.store import ReadTooLong

INVALID, NOT_FOUND, EXHAUSTED = Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.RESOURCE_EXHAUSTED
TOO_MUCH = bytes(limits.PAYLOAD_BYTES_MAX + 1)
BIDI = "a\u202eb"


async def still_serves(served: Served) -> None:
    """Nothing of the bad call reached a room, and a good one does."""
    assert not served.room.touched
    assert (await served.workflows.StartWorkflow(start())).started


def text_field(number: int, raw: bytes) -> bytes:
    """A length-delimited field, written by hand: the generated code refuses to write bad UTF-8."""
    return bytes([number << 3 | 2, len(raw)]) + raw


METHODS = [
    "WorkflowService/StartWorkflow",
    "WorkflowService/BatchCall",
    "WorkflowService/ListWorkflows",
    "WorkflowService/GetHistory",
    "WorkerService/PollTasks",
    "WorkerService/CompleteTasks",
    "WorkerService/Heartbeat",
    "NamespaceService/CreateNamespace",
    "OperatorService/DescribeTaskQueue",
]


async def raw_refusal(served: Served, method: str, raw: bytes) -> Any:
    call: Any = served.channel.unary_unary(f"/perdure_api.v1.{method}")
    return await refusal(call(raw))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "raw", [b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b", b"\x0a\x05abc"]
)
async def test_b1_bytes_that_are_no_message(served: Served, method: str, raw: bytes) -> None:
    refused = await raw_refusal(served, method, raw)

    assert refused.code == INVALID
    assert refused.reason == "UNDECODABLE_MESSAGE"
    assert refused.field == method.split("/")[1] + "Request"
    await still_serves(served)


async def test_b1_bytes_that_are_no_message_on_a_stream(served: Served) -> None:
    call: Any = served.channel.stream_stream("/perdure_api.v1.WorkflowService/WaitResults")()
    await call.write(b"\xff\xff\xff")

    assert (await refusal(call.read())).code == INVALID
    await still_serves(served)


async def test_b1_a_failure_that_is_nested_too_deep_to_decode(served: Served) -> None:
    raw = b""
    for _ in range(200):
        size = len(raw)
        head = bytes([size & 127 | 128, size >> 7]) if size > 127 else bytes([size])
        raw = bytes([4 << 3 | 2]) + head + raw

    refused = await raw_refusal(served, "WorkerService/CompleteTasks", nested_failure(raw))

    assert refused.code == INVALID
    await still_serves(served)


def nested_failure(raw: bytes) -> bytes:
    def field(number: int, content: bytes) -> bytes:
        size = len(content)
        return bytes([number << 3 | 2, size & 127 | 128, size >> 7]) + content

    return field(5, field(5, field(1, raw)))


@pytest.mark.parametrize(("method", "number"), [(METHODS[0], 2), (METHODS[4], 2), (METHODS[7], 1)])
async def test_b2_text_that_is_not_utf8(served: Served, method: str, number: int) -> None:
    refused = await raw_refusal(served, method, text_field(number, b"ab\xff\xfe"))

    assert refused.code == INVALID
    await still_serves(served)


async def test_b2_a_failures_message_that_is_not_utf8(served: Served) -> None:
    failure = text_field(1, b"\xff")
    raw = text_field(5, text_field(5, text_field(1, failure)))

    assert (await raw_refusal(served, "WorkerService/CompleteTasks", raw)).code == INVALID
    await still_serves(served)


@pytest.mark.parametrize(
    ("row", "changes", "field"),
    [
        ("B3", {"workflow_id": "a\0b"}, "workflow_id"),
        ("B3", {"workflow_id": "a\x1b[31m"}, "workflow_id"),
        ("B3", {"workflow_id": BIDI}, "workflow_id"),
        ("B3", {"workflow_type": BIDI}, "workflow_type"),
        ("B3", {"task_queue": "a\nb"}, "task_queue"),
        ("B3", {"identity": "a\0b"}, "identity"),
        ("B3", {"workflow_id": "e\u0301"}, "workflow_id"),
        ("B4", {"workflow_id": "x" * 1_001}, "workflow_id"),
        ("B4", {"workflow_id": ""}, "workflow_id"),
        ("B4", {"workflow_id": "   "}, "workflow_id"),
        ("B4", {"task_queue": "x" * 501}, "task_queue"),
        ("B5", {"workflow_id": "__system"}, "workflow_id"),
        ("B5", {"task_queue": "__internal"}, "task_queue"),
        ("B7", {"input": TOO_MUCH}, "input"),
        ("B7", {"memo": TOO_MUCH}, "memo"),
        ("B25", {"run_timeout_ms": -1}, "run_timeout_ms"),
        ("B25", {"execution_timeout_ms": 1 << 62}, "execution_timeout_ms"),
        ("B25", {"task_timeout_ms": 120_001}, "task_timeout_ms"),
        ("B25", {"start_delay_ms": -(1 << 63)}, "start_delay_ms"),
        (
            "B25",
            {"retry_policy": {"backoff_coefficient": float("nan")}},
            "retry_policy.backoff_coefficient",
        ),
        ("B27", {"retry_policy": {"backoff_coefficient": 0.9}}, "retry_policy.backoff_coefficient"),
        ("B27", {"retry_policy": {"initial_interval_ms": 0}}, "retry_policy.initial_interval_ms"),
        (
            "B27",
            {"retry_policy": {"initial_interval_ms": 9, "maximum_interval_ms": 8}},
            "retry_policy.maximum_interval_ms",
        ),
        ("B27", {"retry_policy": {"maximum_attempts": -1}}, "retry_policy.maximum_attempts"),
        ("B48", {"workflow_type": "T" * (1 << 20)}, "workflow_type"),
        ("B48", {"workflow_type": "../../etc/passwd"}, "workflow_type"),
        ("ids", {"request_id": "not-a-uuid"}, "request_id"),
        ("ids", {"run_id": "not-a-uuid"}, "run_id"),
        ("priority", {"priority": -1}, "priority"),
        ("cron", {"cron_schedule": "0 0 31 2 *"}, "cron_schedule"),
        ("cron", {"cron_schedule": "R * * * *"}, "cron_schedule"),
        ("cron", {"cron_schedule": "0 " * 1_000}, "cron_schedule"),
        ("cron", {"cron_schedule": "CRON_TZ=../../etc/passwd 0 0 * * *"}, "cron_schedule"),
        ("cron", {"cron_schedule": "@hourly", "start_delay_ms": 1}, "start_delay_ms"),
    ],
)
async def test_a_bad_start(served: Served, row: str, changes: Any, field: str) -> None:
    refused = await refusal(served.workflows.StartWorkflow(start(**changes)))

    assert (refused.code, refused.field) == (INVALID, field), row
    await still_serves(served)

    both = pb.SignalWithStartWorkflowRequest(start=start(**changes), signal_name="s")
    nested = await refusal(served.workflows.SignalWithStartWorkflow(both))
    assert (nested.code, nested.field) == (INVALID, f"start.{field}"), row


INJECTION = "' OR 1=1 --"
TARGET: dict[str, Any] = {"namespace": "default", "workflow_id": "order-1"}


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("SignalWorkflow", signal(signal_name=BIDI), "signal_name"),
        ("SignalWorkflow", signal(request_id=""), "request_id"),
        ("SignalWorkflow", signal(input=TOO_MUCH), "input"),
        ("QueryWorkflow", pb.QueryWorkflowRequest(**TARGET, query_type="\0"), "query_type"),
        (
            "CancelWorkflow",
            pb.CancelWorkflowRequest(**TARGET, request_id=signal().request_id, reason="\0"),
            "reason",
        ),
        ("TerminateWorkflow", pb.TerminateWorkflowRequest(**TARGET), "request_id"),
        ("DescribeWorkflow", pb.DescribeWorkflowRequest(**TARGET, run_id="x"), "run_id"),
        ("GetHistory", pb.GetHistoryRequest(**TARGET, page_size=-1), "page_size"),
        ("GetHistory", pb.GetHistoryRequest(**TARGET, page_token=b"x" * 40), "page_token"),
        ("GetResult", pb.GetResultRequest(**TARGET, timeout_ms=-1), "timeout_ms"),
        ("ListWorkflows", pb.ListWorkflowsRequest(namespace="default", page_size=-1), "page_size"),
        (
            "ListWorkflows",
            pb.ListWorkflowsRequest(namespace="default", page_token=b"x" * 40),
            "page_token",
        ),
        (
            "CountWorkflows",
            pb.CountWorkflowsRequest(
                namespace="default",
                filter=pb.WorkflowFilter(statuses=[common_pb2.WorkflowStatus.ValueType(77)]),
            ),
            "filter.statuses[0]",
        ),
        (  # B24: by what no index has
            "ListWorkflows",
            pb.ListWorkflowsRequest(namespace="default", query="ORDER BY WorkflowId"),
            "query",
        ),
        ("ListWorkflows", pb.ListWorkflowsRequest(namespace="default", query=INJECTION), "query"),
        ("CountWorkflows", pb.CountWorkflowsRequest(namespace="default", query=INJECTION), "query"),
        (
            "CountWorkflows",
            pb.CountWorkflowsRequest(namespace="default", query="a = 1 OR " * 10_000 + "a = 1"),
            "query",
        ),
        (
            "ListWorkflows",
            pb.ListWorkflowsRequest(namespace="default", query="(" * 100 + "a = 1" + ")" * 100),
            "query",
        ),
    ],
)
async def test_bad_client_calls(served: Served, method: str, request_: Any, field: str) -> None:
    refused = await refusal(getattr(served.workflows, method)(request_))

    assert (refused.code, refused.field) == (INVALID, field)
    await still_serves(served)


async def test_b6_a_message_over_the_limit(served: Served) -> None:
    message = start(input=bytes(limits.REQUEST_BYTES_MAX))

    assert (await refusal(served.workflows.StartWorkflow(message))).code == EXHAUSTED
    await still_serves(served)


async def test_b6_the_largest_good_message_passes(served: Served) -> None:
    message = start(input=bytes(limits.PAYLOAD_BYTES_MAX), memo=bytes(limits.PAYLOAD_BYTES_MAX))

    assert (await served.workflows.StartWorkflow(message)).started


async def test_b10_a_compressed_bomb(served: Served) -> None:
    call: Any = served.channel.unary_unary("/perdure_api.v1.WorkflowService/StartWorkflow")
    bomb = call(bytes(200 * 1024 * 1024), compression=grpc.Compression.Gzip)

    assert (await refusal(bomb)).code == EXHAUSTED
    await still_serves(served)


async def test_b12_metadata_over_the_limit(served: Served) -> None:
    """gRPC refuses it before a handler is called: 8 KiB with some luck, 16 KiB in any case."""
    metadata = tuple((f"x-{number}", "v" * 1_000) for number in range(20))

    refused = await refusal(served.workflows.StartWorkflow(start(), metadata=metadata))

    assert refused.code == EXHAUSTED
    await still_serves(served)


@pytest.mark.parametrize("size", [60, 65])
async def test_b12_more_metadata_than_anybody_has(served: Served, size: int) -> None:
    """With what gRPC itself sends (the user agent, the encodings) 60 are still taken."""
    metadata = tuple((f"x-{number}", "v") for number in range(size))
    call = served.workflows.StartWorkflow(start(), metadata=metadata)

    if size < 64:
        assert (await call).started
        return
    refused = await refusal(call)
    assert (refused.code, refused.reason) == (EXHAUSTED, "TOO_MUCH_METADATA")
    assert served.history.submitted == []
    await still_serves(served)


def test_b14_b15_a_namespace_is_named_once_and_never_by_a_command() -> None:
    """What is authorised is what is used: nothing inside of a request can name another namespace."""

    def names(descriptor: Any, seen: frozenset[str] = frozenset()) -> list[str]:
        if descriptor.full_name in seen or descriptor.name.endswith("FailureInfo"):
            return []  # what a failure tells of is told to people
        found = [field.full_name for field in descriptor.fields if "namespace" in field.name]
        for field in descriptor.fields:
            if field.message_type is not None:
                found += names(field.message_type, seen | {descriptor.full_name})
        return found

    assert names(wpb.Command.DESCRIPTOR) == []
    # Each of their calls is one of its own.
    alone = {"BatchCallRequest", "WaitResultsRequest", "CallsRequest", "WorkRequest"}
    for service in (pb, wpb):
        for described in service.DESCRIPTOR.services_by_name.values():
            for method in described.methods:
                if method.input_type.name not in alone:
                    assert len(names(method.input_type)) == 1, method.full_name


@pytest.mark.parametrize(
    ("stub", "method", "request_"),
    [
        ("workflows", "StartWorkflow", start(namespace="nowhere")),
        ("workflows", "SignalWorkflow", signal(namespace="nowhere")),
        ("workflows", "ListWorkflows", pb.ListWorkflowsRequest(namespace="nowhere")),
        ("workflows", "GetHistory", pb.GetHistoryRequest(namespace="nowhere", workflow_id="w")),
        ("workers", "PollTasks", poll(namespace="nowhere")),
        ("workers", "CompleteTasks", complete(namespace="nowhere")),
        ("workers", "Heartbeat", wpb.HeartbeatRequest(namespace="nowhere", worker_id=WORKER_ID)),
        ("workers", "Goodbye", wpb.GoodbyeRequest(namespace="nowhere", worker_id=WORKER_ID)),
        ("workers", "GetTaskHistory", wpb.GetTaskHistoryRequest(namespace="nowhere")),
    ],
)
async def test_b13_an_unknown_namespace(
    served: Served, stub: str, method: str, request_: Any
) -> None:
    refused = await refusal(getattr(getattr(served, stub), method)(request_))

    assert (refused.code, refused.reason) == (NOT_FOUND, "NAMESPACE_NOT_FOUND")
    await still_serves(served)


@pytest.mark.parametrize("name", ["", " ", "a\0", "x" * 256])
async def test_b13_what_cannot_be_a_namespace(served: Served, name: str) -> None:
    refused = await refusal(served.workflows.StartWorkflow(start(namespace=name)))

    assert (refused.code, refused.field) == (INVALID, "namespace")
    await still_serves(served)


def edited(sealed: bytes) -> bytes:
    return sealed[:-1] + bytes([sealed[-1] ^ 1])


def bad_tokens(served: Served) -> dict[str, bytes]:
    good = served.room.sealer.seal_task(task_token(TaskKind.ACTIVITY))
    foreign = task_token(TaskKind.ACTIVITY, OTHER_NAMESPACE_ID)
    return {
        "B16 random": b"\x13" * 60,
        "B16 empty": b"",
        "B17 edited": edited(good),
        "B17 a query's": served.room.sealer.seal_query(QueryToken(1, RUN_ID, 1), RUN_ID),
        "another namespace's": served.room.sealer.seal_task(foreign),
    }


async def test_b16_b17_tokens_that_are_not_ours(served: Served) -> None:
    for row, token in bad_tokens(served).items():
        completion = wpb.TaskCompletion(token=token, activity_success=wpb.ActivitySuccess())
        response = await served.workers.CompleteTasks(complete(completion))
        (failure,) = response.failures
        refused = refusal_in(failure.error)
        assert (failure.index, refused.code, refused.field) == (0, INVALID, "token"), row

        beat = wpb.HeartbeatRequest(
            namespace="default", worker_id=WORKER_ID, held=[wpb.HeldTask(token=token)]
        )
        refused = await refusal(served.workers.Heartbeat(beat))
        assert (refused.code, refused.field) == (INVALID, "held[0].token"), row

        bye = wpb.GoodbyeRequest(namespace="default", worker_id=WORKER_ID, released_tokens=[token])
        refused = await refusal(served.workers.Goodbye(bye))
        assert (refused.code, refused.field) == (INVALID, "released_tokens[0]"), row

        more = wpb.GetTaskHistoryRequest(namespace="default", page_token=token)
        refused = await refusal(served.workers.GetTaskHistory(more))
        assert (refused.code, refused.field) == (INVALID, "page_token"), row
    await still_serves(served)


async def test_b16_a_token_of_the_other_kind_of_task(served: Served) -> None:
    token = served.room.sealer.seal_task(task_token(TaskKind.WORKFLOW))
    completion = wpb.TaskCompletion(token=token, activity_success=wpb.ActivitySuccess())

    response = await served.workers.CompleteTasks(complete(completion))

    assert refusal_in(response.failures[0].error).field == "token"
    await still_serves(served)


async def test_b16_a_query_token_that_is_not_ours(served: Served) -> None:
    foreign = served.room.sealer.seal_query(QueryToken(1, RUN_ID, 1), OTHER_NAMESPACE_ID)
    for token in (b"", b"\x13" * 60, foreign):
        completion = wpb.TaskCompletion(query_results=[wpb.QueryResult(query_token=token)])
        response = await served.workers.CompleteTasks(complete(completion))
        refused = refusal_in(response.failures[0].error)
        assert (refused.code, refused.field) == (INVALID, "query_results[0].query_token")
    await still_serves(served)


async def test_b16_a_completion_that_says_nothing(served: Served) -> None:
    token = served.room.sealer.seal_task(task_token())

    response = await served.workers.CompleteTasks(
        complete(wpb.TaskCompletion(token=token), wpb.TaskCompletion())
    )

    refusals = [refusal_in(failure.error) for failure in response.failures]
    assert [(refused.code, refused.field) for refused in refusals] == [(INVALID, "outcome")] * 2
    await still_serves(served)


async def test_b18_b19_a_stale_token_is_not_found_and_its_neighbour_is_taken(
    served: Served,
) -> None:
    taken = 0

    def once(_: Any) -> Any:
        nonlocal taken
        taken += 1
        return None if taken == 1 else not_found("TASK", "the attempt is over")

    served.history.answer = once
    token = served.room.sealer.seal_task(task_token(TaskKind.ACTIVITY))
    completion = wpb.TaskCompletion(token=token, activity_success=wpb.ActivitySuccess())

    response = await served.workers.CompleteTasks(complete(completion, completion))

    (failure,) = response.failures
    refused = refusal_in(failure.error)
    assert (failure.index, refused.code, refused.reason) == (1, NOT_FOUND, "TASK_NOT_FOUND")


@pytest.mark.parametrize(
    ("row", "command", "field"),
    [
        ("B26", {"start_to_close_timeout_ms": 0}, "start_to_close_timeout_ms"),
        ("B25", {"schedule_to_close_timeout_ms": -1}, "schedule_to_close_timeout_ms"),
        ("B27", {"retry_policy": {"initial_interval_ms": 0}}, "retry_policy.initial_interval_ms"),
        ("B48", {"activity_type": "a/b"}, "activity_type"),
        ("B3", {"activity_id": "\0"}, "activity_id"),
        ("B5", {"task_queue": "__internal"}, "task_queue"),
    ],
)
async def test_a_bad_command_reaches_history_only_as_a_failed_task(
    served: Served, row: str, command: Any, field: str
) -> None:
    good = {"activity_id": "1", "activity_type": "charge", "start_to_close_timeout_ms": 1_000}
    bad = wpb.ScheduleActivity(**{**good, **command})
    success = wpb.WorkflowTaskSuccess(commands=[wpb.Command(schedule_activity=bad)])
    token = served.room.sealer.seal_task(task_token())
    completion = wpb.TaskCompletion(token=token, workflow_task_success=success)

    response = await served.workers.CompleteTasks(complete(completion))

    refused = refusal_in(response.failures[0].error)
    path = f"workflow_task_success.commands[0].schedule_activity.{field}"
    assert (refused.code, refused.field) == (INVALID, path), row
    (sent,) = served.history.completed
    assert isinstance(sent, FailWorkflowTask)
    assert sent.cause == WorkflowTaskFailedCause.BAD_COMMAND


@pytest.mark.parametrize(
    ("command", "field"),
    [
        ({"record_marker": {"marker_name": ""}}, "record_marker.marker_name"),
        ({"record_marker": {"marker_name": "__mine"}}, "record_marker.marker_name"),
        (
            {"record_marker": {"marker_name": "m", "details": bytes(2 * 1024 * 1024 + 1)}},
            "record_marker.details",
        ),
        (
            {"record_marker": {"marker_name": "m", "header": bytes(256 * 1024 + 1)}},
            "record_marker.header",
        ),
        ({"modify_properties": {"upserted_memo": b"no memo"}}, "modify_properties.upserted_memo"),
        (
            {"modify_properties": {"upserted_memo": b"\x0a\x03\x0a\x01\xff"}},
            "modify_properties.upserted_memo",
        ),
        (
            {"start_timer": {"timer_id": "1", "summary": bytes(2 * 1024 * 1024 + 1)}},
            "start_timer.summary",
        ),
    ],
)
async def test_what_a_workflow_says_of_itself_badly_is_a_failed_task(
    served: Served, command: Any, field: str
) -> None:
    success = wpb.WorkflowTaskSuccess(commands=[wpb.Command(**command)])
    token = served.room.sealer.seal_task(task_token())
    completion = wpb.TaskCompletion(token=token, workflow_task_success=success)

    response = await served.workers.CompleteTasks(complete(completion))

    refused = refusal_in(response.failures[0].error)
    path = f"workflow_task_success.commands[0].{field}"
    assert (refused.code, refused.field) == (INVALID, path)
    (sent,) = served.history.completed
    assert isinstance(sent, FailWorkflowTask)
    assert sent.cause == WorkflowTaskFailedCause.BAD_COMMAND


async def test_a_command_of_a_newer_version_is_a_failed_task_too(served: Served) -> None:
    success = wpb.WorkflowTaskSuccess(commands=[wpb.Command()])
    token = served.room.sealer.seal_task(task_token())
    completion = wpb.TaskCompletion(token=token, workflow_task_success=success)

    response = await served.workers.CompleteTasks(complete(completion))

    refused = refusal_in(response.failures[0].error)
    assert refused.field == "workflow_task_success.commands[0]"
    assert isinstance(served.history.completed[0], FailWorkflowTask)


async def test_b32_a_signal_to_a_closed_run(served: Served) -> None:
    served.history.answer = lambda _: not_found("WORKFLOW", "the run has closed")

    refused = await refusal(served.workflows.SignalWorkflow(signal()))

    assert (refused.code, refused.reason) == (NOT_FOUND, "WORKFLOW_NOT_FOUND")


async def test_b36_b37_commands_are_historys_to_judge_and_its_answer_travels(
    served: Served,
) -> None:
    served.history.answer = lambda _: Rejected(INVALID, "BAD_COMMAND", "too many", field="commands")
    timer = wpb.Command(start_timer=wpb.StartTimer(timer_id="1", start_to_fire_ms=1))
    success = wpb.WorkflowTaskSuccess(commands=[timer] * 10_001)
    token = served.room.sealer.seal_task(task_token())

    response = await served.workers.CompleteTasks(
        complete(wpb.TaskCompletion(token=token, workflow_task_success=success))
    )

    assert refusal_in(response.failures[0].error).reason == "BAD_COMMAND"
    assert len(served.history.completed[0].commands) == 10_001  # type: ignore[union-attr]  # it is a success


async def test_b38_a_heartbeat_for_a_task_that_is_over(served: Served) -> None:
    served.history.verdicts = [None, HeldVerdict(True, False), HeldVerdict(False, True)]
    token = served.room.sealer.seal_task(task_token(TaskKind.ACTIVITY))
    beat = wpb.HeartbeatRequest(
        namespace="default", worker_id=WORKER_ID, held=[wpb.HeldTask(token=token)] * 3
    )

    response = await served.workers.Heartbeat(beat)

    assert [(notice.index, notice.state) for notice in response.notices] == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"task_queue": "__internal"}, "task_queue"),
        ({"task_queue": "q" * 501}, "task_queue"),
        ({"worker_id": b""}, "worker_id"),
        ({"max_workflow_tasks": 0}, "max_workflow_tasks"),
        ({"max_activity_tasks": -1}, "max_activity_tasks"),
        ({"timeout_ms": -1}, "timeout_ms"),
    ],
)
async def test_bad_polls(served: Served, changes: Any, field: str) -> None:
    refused = await refusal(served.workers.PollTasks(poll(**changes)))

    assert (refused.code, refused.field) == (INVALID, field)
    await still_serves(served)


async def test_b49_b50_payloads_pass_unread_whatever_they_claim_to_be(served: Served) -> None:
    hostile = common_pb2.Payloads(
        payloads=[
            common_pb2.Payload(encoding="binary/pickle", data=b"cos\nsystem\n"),
            common_pb2.Payload(encoding="json/plain", data=b"{}", metadata={"type": b"os.system"}),
        ]
    ).SerializeToString()

    await served.workflows.StartWorkflow(start(input=hostile))

    ((_, intent),) = served.history.submitted
    assert intent.input == hostile  # type: ignore[union-attr]  # it is a start


async def test_an_internal_error_keeps_its_text_to_itself(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.history.answer = lambda _: ValueError("dsn=postgres://u:secret@h")

    alone = await refusal(served.workflows.StartWorkflow(start()))
    batch = await served.workflows.BatchCall(
        pb.BatchCallRequest(calls=[pb.Call(start_workflow=start())])
    )
    inside = refusal_in(batch.results[0].error)

    assert "secret" in caplog.text
    for refused in (alone, inside):
        assert refused.code == Code.INTERNAL
        assert "secret" not in refused.message
        assert refused.message.removeprefix("internal error ") in caplog.text


async def test_a_lost_database_is_unavailable_and_mute(served: Served) -> None:
    served.room.store.down = True

    refused = await refusal(served.workflows.StartWorkflow(start()))

    assert (refused.code, refused.reason) == (Code.UNAVAILABLE, "STORE_UNAVAILABLE")
    assert "secret" not in refused.message
    served.room.store.down = False
    await still_serves(served)


async def test_b23_a_list_that_reads_too_much_is_not_to_be_asked_again(served: Served) -> None:
    async def gives_up(*_: Any, **__: Any) -> Any:
        raise ReadTooLong("57014: canceling statement due to statement timeout")

    served.room.store.list_runs = gives_up  # type: ignore[method-assign]

    refused = await refusal(
        served.workflows.ListWorkflows(pb.ListWorkflowsRequest(namespace="default", query="a > 1"))
    )

    assert (refused.code, refused.reason) == (EXHAUSTED, "READ_TOO_LONG")
    assert "57014" not in refused.message
    await still_serves(served)


def attribute(**fields: Any) -> common_pb2.SearchAttribute:
    return common_pb2.SearchAttribute(**({"name": "Region", "type": 2, "text": "eu"} | fields))


@pytest.mark.parametrize(
    ("attributes", "field"),
    [
        ([attribute(name="")], "[0].name"),
        ([attribute(name="x" * 501)], "[0].name"),
        ([attribute(name="a\u202e")], "[0].name"),
        ([attribute(name="a`b")], "[0].name"),
        ([attribute(name="WorkflowId")], "[0].name"),
        ([attribute(name="__mine")], "[0].name"),
        ([attribute(), attribute(type=1)], "[1].name"),
        ([common_pb2.SearchAttribute(name="n", type=2)], "[0].value"),  # type: ignore[arg-type]
        ([attribute(text="x" * (limits.SEARCH_ATTRIBUTE_BYTES_MAX + 1))], "[0].value"),
        ([attribute(text="\0")], "[0].value"),
        ([attribute(type=3)], "[0].text"),
        ([attribute(type=77)], "[0].type"),
        ([attribute(type=4, double_value=float("nan"))], "[0].value"),
        ([attribute(type=4, double_value=float("-inf"))], "[0].value"),
        ([attribute(type=6, datetime_us=2**62)], "[0].value"),
        ([attribute(name=f"n{n}", text="x" * 2_000) for n in range(21)], ""),
    ],
)
async def test_b7_b58_bad_search_attributes(
    served: Served, attributes: list[common_pb2.SearchAttribute], field: str
) -> None:
    refused = await refusal(served.workflows.StartWorkflow(start(search_attributes=attributes)))

    assert (refused.code, refused.field) == (INVALID, f"search_attributes{field}")
    await still_serves(served)


async def test_the_largest_search_attributes_pass(served: Served) -> None:
    most = [attribute(name=f"n{n:02}", text="x" * 2_040) for n in range(20)]

    assert (await served.workflows.StartWorkflow(start(search_attributes=most))).started
