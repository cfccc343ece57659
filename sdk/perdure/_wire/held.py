"""What a heartbeat says of a task, and what the engine answers."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class HeldTaskNews(NamedTuple):
    token: bytes
    heartbeat_details: bytes | None
    """Encoded payloads: new progress since the last heartbeat, if there is any."""
    progress_version: int = 0
    """Of the details: counts what the attempt has said, so that nothing older replaces it."""


class HeldTaskState(IntEnum):
    """Numbered as on the wire."""

    LOST = 1
    """The attempt is over or has another owner: stop."""
    CANCEL_REQUESTED = 2
    PAUSED = 3
    """An operator holds the activity back: no other attempt begins after this one."""
