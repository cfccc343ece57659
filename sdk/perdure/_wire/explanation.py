"""Why a run does not move, as the engine tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from perdure._failure_info import FailureInfo
from perdure._wire.failures import failure_from_message
from perdure._wire.policies import instant_from_us
from perdure_api.v1 import workflow_service_pb2 as pb


class WaitKind(IntEnum):
    """What a run waits for."""

    UNSPECIFIED = 0
    """A kind that this SDK does not know yet."""
    CLOSED = 1
    START_DELAY = 2
    WORKER_FOR_WORKFLOW_TASK = 3
    WORKFLOW_TASK = 4
    WORKFLOW_TASK_BACKOFF = 5
    WORKER_FOR_ACTIVITY = 6
    ACTIVITY = 7
    ACTIVITY_BACKOFF = 8
    TIMER = 9
    EVENT = 10
    ACTIVITY_PAUSED = 11
    CHILD_WORKFLOW_START = 20
    CHILD_WORKFLOW = 21
    EXTERNAL_WORKFLOW = 22
    PAUSED = 13
    RETRY_BACKOFF = 14
    CRON = 15
    UPDATE_ADMITTED = 16
    UPDATE_RUNNING = 17
    SAGA = 18
    POISONED = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReason:
    """One of the things that a run waits for."""

    kind: WaitKind
    since: datetime | None
    until: datetime | None
    """When it goes on by itself, at the latest. None: it does not, or that is not known."""
    subject: str
    """The id of an activity, a timer, an update or another workflow; of a pause its reason; of what
    is poisoned the activity's id, empty for the workflow's own code; of a cron schedule itself; of
    a saga the compensation's name."""
    activity_type: str
    task_queue: str
    attempt: int
    worker_identity: str
    last_failure: FailureInfo | None
    pollers: int
    """Of the queue and the version, on the node that answered, where a worker is waited for."""
    version: str = ""
    """Of workers, as deployment.build, where one is waited for; empty: workers without a version."""

    @property
    def text(self) -> str:
        """In words: what is waited for, and what will wake the run. Times are not in it."""
        return _TEXTS.get(self.kind, "for something that this version does not know").format(
            activity=f"activity {self.subject} ({self.activity_type}), attempt {self.attempt}",
            timer=f"timer {self.subject}",
            poisoned=f"activity {self.subject}" if self.subject else "its code",
            other=self.subject,
            subject=self.subject,
            queue=self.task_queue,
            of=f" of version {self.version}" if self.version else "",
            polled="nobody polls it" if not self.pollers else f"{self.pollers} poll it",
            worker=self.worker_identity or "a worker",
            attempt=self.attempt,
            reason=f": {self.subject}" if self.subject else "",
        )


_TEXTS = {
    WaitKind.CLOSED: "for nothing: the run has closed",
    WaitKind.START_DELAY: "for its start delay to end",
    WaitKind.WORKER_FOR_WORKFLOW_TASK: (
        "for a worker{of} that polls the task queue {queue} for workflows; {polled}"
    ),
    WaitKind.WORKFLOW_TASK: "for {worker}, which runs its code now (attempt {attempt})",
    WaitKind.WORKFLOW_TASK_BACKOFF: (
        "for attempt {attempt} of its code, which has failed; correct the code and start the worker"
    ),
    WaitKind.WORKER_FOR_ACTIVITY: (
        "for a worker{of} that polls the task queue {queue} for {activity}; {polled}"
    ),
    WaitKind.ACTIVITY: "for {activity}, which runs at {worker}",
    WaitKind.ACTIVITY_BACKOFF: "for the next attempt of {activity}, after a failure",
    WaitKind.TIMER: "for {timer}",
    WaitKind.EVENT: "for somebody to signal or cancel it: nothing of its own is under way",
    WaitKind.ACTIVITY_PAUSED: "for an operator to unpause {activity}",
    WaitKind.CHILD_WORKFLOW_START: "for the start of its child {other}, which is on its way",
    WaitKind.CHILD_WORKFLOW: "for its child {other} to close",
    WaitKind.EXTERNAL_WORKFLOW: "for an answer of workflow {other}, which it signals or cancels",
    WaitKind.PAUSED: "for an operator to unpause it: paused by {worker}{reason}",
    WaitKind.RETRY_BACKOFF: "to begin its attempt {attempt}: the run before has failed",
    WaitKind.CRON: "for the next time of its cron schedule {subject}",
    WaitKind.UPDATE_ADMITTED: "for its code to take or refuse update {subject}",
    WaitKind.UPDATE_RUNNING: "for the handler of update {subject} to return",
    WaitKind.SAGA: (
        "for an operator to say retry or skip (`perdure workflow saga`): compensation {subject} of "
        "its saga has failed"
    ),
    WaitKind.POISONED: (
        "for a worker of the surgical pool of task queue {queue}: {poisoned} has crashed its workers"
        " again and again (`perdure workflow resume` has it tried at once)"
    ),
}
_KINDS = {int(kind): kind for kind in WaitKind}


def reasons_from_message(message: pb.ExplainWorkflowResponse) -> Sequence[WaitReason]:
    return [
        WaitReason(
            kind=_KINDS.get(one.kind, WaitKind.UNSPECIFIED),
            since=instant_from_us(one.since_us),
            until=instant_from_us(one.until_us),
            subject=one.subject,
            activity_type=one.activity_type,
            task_queue=one.task_queue,
            attempt=one.attempt,
            worker_identity=one.worker_identity,
            last_failure=(
                failure_from_message(one.last_failure) if one.HasField("last_failure") else None
            ),
            pollers=one.pollers,
            version=one.version,
        )
        for one in message.reasons
    ]
