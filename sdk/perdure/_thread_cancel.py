"""Cancelling a sync activity: CancelledError is raised in its thread, wherever its code is.

By CPython's way to do that, which does not reach into a call that blocks outside of Python: the
exception comes when that call returns. It comes at most once, and never after the activity's
function has ended, when the thread may run something else already.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from perdure.errors import CancelledError


class ThreadCancel:
    """One attempt's. `call` in the attempt's thread, `request` from any."""

    __slots__ = ("_lock", "_raised", "_requested", "_shields", "_thread_id")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._shields = 0
        self._requested = False
        self._raised = False

    def call(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Raises CancelledError also when the request came before the call."""
        with self._lock:
            if self._requested:
                raise CancelledError
            self._thread_id = threading.get_ident()
        try:
            return function(*args)
        finally:
            self._end()

    def request(self) -> None:
        with self._lock:
            self._requested = True
            if self._thread_id is not None and not self._shields and not self._raised:
                self._raised = True
                _raise_in(self._thread_id, CancelledError)

    @contextmanager
    def shield(self) -> Generator[None]:
        """The exception waits until the block has ended."""
        with self._lock:
            self._shields += 1
        try:
            yield
        finally:
            with self._lock:
                self._shields -= 1
                due = self._requested and not self._raised and not self._shields
                self._raised = self._raised or due
            if due:
                raise CancelledError

    def _end(self) -> None:
        with self._lock:
            if self._raised and self._thread_id is not None:
                _raise_in(self._thread_id, None)  # what has not arrived must not arrive any more
            self._thread_id = None


def _raise_in(thread_id: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread_id), None if error is None else ctypes.py_object(error)
    )
