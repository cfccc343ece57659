"""What any exception is to a caller, whatever protocol it speaks.

A refusal of ours goes out as it is. Everything else is INTERNAL with an id that stands in our log beside the traceback;
its text never leaves the process, because texts of exceptions hold connection strings and user data.
"""

from __future__ import annotations

import asyncio
import logging

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


class Refusals:
    """Makes refusals of exceptions. `ids` names what only the log may know."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids

    def of(self, error: BaseException) -> Rejected:
        if isinstance(error, Rejected):
            return error
        if isinstance(error, ReadTooLong):
            log.warning("the database gave up a read: %r", error)
            return Rejected(
                Code.RESOURCE_EXHAUSTED,
                "READ_TOO_LONG",
                "the database did not end this read in its time; ask for less: attributes that are "
                "compared by =, or a range of StartTime",
            )
        if isinstance(error, StoreUnavailable | Conflict | FenceLost | OutcomeUnknown):
            log.warning("the store did not serve a call: %r", error)
            return unavailable("STORE_UNAVAILABLE", "the database does not answer")
        if isinstance(error, asyncio.CancelledError):
            # Not this call but what it waited for was cancelled: the room behind it is closing.
            return unavailable("SHUTTING_DOWN", "this node is stopping")
        error_id = uuid_text(self._ids.new_id())
        log.error("internal error %s", error_id, exc_info=error)
        message = f"internal error {error_id}"
        return Rejected(Code.INTERNAL, "INTERNAL", message, metadata={"error_id": error_id})


def is_cancelled() -> bool:
    """Whether it is this call that was cancelled, and not a future that it waited for.

    The future cannot tell: cancelling a task cancels what it waits for.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
