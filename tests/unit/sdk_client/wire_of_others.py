"""Children and other runs on the wire: each event and command beside what replay has of it."""

from __future__ import annotations

from perdure._failure_info import ChildWorkflowInfo, FailureInfo
from perdure._replay import external_messages as external
from perdure._replay import messages as replay
from perdure._wire.failures import failure_to_message
from perdure._wire.payloads import payloads_to_bytes
from perdure.common import (
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIdReusePolicy,
)
from perdure.converter import Payload
from perdure.errors import RetryState
from perdure_api.v1 import common_pb2, event_pb2
from perdure_api.v1 import worker_service_pb2 as worker_pb

ONE = [Payload("json/plain", b"1")]
ONE_BYTES = payloads_to_bytes(ONE)
FAILURE = FailureInfo(message="m", stack_trace="s", source="PythonSDK")
CITY = SearchAttributePair(SearchAttributeKey.for_keyword("City"), "Rome")

CHILD_WORKFLOW = ChildWorkflowInfo(
    namespace="n",
    workflow_id="w",
    run_id="r",
    workflow_type="t",
    initiated_event_id=1,
    started_event_id=2,
    retry_state=RetryState.TIMEOUT,
)

OTHER_EVENTS: dict[str, tuple[object, replay.Event]] = {
    "start_child_workflow_execution_initiated": (
        event_pb2.StartChildWorkflowExecutionInitiated(workflow_id="w", workflow_type="t"),
        external.StartChildWorkflowExecutionInitiated(
            event_id=7, time_us=8, workflow_id="w", workflow_type="t"
        ),
    ),
    "start_child_workflow_execution_failed": (
        event_pb2.StartChildWorkflowExecutionFailed(
            initiated_event_id=5, cause=event_pb2.START_CHILD_FAILED_CAUSE_ALREADY_EXISTS
        ),
        external.StartChildWorkflowExecutionFailed(event_id=7, time_us=8, initiated_event_id=5),
    ),
    "child_workflow_execution_started": (
        event_pb2.ChildWorkflowExecutionStarted(initiated_event_id=5, run_id="r"),
        external.ChildWorkflowExecutionStarted(
            event_id=7, time_us=8, initiated_event_id=5, run_id="r"
        ),
    ),
    "child_workflow_execution_completed": (
        event_pb2.ChildWorkflowExecutionCompleted(initiated_event_id=5, result=ONE_BYTES),
        external.ChildWorkflowExecutionCompleted(
            event_id=7, time_us=8, initiated_event_id=5, result=ONE
        ),
    ),
    "child_workflow_execution_failed": (
        event_pb2.ChildWorkflowExecutionFailed(
            initiated_event_id=5,
            started_event_id=6,
            run_id="r",
            failure=failure_to_message(FAILURE),
            retry_state=common_pb2.RETRY_STATE_TIMEOUT,
        ),
        external.ChildWorkflowExecutionFailed(
            event_id=7,
            time_us=8,
            initiated_event_id=5,
            started_event_id=6,
            run_id="r",
            failure=FAILURE,
            retry_state=RetryState.TIMEOUT,
        ),
    ),
    "child_workflow_execution_canceled": (
        event_pb2.ChildWorkflowExecutionCanceled(
            initiated_event_id=5, started_event_id=6, run_id="r", details=ONE_BYTES
        ),
        external.ChildWorkflowExecutionCanceled(
            event_id=7,
            time_us=8,
            initiated_event_id=5,
            started_event_id=6,
            run_id="r",
            details=ONE,
        ),
    ),
    "child_workflow_execution_timed_out": (
        event_pb2.ChildWorkflowExecutionTimedOut(
            initiated_event_id=5,
            started_event_id=6,
            run_id="r",
            retry_state=common_pb2.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED,
        ),
        external.ChildWorkflowExecutionTimedOut(
            event_id=7,
            time_us=8,
            initiated_event_id=5,
            started_event_id=6,
            run_id="r",
            retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
        ),
    ),
    "child_workflow_execution_terminated": (
        event_pb2.ChildWorkflowExecutionTerminated(
            initiated_event_id=5, started_event_id=6, run_id="r"
        ),
        external.ChildWorkflowExecutionTerminated(
            event_id=7, time_us=8, initiated_event_id=5, started_event_id=6, run_id="r"
        ),
    ),
    "signal_external_workflow_execution_initiated": (
        event_pb2.SignalExternalWorkflowExecutionInitiated(workflow_id="w", signal_name="s"),
        external.SignalExternalWorkflowExecutionInitiated(
            event_id=7, time_us=8, workflow_id="w", signal_name="s"
        ),
    ),
    "signal_external_workflow_execution_failed": (
        event_pb2.SignalExternalWorkflowExecutionFailed(
            initiated_event_id=5, cause=event_pb2.EXTERNAL_FAILED_CAUSE_LIMIT
        ),
        external.SignalExternalWorkflowExecutionFailed(
            event_id=7, time_us=8, initiated_event_id=5, cause="LIMIT"
        ),
    ),
    "external_workflow_execution_signaled": (
        event_pb2.ExternalWorkflowExecutionSignaled(initiated_event_id=5),
        external.ExternalWorkflowExecutionSignaled(event_id=7, time_us=8, initiated_event_id=5),
    ),
    "request_cancel_external_workflow_execution_initiated": (
        event_pb2.RequestCancelExternalWorkflowExecutionInitiated(workflow_id="w"),
        external.RequestCancelExternalWorkflowExecutionInitiated(
            event_id=7, time_us=8, workflow_id="w"
        ),
    ),
    "request_cancel_external_workflow_execution_failed": (
        event_pb2.RequestCancelExternalWorkflowExecutionFailed(
            initiated_event_id=5, cause=event_pb2.EXTERNAL_FAILED_CAUSE_NOT_FOUND
        ),
        external.RequestCancelExternalWorkflowExecutionFailed(
            event_id=7, time_us=8, initiated_event_id=5, cause="NOT_FOUND"
        ),
    ),
    "external_workflow_execution_cancel_requested": (
        event_pb2.ExternalWorkflowExecutionCancelRequested(initiated_event_id=5),
        external.ExternalWorkflowExecutionCancelRequested(
            event_id=7, time_us=8, initiated_event_id=5
        ),
    ),
}

OTHER_COMMANDS: dict[str, replay.Command] = {
    "start_child_workflow": external.StartChildWorkflow(
        workflow_id="w",
        workflow_type="t",
        task_queue="q",
        input=ONE,
        header={"h": ONE[0]},
        execution_timeout_ms=1,
        run_timeout_ms=2,
        task_timeout_ms=3,
        retry_policy=RetryPolicy(maximum_attempts=5),
        parent_close_policy=external.ParentClosePolicy.REQUEST_CANCEL,
        id_reuse_policy=WorkflowIdReusePolicy.REJECT_DUPLICATE,
        cron_schedule="@daily",
        memo={"m": ONE[0]},
        search_attributes=TypedSearchAttributes([CITY]),
        priority=4,
        static_summary=ONE[0],
        static_details=ONE[0],
    ),
    "request_cancel_external_workflow": external.RequestCancelExternalWorkflow(
        workflow_id="w", run_id="r", child_workflow_only=True, reason="enough"
    ),
    "signal_external_workflow": external.SignalExternalWorkflow(
        workflow_id="w",
        run_id="r",
        signal_name="s",
        input=ONE,
        header={"h": ONE[0]},
        child_workflow_only=True,
    ),
}


def check_other_commands(of: dict[str, worker_pb.Command]) -> None:
    """No field of them is lost: each is set in the samples above, and so in the message."""
    for name in OTHER_COMMANDS:
        message = getattr(of[name], name)
        unset = {field.name for field in message.DESCRIPTOR.fields} - {
            field.name for field, _ in message.ListFields()
        }
        assert unset == set(), name
    child = of["start_child_workflow"].start_child_workflow
    assert (child.execution_timeout_ms, child.run_timeout_ms, child.task_timeout_ms) == (1, 2, 3)
    assert (child.workflow_id, child.workflow_type, child.task_queue) == ("w", "t", "q")
    assert child.parent_close_policy == common_pb2.PARENT_CLOSE_POLICY_REQUEST_CANCEL
    assert child.id_reuse_policy == common_pb2.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
    assert (child.cron_schedule, child.priority, child.input) == ("@daily", 4, ONE_BYTES)
    assert child.search_attributes[0].text == "Rome"
    signal = of["signal_external_workflow"].signal_external_workflow
    assert (signal.workflow_id, signal.run_id, signal.signal_name) == ("w", "r", "s")
    assert signal.input == ONE_BYTES
    cancel = of["request_cancel_external_workflow"].request_cancel_external_workflow
    assert (cancel.workflow_id, cancel.run_id, cancel.reason) == ("w", "r", "enough")
