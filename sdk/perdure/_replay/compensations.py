"""What became of a saga's compensations, for the engine's audit log: a marker each, which the engine reads.

A history from before there were such markers replays without them: as with a patch, what stands in the
history of the workflow task under way decides.
"""

from __future__ import annotations

from perdure._replay.markers import COMPENSATION, compensation_marker
from perdure._replay.messages import CompensationNote
from perdure._replay.patches import markers_ahead
from perdure._replay.run import WorkflowRun

REASON_CHARACTERS_MAX = 500
NAME_CHARACTERS_MAX = 200


def note_compensation(run: WorkflowRun, name: str, outcome: str, reason: str) -> None:
    """`outcome`: completed, parked (it raised), retried or skipped (as an operator said)."""
    note = CompensationNote(
        name=name[:NAME_CHARACTERS_MAX], outcome=outcome, reason=reason[:REASON_CHARACTERS_MAX]
    )
    marker = compensation_marker(note)
    if not run.replaying or _is_ahead(run, marker.marker_id):
        run.ledger.add(marker, None)


def _is_ahead(run: WorkflowRun, marker_id: str) -> bool:
    return any(
        marker.marker_name == COMPENSATION and marker.marker_id == marker_id
        for marker in markers_ahead(run.upcoming, run.completed_event_id)
    )
