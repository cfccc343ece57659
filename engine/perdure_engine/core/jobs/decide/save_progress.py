"""A job's progress, saved by compare-and-set: a stale worker's write changes no row."""

from __future__ import annotations

from perdure_engine.core.jobs.decide import ladder
from perdure_engine.core.jobs.decide.attempts import holder
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import SaveJobProgress
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.poison import forgiven


def decide(draft: JobDraft, intent: SaveJobProgress) -> None:
    run = holder(draft, intent.token)
    if keep_progress(run, intent.details, intent.version):
        draft.touch(run)
        if run.crashes is not None and not intent.beat:
            ladder.ease(draft, run, forgiven(run.crashes))


def keep_progress(run: JobRun, progress: bytes, version: int) -> bool:
    """Compare and set: what is older than what is kept changes nothing. Version 0: from one who does not count."""
    if version and version <= run.progress_version:
        return False
    run.progress = progress
    run.progress_version = version or run.progress_version + 1
    return True
