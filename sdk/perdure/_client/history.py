"""A run's history, as a value that can be kept: fetched, written as JSON, read back, replayed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from perdure._wire.history import HistoryEvent
from perdure._wire.history_json import event_from_json, event_to_json


@dataclass(frozen=True)
class WorkflowHistory:
    """`run_id` None: the events do not say (the first of them is missing)."""

    workflow_id: str
    run_id: str | None
    events: Sequence[HistoryEvent]

    @classmethod
    def from_json(cls, workflow_id: str, history: str | Mapping[str, Any]) -> Self:
        """What `to_json` made, or what `perdure workflow show -o json` printed: one event a line.

        Raises ValueError that names the event and the field that cannot be read.
        """
        values = _values(history) if isinstance(history, str) else [history]
        events = [event_from_json(value) for value in _unwrapped(values)]
        if not events:
            raise ValueError("the history has no events")
        return cls(workflow_id, run_id_of(events), events)

    def to_json(self) -> str:
        return json.dumps(self.to_json_dict(), ensure_ascii=False, indent=2)

    def to_json_dict(self) -> dict[str, Any]:
        return {"events": [event_to_json(event) for event in self.events]}


def run_id_of(events: Sequence[HistoryEvent]) -> str | None:
    """Of the run that they are from, when the first of them is there."""
    return events[0].attributes.get("run_id") if events else None


def _unwrapped(values: list[Any]) -> list[Any]:
    """The events themselves, where one value holds them all."""
    if len(values) == 1:
        found: Any = values[0]
        if isinstance(found, Mapping) and "events" in found:
            found = cast("Mapping[str, Any]", found)["events"]
        if isinstance(found, list):
            return [*cast("Iterable[Any]", found)]
    return values


def _values(text: str) -> list[Any]:
    """JSON values in a row."""
    decoder = json.JSONDecoder()
    values: list[Any] = []
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return values
        value, at = decoder.raw_decode(text, at)
        values.append(value)
