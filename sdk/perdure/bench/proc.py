"""What Linux says of processes: who descends from whom, what they have used.

Everything that reads /proc takes its root, so that tests can make one up. A process may end at any
moment between two reads: what is gone counts as nothing, never as an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

# Fields of /proc/PID/stat counted from the one after the name, which may itself hold spaces.
_STATE = 0
_UTIME, _STIME, _CHILDREN_UTIME, _CHILDREN_STIME = 11, 12, 13, 14
_START_TIME = 19
# Of the first line of /proc/stat: user nice system idle iowait irq softirq steal.
_MACHINE_FIELDS = slice(1, 9)
_IDLE, _IOWAIT = 3, 4


def is_available(proc: Path = PROC) -> bool:
    """Without it nothing can be measured, nor killed with all that is below it."""
    return (proc / "self" / "stat").exists()


def descendants(pid: int, proc: Path = PROC) -> list[int]:
    """All processes below this one, parents before children; not itself."""
    found: list[int] = []
    for child in _children(pid, proc):
        found.append(child)
        found += descendants(child, proc)
    return found


def _children(pid: int, proc: Path) -> Iterator[int]:
    for path in proc.glob(f"{pid}/task/*/children"):
        yield from map(int, _read(path).split())


def is_alive(pid: int, proc: Path = PROC) -> bool:
    """A zombie is not: it holds nothing, and in some containers nobody ever reaps it."""
    fields = _stat(pid, proc)
    return bool(fields) and fields[_STATE] not in ("Z", "X")


def start_time(pid: int, proc: Path = PROC) -> str:
    """With the pid it names a process for good: pids are used again. Empty when it is gone."""
    fields = _stat(pid, proc)
    return fields[_START_TIME] if fields else ""


def cpu_ns(pid: int, proc: Path = PROC) -> int:
    """What the process has used, with its ended threads and the children that it has reaped."""
    fields = _stat(pid, proc)
    if not fields:
        return 0
    threads = sum(
        int(text.split()[0])
        for path in proc.glob(f"{pid}/task/*/schedstat")
        if (text := _read(path))
    )
    # schedstat counts nanoseconds but forgets threads that have ended; stat counts ticks of 10 ms.
    own = max(threads, (int(fields[_UTIME]) + int(fields[_STIME])) * TICK_NS)
    reaped = (int(fields[_CHILDREN_UTIME]) + int(fields[_CHILDREN_STIME])) * TICK_NS
    return own + reaped


def machine_ns(proc: Path = PROC) -> int:
    """What everything on the machine has used, all processors together."""
    fields = [int(one) for one in _read(proc / "stat").partition("\n")[0].split()[_MACHINE_FIELDS]]
    return (sum(fields) - fields[_IDLE] - fields[_IOWAIT]) * TICK_NS


def memory_bytes(pid: int, proc: Path = PROC) -> int:
    """Its share of what is resident: memory that n processes share counts 1/n for each."""
    for line in _read(proc / str(pid) / "smaps_rollup").splitlines():
        name, _, rest = line.partition(":")
        if name == "Pss":
            return int(rest.split()[0]) * 1024
    return 0


def _stat(pid: int, proc: Path) -> list[str]:
    return _read(proc / str(pid) / "stat").rpartition(")")[2].split()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
