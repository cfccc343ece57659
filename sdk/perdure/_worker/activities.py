"""Activity attempts: async functions on the event loop, all others in threads.

An attempt can be told two things from outside. *Cancel requested*: its code is asked to stop, and
whatever it then does is reported. *Lost*: the attempt is over or has another owner; its code is
asked to stop as well, but nothing of it is reported any more.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from perdure import activity
from perdure._definitions import ActivityDefinition
from perdure._failures import exception_to_failure
from perdure._wire.completions import (
    Completion,
    activity_cancellation,
    activity_failure,
    activity_success,
)
from perdure._wire.payloads import payloads_to_bytes
from perdure._wire.policies import duration_from_ms, instant_from_us
from perdure._wire.tasks import ActivityTask, PolledActivityTask
from perdure._worker.completions import Completions
from perdure._worker.holding import HeldTask, HeldTasks, Progress
from perdure._worker.sealing import Sealing
from perdure._worker.slots import Slots
from perdure.common import Priority
from perdure.converter import CODEC_ENCODINGS, PayloadConverter
from perdure.errors import (
    ApplicationError,
    CancelledError,
    DecompressionError,
    PayloadError,
    PayloadTooLargeError,
    RPCError,
    RPCStatusCode,
    UnknownEncodingError,
)

logger = logging.getLogger(__name__)

# The engine's refusals of what a completion says, as opposed to its coming too late.
_REFUSED = frozenset((RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.RESOURCE_EXHAUSTED))


class Activities:
    """Takes attempts in; each gives its slot back when the engine has settled its completion."""

    def __init__(
        self,
        definitions: Mapping[str, ActivityDefinition],
        *,
        namespace: str,
        task_queue: str,
        converter: PayloadConverter,
        executor: Executor,
        completions: Completions,
        held: HeldTasks,
        slots: Slots,
        sealing: Sealing | None = None,
        hides_messages: bool = False,
    ) -> None:
        self.sealing = sealing
        self._hides_messages = hides_messages  # of failures, from the log too
        self.namespace = namespace
        self.task_queue = task_queue
        self.converter = converter
        self.held = held
        self._definitions = definitions
        self._executor = executor
        self._completions = completions
        self._slots = slots
        self._running: set[_Attempt] = set()
        self._stopping = False
        self._given_up = False
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    def take(self, polled: PolledActivityTask) -> None:
        if self._given_up:
            # It came with the answer to a completion. The farewell hands it out again.
            self._slots.release()
            return
        attempt = _Attempt(self, polled)
        if self._stopping:
            attempt.context.begin_shutdown()
        self.held.add(attempt.held)
        self._running.add(attempt)
        self._all_ended.clear()
        attempt.start(self._run(attempt, polled))

    def refuse(self, polled: PolledActivityTask, error: Exception) -> None:
        """An attempt that cannot be run, because its input cannot be decoded: it fails."""
        if self._given_up:
            self._slots.release()
            return
        attempt = _Attempt(self, polled)
        self.held.add(attempt.held)
        logger.warning("input of activity %s cannot be decoded: %s", polled.activity_type, error)
        completion = self._failure(attempt, error)
        attempt.end()
        self._completions.submit(completion, partial(self._settled, attempt, completion))

    def begin_shutdown(self) -> None:
        """Tells the code of every attempt that the worker is going."""
        self._stopping = True
        for attempt in self._running:
            attempt.context.begin_shutdown()

    def give_up(self) -> None:
        """Asks every attempt to stop. One that obeys stays held, for the engine to hand it out
        again; one that finishes all the same is reported."""
        self._given_up = True
        for attempt in list(self._running):
            attempt.given_up = True
            attempt.ask_to_stop()

    async def wait_ended(self) -> None:
        """Returns when no attempt's code runs."""
        await self._all_ended.wait()

    async def _run(self, attempt: _Attempt, polled: PolledActivityTask) -> None:
        # What escapes here (SystemExit, KeyboardInterrupt) ends the process, on purpose.
        completion: Completion | None = None
        try:
            completion = await self._outcome(attempt, polled)
        finally:
            self._running.discard(attempt)
            attempt.end()
            if not self._running:
                self._all_ended.set()
            if completion is None:
                self._slots.release()
        if completion is not None:
            self._completions.submit(completion, partial(self._settled, attempt, completion))

    async def _outcome(self, attempt: _Attempt, polled: PolledActivityTask) -> Completion | None:
        """None: nothing to report."""
        token = polled.token
        try:
            result = await self._call(attempt, polled)
            completion = activity_success(token, [self.converter.to_payload(result)])
        except asyncio.CancelledError as error:
            if not attempt.was_asked_to_stop:
                completion = self._failure(attempt, error)
            elif attempt.cancel_requested and not attempt.given_up:
                completion = activity_cancellation(token, [])
            else:
                return None
        except CancelledError as error:
            if attempt.cancel_requested and not attempt.lost:
                details = self.converter.to_payloads(error.details)
                completion = activity_cancellation(token, details)
            elif attempt.was_asked_to_stop:
                return None
            else:
                completion = self._failure(attempt, error)
        except Exception as error:
            told = "(not shown, it is encoded)" if self._hides_messages else error
            logger.warning(
                "activity %s failed: %s: %s", polled.activity_type, type(error).__name__, told
            )
            completion = self._failure(attempt, error)
        return None if attempt.lost else completion

    async def _call(self, attempt: _Attempt, polled: PolledActivityTask) -> Any:
        definition = self._definitions.get(polled.activity_type)
        if definition is None:
            known = ", ".join(sorted(self._definitions)) or "none"
            raise ApplicationError(
                f"activity {polled.activity_type!r} is not registered here; known: {known}",
                type="NotFoundError",
            )
        task = polled.read()
        attempt.task = task
        args = definition.signature.decode(task.input, self.converter)
        activity._enter(attempt.context)  # pyright: ignore[reportPrivateUsage]  # made for us
        if definition.is_async:
            attempt.can_be_cancelled = True
            if attempt.was_asked_to_stop:
                raise asyncio.CancelledError
            return await definition.function(*args)
        call = partial(contextvars.copy_context().run, definition.function, *args)
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def _failure(self, attempt: _Attempt, error: BaseException) -> Completion:
        progress = attempt.held.unsealed or attempt.held.progress
        return activity_failure(
            attempt.held.token,
            exception_to_failure(_for_good(error), self.converter),
            None if progress is None else progress.details,
        )

    def _settled(
        self, attempt: _Attempt, completion: Completion, error: RPCError | PayloadError | None
    ) -> None:
        if isinstance(error, PayloadError):
            failure = self._failure(attempt, error)
            self._completions.submit(failure, partial(self._settled, attempt, failure))
            return
        if error is not None and error.status in _REFUSED and not attempt.refused:
            # A result that the engine cannot take, most likely too large. Left unsaid, the attempt
            # would be handed out again at once, for ever.
            attempt.refused = True
            refusal = ApplicationError(
                f"the engine refused the result: {error.message}",
                type="ResultRefusedError",
                non_retryable=True,
            )
            failure = activity_failure(
                attempt.held.token, exception_to_failure(refusal, self.converter), None
            )
            self._completions.submit(failure, partial(self._settled, attempt, failure))
            return
        if error is not None and error.status is not RPCStatusCode.NOT_FOUND:
            logger.warning("completion of an activity was not taken: %s", error)
        self.held.remove(attempt.held.token)
        self._slots.release()


def _for_good(error: BaseException) -> BaseException:
    """What no other attempt can mend is not tried again.

    All else about payloads is, as with temporalio: a missing key, codec or object may be there at
    the next attempt.
    """
    if isinstance(error, UnknownEncodingError):
        hopeless = error.encoding not in CODEC_ENCODINGS
    else:
        hopeless = isinstance(error, PayloadTooLargeError | DecompressionError)
    if not hopeless:
        return error
    return ApplicationError(str(error), type=type(error).__name__, non_retryable=True)


class _Attempt:
    """One attempt under way, as the heartbeats and the shutdown reach it."""

    def __init__(self, activities: Activities, polled: PolledActivityTask) -> None:
        self._activities = activities
        self.held = HeldTask(polled.token, self._on_loss, self._on_cancel_request)
        self.context = activity._Context(  # pyright: ignore[reportPrivateUsage]  # made for us
            info=self._info,
            payload_converter=activities.converter,
            send_heartbeat=self._heartbeat,
        )
        self.task: ActivityTask | None = None
        self.cancel_requested = False
        self.lost = False
        self.given_up = False
        self.refused = False
        self.was_asked_to_stop = False
        self._running: asyncio.Task[None] | None = None
        # A task that is cancelled before its first step never runs, not even its finally. And a
        # thread cannot be stopped from outside: cancelling what waits for it would only free the
        # slot of a thread that still runs.
        self.can_be_cancelled = False

    def start(self, work: Any) -> None:
        self._running = asyncio.ensure_future(work)

    def end(self) -> None:
        """Its code has ended. Opens the rings of references that would wait for the garbage
        collector otherwise, one or more for every activity."""
        self.held.on_loss = self.held.on_cancel_request = None
        del self.context
        self._running = None

    def ask_to_stop(self) -> None:
        if self.was_asked_to_stop:
            return
        self.was_asked_to_stop = True
        self.context.request_cancel()
        if self.can_be_cancelled and self._running is not None:
            self._running.cancel()

    def _on_loss(self) -> None:
        self.lost = True
        self._activities.held.remove(self.held.token)
        self.ask_to_stop()

    def _on_cancel_request(self) -> None:
        self.cancel_requested = True
        self.ask_to_stop()

    def _heartbeat(self, details: Sequence[Any]) -> None:
        """From any thread. Converted here and now: the caller may change its values afterwards."""
        payloads = self._activities.converter.to_payloads(details)
        progress = Progress(payloads_to_bytes(payloads))
        sealing = self._activities.sealing
        if sealing is None:
            self.held.progress = progress
        else:
            sealing.report(self.held, progress)

    def _info(self) -> activity.Info:
        task = self.task
        assert task is not None
        scheduled_time = instant_from_us(task.scheduled_time_us)
        started_time = instant_from_us(task.started_time_us)
        assert scheduled_time is not None
        assert started_time is not None
        return activity.Info(
            activity_id=task.activity_id,
            activity_type=task.activity_type,
            attempt=task.attempt,
            heartbeat_details=self._activities.converter.from_payloads(task.heartbeat_details),
            heartbeat_timeout=duration_from_ms(task.heartbeat_timeout_ms),
            idempotency_key=task.idempotency_key,
            is_local=False,
            namespace=self._activities.namespace,
            priority=Priority(priority_key=task.priority or None),
            retry_policy=task.retry_policy,
            schedule_to_close_timeout=duration_from_ms(task.schedule_to_close_timeout_ms),
            scheduled_time=scheduled_time,
            start_to_close_timeout=duration_from_ms(task.start_to_close_timeout_ms),
            started_time=started_time,
            task_queue=self._activities.task_queue,
            task_token=task.token,
            workflow_id=task.workflow_id,
            workflow_namespace=self._activities.namespace,
            workflow_run_id=task.run_id,
            workflow_type=task.workflow_type,
            headers=task.header,
        )
