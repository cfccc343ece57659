"""The story and its proof, for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from perdure._failure_info import FailureInfo
from perdure.cli.demo.proof import Check
from perdure.cli.demo.story import Ended
from perdure.cli.output import Output
from perdure.client import HistoryEvent

HIDDEN_EVENTS = frozenset(("WorkflowTaskScheduled", "WorkflowTaskStarted", "WorkflowTaskCompleted"))
MARK_STYLE = "bold"
KILL_STYLE = "bold red"


def show_timeline(out: Output, ended: Ended) -> None:
    """Events and what was done to the processes, in the order of the clock."""
    began = ended.marks[0].at
    lines: list[tuple[datetime, str, str]] = [
        (mark.at, f"       {mark.text}", KILL_STYLE if "killed" in mark.text else MARK_STYLE)
        for mark in ended.marks
    ]
    names = _activity_names(ended.events)
    lines += [
        (event.event_time, f"{event.event_id:>5}  {event.event_type}{_detail(event, names)}", "")
        for event in ended.events
        if event.event_time is not None and event.event_type not in HIDDEN_EVENTS
    ]
    out.line("Timeline (seconds, event id, event; tasks of the workflow are left out)", MARK_STYLE)
    for at, text, style in sorted(lines, key=lambda line: line[0]):
        out.line(f"{(at - began).total_seconds():7.2f} {text}", style)


def show_proof(out: Output, checks: Sequence[Check]) -> bool:
    """True when all of it holds."""
    out.line("")
    out.line("Proof", MARK_STYLE)
    for one in checks:
        mark, style = ("✓", "green") if one.holds else ("✗", KILL_STYLE)
        out.line(f"  {mark} {one.claim}: {one.evidence}", style)
    return all(one.holds for one in checks)


def _activity_names(events: Sequence[HistoryEvent]) -> dict[int, str]:
    return {
        event.event_id: event.attributes.get("activity_type", "")
        for event in events
        if event.event_type == "ActivityTaskScheduled"
    }


def _detail(event: HistoryEvent, names: dict[int, str]) -> str:
    """What tells this event from others of its type."""
    attributes = event.attributes
    scheduled = attributes.get("scheduled_event_id")
    name = (
        attributes.get("workflow_type")
        or attributes.get("activity_type")
        or attributes.get("signal_name")
        or (names.get(scheduled) if isinstance(scheduled, int) else None)
    )
    parts = [str(name)] if name else []
    attempt: Any = attributes.get("attempt")
    if isinstance(attempt, int) and event.event_type == "ActivityTaskStarted":
        parts.append(f"attempt {attempt}")
    failure = attributes.get("last_failure") or attributes.get("failure")
    if isinstance(failure, FailureInfo):
        parts.append(f"before: {failure.message}")
    if "start_to_fire_ms" in attributes:
        parts.append(f"{attributes['start_to_fire_ms'] / 1000:g} s")
    return f"  {', '.join(parts)}" if parts else ""
