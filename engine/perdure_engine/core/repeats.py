"""A call that comes again: its request id says that it is the same one, so it must have said the same (B55)."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from perdure_engine.core.errors import Code, Rejected

BODY_BYTES = 8
NOT_OF_THE_BODY = ("request_id", "identity")


def body_of(intent: msgspec.Struct) -> bytes:
    """A hash of which call it is and all that it says, but for who says it. Kept beside its request id.

    What has its default is not said: a field that a later version has besides is not missed in a call of before.
    """
    names, defaults = intent.__struct_fields__, intent.__struct_defaults__
    default_of = dict(zip(reversed(names), reversed(defaults), strict=False))
    said = [
        (name, value)
        for name in names
        if name not in NOT_OF_THE_BODY
        and (value := getattr(intent, name)) != default_of.get(name, msgspec.NODEFAULT)
    ]
    told = msgspec.msgpack.encode((type(intent).__name__, said))
    return blake2b(told, digest_size=BODY_BYTES).digest()


def require_same(body: bytes, intent: msgspec.Struct) -> None:
    """Raises INVALID_ARGUMENT for another call than the one that was answered under its request id. `body`: of that
    one, b"" when it was not kept."""
    if body and body != body_of(intent):
        message = "request_id: was used before with another call"
        raise Rejected(Code.INVALID_ARGUMENT, "REQUEST_ID_REUSED", message, field="request_id")
