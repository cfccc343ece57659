"""The edge between converted values and the wire, where codecs and external storage work.

They change messages in place: what goes out before it is sent for the first time (it may be sent
again as it is), what comes in before anything of it is read. So nothing inside knows of them, and
workflow code stays synchronous. An edge without a codec or storage (`is_plain`) is not asked but for
a message that is suspiciously large.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import Message

from perdure._payload import Payload
from perdure._wire.failures import ENCODED, hide_common_attributes
from perdure._wire.payload_fields import (
    PAYLOAD_BYTES_MAX,
    Kind,
    Slot,
    check_sizes,
    failures,
    slots,
)
from perdure._wire.payloads import (
    fields_from_bytes,
    fields_to_bytes,
    payload_from_bytes,
    payload_to_bytes,
    payloads_from_bytes,
    payloads_to_bytes,
)
from perdure.converter import DataConverter, PayloadCodec, PayloadStorage
from perdure.errors import (
    PayloadDecodeError,
    PayloadEncodeError,
    PayloadError,
    PayloadTooLargeError,
)
from perdure_api.v1 import common_pb2, worker_service_pb2

# Of one edge at a time: enough to hide a store's latency, few enough for its connections.
_AT_ONCE_MAX = 32

_Change = Callable[[Sequence[Payload]], Awaitable[list[Payload]]]
M = TypeVar("M", bound=Message)


@dataclass(slots=True, kw_only=True)
class Repeatable:
    """What is asked under an id, and may be sent more than once. The engine refuses another body under
    the same id, and what is encrypted once more is other bytes: so it is encoded once."""

    encoded: Any = field(default=None, init=False, repr=False, compare=False)
    """The message, once `PayloadEdge.encoded` has made it."""


class PayloadEdge:
    def __init__(
        self,
        codec: PayloadCodec | None = None,
        storage: PayloadStorage | None = None,
        *,
        encodes_failures: bool = False,
    ) -> None:
        self._codec = codec
        self._storage = storage
        self.encodes_failures = encodes_failures
        self.is_plain = codec is None and storage is None and not encodes_failures
        self._at_once = asyncio.Semaphore(_AT_ONCE_MAX)

    @classmethod
    def of(cls, converter: DataConverter) -> PayloadEdge:
        return cls(
            converter.payload_codec,
            converter.external_storage,
            encodes_failures=converter.failure_converter.encode_common_attributes,
        )

    def passes(self, size: int) -> bool:
        """Is there nothing to do for a message of that size?"""
        return self.is_plain and size <= PAYLOAD_BYTES_MAX

    async def encode(self, message: Message) -> None:
        """Raises PayloadEncodeError, also for what is too large for the engine even so."""
        if self.encodes_failures:
            for failure in failures(message):
                hide_common_attributes(failure)
        if not self.is_plain:
            for slot, outcome in await self._all(message, self._encode):
                if isinstance(outcome, BaseException):
                    raise _at(slot, outcome, PayloadEncodeError)
                slot.put(outcome)
        check_sizes(message)

    async def encoded(self, asked: Repeatable, make: Callable[[], M]) -> M:
        """The message of the first try, which `make` makes. Raises PayloadEncodeError."""
        message: M | None = asked.encoded
        if message is None:
            message = make()
            await self.encode(message)
            asked.encoded = message
        return message

    async def decode(self, message: Message, *, keeps_unreadable: bool = False) -> None:
        """Raises PayloadDecodeError, or leaves as it is what it cannot decode."""
        if self._codec is None and self._storage is None:
            return
        for slot, outcome in await self._all(message, self._decode):
            if not isinstance(outcome, BaseException):
                slot.put(outcome)
            elif not keeps_unreadable or not isinstance(outcome, Exception):
                raise _at(slot, outcome, PayloadDecodeError)

    async def _all(
        self, message: Message, change: _Change
    ) -> list[tuple[Slot, bytes | BaseException]]:
        """What becomes of each place. All have ended when it returns: none is left behind."""
        found = list(slots(message))
        changes = [self._changed(slot, change) for slot in found]
        outcomes = await asyncio.gather(*changes, return_exceptions=True)
        return list(zip(found, outcomes, strict=True))

    async def _changed(self, slot: Slot, change: _Change) -> bytes:
        async with self._at_once:
            match slot.kind:
                case Kind.PAYLOADS:
                    return payloads_to_bytes(await change(payloads_from_bytes(slot.data)))
                case Kind.PAYLOAD:
                    one = payload_from_bytes(slot.data)
                    return payload_to_bytes(None if one is None else await _single(one, change))
                case Kind.FIELDS:
                    fields = fields_from_bytes(slot.data)
                    return fields_to_bytes(
                        {name: await _single(one, change) for name, one in fields.items()}
                    )

    async def _encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        found = list(payloads)
        if self._codec is not None:
            found = await self._codec.encode(found)
        if self._storage is not None:
            found = [await self._storage.store(one) for one in found]
        return found

    async def _decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        found = list(payloads)
        if self._storage is not None:
            found = [await self._storage.retrieve(one) for one in found]
        if self._codec is not None:
            found = await self._codec.decode(found)
        return found

    async def encode_details(self, details: bytes) -> bytes:
        """Of a heartbeat. Raises PayloadEncodeError."""
        message = worker_service_pb2.HeldTask(heartbeat_details=details)
        await self.encode(message)
        return message.heartbeat_details

    # --- what workers report ----------------------------------------------------------------------

    async def encode_completion(self, completion: worker_service_pb2.TaskCompletion) -> None:
        """Raises PayloadEncodeError when what the task came to cannot be sent.

        Then a failure has to be sent instead, and that one never raises: what of it cannot be
        encoded is left out. The same goes for the answers to queries, each by itself.
        """
        for result in completion.query_results:
            try:
                await self.encode(result)
            except PayloadError as error:
                result.result = b""
                _replace(result.failure, error, hides=self.encodes_failures)
        # The rest apart, because what has been encoded must not be encoded again.
        which = completion.WhichOneof("outcome")
        if which is None:
            return
        outcome: Message = getattr(completion, which)
        try:
            await self.encode(outcome)
        except PayloadError as error:
            reported = list(failures(outcome)) if which.endswith("_failure") else []
            if not reported:
                raise
            _clear(outcome)
            if isinstance(error, PayloadTooLargeError) and not self.encodes_failures:
                reported[0].message += f" (its details were left out: {error})"
            else:
                _replace(reported[0], error, hides=self.encodes_failures)


PLAIN = PayloadEdge()


_NOTHING = Payload("", b"")
"""In a memo: the name is taken away."""


async def _single(payload: Payload, change: _Change) -> Payload:
    if payload == _NOTHING:
        return payload
    changed = await change([payload])
    if len(changed) != 1:
        raise PayloadError(f"the codec made {len(changed)} payloads of one that stands alone")
    return changed[0]


def _at(slot: Slot, error: BaseException, kind: type[PayloadError]) -> BaseException:
    """The error with the place where it happened, of its own type if it is one of ours."""
    if not isinstance(error, Exception):
        return error
    if isinstance(error, kind):
        return error.at(slot.place)
    what = f"{type(error).__name__}: {error}"
    wrapped = kind(f"{slot.place}: {what}")
    wrapped.__cause__ = error
    return wrapped


def _replace(failure: common_pb2.Failure, error: PayloadError, *, hides: bool) -> None:
    """Says why, and nothing of what was to be hidden. The kind of failure stays."""
    place = f"its payloads could not be encoded: {type(error).__name__}"
    failure.ClearField("cause")
    failure.ClearField("encoded_attributes")
    failure.message = f"{ENCODED}; {place}" if hides else f"{place}: {error}"
    failure.stack_trace = ""
    if failure.WhichOneof("info") is None:
        failure.application.type = type(error).__name__


def _clear(message: Message) -> None:
    """Takes all user data out, encoded or not."""
    for slot in list(slots(message)):
        slot.put(b"")
