"""Write a hand-out into its row: nothing else has saved it for a second, or it must be saved before it counts."""

from __future__ import annotations

from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import SaveStart
from perdure_engine.core.tasks import Handout, TaskRecord, TaskState


def decide(draft: Draft, intent: SaveStart) -> None:
    record = draft.state.tasks.get(intent.scheduled_event_id)
    if record is None or record.handout is None or record.handout.start_no != intent.start_no:
        return
    save(draft, record, record.handout)


def save(draft: Draft, record: TaskRecord, handout: Handout) -> None:
    if handout.saved:
        return
    record.state = TaskState.STARTED
    handout.saved = True
    draft.touch(record)
