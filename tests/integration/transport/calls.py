"""Requests that are right, and what a refusal says."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # no py.typed

from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_api.v1 import workflow_service_pb2 as pb

REQUEST_ID = "123e4567-e89b-12d3-a456-426614174000"
WORKER_ID = b"w" * 16


def start(**changes: Any) -> pb.StartWorkflowRequest:
    return pb.StartWorkflowRequest(
        **{
            "namespace": "default",
            "workflow_id": "order-1",
            "workflow_type": "Order",
            "task_queue": "orders",
            "request_id": REQUEST_ID,
            **changes,
        }
    )


def signal(**changes: Any) -> pb.SignalWorkflowRequest:
    return pb.SignalWorkflowRequest(
        **{
            "namespace": "default",
            "workflow_id": "order-1",
            "signal_name": "paid",
            "request_id": REQUEST_ID,
            **changes,
        }
    )


def poll(**changes: Any) -> wpb.PollTasksRequest:
    return wpb.PollTasksRequest(
        **{
            "namespace": "default",
            "task_queue": "orders",
            "worker_id": WORKER_ID,
            "max_workflow_tasks": 10,
            **changes,
        }
    )


def complete(*completions: wpb.TaskCompletion, **changes: Any) -> wpb.CompleteTasksRequest:
    return wpb.CompleteTasksRequest(
        **{
            "namespace": "default",
            "worker_id": WORKER_ID,
            "completions": completions,
            **changes,
        }
    )


class Refusal:
    """A status with its details."""

    def __init__(self, status: status_pb2.Status) -> None:
        self.code = status.code
        self.message = status.message
        self.reason = ""
        self.field = ""
        for packed in status.details:
            info = error_details_pb2.ErrorInfo()
            bad = error_details_pb2.BadRequest()
            if packed.Unpack(info):
                assert info.domain == "perdure.dev"
                self.reason = info.reason
            elif packed.Unpack(bad):
                self.field = bad.field_violations[0].field


def refusal_in(encoded: bytes) -> Refusal:
    return Refusal(status_pb2.Status.FromString(encoded))


async def refusal(call: Any) -> Refusal:
    """What the call is refused with."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    error = caught.value
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            assert isinstance(value, bytes)
            found = refusal_in(value)
            assert found.code == error.code().value[0]
            return found
    return Refusal(status_pb2.Status(code=error.code().value[0], message=error.details()))
