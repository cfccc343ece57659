"""Messages to requests that are not intents: lists, histories."""

from __future__ import annotations

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.frontend.checks import uuid_bytes_or_none
from perdure_engine.frontend.handlers.get_history import GetHistory
from perdure_engine.ports.store import VisibilityFilter


def filter_of(message: pb.WorkflowFilter, namespace_id: bytes) -> VisibilityFilter:
    return VisibilityFilter(
        namespace_id=namespace_id,
        statuses=tuple(message.statuses),
        workflow_type=message.workflow_type,
        workflow_id_prefix=message.workflow_id_prefix,
        start_min_us=message.start_time_min_us,
        start_max_us=message.start_time_max_us,
    )


def get_history(message: pb.GetHistoryRequest, namespace_id: bytes) -> GetHistory:
    return GetHistory(
        namespace_id=namespace_id,
        workflow_id=message.workflow_id,
        run_id=uuid_bytes_or_none("run_id", message.run_id),
        page_size=message.page_size,
        page_token=message.page_token,
        wait_new_event=message.wait_new_event,
        timeout_ms=message.timeout_ms,
    )
