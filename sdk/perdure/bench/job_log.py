"""What the jobs of the workloads leave: how many have run, and how late each began. Seen by another process at once, at
next to no cost for either."""

from __future__ import annotations

import array
import mmap
import os
import struct
import time
from pathlib import Path
from typing import TypedDict

from perdure import job

_COUNT = struct.Struct("<q")
_LATENESS = struct.Struct("<d")


class Parameters(TypedDict):
    number: int


class JobLog:
    """In two files: a count, and one float for each lateness."""

    def __init__(self, folder: Path) -> None:
        count, lateness = _paths(folder)
        flags = os.O_RDWR | os.O_CREAT
        descriptor = os.open(count, flags, 0o600)
        os.ftruncate(descriptor, _COUNT.size)
        self._seen = mmap.mmap(descriptor, _COUNT.size)
        os.close(descriptor)
        self._count = 0
        self._lateness = os.open(lateness, flags | os.O_APPEND, 0o600)

    @job.defn(name="count")
    async def count(self, parameters: Parameters) -> int:
        self._count += 1
        _COUNT.pack_into(self._seen, 0, self._count)
        return parameters["number"]

    @job.defn(name="late")
    async def late(self, due_us: int) -> None:
        """By the wall clock, which is also the engine's on this machine."""
        os.write(self._lateness, _LATENESS.pack(time.time() - due_us / 1e6))
        self._count += 1
        _COUNT.pack_into(self._seen, 0, self._count)


class JobLogReader:
    """The same from the process that measures; the worker need not run yet."""

    def __init__(self, folder: Path) -> None:
        self._count, self._lateness = _paths(folder)

    def count(self) -> int:
        """How many have run since the worker started."""
        if not self._count.exists():
            return 0
        with self._count.open("rb") as file:
            data = file.read(_COUNT.size)
        return int(_COUNT.unpack(data)[0]) if data else 0

    def lateness_s(self) -> list[float]:
        """In the order in which they began."""
        found = array.array("d")
        found.frombytes(self._lateness.read_bytes())
        return found.tolist()


def _paths(folder: Path) -> tuple[Path, Path]:
    return folder / "count", folder / "lateness"
