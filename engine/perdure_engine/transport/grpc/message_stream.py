"""A stream as its handler sees it: messages in, messages out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import Message

from perdure_engine.transport.measured import Measured

if TYPE_CHECKING:
    from perdure_engine.transport.grpc.decode import Context


class MessageStream:
    """Read by one task, written by one at a time."""

    def __init__(
        self, context: Context, parse: Callable[[bytes], Message], measured: Measured
    ) -> None:
        self._context = context
        self._parse = parse
        self.measured = measured
        """Of the stream as a whole."""

    async def read(self) -> Any:
        """The next message; None when there is none any more. Raises INVALID_ARGUMENT."""
        raw = await self._context.read()
        return None if raw is grpc.aio.EOF else self._parse(raw)

    async def write(self, message: Message) -> None:
        """Returns when gRPC has taken it."""
        await self._context.write(message.SerializeToString())
