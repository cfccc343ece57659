"""What one run of an entity's key hands to the next: its input, as payloads.

The first of them says what the others are. Fields are only ever added, with defaults: any version of
the SDK reads what any other wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from perdure._payload import Payload
from perdure.common import RawValue
from perdure.errors import ApplicationError, EntityStateError

# Of a run whose input does not say it, because its key was begun by name. Histories depend on it: it
# must never change.
CALLS_PER_RUN_UNSAID = 100


class Done(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """A call that is done. `kept` says which of the two there is: what it came to, if that is small."""

    call_id: str
    name: str
    at_ms: int
    kept: Literal["", "result", "failure"] = ""
    result: Payload | None = None
    message: str = ""
    failure_type: str | None = None

    def again(self) -> Any:
        """For who asks again: what the call came to."""
        if self.kept == "result":
            assert self.result is not None
            return RawValue(self.result)
        if self.kept == "failure":
            raise ApplicationError(self.message, type=self.failure_type)
        raise ApplicationError(
            f"call {self.call_id!r} of {self.name!r} is done; what it came to is not kept any more",
            type="CallOutcomeForgotten",
            non_retryable=True,
        )


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A call that goes along to the next run. `args` is how many payloads of the input are its."""

    call_id: str
    name: str
    args: int


class Head(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first payload. After it come the attributes in the order of `state`, then the arguments of
    what waits. `state` None: a new key.

    When a run turns over is part of what its code does: it is as the input says, whatever the class
    says by then.
    """

    state: list[str] | None = None
    done: list[Done] = []
    waiting: list[Waiting] = []
    calls_per_run: int = CALLS_PER_RUN_UNSAID


_ENCODE = msgspec.json.Encoder(enc_hook=dict).encode  # a payload's metadata: any mapping
_DECODER = msgspec.json.Decoder(Head)


def head_to_payload(head: Head) -> Payload:
    return Payload("json/plain", _ENCODE(head))


def head_of(payloads: Sequence[Payload]) -> Head:
    """Raises EntityStateError for an input that no run of an entity has made."""
    if not payloads:
        return Head()
    try:
        head = _DECODER.decode(payloads[0].data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EntityStateError(f"this is no entity's input: {error}") from error
    expected = 1 + len(head.state or ()) + sum(one.args for one in head.waiting)
    if len(payloads) != expected:
        raise EntityStateError(f"this is no entity's input: {len(payloads)} of {expected} payloads")
    return head
