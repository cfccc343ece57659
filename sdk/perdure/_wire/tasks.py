"""Tasks as polls bring them. Reading one can fail, and then only that one has failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec

from perdure._jobs import DEFAULT_RETRY_POLICY
from perdure._replay import messages as replay
from perdure._wire.events import event_from_message
from perdure._wire.payloads import fields_from_bytes, payloads_from_bytes
from perdure._wire.policies import retry_policy_from_message
from perdure.common import RetryPolicy
from perdure.converter import Payload
from perdure_api.v1 import event_pb2
from perdure_api.v1 import worker_service_pb2 as pb

EventMessage = event_pb2.HistoryEvent

M = TypeVar("M", pb.ActivityTask, pb.JobTask)

_NO_UPDATES: list[replay.Update] = []  # shared: nobody changes a task


class PolledWorkflowTask:
    """A workflow task, its events still as the wire brought them."""

    kind = "workflow task"
    __slots__ = (
        "_message",
        "first_event_id",
        "next_page_token",
        "previous_started_event_id",
        "query_only",
        "run_id",
        "started_event_id",
        "token",
        "waited_s",
        "workflow_id",
        "workflow_type",
    )

    def __init__(self, message: pb.WorkflowTask) -> None:
        self._message = message
        self.token = message.token
        self.workflow_id = message.workflow_id
        self.run_id = message.run_id
        self.workflow_type = message.workflow_type
        self.previous_started_event_id = message.previous_started_event_id
        self.started_event_id = message.started_event_id
        self.query_only = message.query_only
        self.next_page_token = message.next_page_token
        self.waited_s = 0.0  # for the rest of its history
        events = message.events
        self.first_event_id = events[0].event_id if events else 0
        """0: it brings none."""

    @property
    def crashes(self) -> int:
        """How many workers in a row have died with it in hand."""
        return self._message.crashes

    @property
    def attempt(self) -> int:
        return self._message.attempt

    @property
    def task_timeout_ms(self) -> int:
        return self._message.task_timeout_ms

    @property
    def message(self) -> pb.WorkflowTask:
        """For the edge, which decodes it before it is read."""
        return self._message

    @property
    def query_tokens(self) -> list[bytes]:
        return [query.query_token for query in self._message.queries]

    @property
    def log_fields(self) -> dict[str, Any]:
        """Which run it is of, for log lines: as those of `workflow.logger`."""
        return {"perdure_workflow": {"workflow_id": self.workflow_id, "run_id": self.run_id}}

    def complete(self, before: Sequence[EventMessage], after: Sequence[EventMessage]) -> None:
        """Takes in what was fetched besides around its own events: then nothing is missing."""
        message = self._message
        own = list(message.events)
        del message.events[:]
        message.events.extend([*before, *own, *after])
        message.next_page_token = self.next_page_token = b""
        self.first_event_id = message.events[0].event_id if message.events else 0

    def read(
        self, before: Sequence[replay.Event] = (), after: Sequence[replay.Event] = ()
    ) -> replay.Task:
        """With what was fetched besides around its own events. Raises PayloadDecodeError."""
        message = self._message
        events = [event_from_message(event) for event in message.events]
        if before or after:
            events = [*before, *events, *after]
        return replay.Task(
            token=self.token,
            workflow_id=self.workflow_id,
            run_id=self.run_id,
            workflow_type=self.workflow_type,
            attempt=message.attempt,
            previous_started_event_id=self.previous_started_event_id,
            started_event_id=self.started_event_id,
            events=events,
            queries=[_query(query) for query in message.queries],
            query_only=self.query_only,
            history_size_bytes=message.history_size_bytes,
            suggest_continue_as_new=message.suggest_continue_as_new,
            updates=[_update(one) for one in message.updates] if message.updates else _NO_UPDATES,
        )


class ActivityTask(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to run. Instants in µs, durations in ms, 0 for none."""

    token: bytes
    workflow_id: str
    run_id: str
    workflow_type: str
    activity_id: str
    activity_type: str
    header: Mapping[str, Payload]
    attempt: int
    scheduled_time_us: int
    started_time_us: int
    schedule_to_close_timeout_ms: int
    start_to_close_timeout_ms: int
    heartbeat_timeout_ms: int
    heartbeat_details: list[Payload]
    retry_policy: RetryPolicy | None
    idempotency_key: str
    priority: int
    crashes: int
    job: JobOfTask | None = None


class JobOfTask(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt of a job has besides. Instants in µs."""

    create_time_us: int
    schedule_id: str
    user_id: str


class _PolledAttempt(Generic[M]):
    """Of an activity or of a job: what is the same of both."""

    __slots__ = ("_message", "token")

    def __init__(self, message: M) -> None:
        self._message: M = message
        self.token: bytes = message.token

    @property
    def message(self) -> M:
        """For the edge, which decodes it before it is read."""
        return self._message

    @property
    def progress_version(self) -> int:
        """What the attempt's sayings are counted on from."""
        return self._message.progress_version

    @property
    def crashes(self) -> int:
        """How many workers in a row have died with it in hand."""
        return self._message.crashes

    @property
    def attempt(self) -> int:
        return self._message.attempt

    @property
    def started_time_us(self) -> int:
        return self._message.started_time_us

    @property
    def heartbeat_timeout_ms(self) -> int:
        return self._message.heartbeat_timeout_ms

    def input(self) -> list[Payload]:
        """Raises PayloadDecodeError."""
        return payloads_from_bytes(self._message.input)

    def header(self) -> Mapping[str, Payload]:
        """Raises PayloadDecodeError."""
        return fields_from_bytes(self._message.header)


class PolledActivityTask(_PolledAttempt[pb.ActivityTask]):
    """An attempt that a workflow asked for."""

    __slots__ = ()
    kind = "activity"

    @property
    def may_go_ahead(self) -> bool:
        """What follows from its result may travel with it."""
        return self._message.may_go_ahead

    def is_near_timeout(self, now_us: int, margin_us: int) -> bool:
        """Whether one of its timeouts may end the attempt within the margin. `now_us`: on the engine's clock."""
        message = self._message
        at_us = now_us + margin_us
        if 0 < message.heartbeat_timeout_ms * 1000 <= margin_us:
            return True
        if message.start_to_close_timeout_ms:
            ends_us = message.started_time_us + message.start_to_close_timeout_ms * 1000
            if ends_us <= at_us:
                return True
        if message.schedule_to_close_timeout_ms:
            ends_us = message.scheduled_time_us + message.schedule_to_close_timeout_ms * 1000
            return ends_us <= at_us
        return False

    @property
    def workflow_id(self) -> str:
        return self._message.workflow_id

    @property
    def run_id(self) -> str:
        return self._message.run_id

    @property
    def workflow_type(self) -> str:
        return self._message.workflow_type

    @property
    def activity_id(self) -> str:
        return self._message.activity_id

    @property
    def activity_type(self) -> str:
        return self._message.activity_type

    @property
    def log_fields(self) -> dict[str, Any]:
        """Which attempt it is, for log lines: as those of `activity.logger`."""
        message = self._message
        return {
            "perdure_activity": {
                "activity_id": message.activity_id,
                "activity_type": message.activity_type,
                "attempt": message.attempt,
                "workflow_id": message.workflow_id,
                "workflow_run_id": message.run_id,
                "workflow_type": message.workflow_type,
            }
        }

    @property
    def version(self) -> int | None:
        """Of the activity; None: the newest there is."""
        return self._message.version or 1

    def read(self) -> ActivityTask:
        """What its code may ask for, and hardly any does. Raises PayloadDecodeError."""
        message = self._message
        return ActivityTask(
            token=self.token,
            workflow_id=message.workflow_id,
            run_id=message.run_id,
            workflow_type=message.workflow_type,
            activity_id=message.activity_id,
            activity_type=message.activity_type,
            header=fields_from_bytes(message.header),
            attempt=message.attempt,
            scheduled_time_us=message.scheduled_time_us,
            started_time_us=message.started_time_us,
            schedule_to_close_timeout_ms=message.schedule_to_close_timeout_ms,
            start_to_close_timeout_ms=message.start_to_close_timeout_ms,
            heartbeat_timeout_ms=message.heartbeat_timeout_ms,
            heartbeat_details=payloads_from_bytes(message.heartbeat_details),
            retry_policy=(
                retry_policy_from_message(message.retry_policy)
                if message.HasField("retry_policy")
                else None
            ),
            idempotency_key=message.idempotency_key,
            priority=message.priority,
            crashes=message.crashes,
        )


class PolledJobTask(_PolledAttempt[pb.JobTask]):
    """An attempt of a job: run as an activity's is, and its outcome travels as one."""

    __slots__ = ()
    kind = "job"
    may_go_ahead = False  # nothing follows from its result

    @property
    def activity_type(self) -> str:
        return self._message.task_name

    @property
    def log_fields(self) -> dict[str, Any]:
        """Which attempt it is, for log lines: as those of `activity.logger`."""
        message = self._message
        return {
            "perdure_activity": {
                "activity_id": str(UUID(bytes=message.job_id)),
                "activity_type": message.task_name,
                "attempt": message.attempt,
            }
        }

    @property
    def version(self) -> int | None:
        """None: the newest there is."""
        return None

    def read(self) -> ActivityTask:
        """What its code may ask for, and hardly any does. Raises PayloadDecodeError."""
        message = self._message
        job_id = str(UUID(bytes=message.job_id))
        return ActivityTask(
            token=self.token,
            workflow_id="",
            run_id="",
            workflow_type="",
            activity_id=job_id,
            activity_type=message.task_name,
            header=fields_from_bytes(message.header),
            attempt=message.attempt,
            scheduled_time_us=message.due_time_us,
            started_time_us=message.started_time_us,
            schedule_to_close_timeout_ms=0,
            start_to_close_timeout_ms=message.timeout_ms,
            heartbeat_timeout_ms=message.heartbeat_timeout_ms,
            heartbeat_details=payloads_from_bytes(message.progress),
            retry_policy=(
                retry_policy_from_message(message.retry_policy)
                if message.HasField("retry_policy")
                else DEFAULT_RETRY_POLICY
            ),
            idempotency_key=job_id,
            priority=message.priority,
            crashes=message.crashes,
            job=JobOfTask(
                create_time_us=message.create_time_us,
                schedule_id=message.schedule_id,
                user_id=message.user_id,
            ),
        )


PolledAttempt = PolledActivityTask | PolledJobTask
PolledTask = PolledWorkflowTask | PolledAttempt


def task_to_bytes(task: PolledTask) -> bytes:
    """As it is now, decoded if it was."""
    return task.message.SerializeToString()


def task_from_bytes(kind: str, data: bytes) -> PolledTask:
    """`kind`: that of the task whose bytes they are."""
    if kind == PolledWorkflowTask.kind:
        return PolledWorkflowTask(pb.WorkflowTask.FromString(data))
    if kind == PolledJobTask.kind:
        return PolledJobTask(pb.JobTask.FromString(data))
    return PolledActivityTask(pb.ActivityTask.FromString(data))


@dataclass(frozen=True, slots=True)
class PolledTasks:
    workflow_tasks: list[PolledWorkflowTask]
    activity_tasks: list[PolledAttempt]
    """And those of jobs, which take the same places."""


def polled_from_message(
    message: pb.PollTasksResponse | pb.CompleteTasksResponse,
) -> PolledTasks:
    attempts: list[PolledAttempt] = [PolledActivityTask(one) for one in message.activity_tasks]
    attempts += [PolledJobTask(one) for one in message.job_tasks]
    return PolledTasks([PolledWorkflowTask(one) for one in message.workflow_tasks], attempts)


def _update(message: pb.TaskUpdate) -> replay.Update:
    return replay.Update(
        update_id=message.update_id,
        update_name=message.update_name,
        args=payloads_from_bytes(message.args),
        header=fields_from_bytes(message.header),
        identity=message.identity,
    )


def _query(message: pb.TaskQuery) -> replay.Query:
    return replay.Query(
        query_token=message.query_token,
        query_type=message.query_type,
        args=payloads_from_bytes(message.args),
        header=fields_from_bytes(message.header),
    )
