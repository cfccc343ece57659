"""One activity, as clients, operators and its own attempt reach it: plain calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure._failure_info import FailureInfo
from perdure._wire.connection import Connection
from perdure._wire.edge import PLAIN, PayloadEdge
from perdure._wire.errors import sent
from perdure._wire.failures import failure_to_message
from perdure._wire.payloads import payloads_to_bytes
from perdure._wire.policies import (
    duration_from_ms,
    duration_to_ms,
    retry_policy_from_message,
    retry_policy_to_message,
)
from perdure.common import ActivityOptionsUpdate, Priority
from perdure.converter import Payload
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_api.v1.workflow_service_pb2_grpc import WorkflowServiceStub


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAddress:
    """An attempt by its token, or the running one of an activity by ids."""

    namespace: str
    token: bytes = b""
    workflow_id: str = ""
    run_id: str = ""
    activity_id: str = ""

    def fields(self, identity: str) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "token": self.token,
            "workflow_id": self.workflow_id,
            "run_id": self.run_id,
            "activity_id": self.activity_id,
            "identity": identity,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAddress:
    """Pending activities of a run: one by its id, or all of a type."""

    namespace: str
    workflow_id: str
    run_id: str
    activity_id: str
    activity_type: str

    def fields(self, identity: str) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "workflow_id": self.workflow_id,
            "run_id": self.run_id,
            "activity_id": self.activity_id,
            "activity_type": self.activity_type,
            "identity": identity,
        }


@dataclass(frozen=True, slots=True)
class Heard:
    """What the engine answers to a heartbeat of one attempt."""

    cancel_requested: bool
    paused: bool
    reset: bool


class ActivityService:
    """Every method raises RPCError, and sends once: trying again is the caller's decision."""

    def __init__(self, connection: Connection, edge: PayloadEdge = PLAIN) -> None:
        self._stub = WorkflowServiceStub(connection.channel)
        self._edge = edge

    async def complete(
        self, address: AttemptAddress, identity: str, result: list[Payload], timeout_s: float
    ) -> None:
        request = pb.CompleteActivityRequest(
            **address.fields(identity), result=payloads_to_bytes(result)
        )
        await self._edge.encode(request)
        await sent(self._stub.CompleteActivity, request, timeout_s)

    async def fail(
        self,
        address: AttemptAddress,
        identity: str,
        failure: FailureInfo,
        details: list[Payload],
        request_id: str,
        timeout_s: float,
    ) -> None:
        request = pb.FailActivityRequest(
            **address.fields(identity),
            failure=failure_to_message(failure),
            last_heartbeat_details=payloads_to_bytes(details),
            request_id=request_id,
        )
        await self._edge.encode(request)
        await sent(self._stub.FailActivity, request, timeout_s)

    async def report_cancellation(
        self, address: AttemptAddress, identity: str, details: list[Payload], timeout_s: float
    ) -> None:
        request = pb.CancelActivityRequest(
            **address.fields(identity), details=payloads_to_bytes(details)
        )
        await self._edge.encode(request)
        await sent(self._stub.CancelActivity, request, timeout_s)

    async def heartbeat(
        self,
        address: AttemptAddress,
        identity: str,
        details: bytes | None,
        progress_version: int,
        timeout_s: float,
    ) -> Heard:
        """Returns when it is saved. `details`: encoded payloads, which have passed the edge; None:
        nothing new."""
        request = pb.HeartbeatActivityRequest(
            **address.fields(identity),
            details=details or b"",
            has_details=details is not None,
            progress_version=progress_version,
        )
        answer = await sent(self._stub.HeartbeatActivity, request, timeout_s)
        return Heard(answer.cancel_requested, answer.activity_paused, answer.activity_reset)

    async def pause(
        self, address: PendingAddress, identity: str, reason: str, timeout_s: float
    ) -> None:
        request = pb.PauseActivityRequest(**address.fields(identity), reason=reason)
        await sent(self._stub.PauseActivity, request, timeout_s)

    async def unpause(
        self,
        address: PendingAddress,
        identity: str,
        *,
        reset_attempts: bool,
        reset_heartbeat: bool,
        reason: str,
        timeout_s: float,
    ) -> None:
        request = pb.UnpauseActivityRequest(
            **address.fields(identity),
            reset_attempts=reset_attempts,
            reset_heartbeat=reset_heartbeat,
            reason=reason,
        )
        await sent(self._stub.UnpauseActivity, request, timeout_s)

    async def reset(
        self,
        address: PendingAddress,
        identity: str,
        request_id: str,
        *,
        reset_heartbeat: bool,
        keep_paused: bool,
        restore_original_options: bool,
        reason: str,
        timeout_s: float,
    ) -> None:
        request = pb.ResetActivityRequest(
            **address.fields(identity),
            request_id=request_id,
            reset_heartbeat=reset_heartbeat,
            keep_paused=keep_paused,
            restore_original_options=restore_original_options,
            reason=reason,
        )
        await sent(self._stub.ResetActivity, request, timeout_s)

    async def update_options(
        self,
        address: PendingAddress,
        identity: str,
        update: ActivityOptionsUpdate | None,
        reason: str,
        timeout_s: float,
    ) -> None:
        """None: back to what it was scheduled with."""
        request = pb.UpdateActivityOptionsRequest(
            **address.fields(identity),
            options=_options_to_message(update),
            restore_original=update is None,
            reason=reason,
        )
        await sent(self._stub.UpdateActivityOptions, request, timeout_s)


def _options_to_message(update: ActivityOptionsUpdate | None) -> pb.ActivityOptions | None:
    if update is None:
        return None
    message = pb.ActivityOptions(retry_policy=retry_policy_to_message(update.retry_policy))
    if update.task_queue is not None:
        message.task_queue = update.task_queue
    if update.schedule_to_close_timeout is not None:
        message.schedule_to_close_timeout_ms = duration_to_ms(update.schedule_to_close_timeout)
    if update.schedule_to_start_timeout is not None:
        message.schedule_to_start_timeout_ms = duration_to_ms(update.schedule_to_start_timeout)
    if update.start_to_close_timeout is not None:
        message.start_to_close_timeout_ms = duration_to_ms(update.start_to_close_timeout)
    if update.heartbeat_timeout is not None:
        message.heartbeat_timeout_ms = duration_to_ms(update.heartbeat_timeout)
    if update.priority is not None and update.priority.priority_key is not None:
        message.priority = update.priority.priority_key
    return message


def options_from_message(message: pb.ActivityOptions) -> ActivityOptionsUpdate:
    return ActivityOptionsUpdate(
        task_queue=message.task_queue,
        schedule_to_close_timeout=duration_from_ms(message.schedule_to_close_timeout_ms),
        schedule_to_start_timeout=duration_from_ms(message.schedule_to_start_timeout_ms),
        start_to_close_timeout=duration_from_ms(message.start_to_close_timeout_ms),
        heartbeat_timeout=duration_from_ms(message.heartbeat_timeout_ms),
        retry_policy=retry_policy_from_message(message.retry_policy),
        priority=Priority(priority_key=message.priority),
    )
