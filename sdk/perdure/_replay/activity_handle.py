"""What `workflow.start_activity` returns."""

from __future__ import annotations

from typing import Protocol, TypeVar

from perdure._replay.request_future import CancellableWork, WorkHandle

_R = TypeVar("_R")


class CancellableActivity(CancellableWork, Protocol):
    @property
    def activity_id(self) -> str: ...


class ActivityHandle(WorkHandle[_R, CancellableActivity]):
    """A running activity: await it for its result, as often as you like.

    Awaiting raises ActivityError when the activity did not succeed. `cancel` asks the activity to
    stop, as its cancellation type says: the handle then ends as ActivityError with a
    CancelledError as its cause. So it does when the run, or the task that awaits it, is cancelled
    meanwhile; where asyncio itself begins that (a timeout that is over, a task group one of whose
    tasks has failed) it ends as asyncio.CancelledError. Hashes by order, like tasks.
    """

    __slots__ = ()

    @property
    def activity_id(self) -> str:
        return self._machine.activity_id
