"""A worker that was thought to have died with a task in hand lives: its marks are taken back."""

from __future__ import annotations

from perdure_engine.core import poison
from perdure_engine.core.decide.attempts import key_of
from perdure_engine.core.decide.crashes import take_back
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import CameBack


def decide(draft: Draft, intent: CameBack) -> None:
    key = key_of(intent.task_kind, intent.scheduled_event_id)
    record = draft.state.tasks.get(key)
    crashes = record.crashes if record is not None else None
    if crashes is not None and intent.worker_id in crashes.worker_ids:
        take_back(draft, key, poison.came_back(crashes, intent.worker_id))
