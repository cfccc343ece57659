"""The calls about one activity, over real gRPC: what reaches history, and what is refused at the door."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.transport.calls import REQUEST_ID, refusal
from tests.integration.transport.conftest import Served
from tests.unit.frontend.fakes import OTHER_NAMESPACE_ID, task_token

from perdure_api.v1 import common_pb2
from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import intents, limits
from perdure_engine.core.errors import Code, not_found
from perdure_engine.core.replies import ActivityHeard
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind

TOO_MUCH = bytes(limits.PAYLOAD_BYTES_MAX + 1)
IDS = {"namespace": "default", "workflow_id": "order-1", "activity_id": "one"}
FAILURE = common_pb2.Failure(
    message="no", application=common_pb2.ApplicationFailureInfo(type="No", non_retryable=True)
)
REPORTS = {
    "CompleteActivity": pb.CompleteActivityRequest,
    "FailActivity": pb.FailActivityRequest,
    "CancelActivity": pb.CancelActivityRequest,
    "HeartbeatActivity": pb.HeartbeatActivityRequest,
}
OPERATIONS = {
    "PauseActivity": pb.PauseActivityRequest,
    "UnpauseActivity": pb.UnpauseActivityRequest,
    "ResetActivity": pb.ResetActivityRequest,
    "UpdateActivityOptions": pb.UpdateActivityOptionsRequest,
}


def request(verb: str, **changes: Any) -> Any:
    fields: dict[str, Any] = dict(IDS)
    if verb == "FailActivity":
        fields |= {"failure": FAILURE, "request_id": REQUEST_ID}
    if verb == "ResetActivity":
        fields["request_id"] = REQUEST_ID
    if verb == "UpdateActivityOptions":
        fields["options"] = pb.ActivityOptions(task_queue="elsewhere")
    return (REPORTS | OPERATIONS)[verb](**(fields | changes))


async def call(served: Served, verb: str, **changes: Any) -> Any:
    return await getattr(served.workflows, verb)(request(verb, **changes))


async def refused(served: Served, verb: str, **changes: Any) -> tuple[int, str]:
    found = await refusal(call(served, verb, **changes))
    assert not served.room.touched
    return found.code, found.field


async def test_reports_by_token_are_of_the_attempt(served: Served) -> None:
    token = task_token(TaskKind.ACTIVITY)
    sealed = served.room.sealer.seal_task(token)
    by_token = {"workflow_id": "", "activity_id": "", "token": sealed, "identity": "me"}
    served.history.answer = lambda intent: (
        ActivityHeard(cancel_requested=True, paused=False, reset=True)
        if isinstance(intent, intents.HeartbeatActivity)
        else None
    )

    await call(served, "CompleteActivity", **by_token, result=b"r")
    await call(served, "CancelActivity", **by_token, details=b"d")
    heard = await call(
        served, "HeartbeatActivity", **by_token, details=b"h", has_details=True, progress_version=7
    )
    await call(served, "FailActivity", **by_token, last_heartbeat_details=b"p")

    assert served.history.completed[:3] == [
        intents.CompleteActivity(token, b"r", "me"),
        intents.CancelActivity(token, b"d", "me"),
        intents.HeartbeatActivity(token, b"h", 7),
    ]
    failed = served.history.completed[3]
    assert isinstance(failed, intents.FailActivity)
    assert (failed.failure.type, failed.progress) == ("No", b"p")
    assert (heard.cancel_requested, heard.activity_paused, heard.activity_reset) == (
        True,
        False,
        True,
    )


async def test_reports_by_ids_go_to_the_workflow(served: Served) -> None:
    await call(served, "CompleteActivity", result=b"r")

    [(_, intent)] = served.history.submitted
    assert isinstance(intent, intents.ReportActivity)
    assert (intent.workflow_id, intent.activity_id) == ("order-1", "one")
    assert intent.report == intents.ActivityCompleted(b"r")


async def test_b18_a_report_that_comes_too_late_is_not_found(served: Served) -> None:
    served.history.answer = lambda _: not_found("TASK", "the attempt is over")

    for verb in REPORTS:
        assert (await refusal(call(served, verb))).code == Code.NOT_FOUND


@pytest.mark.parametrize("verb", REPORTS)
async def test_b16_b17_tokens_that_are_not_ours(served: Served, verb: str) -> None:
    sealer = served.room.sealer
    foreign = task_token(TaskKind.ACTIVITY, namespace_id=OTHER_NAMESPACE_ID)
    for token in (
        b"\x13" * 60,
        sealer.seal_task(foreign),
        sealer.seal_task(task_token(TaskKind.WORKFLOW)),
    ):
        fields = {"workflow_id": "", "activity_id": "", "token": token}
        assert await refused(served, verb, **fields) == (Code.INVALID_ARGUMENT, "token")


@pytest.mark.parametrize("verb", REPORTS)
@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("workflow_id", {"workflow_id": ""}),
        ("activity_id", {"activity_id": ""}),
        ("activity_id", {"activity_id": "a\u202eb"}),
        ("run_id", {"run_id": "no uuid"}),
        ("identity", {"identity": "x" * 501}),
        ("token", {"token": b"both"}),
    ],
)
async def test_reports_that_name_nothing(
    served: Served, verb: str, field: str, changes: dict[str, Any]
) -> None:
    assert await refused(served, verb, **changes) == (Code.INVALID_ARGUMENT, field)


@pytest.mark.parametrize(
    ("verb", "field", "changes"),
    [
        ("CompleteActivity", "result", {"result": TOO_MUCH}),
        ("CancelActivity", "details", {"details": TOO_MUCH}),
        ("HeartbeatActivity", "details", {"details": TOO_MUCH, "has_details": True}),
        ("FailActivity", "last_heartbeat_details", {"last_heartbeat_details": TOO_MUCH}),
        ("FailActivity", "failure", {"failure": None}),
        ("FailActivity", "request_id", {"request_id": ""}),
        ("ResetActivity", "request_id", {"request_id": ""}),
        ("PauseActivity", "reason", {"reason": "x" * 5_000}),
        ("UpdateActivityOptions", "options", {"options": None}),
        ("UpdateActivityOptions", "restore_original", {"restore_original": True}),
        (
            "UpdateActivityOptions",
            "options.task_queue",
            {"options": pb.ActivityOptions(task_queue="")},
        ),
        (
            "UpdateActivityOptions",
            "options.heartbeat_timeout_ms",
            {"options": pb.ActivityOptions(heartbeat_timeout_ms=-1)},
        ),
        (
            "UpdateActivityOptions",
            "options.priority",
            {"options": pb.ActivityOptions(priority=9)},
        ),
        (
            "UpdateActivityOptions",
            "options.retry_policy.maximum_attempts",
            {
                "options": pb.ActivityOptions(
                    retry_policy=common_pb2.RetryPolicy(maximum_attempts=-1)
                )
            },
        ),
    ],
)
async def test_what_cannot_be_taken(
    served: Served, verb: str, field: str, changes: dict[str, Any]
) -> None:
    assert await refused(served, verb, **changes) == (Code.INVALID_ARGUMENT, field)


@pytest.mark.parametrize("verb", OPERATIONS)
@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("workflow_id", {"workflow_id": ""}),
        ("activity_id", {"activity_id": ""}),
        ("activity_type", {"activity_type": "charge"}),
        ("activity_type", {"activity_id": "", "activity_type": "../x"}),
        ("run_id", {"run_id": "no uuid"}),
    ],
)
async def test_operations_that_name_nothing_or_too_much(
    served: Served, verb: str, field: str, changes: dict[str, Any]
) -> None:
    assert await refused(served, verb, **changes) == (Code.INVALID_ARGUMENT, field)


async def test_operations_reach_the_workflow_with_all_that_was_given(served: Served) -> None:
    await call(served, "PauseActivity", identity="me", reason="why")
    await call(served, "UnpauseActivity", reset_attempts=True, reset_heartbeat=True)
    await call(served, "ResetActivity", keep_paused=True, restore_original_options=True)
    options = pb.ActivityOptions(
        start_to_close_timeout_ms=5, retry_policy=common_pb2.RetryPolicy(maximum_attempts=4)
    )
    await call(served, "UpdateActivityOptions", options=options)

    pause, unpause, reset, update = (intent for _, intent in served.history.submitted)
    assert isinstance(pause, intents.PauseActivity)
    assert (pause.identity, pause.reason) == ("me", "why")
    assert isinstance(unpause, intents.UnpauseActivity)
    assert (unpause.reset_attempts, unpause.reset_heartbeat) == (True, True)
    assert isinstance(reset, intents.ResetActivity)
    assert (reset.keep_paused, reset.restore_original_options) == (True, True)
    assert isinstance(update, intents.UpdateActivityOptions)
    assert (update.start_to_close_timeout_ms, update.heartbeat_timeout_ms) == (5, None)
    assert update.retry_policy == RetryPolicy(maximum_attempts=4)


async def test_a_worker_hands_an_attempt_over(served: Served) -> None:
    token = task_token(TaskKind.ACTIVITY)
    completion = wpb.TaskCompletion(
        token=served.room.sealer.seal_task(token),
        activity_async=wpb.ActivityAsync(heartbeat_details=b"p", progress_version=3),
    )
    await served.workers.CompleteTasks(
        wpb.CompleteTasksRequest(
            namespace="default", worker_id=b"w" * 16, identity="me", completions=[completion]
        )
    )

    assert served.history.completed == [intents.HandOverActivity(token, b"p", "me", 3)]
