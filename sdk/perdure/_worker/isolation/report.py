"""What was seen of a process that died of its task, in a text for people; what tells most comes first."""

from __future__ import annotations

from perdure._worker.isolation.child import Seen
from perdure._worker.isolation.vitals import bytes_text

# The engine keeps that much.
REPORT_BYTES_MAX = 16 * 1024
_STEPS_SHOWN = 60
_POINTS_SHOWN = 16


def report_of(what: str, seen: Seen) -> str:
    """`what`: the task."""
    parts = [_head(what, seen)]
    if seen.stacks:
        parts.append(f"its last stacks:\n{seen.stacks}")
    if seen.steps:
        shown = seen.steps[-_STEPS_SHOWN:]
        lines = [f"  {at_s:9.3f} s  {text}" for at_s, text in reversed(shown)]
        parts.append("\n".join(["its steps, the last one first:", *lines]))
    growth = seen.vitals.growth
    if growth:
        step = -(-len(growth) // _POINTS_SHOWN)
        points = [*growth[::step], growth[-1]]
        lines = [f"  {at_s:9.1f} s  {bytes_text(count)}" for at_s, count in points]
        parts.append("\n".join(["its memory:", *lines]))
    return _cut("\n\n".join(parts))


def _head(what: str, seen: Seen) -> str:
    lines = [f"{what}: {seen.message} after {seen.ran_s:.1f} s"]
    vitals = seen.vitals
    if vitals.growth:
        most = bytes_text(vitals.memory_bytes_max)
        lines.append(f"processor time {vitals.cpu_s:.1f} s, at most {most} of memory")
    lines.append(f"a process of its own, by start method {seen.way}")
    return "\n".join(lines)


def _cut(text: str) -> str:
    data = text.encode(errors="replace")
    if len(data) <= REPORT_BYTES_MAX:
        return text
    return data[: REPORT_BYTES_MAX - 4].decode(errors="ignore") + "…"
