"""Events, commands, failures and policies between replay and the wire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.sdk_client.wire_of_others import (
    CHILD_WORKFLOW,
    OTHER_COMMANDS,
    OTHER_EVENTS,
    check_other_commands,
)

from perdure._failure_info import (
    ActivityInfo,
    ApplicationInfo,
    CanceledInfo,
    FailureInfo,
    FailureKind,
    ServerInfo,
    TerminatedInfo,
    TimeoutInfo,
    WorkerLostInfo,
)
from perdure._replay import messages as replay
from perdure._wire.commands import closes_workflow
from perdure._wire.completions import workflow_task_failure, workflow_task_success
from perdure._wire.events import event_from_message
from perdure._wire.failures import failure_from_message, failure_to_message
from perdure._wire.history import history_event_from_message
from perdure._wire.payloads import payloads_to_bytes
from perdure._wire.policies import (
    duration_to_ms,
    instant_from_us,
    instant_to_us,
    retry_policy_from_message,
    retry_policy_to_message,
)
from perdure.common import RetryPolicy, SearchAttributeKey
from perdure.converter import Payload
from perdure.errors import RetryState, TimeoutType
from perdure_api.v1 import common_pb2, event_pb2
from perdure_api.v1 import worker_service_pb2 as worker_pb

ONE = [Payload("json/plain", b"1")]
REGION = SearchAttributeKey.for_keyword("Region")
ONE_BYTES = payloads_to_bytes(ONE)
MARKER_DETAILS = [Payload("json/plain", b'{"id":"p"}'), *ONE]
FAILURE = FailureInfo(message="m", stack_trace="s", source="PythonSDK")
FAILURE_MESSAGE = failure_to_message(FAILURE)

KINDS: list[FailureKind | None] = [
    ApplicationInfo(type="T", non_retryable=True, details=ONE, next_retry_delay_ms=0),
    ApplicationInfo(type="T", category="benign"),
    TimeoutInfo(timeout_type=TimeoutType.HEARTBEAT, last_heartbeat_details=ONE),
    CanceledInfo(details=ONE),
    TerminatedInfo(),
    TerminatedInfo(details=ONE),
    ServerInfo(non_retryable=True),
    ActivityInfo(
        scheduled_event_id=1,
        started_event_id=2,
        identity="i",
        activity_type="t",
        activity_id="a",
        retry_state=RetryState.TIMEOUT,
    ),
    WorkerLostInfo(identity="i"),
    CHILD_WORKFLOW,
    None,
]


@pytest.mark.parametrize("info", KINDS)
def test_a_failure_comes_back_as_it_went(info: FailureKind | None) -> None:
    failure = FailureInfo(message="outer", source="x", cause=FAILURE, info=info)

    assert failure_from_message(failure_to_message(failure)) == failure


def test_choices_that_are_not_known_here_are_none() -> None:
    message = failure_to_message(FailureInfo(message="m", info=TimeoutInfo(timeout_type=None)))
    message.timeout.timeout_type = 99  # type: ignore[assignment]  # of a newer engine

    assert failure_from_message(message).info == TimeoutInfo(timeout_type=None)


EVENTS: dict[str, tuple[object, replay.Event]] = {
    "upsert_workflow_search_attributes": (
        event_pb2.UpsertWorkflowSearchAttributes(),
        replay.UpsertWorkflowSearchAttributes(event_id=7, time_us=8),
    ),
    "workflow_task_started": (
        event_pb2.WorkflowTaskStarted(history_size_bytes=9, suggest_continue_as_new=True),
        replay.WorkflowTaskStarted(
            event_id=7, time_us=8, history_size_bytes=9, suggest_continue_as_new=True
        ),
    ),
    "workflow_task_completed": (
        event_pb2.WorkflowTaskCompleted(build_id="b"),
        replay.WorkflowTaskCompleted(event_id=7, time_us=8, build_id="b"),
    ),
    "workflow_task_failed": (
        event_pb2.WorkflowTaskFailed(),
        replay.WorkflowTaskFailedOrTimedOut(event_id=7, time_us=8),
    ),
    "workflow_task_timed_out": (
        event_pb2.WorkflowTaskTimedOut(),
        replay.WorkflowTaskFailedOrTimedOut(event_id=7, time_us=8),
    ),
    "workflow_task_scheduled": (
        event_pb2.WorkflowTaskScheduled(),
        replay.OtherEvent(event_id=7, time_us=8),
    ),
    "activity_task_scheduled": (
        event_pb2.ActivityTaskScheduled(activity_id="a", activity_type="t"),
        replay.ActivityTaskScheduled(event_id=7, time_us=8, activity_id="a", activity_type="t"),
    ),
    "activity_task_started": (
        event_pb2.ActivityTaskStarted(),
        replay.OtherEvent(event_id=7, time_us=8),
    ),
    "activity_task_completed": (
        event_pb2.ActivityTaskCompleted(result=ONE_BYTES, scheduled_event_id=5),
        replay.ActivityTaskCompleted(event_id=7, time_us=8, scheduled_event_id=5, result=ONE),
    ),
    "activity_task_failed": (
        event_pb2.ActivityTaskFailed(failure=FAILURE_MESSAGE, scheduled_event_id=5),
        replay.ActivityTaskFailed(event_id=7, time_us=8, scheduled_event_id=5, failure=FAILURE),
    ),
    "activity_task_timed_out": (
        event_pb2.ActivityTaskTimedOut(failure=FAILURE_MESSAGE, scheduled_event_id=5),
        replay.ActivityTaskFailed(event_id=7, time_us=8, scheduled_event_id=5, failure=FAILURE),
    ),
    "activity_task_cancel_requested": (
        event_pb2.ActivityTaskCancelRequested(scheduled_event_id=5),
        replay.ActivityTaskCancelRequested(event_id=7, time_us=8, scheduled_event_id=5),
    ),
    "activity_task_canceled": (
        event_pb2.ActivityTaskCanceled(details=ONE_BYTES, scheduled_event_id=5),
        replay.ActivityTaskCanceled(event_id=7, time_us=8, scheduled_event_id=5, details=ONE),
    ),
    "timer_started": (
        event_pb2.TimerStarted(timer_id="t", start_to_fire_ms=6),
        replay.TimerStarted(event_id=7, time_us=8, timer_id="t", start_to_fire_ms=6),
    ),
    "timer_fired": (
        event_pb2.TimerFired(timer_id="t", started_event_id=5),
        replay.TimerFired(event_id=7, time_us=8, timer_id="t", started_event_id=5),
    ),
    "timer_canceled": (
        event_pb2.TimerCanceled(timer_id="t", started_event_id=5),
        replay.TimerCanceled(event_id=7, time_us=8, timer_id="t", started_event_id=5),
    ),
    "workflow_execution_cancel_requested": (
        event_pb2.WorkflowExecutionCancelRequested(reason="r"),
        replay.WorkflowExecutionCancelRequested(event_id=7, time_us=8, reason="r"),
    ),
    "workflow_execution_signaled": (
        event_pb2.WorkflowExecutionSignaled(signal_name="s", input=ONE_BYTES, identity="i"),
        replay.WorkflowExecutionSignaled(
            event_id=7, time_us=8, signal_name="s", input=ONE, header={}, identity="i"
        ),
    ),
    "workflow_execution_started": (
        event_pb2.WorkflowExecutionStarted(
            workflow_type="t",
            task_queue="q",
            input=ONE_BYTES,
            workflow_id="w",
            run_id="r",
            first_run_id="f",
            attempt=1,
            run_timeout_ms=2,
            priority=3,
            continued_from_run_id="b",
            last_failure=FAILURE_MESSAGE,
            last_completion_result=ONE_BYTES,
            cron_schedule="@daily",
            parent_workflow_id="pw",
            parent_run_id="pr",
            root_workflow_id="rw",
            root_run_id="rr",
            original_run_id="o",
        ),
        replay.WorkflowExecutionStarted(
            event_id=7,
            time_us=8,
            workflow_id="w",
            run_id="r",
            first_run_id="f",
            workflow_type="t",
            task_queue="q",
            input=ONE,
            header={},
            memo={},
            attempt=1,
            execution_timeout_ms=0,
            run_timeout_ms=2,
            task_timeout_ms=0,
            retry_policy=None,
            priority=3,
            continued_from_run_id="b",
            last_failure=FAILURE,
            last_completion_result=ONE,
            cron_schedule="@daily",
            parents=replay.Parents(
                parent_workflow_id="pw",
                parent_run_id="pr",
                root_workflow_id="rw",
                root_run_id="rr",
            ),
            original_run_id="o",
        ),
    ),
    "marker_recorded": (
        event_pb2.MarkerRecorded(
            marker_name="patch",
            details=payloads_to_bytes(MARKER_DETAILS),
            failure=FAILURE_MESSAGE,
        ),
        replay.MarkerRecorded(
            event_id=7,
            time_us=8,
            marker_name="patch",
            marker_id="p",
            details=MARKER_DETAILS,
            failure=FAILURE,
        ),
    ),
    "workflow_properties_modified": (
        event_pb2.WorkflowPropertiesModified(),
        replay.WorkflowPropertiesModified(event_id=7, time_us=8),
    ),
    **{
        f"workflow_execution_{name}": (
            getattr(event_pb2, kind)(),
            replay.WorkflowExecutionClosed(event_id=7, time_us=8, kind=kind),
        )
        for name, kind in (
            ("completed", "WorkflowExecutionCompleted"),
            ("failed", "WorkflowExecutionFailed"),
            ("timed_out", "WorkflowExecutionTimedOut"),
            ("canceled", "WorkflowExecutionCanceled"),
            ("terminated", "WorkflowExecutionTerminated"),
            ("continued_as_new", "WorkflowExecutionContinuedAsNew"),
        )
    },
    "workflow_execution_update_accepted": (
        event_pb2.WorkflowExecutionUpdateAccepted(
            update_id="u",
            update_name="n",
            input=ONE_BYTES,
            identity="i",
            workflow_task_completed_event_id=6,
        ),
        replay.UpdateAccepted(
            event_id=7,
            time_us=8,
            update_id="u",
            update_name="n",
            input=ONE,
            header={},
            identity="i",
            workflow_task_completed_event_id=6,
        ),
    ),
    "workflow_execution_update_completed": (
        event_pb2.WorkflowExecutionUpdateCompleted(update_id="u", result=ONE_BYTES),
        replay.UpdateCompleted(event_id=7, time_us=8, update_id="u"),
    ),
    "workflow_execution_update_admitted": (
        event_pb2.WorkflowExecutionUpdateAdmitted(update_id="u"),
        replay.OtherEvent(event_id=7, time_us=8),
    ),
    **OTHER_EVENTS,
    "workflow_execution_paused": (
        event_pb2.WorkflowExecutionPaused(reason="r"),
        replay.OtherEvent(event_id=7, time_us=8),
    ),
    "workflow_execution_unpaused": (
        event_pb2.WorkflowExecutionUnpaused(reason="r"),
        replay.OtherEvent(event_id=7, time_us=8),
    ),
    "workflow_execution_options_updated": (
        event_pb2.WorkflowExecutionOptionsUpdated(identity="ops"),
        replay.OtherEvent(event_id=7, time_us=8),
    ),
}


@pytest.mark.parametrize("kind", list(EVENTS))
def test_an_event_as_replay_reads_it(kind: str) -> None:
    attributes, expected = EVENTS[kind]
    message = event_pb2.HistoryEvent(event_id=7, time_us=8, **{kind: attributes})

    assert event_from_message(message) == expected


def test_every_kind_of_event_is_covered() -> None:
    (oneof,) = event_pb2.HistoryEvent.DESCRIPTOR.oneofs
    assert {field.name for field in oneof.fields} == set(EVENTS)
    unknown = event_pb2.HistoryEvent.FromString(b"\x08\x07\x10\x08\xc2\x3e\x00")  # field 1000
    assert event_from_message(unknown) == replay.OtherEvent(event_id=7, time_us=8)


def test_an_event_as_people_read_it() -> None:
    message = event_pb2.HistoryEvent(
        event_id=7,
        time_us=1_000_001,
        activity_task_failed=event_pb2.ActivityTaskFailed(
            failure=FAILURE_MESSAGE, scheduled_event_id=5, retry_state="RETRY_STATE_TIMEOUT"
        ),
    )
    event = history_event_from_message(message)

    assert event.event_type == "ActivityTaskFailed"
    assert event.event_time == datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)
    assert event.attributes == {
        "failure": FAILURE,
        "scheduled_event_id": 5,
        "retry_state": "RETRY_STATE_TIMEOUT",
    }


COMMANDS: dict[str, replay.Command] = {
    "schedule_activity": replay.ScheduleActivity(
        activity_id="a",
        activity_type="t",
        task_queue="q",
        input=ONE,
        header={"h": ONE[0]},
        schedule_to_close_timeout_ms=1,
        schedule_to_start_timeout_ms=2,
        start_to_close_timeout_ms=3,
        heartbeat_timeout_ms=4,
        retry_policy=RetryPolicy(maximum_attempts=5),
        priority=6,
    ),
    "request_cancel_activity": replay.RequestCancelActivity(scheduled_event_id=5),
    "start_timer": replay.StartTimer(timer_id="t", start_to_fire_ms=1),
    "cancel_timer": replay.CancelTimer(timer_id="t"),
    "complete_workflow": replay.CompleteWorkflow(result=ONE),
    "fail_workflow": replay.FailWorkflow(failure=FAILURE),
    "cancel_workflow": replay.CancelWorkflow(details=ONE),
    "continue_as_new": replay.ContinueAsNew(
        workflow_type="t",
        task_queue="q",
        input=ONE,
        header={},
        memo={"m": ONE[0]},
        run_timeout_ms=1,
        task_timeout_ms=2,
        retry_policy=RetryPolicy(maximum_attempts=5),
    ),
    "accept_update": replay.AcceptUpdate(update_id="u"),
    "reject_update": replay.RejectUpdate(update_id="u", failure=FAILURE),
    "complete_update": replay.CompleteUpdate(update_id="u", result=ONE, failure=None),
    "record_marker": replay.RecordMarker(
        marker_name="patch", marker_id="p", details=MARKER_DETAILS, failure=FAILURE
    ),
    "modify_properties": replay.ModifyProperties(upserted_memo={"a": ONE[0], "b": None}),
    "upsert_search_attributes": replay.UpsertSearchAttributes(updates=[REGION.value_unset()]),
    **OTHER_COMMANDS,
}


def test_every_command_travels() -> None:
    (oneof,) = worker_pb.Command.DESCRIPTOR.oneofs
    assert [field.name for field in oneof.fields] == list(COMMANDS)
    results = [replay.QueryResult(query_token=b"q", result=ONE, failure=None)]
    success = replay.TaskSuccess(commands=list(COMMANDS.values()), query_results=results)

    completion = workflow_task_success(b"token", success, cached=True)

    message = completion.message
    assert completion.size == len(message.SerializeToString())
    assert message.token == b"token"
    sent = message.workflow_task_success
    assert sent.cached
    assert [command.WhichOneof("command") for command in sent.commands] == list(COMMANDS)
    of = dict(zip(COMMANDS, sent.commands, strict=True))
    scheduled = of["schedule_activity"].schedule_activity
    assert scheduled.input == ONE_BYTES
    assert scheduled.retry_policy.maximum_attempts == 5
    assert (scheduled.schedule_to_start_timeout_ms, scheduled.priority) == (2, 6)
    assert of["complete_workflow"].complete_workflow.result == ONE_BYTES
    assert of["fail_workflow"].fail_workflow.failure == FAILURE_MESSAGE
    assert of["accept_update"].accept_update.update_id == "u"
    assert of["reject_update"].reject_update.failure == FAILURE_MESSAGE
    assert of["complete_update"].complete_update.result == ONE_BYTES
    assert not of["complete_update"].complete_update.HasField("failure")
    assert message.query_results[0].result == ONE_BYTES
    marker = of["record_marker"].record_marker
    assert (marker.marker_name, marker.failure) == ("patch", FAILURE_MESSAGE)
    assert marker.details == payloads_to_bytes(MARKER_DETAILS)
    upserted = common_pb2.Memo.FromString(
        of["modify_properties"].modify_properties.upserted_memo
    ).fields
    assert (upserted["a"].data, upserted["b"].ByteSize()) == (ONE[0].data, 0)
    closing = [name for name, command in COMMANDS.items() if closes_workflow(command)]
    assert closing == ["complete_workflow", "fail_workflow", "cancel_workflow", "continue_as_new"]
    continued = of["continue_as_new"].continue_as_new
    assert (continued.workflow_type, continued.task_queue, continued.input) == ("t", "q", ONE_BYTES)
    assert (continued.run_timeout_ms, continued.task_timeout_ms) == (1, 2)
    assert continued.retry_policy.maximum_attempts == 5
    assert continued.memo
    check_other_commands(of)


def test_every_cause_of_a_failed_task_has_a_name() -> None:
    for name, number in event_pb2.WorkflowTaskFailedCause.items():
        cause = name.removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")
        sent = workflow_task_failure(b"t", cause, FAILURE).message.workflow_task_failure
        assert sent.cause == number


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(),
        RetryPolicy(
            initial_interval=timedelta(milliseconds=5),
            backoff_coefficient=1.5,
            maximum_interval=timedelta(seconds=2),
            maximum_attempts=7,
            non_retryable_error_types=("A", "B"),
        ),
    ],
)
def test_a_retry_policy_comes_back_as_it_went(policy: RetryPolicy) -> None:
    message = retry_policy_to_message(policy)
    assert message is not None
    assert retry_policy_from_message(message) == policy


def test_durations_are_rounded_up_and_instants_are_exact() -> None:
    assert duration_to_ms(None) == 0
    assert duration_to_ms(timedelta(microseconds=1)) == 1
    assert duration_to_ms(timedelta(milliseconds=2)) == 2
    instant = datetime(2026, 11, 29, 19, 30, 0, 123_457, tzinfo=UTC)
    assert instant_from_us(instant_to_us(instant)) == instant
    assert instant_to_us(instant.replace(tzinfo=None)) == instant_to_us(instant)
    assert instant_to_us(None) == 0
    assert instant_from_us(0) is None
