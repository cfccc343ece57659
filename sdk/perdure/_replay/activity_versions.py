"""Which version of an activity a run schedules.

A run that has scheduled an activity keeps its version, whatever the code says by now: the version
that its history names first (none is 1). A run that has not takes what the code asks for, or by
name the newest that the worker has. So old runs end as they began and new ones use the new code,
with no `if` in the workflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure._definitions import VERSIONED_NAMES
from perdure._replay.messages import ActivityTaskScheduled

if TYPE_CHECKING:
    from perdure._replay.run import WorkflowRun

FIRST = 1


def remember_version(run: WorkflowRun, event: ActivityTaskScheduled) -> None:
    """Only where it can matter: hardly any activity has a second version."""
    if event.version or event.activity_type in VERSIONED_NAMES:
        if run.activity_versions is None:
            run.activity_versions = {}
        run.activity_versions.setdefault(event.activity_type, event.version or FIRST)


def version_to_schedule(run: WorkflowRun, name: str, asked: int | None) -> int:
    """`asked` None: the activity is called by its name. 0 stands for the first version."""
    kept = 0 if run.activity_versions is None else run.activity_versions.get(name, 0)
    version = kept or asked or run.newest_activities.get(name, FIRST)
    return 0 if version == FIRST else version
