"""Notices workflow code that does not give the event loop back, and says so in its place.

The loop only notes which task it activates, two assignments a task. Looking at the clock is left
to the guard thread: a task that it finds unchanged for longer than the limit is reported, with the
stack of the loop's thread, as failed, and interrupted; what comes of it after that is not sent.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Protocol

from perdure._failure_info import ApplicationInfo, FailureInfo
from perdure._replay.interrupts import DeadlockDetected
from perdure._wire.completions import Completion, workflow_task_failure

logger = logging.getLogger(__name__)

# Replaying a long history takes tens of milliseconds; code that takes longer than this computes or
# blocks, and what it holds up is every other workflow of the process.
LIMIT_S = 2.0


class Watched(Protocol):
    """A workflow task, as far as the watch needs it."""

    @property
    def token(self) -> bytes:
        """Empty: there is nobody to tell of it."""
        ...

    @property
    def workflow_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def log_fields(self) -> dict[str, Any]: ...


Report = Callable[[Watched, str], None]
"""Tells the engine, from the guard thread, that the task failed with that stack."""


def deadlock_completion(token: bytes, stack: str) -> Completion:
    failure = FailureInfo(
        message="workflow code did not give the event loop back",
        stack_trace=stack,
        source="PythonSDK",
        info=ApplicationInfo(type="DeadlockError"),
    )
    return workflow_task_failure(token, "DEADLOCK", failure)


class DeadlockWatch:
    """Made on the event loop's thread, which it watches; `tick` is called from the guard thread."""

    def __init__(self, report: Report, monotonic_s: Callable[[], float]) -> None:
        self.current: Watched | None = None
        self.reported: Watched | None = None
        self._report = report
        self._monotonic_s = monotonic_s
        self._loop_thread_id = threading.get_ident()
        # Held while the task is looked at and interrupted, so that it cannot end in between.
        self._lock = threading.Lock()
        self._seen: Watched | None = None
        self._seen_at_s = 0.0

    def leave(self, task: Watched) -> None:
        """On the loop: the task's code has given it back. Leaving twice is fine."""
        with self._lock:
            if self.current is task:
                self.current = None

    def tick(self) -> None:
        current = self.current
        if current is not self._seen:
            self._seen = current
            self._seen_at_s = self._monotonic_s()
        elif current is not None and self._monotonic_s() - self._seen_at_s >= LIMIT_S:
            stack = self._interrupt(current)
            if stack is not None and self.reported is not current:
                self.reported = current
                logger.error(
                    "workflow %s (run %s) has blocked the event loop for more than %g s:\n%s",
                    current.workflow_id,
                    current.run_id,
                    LIMIT_S,
                    stack,
                    extra=current.log_fields,
                )
                self._report(current, stack)

    def _interrupt(self, task: Watched) -> str | None:
        """Where its code is; None when it has ended meanwhile. Stops it as soon as it runs Python
        again: a loop at once, a blocking call when it returns."""
        with self._lock:
            if self.current is not task:
                return None
            frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # documented
            frame = frames.get(self._loop_thread_id)
            stack = "" if frame is None else "".join(traceback.format_stack(frame))
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._loop_thread_id), ctypes.py_object(DeadlockDetected)
            )
            return stack
