"""Whether an answer leaves. Tasks in one that does not were never handed out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from perdure_engine.transport.grpc.decode import Context

Undo = Callable[[], None]


class StreamedCall:
    """A call of a stream, as its handler sees its caller."""

    __slots__ = ("undo",)

    def __init__(self) -> None:
        self.undo: Undo | None = None

    def lost(self) -> None:
        """Its answer will not leave, because the stream has broken or the caller wants it no more."""
        if self.undo is not None:
            self.undo()


Caller: TypeAlias = "Context | StreamedCall"


def undo_if_lost(caller: Caller, undo: Undo) -> None:
    """Have `undo` called if the answer that is about to be returned does not leave.

    Called by the handler itself, with no await between this and its return. What is lost later, on its way, is found
    by others.
    """
    if isinstance(caller, StreamedCall):
        caller.undo = undo
        return
    call = asyncio.current_task()
    assert call is not None

    def left_or_not(_: object) -> None:
        # The context does not know (its `cancelled` stays false); the task does.
        if call.cancelling():
            undo()

    caller.add_done_callback(left_or_not)  # type: ignore[arg-type]  # the stub's callback type is no Protocol
