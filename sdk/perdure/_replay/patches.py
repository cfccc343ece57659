"""Versions of workflow code by patches: `workflow.patched` and `workflow.deprecate_patch`.

The answer is given once for each id and run. Live it is yes, and a marker says so. On replay it is yes if the marker
is among what the commands of the workflow task under way came to: the code that wrote this stretch of the history
had the patch. A marker that says "deprecated" may be missing from the code (applying.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure._replay.markers import PATCH, patch_marker
from perdure._replay.messages import Event, MarkerRecorded, WorkflowTaskStarted
from perdure._replay.run import WorkflowRun


def markers_ahead(events: Sequence[Event], completed_event_id: int) -> Iterator[MarkerRecorded]:
    """Those that came of the workflow task which that event completed. Event ids are without a gap."""
    if not events:
        return
    for index in range(completed_event_id + 1 - events[0].event_id, len(events)):
        event = events[index]
        if isinstance(event, MarkerRecorded):
            yield event
        elif isinstance(event, WorkflowTaskStarted):
            return


def patched(run: WorkflowRun, patch_id: str, *, deprecated: bool) -> bool:
    run.check_may_act()
    if run.patches is None:
        run.patches = {}
    known = run.patches.get(patch_id)
    if known is None:
        known = run.patches[patch_id] = not run.replaying or _is_ahead(run, patch_id)
        if known:
            run.ledger.add(patch_marker(patch_id, deprecated=deprecated), None)
    return known


def _is_ahead(run: WorkflowRun, patch_id: str) -> bool:
    return any(
        marker.marker_name == PATCH and marker.marker_id == patch_id
        for marker in markers_ahead(run.upcoming, run.completed_event_id)
    )
