"""Replies and rows, towards the wire."""

from typing import Any

import msgspec
import pytest
from tests.unit.core.samples import ATTRIBUTES
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID

from perdure_api.v1 import common_pb2
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import events, replies
from perdure_engine.core.failures import Failure, FailureKind, RetryState
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.search_attributes import to_json
from perdure_engine.core.status import Status
from perdure_engine.frontend.handlers.count_workflows import CountAnswer
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.transport.grpc.convert.replies import (
    counted,
    described,
    result_fields,
    row_message,
)
from perdure_engine.transport.grpc.convert.search_attributes import attributes_of

FAILURE = Failure(FailureKind.APPLICATION, "broken", type="E")
INFO = replies.RunInfo(
    "order-1", RUN_ID, "Order", "orders", Status.RUNNING, 1, 0, 7, 700, b"memo", True, "no type"
)


def result(status: Status, event: Any) -> pb.WorkflowResult:
    return pb.WorkflowResult(**result_fields(replies.Closed(RUN_ID, status, event)))


def test_a_completed_run_has_a_result() -> None:
    found = result(Status.COMPLETED, events.WorkflowExecutionCompleted(9, 1, b"r", 8))

    assert (found.run_id, found.result) == (uuid_text(RUN_ID), b"r")
    assert found.status == common_pb2.WORKFLOW_STATUS_COMPLETED
    assert not found.HasField("failure")


@pytest.mark.parametrize(
    ("status", "event", "info", "message"),
    [
        (
            Status.FAILED,
            events.WorkflowExecutionFailed(9, 1, FAILURE, RetryState.NONE, 8),
            "application",
            "broken",
        ),
        (
            Status.TIMED_OUT,
            events.WorkflowExecutionTimedOut(9, 1, RetryState.NONE),
            "timeout",
            "workflow timed out",
        ),
        (
            Status.CANCELED,
            events.WorkflowExecutionCanceled(9, 1, b"d", 8),
            "canceled",
            "workflow canceled",
        ),
        (
            Status.TERMINATED,
            events.WorkflowExecutionTerminated(9, 1, "by hand", b"", "", RUN_ID, b""),
            "terminated",
            "by hand",
        ),
    ],
)
def test_every_other_closed_run_has_a_failure(
    status: Status, event: Any, info: str, message: str
) -> None:
    found = result(status, event)

    assert found.status == int(status)
    assert found.failure.WhichOneof("info") == info
    assert found.failure.message == message


def test_a_run_that_continued_as_new_has_neither_and_names_the_next() -> None:
    event = events.WorkflowExecutionContinuedAsNew(
        9, 1, RUN_ID, "Order", "orders", b"", b"", b"", 0, 0, 8, events.Initiator.WORKFLOW
    )
    found = result(Status.CONTINUED_AS_NEW, event)

    assert found.status == common_pb2.WORKFLOW_STATUS_CONTINUED_AS_NEW
    assert (found.result, found.HasField("failure")) == (b"", False)
    assert found.next_run_id == uuid_text(RUN_ID)


@pytest.mark.parametrize(
    "event",
    [
        events.WorkflowExecutionCompleted(9, 1, b"r", 8, RUN_ID),
        events.WorkflowExecutionFailed(9, 1, FAILURE, RetryState.IN_PROGRESS, 8, RUN_ID),
        events.WorkflowExecutionTimedOut(9, 1, RetryState.IN_PROGRESS, RUN_ID),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_closed_run_names_the_run_that_follows(event: Any) -> None:
    assert result(Status.COMPLETED, event).next_run_id == uuid_text(RUN_ID)


def test_a_description_comes_whole() -> None:
    activities = [
        replies.PendingActivity(
            "1", "charge", "pay", state, 2, 5, 10, 20, 30, "w", FAILURE, b"progress"
        )
        for state in ("SCHEDULED", "STARTED", "BACKING_OFF", "CANCEL_REQUESTED")
    ]
    message = described(
        replies.Description(
            INFO,
            1,
            2,
            3,
            activities,
            [replies.PendingTimer("t", 99)],
            replies.PendingWorkflowTask(4, 40, 50, "w", FAILURE),
            True,
            6,
            RUN_ID,
            7,
            NAMESPACE_ID,
            RUN_ID[::-1],
            "@hourly",
            88,
            89,
        )
    )

    assert (message.info.workflow_id, message.info.stuck_reason) == ("order-1", "no type")
    assert message.info.status == common_pb2.WORKFLOW_STATUS_RUNNING
    assert [activity.state for activity in message.pending_activities] == [1, 2, 3, 4]
    assert message.pending_activities[0].last_failure.message == "broken"
    assert message.pending_activities[0].next_attempt_time_us == 30
    assert (message.pending_timers[0].timer_id, message.pending_timers[0].fire_time_us) == ("t", 99)
    assert message.pending_workflow_task.attempt == 4
    assert (message.first_run_id, message.attempt) == (uuid_text(RUN_ID), 7)
    assert message.continued_from_run_id == uuid_text(NAMESPACE_ID)
    assert (message.next_run_id, message.cron_schedule) == (uuid_text(RUN_ID[::-1]), "@hourly")
    assert (message.first_task_time_us, message.execution_deadline_us) == (88, 89)
    assert (message.cancel_requested, message.buffered_events) == (True, 6)
    assert (message.execution_timeout_ms, message.run_timeout_ms, message.task_timeout_ms) == (
        1,
        2,
        3,
    )


@pytest.mark.parametrize(
    ("attrs", "stuck_reason"), [("{}", ""), ("", ""), ('{"stuck": "no type"}', "no type")]
)
def test_a_row_of_a_list(attrs: str, stuck_reason: str) -> None:
    row = VisibilityRow(
        1, RUN_ID, NAMESPACE_ID, 1, "order-1", "Order", "orders", 2, 5, 9, 7, 700, b"m", attrs
    )

    message = row_message(row)

    assert (message.workflow_id, message.run_id) == ("order-1", uuid_text(RUN_ID))
    assert (message.start_time_us, message.close_time_us) == (5, 9)
    assert message.status == common_pb2.WORKFLOW_STATUS_COMPLETED
    assert (message.stuck, message.stuck_reason) == (bool(stuck_reason), stuck_reason)
    assert row_message(row._replace(close_us=None)).close_time_us == 0


def test_search_attributes_of_a_row_come_back_with_their_types() -> None:
    """What a start brought, what lists show and what describe shows are the same messages."""
    given = [one for one in ATTRIBUTES if one.value is not None]
    attributes = tuple(sorted(given, key=lambda one: one.name))
    row = VisibilityRow(
        *(1, RUN_ID, NAMESPACE_ID, 1, "order-1", "Order", "orders", 1, 5, None, 7, 700, b"m"),
        to_json(attributes, "no type"),
    )

    message = row_message(row)

    assert message.stuck_reason == "no type"
    assert attributes_of("f", message.search_attributes) == attributes
    info = msgspec.structs.replace(INFO, search_attributes=attributes)
    description = replies.Description(info, 1, 2, 3, [], [], None, False, 0)
    assert list(described(description).info.search_attributes) == list(message.search_attributes)


def test_a_count_with_groups() -> None:
    message = counted(CountAnswer(4, [(6, 3), ("a_b", 1)]))

    assert message.count == 4
    assert [(list(g.values), g.count) for g in message.groups] == [
        (["ContinuedAsNew"], 3),
        (["a_b"], 1),
    ]
