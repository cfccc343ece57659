"""What one run says to another, in bytes between the nodes of a cluster: msgpack [kind, intent by field names].

Two versions talk to each other during a rolling upgrade: unknown fields are ignored and missing ones are at their
defaults. The numbers of the kinds are for ever.
"""

from __future__ import annotations

import msgspec

from perdure_engine.core.errors import invalid
from perdure_engine.core.intents import (
    AskChild,
    AskRun,
    CancelWorkflow,
    CloseChild,
    DeliveredIntent,
    SignalWorkflow,
    StartWorkflow,
    TerminateWorkflow,
)

_KINDS: dict[int, type[DeliveredIntent]] = {
    1: StartWorkflow,
    2: SignalWorkflow,
    3: CancelWorkflow,
    4: TerminateWorkflow,
    5: CloseChild,
    6: AskChild,
    7: AskRun,
}
_NUMBERS = {kind: number for number, kind in _KINDS.items()}

_encode = msgspec.msgpack.Encoder().encode
_decode_envelope = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw]).decode
_DECODERS = {number: msgspec.msgpack.Decoder(kind) for number, kind in _KINDS.items()}


def encode_intent(intent: DeliveredIntent) -> bytes:
    return _encode((_NUMBERS[type(intent)], intent))


def decode_intent(field: str, payload: bytes) -> DeliveredIntent:
    """Raises INVALID_ARGUMENT for what this version cannot read."""
    try:
        number, intent = _decode_envelope(payload)
        decoded: DeliveredIntent = _DECODERS[number].decode(intent)
    except (msgspec.MsgspecError, KeyError):
        raise invalid(field, "is not an intent that this version can read") from None
    return decoded
