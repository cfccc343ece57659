"""The door to when schedules fire: `scheduler` stands behind it, history and frontend ask."""

from __future__ import annotations

from typing import Protocol

from perdure_engine.core.schedules.model import ScheduleSpec


class ScheduleTimes(Protocol):
    def fault(self, spec: ScheduleSpec) -> str:
        """Why the spec is refused, beginning with the field it is about; '' when it is fine. A spec that never fires is
        refused."""
        ...

    def next_us(self, spec: ScheduleSpec, after_us: int) -> int:
        """The first nominal time strictly after an instant; 0: never again. `next_us(x) > x`, and it is the same for
        every x between two slots."""
        ...

    def jitter_us(self, spec: ScheduleSpec, seed: bytes, nominal_us: int) -> int:
        """How much later than its nominal time a slot starts: 0 … jitter, always the same for a seed and a slot."""
        ...

    def describe(self, spec: ScheduleSpec) -> str:
        """In words."""
        ...

    @property
    def tzdata_version(self) -> str: ...
