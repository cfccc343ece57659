"""What a client is told of tasks that crash their workers, and of runs that are suspended for it."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure._wire.explanation import WaitKind, reasons_from_message
from perdure._wire.workflow_info import description_from_message
from perdure_api.v1 import common_pb2
from perdure_api.v1 import workflow_service_pb2 as pb

US = 1_800_000_000_000_000
TIME = datetime(2027, 1, 15, 8, tzinfo=UTC)
DIED = common_pb2.Failure(message="killed by signal 11", stack_trace="its stacks")


def test_a_description_tells_how_often_since_when_and_of_what() -> None:
    message = pb.DescribeWorkflowResponse(
        info=pb.WorkflowInfo(workflow_id="w", run_id="r"),
        pending_activities=[
            pb.PendingActivityInfo(
                activity_id="a", crashes=3, first_crash_time_us=US, last_crash=DIED
            ),
            pb.PendingActivityInfo(activity_id="b"),
        ],
        pending_workflow_task=pb.PendingWorkflowTaskInfo(
            attempt=1,
            crashes=4,
            first_crash_time_us=US,
            last_crash=DIED,
            next_attempt_time_us=US + 60_000_000,
        ),
        suspended=True,
    )

    found = description_from_message(message, lambda payload: payload)

    assert found.suspended
    poisoned, sound = found.pending_activities
    assert (poisoned.crashes, poisoned.first_crash_time) == (3, TIME)
    assert poisoned.last_crash is not None
    assert (poisoned.last_crash.message, poisoned.last_crash.stack_trace) == (
        "killed by signal 11",
        "its stacks",
    )
    assert (sound.crashes, sound.first_crash_time, sound.last_crash) == (0, None, None)
    task = found.pending_workflow_task
    assert task is not None
    assert (task.crashes, task.first_crash_time, task.next_attempt_time) == (
        4,
        TIME,
        TIME.replace(minute=1),
    )
    assert task.last_crash == poisoned.last_crash


def test_the_reason_says_whose_polls_are_waited_for() -> None:
    message = pb.ExplainWorkflowResponse(
        reasons=[
            pb.WaitReason(kind=pb.WAIT_KIND_POISONED, task_queue="orders", subject=subject)
            for subject in ("charge-1", "")
        ]
    )

    activity, code = reasons_from_message(message)

    assert activity.kind is WaitKind.POISONED
    assert activity.text.startswith(
        "for a worker of the surgical pool of task queue orders: activity charge-1 has crashed its"
    )
    assert "perdure workflow resume" in activity.text
    assert ": its code has crashed its workers" in code.text
