"""What a simulated worker takes for known when it goes ahead with a run that it has in memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.tokens import token_of_task_ahead
from perdure_engine.ports.history import HandedActivityTask


@dataclass
class Remembered:
    """A run in a worker's memory: its history up to its last workflow task, and what that asked for."""

    events: list[ev.Event]
    asked: list[cmd.Command]


def expected(known: Remembered, task: HandedActivityTask, at_us: int) -> list[ev.Event] | None:
    """The history up to the workflow task that the result leads to; None: it is not to be known."""
    started, scheduled = known.events[-1], task.scheduled
    assert isinstance(started, ev.WorkflowTaskStarted)
    completed_id = started.event_id + 1
    if len(known.asked) != 1 or scheduled.event_id != completed_id + 1:
        return None
    next_id = scheduled.event_id + 1
    return [
        *known.events,
        ev.WorkflowTaskCompleted(
            completed_id, at_us, started.scheduled_event_id, started.event_id, "", ""
        ),
        scheduled,
        ev.ActivityTaskStarted(next_id, at_us, scheduled.event_id, "", 1, None),
        ev.ActivityTaskCompleted(next_id + 1, at_us, b"ok", scheduled.event_id, next_id, ""),
        ev.WorkflowTaskScheduled(next_id + 2, at_us, "", 0, 1),
        ev.WorkflowTaskStarted(next_id + 3, at_us, next_id + 2, "", 0, False),
    ]


def work_ahead(
    task: HandedActivityTask,
    known: Remembered,
    expects: list[ev.Event],
    asked: list[cmd.Command],
    worker_id: bytes,
    name: str,
) -> intents.WorkAhead:
    started = expects[-1]
    of_task = token_of_task_ahead(task.token, started.event_id, started.time_us)
    done = intents.CompleteWorkflowTask(of_task, asked, True, worker_id, name, "")
    return intents.WorkAhead(done, known.events[-1].event_id, False)


def same(expected: list[ev.Event], history: list[ev.Event]) -> bool:
    """Whether the history says what was expected of it, as far as code can tell."""
    return [_told(event) for event in expected] == [
        _told(event) for event in history[: len(expected)]
    ]


def overtaken(expected: list[ev.Event], history: list[ev.Event]) -> bool:
    """Whether a signal came before the result, and in the time that the worker took for now: by the clock alone the
    work ahead might have counted."""
    result = expected[-3]
    assert isinstance(result, ev.ActivityTaskCompleted)
    return any(
        isinstance(event, ev.WorkflowExecutionSignaled)
        and event.event_id > result.scheduled_event_id
        and event.time_us <= result.time_us
        for event in takewhile(lambda event: not _is_outcome(event, result), history)
    )


def _is_outcome(event: ev.Event, of: ev.ActivityTaskCompleted) -> bool:
    return (
        isinstance(event, ev.ActivityTaskCompleted)
        and event.scheduled_event_id == of.scheduled_event_id
    )


def _told(event: ev.Event) -> tuple[object, ...]:
    return (
        type(event).__name__,
        event.event_id,
        getattr(event, "activity_id", None),
        getattr(event, "scheduled_event_id", None),
        getattr(event, "signal_name", None),
    )
