"""An activity's progress, saved by compare-and-set: a stale worker's write changes no row."""

from __future__ import annotations

from perdure_engine.core.decide import attempts
from perdure_engine.core.decide.activity_outcome import keep_progress
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import SaveProgress
from perdure_engine.core.tasks import TaskKind


def decide(draft: Draft, intent: SaveProgress) -> None:
    record = attempts.holder(draft, intent.token, TaskKind.ACTIVITY)
    if keep_progress(record, intent.details, intent.version):
        draft.touch(record)
