"""What programs written for Temporal's worker say to it, and there is nothing to do about here.

Each of these tunes a part that Temporal's worker has and this one has not, so that leaving it out
changes nothing that the program could see. An option whose absence could be seen (a rate limit, a
tuner, versioning) is not among them: a program that sets one is told by a TypeError.
The reasons are in engine/adr/0017-where-the-sdk-differs-from-temporalio.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypedDict

logger = logging.getLogger(__name__)


class TuningOptions(TypedDict, total=False):
    """Taken, and without effect: what they tune is not there."""

    max_concurrent_workflow_task_polls: int
    max_concurrent_activity_task_polls: int
    workflow_task_poller_behavior: Any
    activity_task_poller_behavior: Any
    nonsticky_to_sticky_poll_ratio: float
    """Polls: one brings as many tasks of all kinds as there are places."""
    sticky_queue_schedule_to_start_timeout: timedelta
    """A worker that does not answer is passed over after a second."""
    max_heartbeat_throttle_interval: timedelta
    default_heartbeat_throttle_interval: timedelta
    """Heartbeats of all activities travel together, every 2 s."""
    disable_eager_activity_execution: bool
    max_eager_activity_reservations_per_workflow_task: int
    """The next tasks come with the answer to a completion, within the places of the worker."""
    workflow_task_executor: Any
    disable_safe_workflow_eviction: bool
    """Workflow code runs on the worker's event loop, and a cached run leaves it at once."""
    shared_state_manager: Any
    """Activities in processes need none."""


def check_options(options: Mapping[str, Any], called: str) -> None:
    """Raises TypeError for names that are not there; says once what has no effect."""
    unknown = sorted(options.keys() - TuningOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"{called} got an unexpected keyword argument {unknown[0]!r}")
    if options:
        logger.info("%s: without effect here: %s", called, ", ".join(sorted(options)))


class WorkflowRunner:
    """How workflow code is run. There are two ways, with the guard and without it."""

    guarded = True


class SandboxedWorkflowRunner(WorkflowRunner):
    """With the guard, which is the default."""


class UnsandboxedWorkflowRunner(WorkflowRunner):
    """Without the guard: nothing keeps workflow code from clocks, files and the like."""

    guarded = False


class SharedStateManager:
    """Stands where a program hands one on."""

    @staticmethod
    def create_from_multiprocessing(manager: object, queue_poller_executor: object = None) -> Any:
        """Of no use here, and none of its arguments is used."""
        return SharedStateManager()
