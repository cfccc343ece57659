"""Whose work stands in a history: after a reset, a run's history begins with that of another run.

What is derived from a run's id and an event's number (request ids, a child's run id, an activity's idempotency key)
is derived from the run that *wrote* the event, so that whoever is told again knows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure_engine.core.parents import Parent

if TYPE_CHECKING:
    from perdure_engine.core.events import WorkflowExecutionStarted

Lineage = tuple[tuple[int, bytes], ...]
"""The runs that were reset into one, oldest first: (up to which event the history is theirs, run id).

One that has nothing in it any more, because a later reset went further back, stays in the list: its work is undone.
"""


def writer_of(started: WorkflowExecutionStarted, event_id: int) -> bytes:
    """The id of the run that wrote the event."""
    for last_event_id, run_id in started.lineage:
        if event_id <= last_event_id:
            return run_id
    return started.run_id


def after_reset(started: WorkflowExecutionStarted, last_event_id: int) -> Lineage:
    """The lineage of a run that takes over the events of this one up to `last_event_id`."""
    before = [(min(last, last_event_id), run_id) for last, run_id in started.lineage]
    return (*before, (last_event_id, started.run_id))


def is_undone(lineage: Lineage, parent: Parent | None) -> bool:
    """Whether a child with that parent was started by work which a reset has undone."""
    return parent is not None and any(
        parent.run_id == run_id and parent.initiated_event_id > last_event_id
        for last_event_id, run_id in lineage
    )
