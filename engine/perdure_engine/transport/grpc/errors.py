"""Errors, towards the wire: gRPC's status with google.rpc details.

A refusal of ours travels whole: its reason as ErrorInfo, the field as BadRequest, the pause as
RetryInfo. What other exceptions are to a caller says `transport.refusals`.
"""

from __future__ import annotations

from typing import Any, Never

import grpc
from google.protobuf import duration_pb2
from google.protobuf.message import Message
from google.rpc import (  # type: ignore[import-untyped]  # ships stubs but no py.typed
    error_details_pb2,
    status_pb2,
)

from perdure_engine.core.errors import Rejected
from perdure_engine.ports.clock import IdSource
from perdure_engine.transport.refusals import Refusals

DOMAIN = "perdure.dev"
DETAILS_KEY = "grpc-status-details-bin"
# Trailing metadata over 8 KiB may be refused on its way (reliability §4); each part has its share.
MESSAGE_CHARS_MAX = 1_000
METADATA_CHARS_MAX = 1_000
FIELD_CHARS_MAX = 300

STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Errors:
    """Makes statuses of exceptions. `ids` names what only the log may know."""

    def __init__(self, ids: IdSource) -> None:
        self._refusals = Refusals(ids)

    def status(self, error: BaseException) -> status_pb2.Status:
        return _status_of(self._refusals.of(error))

    def encoded(self, error: BaseException) -> bytes:
        """For `CallResult.error` and its like: a status inside a message."""
        encoded: bytes = self.status(error).SerializeToString()
        return encoded

    async def abort(
        self, context: grpc.aio.ServicerContext[Any, Any], status: status_pb2.Status
    ) -> Never:
        """End the call with a status of `status`."""
        await context.abort(
            STATUS_CODES[status.code],
            status.message,
            trailing_metadata=((DETAILS_KEY, status.SerializeToString()),),
        )


def _status_of(rejected: Rejected) -> status_pb2.Status:
    status = status_pb2.Status(
        code=int(rejected.code), message=rejected.message[:MESSAGE_CHARS_MAX]
    )
    info = error_details_pb2.ErrorInfo(
        reason=rejected.reason,
        domain=DOMAIN,
        metadata={key: value[:METADATA_CHARS_MAX] for key, value in rejected.metadata.items()},
    )
    _add(status, info)
    if rejected.field:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=rejected.field[:FIELD_CHARS_MAX],
            description=rejected.message[:MESSAGE_CHARS_MAX],
        )
        _add(status, error_details_pb2.BadRequest(field_violations=[violation]))
    if rejected.retry_after_ms:
        pause = duration_pb2.Duration()
        pause.FromMilliseconds(rejected.retry_after_ms)
        _add(status, error_details_pb2.RetryInfo(retry_delay=pause))
    return status


def _add(status: status_pb2.Status, detail: Message) -> None:
    status.details.add().Pack(detail)
