"""One task in a process of its own, from its poll to its end, on the worker's event loop.

The worker holds the task all the time. What the engine says of it is passed on; what the process
says is done in its place. The task is over when the engine has answered for it; a process that ends
before it has handed anything up has crashed, and the engine is told so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from perdure._failures import exception_to_failure
from perdure._replay.verdict import WORKER_FAILURE, defect_cause
from perdure._wire.completions import (
    Completion,
    activity_failure,
    task_crash,
    workflow_task_failure,
)
from perdure._wire.tasks import EventMessage, PolledTask, PolledWorkflowTask, task_to_bytes
from perdure._worker.activities import for_good
from perdure._worker.attempt import SaveProgress
from perdure._worker.completions import REFUSED, SubmitsCompletions
from perdure._worker.heartbeat import SHORT_TIMEOUT_S
from perdure._worker.history import TaskHistory
from perdure._worker.holding import HeldTask, HeldTasks, Progress
from perdure._worker.isolation import messages
from perdure._worker.isolation.child import EXIT_TIMEOUT_S, Child, Seen
from perdure._worker.isolation.launcher import Launcher, ProcessNotStartedError
from perdure._worker.isolation.messages import Telling, Up
from perdure._worker.isolation.problems import problem_of
from perdure._worker.isolation.report import report_of
from perdure._worker.isolation.vitals import Limits
from perdure._worker.sealing import ProgressWay
from perdure.converter import PayloadConverter
from perdure.errors import AttemptLostError, PayloadError, RPCError, RPCStatusCode

logger = logging.getLogger(__name__)

# A task that is nobody's any more is asked to stop, and its process killed if it does not.
_LOSS_TIMEOUT_S = 10.0
# What could not be started most likely cannot be a moment later.
_NOT_STARTED_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WardRoom:
    """What all tasks that run alone share."""

    launcher: Launcher
    held: HeldTasks
    completions: SubmitsCompletions
    save_progress: SaveProgress
    sealing: ProgressWay | None
    history: TaskHistory[EventMessage]
    converter: PayloadConverter
    hides_reports: bool
    """They are in clear, and the user's failures are not."""
    run_here: Callable[[PolledTask], None]
    """In the worker's own process, as any task; it gives its place back itself."""


def failed_completion(
    polled: PolledTask, error: Exception, converter: PayloadConverter
) -> Completion:
    """Of a task that cannot be run, because something of it cannot be fetched or decoded."""
    failure = exception_to_failure(for_good(error), converter)
    if isinstance(polled, PolledWorkflowTask):
        cause = (defect_cause(error) or WORKER_FAILURE).name
        return workflow_task_failure(polled.token, cause, failure)
    return activity_failure(polled.token, failure, None)


class Ward:
    def __init__(
        self,
        room: WardRoom,
        polled: PolledTask,
        limits: Limits | None,
        settled: Callable[[Ward], None],
    ) -> None:
        """`settled` is called once, when its place is free again."""
        self._room = room
        self._polled = polled
        self._limits = limits
        self._settled = settled
        self._child: Child | None = None
        self._told: list[Telling] = []
        self._has_task = False  # the process
        self._open = 0  # handed up, and not answered
        self._seen: Seen | None = None
        self._saving: set[asyncio.Task[None]] = set()
        self._says_no_more = False
        self._is_interrupted = False
        self._is_settled = False
        self.given_up = False
        self.runs_here = False
        self._held = HeldTask(polled.token, self._on_loss)
        if not isinstance(polled, PolledWorkflowTask):
            self._held.on_cancel_request = partial(self._tell, Telling.CANCEL)
            self._held.on_pause = partial(self._tell, Telling.PAUSE)
        room.held.add(self._held)

    @property
    def is_of_workflow(self) -> bool:
        return isinstance(self._polled, PolledWorkflowTask)

    @property
    def has_process(self) -> bool:
        return self._child is not None

    # --- what it is told --------------------------------------------------------------------------

    def begin_shutdown(self) -> None:
        self._tell(Telling.SHUTDOWN)

    def give_up(self) -> None:
        """It stays held, unless it still says something: for the farewell to give back."""
        self.given_up = True
        self._tell(Telling.GIVE_UP)

    def _on_loss(self) -> None:
        self._room.held.remove(self._polled.token)
        self._tell(Telling.LOSS)
        if self._child is not None:
            self._child.end_within(_LOSS_TIMEOUT_S)

    def _tell(self, what: Telling) -> None:
        if what in self._told:
            return
        self._told.append(what)
        if self._has_task and self._child is not None:
            self._child.send(messages.Told(what))

    @property
    def _is_lost(self) -> bool:
        return Telling.LOSS in self._told

    # --- its life ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Returns when its process has ended. What it came to may still be under way."""
        if self.given_up or self._is_lost:
            self.put_back()
            return
        try:
            await self._make_ready()
        except Exception as error:
            self._fail(error)
            return
        try:
            child = self._child = await self._room.launcher.start(
                self._polled, self._hear, self._limits
            )
        except ProcessNotStartedError as error:
            await self._not_started(error)
            return
        if self._is_lost:  # it may be another's by now
            child.kill()
            self._ended(await child.ended)
            return
        self._log_start()
        await asyncio.to_thread(child.send, self._given())
        self._has_task = True
        for what in self._told:
            child.send(messages.Told(what))
        if self._is_lost:
            child.end_within(_LOSS_TIMEOUT_S)
        self._ended(await child.ended)

    async def _not_started(self, error: ProcessNotStartedError) -> None:
        """Of no fault of the task's. It runs here if there is no other way, but a poisoned one: that
        is handed out again, and nothing is counted."""
        if self._limits is None and not self._room.launcher.is_able:
            if not (self.given_up or self._is_lost):
                self._is_settled = self.runs_here = True
                self._room.held.remove(self._polled.token)
                self._settled(self)
                self._room.run_here(self._polled)
            return
        logger.error("%s cannot run alone: %s", self._what(), error, extra=self._polled.log_fields)
        if not self.given_up:
            await asyncio.sleep(_NOT_STARTED_PAUSE_S)
        self.put_back()

    def _given(self) -> messages.Given:
        return messages.Given(self._polled.kind, task_to_bytes(self._polled))

    async def _make_ready(self) -> None:
        polled = self._polled
        if not isinstance(polled, PolledWorkflowTask):
            timeout_ms = polled.heartbeat_timeout_ms
            if 0 < timeout_ms < SHORT_TIMEOUT_S * 1000:
                self._room.held.watch_heartbeats(polled.token, timeout_ms / 1000)
            return
        after = await self._room.history.fetch_after(polled)
        before: list[EventMessage] = []
        if polled.first_event_id != 1:
            before = await self._room.history.fetch_before(polled)
        polled.complete(before, after)

    def put_back(self) -> None:
        """It is held no longer: the engine hands it out again, and counts nothing."""
        if not self.given_up:
            self._settle()

    def _ended(self, seen: Seen) -> None:
        self._seen = seen
        for saving in self._saving:
            saving.cancel()
        if self._is_settled or self._open:
            return
        self._decide(seen)

    def _decide(self, seen: Seen) -> None:
        """Its process has ended, and what it has handed up has not settled its task."""
        if self._is_lost or (self._says_no_more and not self.given_up):
            self._settle()
        elif self._is_interrupted and not self.given_up:
            what = self._what()
            logger.error("%s: its program ended", what, extra=self._polled.log_fields)
            self._room.launcher.interrupted()
            self.put_back()
        elif not self.given_up:
            self._crashed(seen)

    def _crashed(self, seen: Seen) -> None:
        logger.error("%s: %s", self._what(), seen.message, extra=self._polled.log_fields)
        report = "" if self._room.hides_reports else report_of(self._what(), seen)
        completion = task_crash(self._polled.token, seen.message, report)
        self._room.completions.submit(completion, self._told_of_end)

    def _fail(self, error: Exception) -> None:
        completion = failed_completion(self._polled, error, self._room.converter)
        self._room.completions.submit(completion, self._told_of_end)

    def _told_of_end(self, error: RPCError | PayloadError | None) -> None:
        self._log_refusal(error)
        self._settle()

    def _settle(self) -> None:
        if self._is_settled:
            return
        self._is_settled = True
        if self._room.held.holds(self._held):
            self._room.held.remove(self._polled.token)
        if self._child is not None:
            self._child.end_within(EXIT_TIMEOUT_S)
        self._settled(self)

    # --- what its process says --------------------------------------------------------------------

    def _hear(self, message: Up) -> None:
        match message:
            case messages.Handed():
                self._handed(message)
            case messages.Said():
                self._progress(Progress(message.details, message.version))
            case messages.Checkpoint():
                saving = asyncio.ensure_future(self._save(message))
                self._saving.add(saving)
                saving.add_done_callback(self._saving.discard)
            case messages.Interrupted():
                self._is_interrupted = True
            case messages.Done():
                self._says_no_more = True
                if self._child is not None:
                    self._child.end_within(EXIT_TIMEOUT_S)
            case _:
                pass  # of no concern here

    def _handed(self, message: messages.Handed) -> None:
        try:
            completion = Completion.from_bytes(message.completion)
        except Exception:  # its process is not in its right mind
            logger.exception("what %s came to cannot be read", self._what())
            if self._child is not None:
                self._child.kill()
            return
        if message.is_stuck and self._child is not None:
            self._child.kill()
        self._open += 1
        answered = partial(self._answered, message.number)
        self._room.completions.submit(completion, answered)

    def _answered(self, number: int, error: RPCError | PayloadError | None) -> None:
        self._open -= 1
        assert self._child is not None
        problem = None if error is None else problem_of(error)
        self._child.send(messages.Settled(number, problem))
        is_final = not isinstance(error, PayloadError) and (
            error is None or error.status not in REFUSED
        )
        if is_final:
            self._log_refusal(error)
            self._settle()
        elif self._seen is not None:  # and there is nobody any more to say it otherwise
            self._decide(self._seen)

    def _progress(self, progress: Progress) -> None:
        if self._room.sealing is None:
            self._held.progress = progress
        else:
            self._room.sealing.report(self._held, progress)

    async def _save(self, asked: messages.Checkpoint) -> None:
        assert self._child is not None
        self._child.send(await self._saved(asked))

    async def _saved(self, asked: messages.Checkpoint) -> messages.Saved:
        number = asked.number
        progress = Progress(asked.details, asked.version)
        try:
            if self._room.sealing is not None:
                progress = await self._room.sealing.seal(self._held, progress)
            self._held.progress = progress
            heard = await self._room.save_progress(
                self._polled.token, progress.details, progress.version, self._may_go_on
            )
        except AttemptLostError:
            self._on_loss()
            return messages.Saved(number, is_lost=True)
        except Exception as error:  # a codec's too
            return messages.Saved(number, problem_of(error))
        if self._held.progress is progress:
            self._held.progress_sent = progress
        if heard is None:
            return messages.Saved(number)
        return messages.Saved(number, cancel_requested=heard.cancel_requested, paused=heard.paused)

    def _may_go_on(self) -> bool:
        return not self._told

    # --- for people -------------------------------------------------------------------------------

    def _what(self) -> str:
        polled = self._polled
        if isinstance(polled, PolledWorkflowTask):
            name = f"workflow {polled.workflow_type} {polled.workflow_id!r}"
            reach = f"events 1 to {polled.started_event_id}"
            return f"workflow task of {name}, attempt {polled.attempt}, {reach}"
        return f"{polled.kind} {polled.activity_type}, attempt {polled.attempt}"

    def _log_start(self) -> None:
        logger.warning(
            "%s runs in a process of its own: %d workers in a row have died with it",
            self._what(),
            self._polled.crashes,
            extra=self._polled.log_fields,
        )

    def _log_refusal(self, error: RPCError | PayloadError | None) -> None:
        too_late = isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND
        if error is not None and not too_late:
            logger.warning(
                "what %s came to was not taken: %s",
                self._what(),
                error,
                extra=self._polled.log_fields,
            )
