"""Places of concurrency keys are free again, or their rate lets the next ones start."""

from __future__ import annotations

from perdure_engine.core.jobs.decide import places
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import AdmitKeyedJobs


def decide(draft: JobDraft, intent: AdmitKeyedJobs) -> None:
    for room_id in intent.rooms:
        places.admit(draft, draft.memory.rooms[room_id])
