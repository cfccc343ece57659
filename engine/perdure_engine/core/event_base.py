"""What every event has. Apart from `core.events`, so that its classes may stand in more than one module."""

from __future__ import annotations

import msgspec


class EventBase(
    msgspec.Struct, frozen=True, array_like=True, gc=False
):  # no cycles: the collector need not look
    event_id: int
    time_us: int
