"""Where each field of a run comes from, and the comparison of a run in memory with what its rows say.

A field that is not in these tables fails `test_rebuild.py`: whoever adds one decides where it is saved.
"""

from __future__ import annotations

from typing import Any

from tests.unit.core.saved import CODEC, Saved

from perdure_engine.core.search_attributes import from_json, split_versioning
from perdure_engine.core.state import RunState, versioning_of
from perdure_engine.core.tasks import TaskRecord
from perdure_engine.history.loading import restore

FOLDED = {
    "started": "history",
    "status": "history",
    "next_event_id": "history",
    "last_time_us": "history",
    "closed": "history",
    "cancel_requested": "history",
    "activities": "history",
    "timers": "history",
    "workflow_task": "history",
    "workflow_task_scheduled_id": "history",
    "workflow_task_started_id": "history",
    "previous_started_id": "history",
    "signals": "history",
    "request_ids": "history",
    "fan_out": "history",
    "request_marks": "history",
    "updates": "history",
    "updates_running": "history",
    "memo": "history",
    "search_attributes": "history",
    "children": "history",
    "externals": "history",
    "paused": "history",
    "versioning": "history",
    "versioning_override": "history",
}
RUN = {
    "folded": "history",
    "buffered": "inbox",
    "inbox_seq": "head",
    "inbox_done": "head",
    "tasks": "rows",
    "timer_rows": "head",
    "history_bytes": "head",
    "snapshot_event_id": "head",
    "version": "head",
    "sticky_worker_id": "head",
    "admitted": "inbox",
    "inbox_numbered": "head",
    "run_id": "history",
}
TASK = {
    "kind": "rows",
    "queue": "rows",
    "queue_no": "rows",
    "task_id": "rows",
    "scheduled_event_id": "rows",
    "state": "rows",
    "attempt": "rows",
    "start_no": "rows, once the start is saved",
    "priority": "rows",
    "worker_id": "rows, once the start is saved",
    "identity": "rows, once the start is saved",
    "started_us": "rows, once the start is saved",
    "last_failure": "rows",
    "progress": "rows",
    "progress_version": "rows",
    "ready_us": "rows",
    "next_attempt_us": "rows",
    "version": "rows",
    "handout": "memory",
    "aside": "rows",
    "pinned": "rows",
}
TIMER = {
    "kind": "head",
    "reference": "head",
    "wake_us": "head",
    "timer_id": "head",
    "due_us": "head",
    "gone": "head",  # a gone timer has left the head
    "version": "head",  # a timer that is there is at version 1
}


def restored(saved: Saved, run_id: bytes) -> RunState:
    state, _, _ = restore(saved.record(run_id), CODEC)
    return state


def assert_rebuilt(state: RunState, saved: Saved) -> None:
    """The run's rows give the run back, in all that is saved (invariant 4; design §2)."""
    other = restored(saved, state.run_id)
    assert CODEC.encode_snapshot(other.folded) == CODEC.encode_snapshot(state.folded)
    for field in RUN:
        if field not in ("folded", "tasks", "timer_rows"):
            assert getattr(other, field) == getattr(state, field), field
    assert list(other.tasks) == list(state.tasks)
    for key, record in state.tasks.items():
        _same(TASK, other.tasks[key], record, unsaved_start(record))
    assert list(other.timer_rows) == list(state.timer_rows)
    for timer_key, timer in state.timer_rows.items():
        _same(TIMER, other.timer_rows[timer_key], timer, False)


def assert_rows(state: RunState, saved: Saved) -> None:
    """The run's live rows are exactly those its memory knows of: none is lost, none is left over."""
    tasks = {(record.queue_no, record.task_id): record for record in state.tasks.values()}
    assert saved.live_tasks(state.run_id).keys() == tasks.keys()
    timers = {(record.wake_us, record.timer_id) for record in state.timer_rows.values()}
    assert saved.live_timers(state.run_id).keys() == timers
    listed, _ = from_json(saved.visibility[state.run_id].attrs)
    attributes = sorted(state.folded.search_attributes, key=lambda attribute: attribute.name)
    own, versioning = split_versioning(listed)
    assert list(own) == attributes, "invariant 64: lists say what history says"
    assert versioning == versioning_of(state.folded), "invariant 64: of versions too"


def unsaved_start(record: TaskRecord) -> bool:
    return record.handout is not None and not record.handout.saved


def _same(sources: dict[str, str], one: Any, other: Any, start_unsaved: bool) -> None:
    for field, source in sources.items():
        if source == "memory" or (start_unsaved and source.endswith("once the start is saved")):
            continue
        assert getattr(one, field) == getattr(other, field), field
