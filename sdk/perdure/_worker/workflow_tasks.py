"""Workflow tasks: find the run in memory or replay it, let its code go on, say what it asked for.

Code of workflows runs on the event loop, one run at a time, and takes microseconds; a task that has
everything it needs is done before its poll's answer has been looked through.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from perdure._replay.messages import (
    Event,
    QueryResult,
    Task,
    TaskFailure,
    TaskSuccess,
)
from perdure._replay.verdict import WORKER_FAILURE, defect_cause
from perdure._wire.commands import closes_workflow
from perdure._wire.completions import (
    Completion,
    queries_answered,
    workflow_task_failure,
    workflow_task_success,
)
from perdure._wire.connection import MESSAGE_BYTES_MAX
from perdure._wire.retry import is_too_large
from perdure._wire.tasks import PolledWorkflowTask
from perdure._worker.cache import CachedRun, Instance, RunCache
from perdure._worker.completions import REFUSED, SubmitsCompletions
from perdure._worker.guarded import GuardedCode, run_afterwards
from perdure._worker.history import TaskHistory
from perdure._worker.holding import HeldTask, HeldTasks
from perdure._worker.local_activities import LocalActivities
from perdure._worker.open_tasks import OpenTasks
from perdure._worker.slots import Slots
from perdure.errors import PayloadError, PayloadTooLargeError, RPCError, RPCStatusCode

logger = logging.getLogger(__name__)

MakeInstance = Callable[[Task], Instance]
"""For a task with a whole history. Raises UnknownWorkflowTypeError."""


class WorkflowTasks:
    """Takes tasks in; each gives its slot back when the engine has settled its completion."""

    def __init__(
        self,
        *,
        make_instance: MakeInstance,
        cache: RunCache,
        history: TaskHistory[Event],
        guarded: GuardedCode,
        completions: SubmitsCompletions,
        held: HeldTasks,
        slots: Slots,
        local: LocalActivities,
        hides_messages: bool = False,
    ) -> None:
        self._open_tasks = OpenTasks(
            local,
            guarded=guarded.run,
            complete=self._complete,
            abandon=self._settle,
            can_yield=cache.keeps_runs,
        )
        self._hides_messages = hides_messages  # of failures, from the log too
        self._make_instance = make_instance
        self._cache = cache
        self._history = history
        self._guarded = guarded
        self._completions = completions
        self._held = held
        self._slots = slots
        self._fetching: set[asyncio.Task[None]] = set()

    def take(self, polled: PolledWorkflowTask) -> None:
        if polled.token:
            self._held.add(HeldTask(polled.token))
            if polled.run_id in self._open_tasks:
                self._open_tasks.lose(polled.run_id)  # or we would not have got this one
        if polled.next_page_token or not self._try_to_run(polled, ()):
            fetching = asyncio.ensure_future(self._fetch_and_run(polled))
            self._fetching.add(fetching)
            fetching.add_done_callback(self._fetching.discard)

    async def close(self) -> None:
        """Gives up the tasks that still wait for their history, and all runs."""
        for fetching in self._fetching:
            fetching.cancel()
        if self._fetching:
            await asyncio.wait(self._fetching)
        self._open_tasks.close()
        self._cache.clear()

    def give_up_open(self) -> None:
        """Tasks that wait for local activities: no more is said of them."""
        self._open_tasks.close()

    def refuse(self, polled: PolledWorkflowTask, error: Exception) -> None:
        """A task that cannot be taken, because it cannot be decoded: it fails."""
        self._complete_failed(polled, error)

    async def _fetch_and_run(self, polled: PolledWorkflowTask) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            after = await self._history.fetch_after(polled)
            polled.waited_s = loop.time() - began_s
            if self._try_to_run(polled, after):
                return
            before = await self._history.fetch_before(polled)
            polled.waited_s = loop.time() - began_s
            task = polled.read(before, after)
            run = CachedRun(polled.run_id, self._make_instance(task))
        except Exception as error:
            self._complete_failed(polled, error)
        else:
            self._run(polled, run, task)

    def _try_to_run(self, polled: PolledWorkflowTask, after: Sequence[Event]) -> bool:
        """False: neither the memory nor the task itself has the beginning of the history."""
        run = self._cache.get(polled.run_id)
        is_whole = polled.first_event_id == 1
        if run is None and not is_whole:
            return False
        try:
            task = polled.read((), after)
            if run is not None and (run.is_ahead or not run.instance.fits(task)):
                # Another worker has taken the run further, or our last task came to nothing, or may.
                self._cache.evict(run)
                run = None
            if run is None and not is_whole:
                return False
            if run is None:
                run = CachedRun(polled.run_id, self._make_instance(task))
        except Exception as error:
            self._complete_failed(polled, error)
        else:
            self._run(polled, run, task)
        return True

    def _run(self, polled: PolledWorkflowTask, run: CachedRun, task: Task) -> None:
        outcome = self._guarded.run(polled, partial(run.instance.activate, task))
        if polled.query_only:
            self._cache.put_or_evict(run, keeps=isinstance(outcome, TaskSuccess))
            self._complete_queries(polled, outcome)
        elif isinstance(outcome, TaskSuccess) and outcome.local is not None:
            self._cache.take_out(run)
            if self._open_tasks.take_in(polled, run, outcome):
                self._held.watch_loss(
                    polled.token, partial(self._open_tasks.lose, run.run_id, polled.token)
                )
            else:
                self._complete(polled, run, outcome)
        else:
            self._complete(polled, run, outcome)

    def _complete(
        self,
        polled: PolledWorkflowTask,
        run: CachedRun,
        outcome: TaskSuccess | TaskFailure,
        yields: bool = False,
    ) -> None:
        if isinstance(outcome, TaskFailure):
            self._cache.evict(run)
            self._log_failure(polled, outcome)
            completion = workflow_task_failure(
                polled.token, outcome.cause.name, outcome.failure, outcome.query_results
            )
            self._submit(polled, completion, None)
            return
        closes = any(closes_workflow(command) for command in outcome.commands)
        keeps = not closes and self._cache.keeps_runs
        try:
            completion = workflow_task_success(
                polled.token, outcome, cached=keeps, force_new_task=yields
            )
        except Exception as error:  # a value that fits no field: a text that is not UTF-8, say
            self._cache.evict(run)
            self._complete_failed(polled, error, "BAD_COMMAND")
            return
        self._cache.put_or_evict(run, keeps=keeps)
        self._submit(polled, completion, run, outcome.afterwards)

    def _submit(
        self,
        polled: PolledWorkflowTask,
        completion: Completion,
        run: CachedRun | None,
        afterwards: Sequence[Callable[[], None]] = (),
    ) -> None:
        if self._guarded.has_spoken_for(polled):  # the guard thread has spoken for it
            if run is not None:
                self._cache.evict(run)
            self._settle(polled)
            return
        settled = partial(self._settled, polled, run, completion.size)
        if afterwards:
            settled = partial(settled, afterwards=afterwards)
        self._completions.submit(completion, settled)

    def _settled(
        self,
        polled: PolledWorkflowTask,
        run: CachedRun | None,
        size: int,
        error: RPCError | PayloadError | None,
        *,
        afterwards: Sequence[Callable[[], None]] = (),
    ) -> None:
        if error is None:
            self._settle(polled)
            if afterwards:
                run_afterwards(afterwards)
            return
        if run is not None:
            self._cache.evict(run)
        if isinstance(error, PayloadError):
            too_large = isinstance(error, PayloadTooLargeError)
            self._complete_failed(polled, error, "BAD_COMMAND" if too_large else None)
            return
        if error.status in REFUSED and run is not None:
            # Said as a failure, the engine keeps it, and backs off; left unsaid, the same task
            # would come back at once, for ever.
            refused = _too_much_at_once(size) if is_too_large(error) else error
            self._complete_failed(polled, refused, "BAD_COMMAND")
            return
        if error.status is not RPCStatusCode.NOT_FOUND:  # too late is nothing to speak of
            logger.warning(
                "completion of %s was not taken: %s",
                polled.workflow_id,
                error,
                extra=polled.log_fields,
            )
        self._settle(polled)

    def _settle(self, polled: PolledWorkflowTask) -> None:
        self._held.remove(polled.token)
        self._slots.release()

    def _complete_queries(
        self, polled: PolledWorkflowTask, outcome: TaskSuccess | TaskFailure
    ) -> None:
        results = list(outcome.query_results)
        if isinstance(outcome, TaskFailure):
            answered = {one.query_token for one in results}
            results += [
                QueryResult(query_token=token, result=[], failure=outcome.failure)
                for token in polled.query_tokens
                if token not in answered
            ]
        afterwards = outcome.afterwards if isinstance(outcome, TaskSuccess) else ()
        settled = partial(self._settled, polled, None, 0, afterwards=afterwards)
        self._completions.submit(queries_answered(results), settled)

    def _complete_failed(
        self, polled: PolledWorkflowTask, error: Exception, cause: str | None = None
    ) -> None:
        failure = self._guarded.failure(
            cause or (defect_cause(error) or WORKER_FAILURE).name, error
        )
        if polled.query_only:
            self._complete_queries(polled, failure)
            return
        self._log_failure(polled, failure)
        completion = workflow_task_failure(polled.token, failure.cause.name, failure.failure)
        self._submit(polled, completion, None)

    def _log_failure(self, polled: PolledWorkflowTask, failure: TaskFailure) -> None:
        logger.warning(
            "workflow task of %s (run %s) failed, it will be tried again: %s: %s",
            polled.workflow_id,
            polled.run_id,
            failure.cause.name,
            "(not shown, it is encoded)" if self._hides_messages else failure.failure.message,
            extra=polled.log_fields,
        )


def _too_much_at_once(size: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(
        f"what this workflow task asks for is {size:,} bytes together, and {MESSAGE_BYTES_MAX:,} can "
        "travel: start fewer things at once (workflow.map has concurrency=), or let "
        "DataConverter(external_storage=…) carry large values",
        field="commands",
        size_bytes=size,
        bytes_max=MESSAGE_BYTES_MAX,
    )
