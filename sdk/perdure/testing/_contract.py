"""What `perdure contract verify` does: code against histories, each difference said.

A replay compares what must agree, so that a run can go on. A contract is more: what the code gives
to its activities and what it returns, and what pure activities make of their recorded inputs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any

from perdure._client.history import WorkflowHistory
from perdure._definitions import (
    ActivityDefinition,
    ActivityRegistry,
    activity_definition,
    workflow_definition,
)
from perdure._payload import Payload
from perdure._replay.ledger import Entry
from perdure._replay.messages import CompleteWorkflow, Event, ScheduleActivity
from perdure._wire.edge import PayloadEdge
from perdure._wire.history import HistoryEvent, history_event_from_message
from perdure._wire.history import message_from_history_event as to_message
from perdure.converter import DataConverter, PayloadConverter
from perdure.errors import PayloadError, PerdureError
from perdure.testing._activity_environment import ActivityEnvironment
from perdure.worker import Replayer

ACTIVITY_TIMEOUT_S = 60.0
_SHOWN_CHARS_MAX = 200


class DifferenceKind(Enum):
    REPLAY = "replay"
    """The run could not go on with this code."""
    INPUT = "activity input"
    RESULT = "workflow result"
    ACTIVITY = "activity result"


@dataclass(frozen=True, slots=True)
class Difference:
    workflow_id: str
    run_id: str
    event_id: int | None
    kind: DifferenceKind
    message: str
    site: str | None = None
    """File and line of the code."""


def workflows_of(module: ModuleType) -> list[type]:
    return _members(module, workflow_definition, type)


def activities_of(module: ModuleType) -> list[Callable[..., Any]]:
    return _members(module, activity_definition, object)


def _members(module: ModuleType, define: Callable[[Any], Any], kind: type) -> list[Any]:
    """Once each, whatever names it has there."""
    found: dict[int, Any] = {}
    for one in vars(module).values():
        if isinstance(one, kind):
            with contextlib.suppress(TypeError):
                define(one)
                found[id(one)] = one
    return list(found.values())


class ContractCheck:
    """`counts`: what was compared so far, by its name."""

    def __init__(
        self,
        workflows: Sequence[type],
        activities: Sequence[Callable[..., Any]] = (),
        *,
        data_converter: DataConverter = DataConverter.default,
    ) -> None:
        """Raises TypeError or ValueError for what cannot be run."""
        self._replayer = Replayer(workflows=workflows, data_converter=data_converter)
        self._activities = ActivityRegistry(activities)
        self._converter = data_converter.payload_converter
        self._edge = PayloadEdge.of(data_converter)
        definitions = [workflow_definition(one) for one in workflows]
        self.workflow_types = [one.name for one in definitions if not one.dynamic]
        if len(self.workflow_types) < len(definitions):
            self.workflow_types = []  # a dynamic one takes any
        self.counts = {"runs": 0, "activities run again": 0, "not run: not marked pure": 0}

    async def verify(self, history: WorkflowHistory) -> list[Difference]:
        self.counts["runs"] += 1
        made: dict[int, Entry] = {}

        def record(event: Event, entry: Entry) -> None:
            made[event.event_id] = entry

        differences: list[Difference] = []
        replayed = await self._replayer.replay_observed(history, record)
        if replayed is not None:
            differences.append(
                Difference(
                    history.workflow_id,
                    history.run_id or "",
                    getattr(replayed, "event_id", None),
                    DifferenceKind.REPLAY,
                    str(replayed) or type(replayed).__name__,
                    getattr(replayed, "site", None),
                )
            )
        try:
            events = [await self._decoded(event) for event in history.events]
        except PayloadError:
            return differences  # the replay has said so
        differences += self._compare_commands(history, events, made)
        for scheduled, result in _completed(events):
            differences += await self._rerun(history, scheduled, result)
        return differences

    async def _decoded(self, event: HistoryEvent) -> HistoryEvent:
        message = to_message(event)
        await self._edge.decode(message)
        return history_event_from_message(message)

    # ---- what the code said

    def _compare_commands(
        self, history: WorkflowHistory, events: Sequence[HistoryEvent], made: dict[int, Entry]
    ) -> list[Difference]:
        found: list[Difference] = []
        for event in events:
            entry = made.get(event.event_id)
            command = entry.command if entry is not None else None
            if isinstance(command, ScheduleActivity):
                name = command.activity_type
                kind, now, recorded = DifferenceKind.INPUT, command.input, "input"
                what = f"activity {name!r} is given"
            elif isinstance(command, CompleteWorkflow):
                kind, now, recorded = DifferenceKind.RESULT, command.result, "result"
                what = "the workflow returns"
            else:
                continue
            before: list[Payload] = event.attributes.get(recorded, [])
            if self._same(before, now):
                continue
            message = f"{what} {self._shown(now)}, recorded is {self._shown(before)}"
            site = str(entry.site) if entry is not None and entry.site is not None else None
            found.append(_difference(history, event, kind, message, site))
        return found

    # ---- what activities return

    async def _rerun(
        self, history: WorkflowHistory, scheduled: HistoryEvent, result: list[Payload]
    ) -> list[Difference]:
        name = scheduled.attributes.get("activity_type", "")
        definition = self._definition(name, scheduled.attributes.get("version", 0) or 1)
        if definition is None:
            return []
        if not definition.is_pure:
            self.counts["not run: not marked pure"] += 1
            return []
        self.counts["activities run again"] += 1
        kind = DifferenceKind.ACTIVITY
        try:
            returned = await self._run(definition, scheduled.attributes.get("input", []))
            now = self._converter.to_payloads([returned])
        except Exception as error:
            message = f"{name!r} raises {type(error).__name__}: {error}, recorded is "
            message += self._shown(result)
            return [_difference(history, scheduled, kind, message, _site_of(definition))]
        if self._same(result, now):
            return []
        message = f"{name!r} returns {self._shown(now)}, recorded is {self._shown(result)}"
        return [_difference(history, scheduled, kind, message, _site_of(definition))]

    def _definition(self, name: str, version: int) -> ActivityDefinition | None:
        newest = self._activities.newest.get(name)
        if newest is not None and newest.version == version:
            return newest
        return self._activities.others.get((name, version))

    async def _run(self, definition: ActivityDefinition, payloads: list[Payload]) -> Any:
        arguments = definition.decode(payloads, self._converter)
        environment = ActivityEnvironment()
        environment.payload_converter = self._converter
        async with asyncio.timeout(ACTIVITY_TIMEOUT_S):
            if definition.is_async:
                return await environment.run(definition.function, *arguments)
            return await asyncio.to_thread(environment.run, definition.function, *arguments)

    # ---- values

    def _same(self, before: Sequence[Payload], now: Sequence[Payload]) -> bool:
        if list(before) == list(now):
            return True
        return len(before) == len(now) and _values(before, self._converter) == _values(
            now, self._converter
        )

    def _shown(self, payloads: Sequence[Payload]) -> str:
        values = _values(payloads, self._converter)
        text = ", ".join(repr(value) for value in values)
        return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"


def _completed(events: Sequence[HistoryEvent]) -> list[tuple[HistoryEvent, list[Payload]]]:
    """Activities that succeeded, each with its result."""
    by_id = {event.event_id: event for event in events}
    found: list[tuple[HistoryEvent, list[Payload]]] = []
    for event in events:
        scheduled = by_id.get(event.attributes.get("scheduled_event_id", 0))
        if event.event_type == "ActivityTaskCompleted" and scheduled is not None:
            found.append((scheduled, event.attributes.get("result", [])))
    return found


def _values(payloads: Sequence[Payload], converter: PayloadConverter) -> list[Any]:
    """Without hints; what cannot be read stands for itself."""
    values: list[Any] = []
    for payload in payloads:
        try:
            values.append(converter.from_payload(payload))
        except PerdureError:
            values.append(payload)
    return values


def _difference(
    history: WorkflowHistory,
    event: HistoryEvent,
    kind: DifferenceKind,
    message: str,
    site: str | None,
) -> Difference:
    run_id = history.run_id or ""
    return Difference(history.workflow_id, run_id, event.event_id, kind, message, site)


def _site_of(definition: ActivityDefinition) -> str | None:
    code = getattr(definition.function, "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"
