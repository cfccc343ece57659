"""The tasks that this worker holds, as its heartbeats list them.

Written by the event loop, read by the guard thread, without a lock: a dict's own operations are
atomic, and a list of its values is taken in one of them. A task that is listed although it has just
ended, or not yet although it has just come, does no harm: the engine allows for 2 s.
"""

from __future__ import annotations

from collections.abc import Callable


class Progress:
    """What one heartbeat of an activity's code said. A new object each time: saying the same again
    is news too."""

    __slots__ = ("details", "version")

    def __init__(self, details: bytes, version: int = 0) -> None:
        self.details = details
        self.version = version


class HeldTask:
    """One task between the poll that brought it and the end of its completion."""

    __slots__ = (
        "on_cancel_request",
        "on_loss",
        "on_pause",
        "progress",
        "progress_sent",
        "sealing",
        "token",
        "unsealed",
    )

    def __init__(
        self,
        token: bytes,
        on_loss: Callable[[], None] | None = None,
        on_cancel_request: Callable[[], None] | None = None,
        on_pause: Callable[[], None] | None = None,
    ) -> None:
        self.token = token
        # Called on the event loop, each possibly more than once.
        self.on_loss = on_loss
        self.on_cancel_request = on_cancel_request
        self.on_pause = on_pause
        self.progress: Progress | None = None  # as heartbeats send it: encoded
        self.unsealed: Progress | None = None  # with a codec: the latest, before it
        self.sealing = False
        self.progress_sent: Progress | None = None

    @property
    def said_last(self) -> Progress | None:
        """As code said it, whatever a codec makes of it."""
        return self.unsealed or self.progress


class HeldTasks:
    def __init__(self) -> None:
        self._by_token: dict[bytes, HeldTask] = {}
        # Only of those that must be heard of more often than the rest, in seconds.
        self._timeouts_s: dict[bytes, float] = {}

    def add(self, task: HeldTask) -> None:
        self._by_token[task.token] = task

    def watch_loss(self, token: bytes, on_loss: Callable[[], None]) -> None:
        held = self._by_token.get(token)
        if held is not None:
            held.on_loss = on_loss

    def watch_heartbeats(self, token: bytes, timeout_s: float) -> None:
        """The engine must hear of the task's progress at least that often, while it is held."""
        if token in self._by_token:
            self._timeouts_s[token] = timeout_s

    def shortest_timeout_s(self) -> float | None:
        """Of those under `watch_heartbeats`; from any thread."""
        return min(list(self._timeouts_s.values()), default=None) if self._timeouts_s else None

    def have_news(self) -> bool:
        """Has one of those under `watch_heartbeats` progress that is not sent? From any thread."""
        for token in list(self._timeouts_s):
            task = self._by_token.get(token)
            if task is not None and task.progress is not task.progress_sent:
                return True
        return False

    def remove(self, token: bytes) -> None:
        self._by_token.pop(token, None)
        if self._timeouts_s:
            self._timeouts_s.pop(token, None)

    def holds(self, task: HeldTask) -> bool:
        return self._by_token.get(task.token) is task

    def all(self) -> list[HeldTask]:
        """A snapshot, from any thread."""
        return list(self._by_token.values())
