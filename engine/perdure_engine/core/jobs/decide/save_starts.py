"""Write hand-outs into their rows: nothing else has saved them for a second, or it must be saved before it counts."""

from __future__ import annotations

from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import SaveJobStarts
from perdure_engine.core.jobs.model import JobRun, JobStatus
from perdure_engine.core.jobs.transitions import move


def decide(draft: JobDraft, intent: SaveJobStarts) -> None:
    for job_id, start_no in intent.starts:
        run = draft.memory.jobs.get(job_id)
        if run is None or run.handout is None or run.handout.start_no != start_no:
            continue
        if not run.handout.saved:
            save_start(draft, run)


def save_start(draft: JobDraft, run: JobRun) -> None:
    """From now on its row says that it runs, and no reader of ready rows finds it."""
    if run.status is not JobStatus.IN_PROGRESS:
        move(run, JobStatus.IN_PROGRESS)
    run.task_id = 0
    if run.handout is not None:
        run.handout.saved = True
    draft.touch(run)
