"""Code of workflows, run on the event loop: watched, and whatever it does something comes back. So is what it wants
done afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from perdure._failures import exception_to_failure
from perdure._replay.interrupts import DeadlockDetected
from perdure._replay.messages import TaskFailure, TaskFailureCause, TaskSuccess
from perdure._worker.deadlock import DeadlockWatch, Watched
from perdure.converter import PayloadConverter

logger = logging.getLogger(__name__)

Outcome = TaskSuccess | TaskFailure


class GuardedCode:
    def __init__(self, watch: DeadlockWatch, converter: PayloadConverter) -> None:
        self._watch = watch
        self._converter = converter

    def run(self, task: Watched, go_on: Callable[[], Outcome]) -> Outcome:
        """Lets the run's code go on."""
        try:
            self._watch.current = task
            try:
                return go_on()
            except Exception as error:  # a defect of ours: never of the user's code
                logger.exception(
                    "workflow task of %s could not be run",
                    task.workflow_id,
                    extra=task.log_fields,
                )
                return self.failure("WORKER_FAILURE", error)
            finally:
                self._watch.leave(task)
        except DeadlockDetected as late:  # it hit just when the code had ended by itself
            self._watch.leave(task)
            return self.failure("DEADLOCK", late)

    def has_spoken_for(self, task: Watched) -> bool:
        """Has the guard thread said what came of it?"""
        return self._watch.reported is task

    def failure(self, cause: str, error: BaseException) -> TaskFailure:
        return TaskFailure(
            cause=TaskFailureCause(cause),
            failure=exception_to_failure(error, self._converter),
            query_results=[],
        )


def run_afterwards(afterwards: Sequence[Callable[[], None]]) -> None:
    """What was to be done once the engine has taken a workflow task."""
    for one in afterwards:
        try:
            one()
        except Exception:  # an interceptor's: it must not cost the worker anything
            logger.exception("what an interceptor wanted done after a workflow task failed")
