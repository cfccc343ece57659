"""The file that a process writes its stacks to: when it is asked to, and when a signal ends it."""

from __future__ import annotations

import contextlib
import os
import tempfile

from perdure._worker.isolation.bootstrap import DUMP_SIGNAL

_KEPT_BYTES = 8 * 1024


class Stacks:
    """Used by one thread. `path` is there until the process has opened it, or `close`."""

    def __init__(self) -> None:
        self._descriptor, self.path = tempfile.mkstemp(prefix="perdure-stacks-")
        self._before = ""

    def ask(self, pid: int) -> None:
        """For all stacks, in place of those that were there. They come within milliseconds."""
        self._before = self._read() or self._before
        os.ftruncate(self._descriptor, 0)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, DUMP_SIGNAL)

    @property
    def is_there(self) -> bool:
        return os.fstat(self._descriptor).st_size > 0

    def last(self) -> str:
        """The stacks that came last; empty: none ever did."""
        return self._read() or self._before

    def close(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        os.close(self._descriptor)

    def _read(self) -> str:
        return os.pread(self._descriptor, _KEPT_BYTES, 0).decode(errors="replace").strip()
