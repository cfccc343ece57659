"""How much memory and processor time a process has taken, and whether that is too much."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import NamedTuple

_MIB = 1024 * 1024
_GIB = 1024 * _MIB
_POINTS_MAX = 48
_PS_TIMEOUT_S = 2.0
# A read of two small files, or a process more.
SAMPLE_AFTER_S = 0.1 if sys.platform == "linux" else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    memory_bytes: int
    """Resident, of the process itself."""
    cpu_s: float
    """Of all its threads together."""


class Usage(NamedTuple):
    memory_bytes: int
    cpu_s: float


@dataclass(slots=True)
class Vitals:
    """Written by one thread. Without limits nothing is measured."""

    limits: Limits | None
    memory_bytes_max: int = 0
    cpu_s: float = 0.0
    growth: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """Seconds since its start, and resident bytes: thinned out when they become too many."""

    def take(self, usage: Usage, ran_s: float) -> str | None:
        """None: within the limits. Otherwise in words, what was too much."""
        self.memory_bytes_max = max(self.memory_bytes_max, usage.memory_bytes)
        self.cpu_s = usage.cpu_s
        self.growth.append((ran_s, usage.memory_bytes))
        if len(self.growth) > _POINTS_MAX:
            self.growth = self.growth[::2] + self.growth[-1:]
        if self.limits is None:
            return None
        if usage.memory_bytes > self.limits.memory_bytes:
            used, limit = bytes_text(usage.memory_bytes), bytes_text(self.limits.memory_bytes)
            return f"used {used} of {limit} memory"
        if usage.cpu_s > self.limits.cpu_s:
            return f"used {usage.cpu_s:.1f} s of {self.limits.cpu_s:g} s processor time"
        return None


def bytes_text(count: int) -> str:
    return f"{count / _GIB:.3g} GiB" if count >= _GIB else f"{count / _MIB:.3g} MiB"


def usage_of(pid: int) -> Usage | None:
    """None: it has gone."""
    try:
        return _of_proc(pid) if sys.platform == "linux" else _of_ps(pid)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def _of_proc(pid: int) -> Usage:
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        pages = int(statm.read().split()[1])
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        after_name = stat.read().rpartition(")")[2].split()
    ticks = int(after_name[11]) + int(after_name[12])
    return Usage(pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))


def _of_ps(pid: int) -> Usage:
    asked = ["ps", "-o", "rss=,time=", "-p", str(pid)]
    answer = subprocess.run(
        asked, capture_output=True, text=True, check=True, timeout=_PS_TIMEOUT_S
    )
    kib, time_text = answer.stdout.split()
    days, _, clock = time_text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return Usage(int(kib) * 1024, seconds + int(days or 0) * 86_400)
