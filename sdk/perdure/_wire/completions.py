"""What a task came to, ready to be sent any number of times."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure._failure_info import FailureInfo
from perdure._replay import messages as replay
from perdure._wire.commands import Fields, command_fields
from perdure._wire.failures import failure_to_message
from perdure._wire.payloads import payloads_to_bytes
from perdure.converter import Payload
from perdure_api.v1 import event_pb2
from perdure_api.v1 import worker_service_pb2 as pb

_CAUSE_PREFIX = "WORKFLOW_TASK_FAILED_CAUSE_"


# Of a completion besides its result and its token: tags and lengths.
_ENVELOPE_BYTES = 24


class Completion:
    """`size`: in bytes, at least what it takes in a message."""

    __slots__ = ("_fields", "_message", "size", "went_ahead")

    def __init__(self, fields: Fields, size: int | None = None) -> None:
        """Without a size it is measured, and the message made for that."""
        self._fields = fields
        self._message: pb.TaskCompletion | None = None
        self.went_ahead = False  # by the engine's answer: what came with a result counts as well
        self.size = self.message.ByteSize() if size is None else size

    @classmethod
    def from_bytes(cls, data: bytes) -> Completion:
        """Of one that another process made, with `to_bytes`."""
        completion = cls({}, len(data))
        completion._message = pb.TaskCompletion.FromString(data)
        return completion

    def to_bytes(self) -> bytes:
        return self.message.SerializeToString()

    @property
    def message(self) -> pb.TaskCompletion:
        """May be changed in place, and is what is sent then."""
        if self._message is None:
            self._message = pb.TaskCompletion(**self._fields)
        return self._message

    @property
    def content(self) -> pb.TaskCompletion | Fields:
        """As a request takes it: its fields as long as nobody needs a message of its own, which would be copied."""
        return self._fields if self._message is None else self._message


def workflow_task_success(
    token: bytes, success: replay.TaskSuccess, *, cached: bool, force_new_task: bool = False
) -> Completion:
    """`cached`: the worker keeps the run and wants the next task with new events only;
    `force_new_task`: at once."""
    return Completion(
        {
            "token": token,
            "workflow_task_success": _success_fields(success, cached, force_new_task),
            "query_results": _query_results(success.query_results),
        }
    )


def _success_fields(
    success: replay.TaskSuccess, cached: bool, force_new_task: bool = False
) -> Fields:
    fields: Fields = {
        "commands": [command_fields(command) for command in success.commands],
        "cached": cached,
    }
    if force_new_task:
        fields["force_new_task"] = True
    if success.versioning_behavior:
        fields["versioning_behavior"] = success.versioning_behavior
    if success.wake_rules:
        fields["wake_rules"] = [msgspec.structs.asdict(rule) for rule in success.wake_rules]
    return fields


def workflow_task_failure(
    token: bytes,
    cause: str,
    failure: FailureInfo,
    query_results: Sequence[replay.QueryResult] = (),
) -> Completion:
    """`cause`: a name of WorkflowTaskFailedCause without its prefix."""
    return Completion(
        {
            "token": token,
            "workflow_task_failure": {
                "cause": event_pb2.WorkflowTaskFailedCause.Value(_CAUSE_PREFIX + cause),
                "failure": failure_to_message(failure),
            },
            "query_results": _query_results(query_results),
        }
    )


def queries_answered(query_results: Sequence[replay.QueryResult]) -> Completion:
    """Of a task that only carried queries."""
    return Completion({"query_results": _query_results(query_results)})


def activity_success(token: bytes, result: list[Payload]) -> Completion:
    data = payloads_to_bytes(result)
    size = len(token) + len(data) + _ENVELOPE_BYTES
    return Completion({"token": token, "activity_success": {"result": data}}, size)


def activity_success_ahead(
    token: bytes,
    result: list[Payload],
    task: replay.Task,
    success: replay.TaskSuccess,
    *,
    cached: bool,
) -> Completion:
    """With what follows from the result: the workflow task, done ahead, and what it came to."""
    ahead: Fields = {
        "started_event_id": task.started_event_id,
        "started_time_us": task.events[-1].time_us,
        "suggest_continue_as_new": task.suggest_continue_as_new,
        "success": _success_fields(success, cached),
        "previous_started_event_id": task.previous_started_event_id,
    }
    outcome = {"result": payloads_to_bytes(result), "ahead": ahead}
    return Completion({"token": token, "activity_success": outcome})


def activity_failure(
    token: bytes,
    failure: FailureInfo,
    heartbeat_details: bytes | None,
    progress_version: int = 0,
) -> Completion:
    """`heartbeat_details`: the last progress, encoded, for the next attempt."""
    return Completion(
        {
            "token": token,
            "activity_failure": {
                "failure": failure_to_message(failure),
                "heartbeat_details": heartbeat_details or b"",
                "progress_version": progress_version,
            },
        }
    )


def activity_async(
    token: bytes, heartbeat_details: bytes | None, progress_version: int
) -> Completion:
    """The function has returned, and somebody else will report the outcome."""
    return Completion(
        {
            "token": token,
            "activity_async": {
                "heartbeat_details": heartbeat_details or b"",
                "progress_version": progress_version,
            },
        }
    )


def task_crash(token: bytes, message: str, report: str) -> Completion:
    """Of a task of any kind, whose process has died of it. `message`: how; `report`: what was seen."""
    return Completion({"token": token, "task_crash": {"message": message, "report": report}})


def activity_cancellation(token: bytes, details: list[Payload]) -> Completion:
    cancellation = {"details": payloads_to_bytes(details)}
    return Completion({"token": token, "activity_cancellation": cancellation})


def _query_results(results: Sequence[replay.QueryResult]) -> list[Fields]:
    return [
        {
            "query_token": one.query_token,
            "result": payloads_to_bytes(one.result),
            "failure": None if one.failure is None else failure_to_message(one.failure),
        }
        for one in results
    ]
