"""What travels between a worker and the process that one of its tasks has to itself.

Encoded as MessagePack and never pickled: a process whose memory is damaged may say nonsense, which
then is refused, but it cannot make code of it.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Up: everything is imported; the task may come."""


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """Up, twice a second."""


class Handed(msgspec.Struct, frozen=True, tag="handed"):
    """Up: what the task came to. Answered with Settled."""

    number: int
    completion: bytes
    is_stuck: bool = False
    """Its event loop is, and what it says is that."""


class Said(msgspec.Struct, frozen=True, tag="said"):
    """Up: progress."""

    details: bytes
    version: int


class Checkpoint(msgspec.Struct, frozen=True, tag="checkpoint"):
    """Up: progress to be saved now. Answered with Saved."""

    number: int
    details: bytes
    version: int


class Step(msgspec.Struct, frozen=True, tag="step"):
    """Up: what it does, for the report of a crash."""

    text: str


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Up: there is nothing more to say, it ends."""


class Interrupted(msgspec.Struct, frozen=True, tag="interrupted"):
    """Up: what its program does beside the task ends the process."""


Up = Ready | Alive | Handed | Said | Checkpoint | Step | Done | Interrupted


class Given(msgspec.Struct, frozen=True, tag="given"):
    """Down: the task. `kind`: as of polled tasks."""

    kind: str
    message: bytes


class Telling(IntEnum):
    CANCEL = 1
    PAUSE = 2
    LOSS = 3
    SHUTDOWN = 4
    """The worker is going: there is some time left."""
    GIVE_UP = 5
    """And now there is none."""


class Told(msgspec.Struct, frozen=True, tag="told"):
    """Down."""

    what: Telling


class Problem(msgspec.Struct, frozen=True):
    """Why something was not taken."""

    message: str
    status: str = ""
    """Of a refusal by the engine: the name of an RPCStatusCode."""
    reason: str = ""
    is_payload: bool = False
    is_too_large: bool = False


class Settled(msgspec.Struct, frozen=True, tag="settled"):
    """Down: None: what was handed up is saved."""

    number: int
    problem: Problem | None


class Saved(msgspec.Struct, frozen=True, tag="saved"):
    """Down: None: the checkpoint is saved."""

    number: int
    problem: Problem | None = None
    is_lost: bool = False
    cancel_requested: bool = False
    paused: bool = False


Down = Given | Told | Settled | Saved

encode = msgspec.msgpack.Encoder().encode
decode_up = msgspec.msgpack.Decoder(Up).decode
"""Raises msgspec.MsgspecError (a ValueError) for nonsense."""
decode_down = msgspec.msgpack.Decoder(Down).decode
