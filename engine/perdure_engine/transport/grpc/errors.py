"""Errors, towards the wire: gRPC's status with google.rpc details.

A refusal of ours travels whole: its reason as ErrorInfo, the field as BadRequest, the pause as
RetryInfo. Everything else is INTERNAL with an id that stands in our log beside the traceback; its
text never leaves the process, because texts of exceptions hold connection strings and user data.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Never

import grpc
from google.protobuf import duration_pb2
from google.protobuf.message import Message
from google.rpc import (  # type: ignore[import-untyped]  # ships stubs but no py.typed
    error_details_pb2,
    status_pb2,
)

from perdure_engine.core.errors import Code, Rejected, unavailable
from perdure_engine.core.ids import uuid_text
from perdure_engine.ports.clock import IdSource
from perdure_engine.ports.store import (
    Conflict,
    FenceLost,
    OutcomeUnknown,
    ReadTooLong,
    StoreUnavailable,
)

log = logging.getLogger(__name__)

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
        self._ids = ids

    def status(self, error: BaseException) -> status_pb2.Status:
        if isinstance(error, Rejected):
            return _status_of(error)
        if isinstance(error, ReadTooLong):
            log.warning("the database gave up a read: %r", error)
            return _status_of(
                Rejected(
                    Code.RESOURCE_EXHAUSTED,
                    "READ_TOO_LONG",
                    "the database did not end this read in its time; ask for less: attributes that are "
                    "compared by =, or a range of StartTime",
                )
            )
        if isinstance(error, StoreUnavailable | Conflict | FenceLost | OutcomeUnknown):
            log.warning("the store did not serve a call: %r", error)
            return _status_of(unavailable("STORE_UNAVAILABLE", "the database does not answer"))
        if isinstance(error, asyncio.CancelledError):
            # Not this call but what it waited for was cancelled: the room behind it is closing.
            return _status_of(unavailable("SHUTTING_DOWN", "this node is stopping"))
        error_id = uuid_text(self._ids.new_id())
        log.error("internal error %s", error_id, exc_info=error)
        message = f"internal error {error_id}"
        return _status_of(
            Rejected(Code.INTERNAL, "INTERNAL", message, metadata={"error_id": error_id})
        )

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
