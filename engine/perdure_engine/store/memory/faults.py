"""What can go wrong on the way to a database and back, on demand."""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable

from perdure_engine.ports.store import StoreError


class Moment(enum.Enum):
    BEFORE = enum.auto()  # nothing has happened yet
    AFTER = enum.auto()  # it has, and the caller does not know


class Faults:
    """Failures planned for the next calls of an operation; operations are named as their methods.

    `pause`, when set, is awaited at both moments of each call: a simulation delays calls there, or
    stops one while others overtake it.
    """

    def __init__(self) -> None:
        self.pause: Callable[[str, Moment], Awaitable[None]] | None = None
        self._planned: dict[tuple[str, Moment], deque[StoreError]] = defaultdict(deque)

    def fail_next(self, operation: str, error: StoreError, moment: Moment = Moment.BEFORE) -> None:
        """Let the next call raise `error`. Planned failures are used up in order, one for each
        call.
        """
        self._planned[operation, moment].append(error)

    def forget(self, operation: str) -> None:
        """What is planned for the operation does not happen."""
        for moment in Moment:
            self._planned.pop((operation, moment), None)

    async def meet(self, operation: str, moment: Moment) -> None:
        """Called by the store around each effect."""
        if self.pause is not None:
            await self.pause(operation, moment)
        planned = self._planned[operation, moment]
        if planned:
            raise planned.popleft()
