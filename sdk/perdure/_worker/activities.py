"""Activity attempts: async functions on the event loop, all others in threads or processes.

An attempt can be told two things from outside. *Cancel requested*: its code is asked to stop, and
whatever it then does is reported. *Lost*: the attempt is over or has another owner; its code is
asked to stop as well, but nothing of it is reported any more.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import Any

from perdure import activity
from perdure._definitions import ActivityDefinition
from perdure._failures import exception_to_failure
from perdure._interceptors.activity import ExecuteActivityInput
from perdure._interceptors.worker import Interceptor
from perdure._thread_cancel import ThreadCancel
from perdure._wire.completions import (
    Completion,
    activity_async,
    activity_cancellation,
    activity_failure,
    activity_success,
)
from perdure._wire.tasks import PolledActivityTask, PolledAttempt
from perdure._worker.ahead import GoesAhead, WorkAhead
from perdure._worker.attempt import Attempt, AttemptRoom, SaveProgress
from perdure._worker.completions import REFUSED, SubmitsCompletions
from perdure._worker.exits import is_of_the_process
from perdure._worker.heartbeat import SHORT_TIMEOUT_S
from perdure._worker.holding import HeldTasks
from perdure._worker.interception import intercepted
from perdure._worker.lane import Lane
from perdure._worker.processes import Processes
from perdure._worker.sealing import ProgressWay
from perdure._worker.slots import Slots
from perdure.converter import CODEC_ENCODINGS, Payload, PayloadConverter
from perdure.errors import (
    ApplicationError,
    CancelledError,
    DecompressionError,
    PayloadError,
    PayloadTooLargeError,
    RPCError,
    RPCStatusCode,
    UnknownEncodingError,
    is_benign,
)

logger = logging.getLogger(__name__)

# Code of a workflow that goes ahead may keep its result waiting so long: until the guard, which finds
# it after 2 s, has sent that alone.
MARGIN_US = 4_000_000

NO_OTHERS: Mapping[tuple[str, int], ActivityDefinition] = MappingProxyType({})


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
        completions: SubmitsCompletions,
        held: HeldTasks,
        slots: Slots,
        save_progress: SaveProgress,
        versions: Mapping[tuple[str, int], ActivityDefinition] = NO_OTHERS,
        sealing: ProgressWay | None = None,
        hides_messages: bool = False,
        interceptors: Sequence[Interceptor] = (),
        goes_ahead: GoesAhead | None = None,
    ) -> None:
        """`definitions` has the newest of each name, `versions` the others. One under the empty
        name takes the calls of every name that is not there. `hides_messages`: of failures, from
        the log too."""
        self._hides_messages = hides_messages
        self._interceptors = interceptors
        self._goes_ahead = goes_ahead
        self.converter = converter
        self.held = held
        self._room = AttemptRoom(
            namespace=namespace,
            task_queue=task_queue,
            converter=converter,
            held=held,
            save_progress=save_progress,
            sealing=sealing,
        )
        self._dynamic = definitions.get("")
        self._versions = versions
        self._processes: Processes | None = None
        if isinstance(executor, ProcessPoolExecutor):
            self._processes = Processes(executor, converter)
        self._definitions = definitions
        self._executor = executor
        self._completions = completions
        self._slots = slots
        self._lane = Lane()
        self._running: set[Attempt] = set()
        self._stopping = False
        self._given_up = False
        # Failed when the executor is: it will never run anything again.
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    def take(self, polled: PolledAttempt) -> None:
        if self._given_up:
            # It came with the answer to a completion. The farewell hands it out again.
            self._slots.release()
            return
        attempt = Attempt(self._room, polled)
        if self._stopping:
            attempt.begin_shutdown()
        self.held.add(attempt.held)
        self._running.add(attempt)
        self._all_ended.clear()
        self._lane.add(self._run(attempt, polled), attempt.begins)

    def refuse(self, polled: PolledAttempt, error: Exception) -> None:
        """An attempt that cannot be run, because its input cannot be decoded: it fails."""
        if self._given_up:
            self._slots.release()
            return
        attempt = Attempt(self._room, polled)
        self.held.add(attempt.held)
        logger.warning(
            "input of %s %s cannot be decoded: %s",
            polled.kind,
            polled.activity_type,
            error,
            extra=polled.log_fields,
        )
        completion = self._failure(attempt, error)
        attempt.end()
        self._completions.submit(completion, partial(self._settled, attempt, completion))

    @property
    def running(self) -> int:
        return len(self._running)

    def begin_shutdown(self) -> None:
        """Tells the code of every attempt that the worker is going."""
        self._stopping = True
        for attempt in self._running:
            attempt.begin_shutdown()

    def give_up(self) -> None:
        """Asks every attempt to stop. One that obeys stays held, for the engine to hand it out
        again; one that finishes all the same is reported."""
        self._given_up = True
        for attempt in list(self._running):
            attempt.give_up()

    async def wait_ended(self) -> None:
        """Returns when no attempt's code runs."""
        await self._all_ended.wait()

    def close(self) -> None:
        """After all code has ended, or was given up. Closing twice is fine."""
        if self._processes is not None:
            self._processes.close()

    async def _run(self, attempt: Attempt, polled: PolledAttempt) -> None:
        # What escapes here ends the process, on purpose (see `exits`).
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
        if completion is None:
            return
        ahead = self._ahead(attempt, polled, completion)
        if ahead is None:
            self._completions.submit(completion, partial(self._settled, attempt, completion))
        else:
            settled = partial(self._settled_ahead, attempt, completion, ahead)
            self._completions.submit(ahead.completion, settled)

    def _ahead(
        self, attempt: Attempt, polled: PolledAttempt, completion: Completion
    ) -> WorkAhead | None:
        """What follows from the result, if that can be known, and while there is time for it."""
        result = attempt.returned
        if result is None or self._goes_ahead is None or self._stopping:
            return None
        assert isinstance(polled, PolledActivityTask)
        now_us = attempt.engine_time_us()
        if polled.is_near_timeout(now_us, MARGIN_US):
            return None
        try:
            return self._goes_ahead.after(polled, [result], completion, now_us)
        except Exception:  # a defect of ours: it must not cost the result
            logger.exception("a workflow could not go ahead", extra=polled.log_fields)
            return None

    async def _outcome(self, attempt: Attempt, polled: PolledAttempt) -> Completion | None:
        """None: nothing to report."""
        token = polled.token
        completion: Completion | None
        try:
            result = self.converter.to_payload(await self._call(attempt, polled))
            completion = activity_success(token, [result])
            if polled.may_go_ahead:
                attempt.returned = result
        except activity._CompleteAsyncError:  # pyright: ignore[reportPrivateUsage]  # made for us
            progress = attempt.held.said_last
            completion = (
                activity_async(token, None, 0)
                if progress is None
                else activity_async(token, progress.details, progress.version)
            )
        except asyncio.CancelledError as error:
            canceled = attempt.cancel_requested and not attempt.given_up
            completion = self._stopped(attempt, error, [], canceled=canceled)
        except CancelledError as error:
            details = self.converter.to_payloads(error.details)
            completion = self._stopped(attempt, error, details, canceled=attempt.cancel_requested)
        except BrokenExecutor as error:
            if not self.broken.done():
                self.broken.set_exception(error)
            return None  # the worker's farewell hands it out again
        except BaseException as error:
            if is_of_the_process(error):
                raise
            told = "(not shown, it is encoded)" if self._hides_messages else error
            logger.log(
                logging.DEBUG if is_benign(error) else logging.WARNING,
                "%s %s failed: %s: %s",
                polled.kind,
                polled.activity_type,
                type(error).__name__,
                told,
                extra=polled.log_fields,
            )
            completion = self._failure(attempt, error)
        return None if attempt.lost else completion

    def _stopped(
        self, attempt: Attempt, error: BaseException, details: list[Payload], *, canceled: bool
    ) -> Completion | None:
        """Its code has stopped, as if it had been asked to: was it, and what for?"""
        if not attempt.was_asked_to_stop:
            return self._failure(attempt, error)
        if canceled:
            return activity_cancellation(attempt.held.token, details)
        if attempt.paused and not attempt.given_up:
            # The engine knows the type: the attempt waits, and is not counted.
            stopped = ApplicationError("stopped because it was paused", type="ActivityPause")
            return self._failure(attempt, stopped)
        return None

    async def _call(self, attempt: Attempt, polled: PolledAttempt) -> Any:
        definition = self._definition_of(polled)
        timeout_ms = polled.heartbeat_timeout_ms
        if 0 < timeout_ms < SHORT_TIMEOUT_S * 1000:
            self.held.watch_heartbeats(attempt.held.token, timeout_ms / 1000)
        args = definition.decode(polled.input(), self.converter)
        attempt.bind_checkpoints(on_loop=definition.is_async)
        activity._enter(attempt.context)  # pyright: ignore[reportPrivateUsage]  # made for us
        if self._interceptors:
            return await self._call_intercepted(attempt, definition, polled.header(), args)
        if definition.is_async:
            attempt.can_be_cancelled = True
            if attempt.was_asked_to_stop:
                raise asyncio.CancelledError
            return await definition.function(*args)
        return await self._call_elsewhere(
            attempt, definition, definition.function, args, self._executor
        )

    async def _call_intercepted(
        self,
        attempt: Attempt,
        definition: ActivityDefinition,
        header: Mapping[str, Payload],
        args: Sequence[Any],
    ) -> Any:
        async def call(given: ExecuteActivityInput) -> Any:
            if definition.is_async:
                attempt.can_be_cancelled = True
                if attempt.was_asked_to_stop:
                    raise asyncio.CancelledError
                return await given.fn(*given.args)
            return await self._call_elsewhere(
                attempt, definition, given.fn, given.args, given.executor or self._executor
            )

        executor = None if definition.is_async else self._executor
        given = ExecuteActivityInput(
            fn=definition.function, args=args, executor=executor, headers=header
        )
        return await intercepted(self._interceptors, attempt.context, given, call)

    async def _call_elsewhere(
        self,
        attempt: Attempt,
        definition: ActivityDefinition,
        function: Callable[..., Any],
        args: Sequence[Any],
        executor: Executor,
    ) -> Any:
        """A sync one, in a thread or in another process."""
        if self._processes is not None:
            return await self._processes.run(attempt, function, args)
        inside: Callable[..., Any] = contextvars.copy_context().run
        call: Callable[[], Any] = partial(inside, function, *args)
        if definition.cancel_raises:
            attempt.context.thread_cancel = thread_cancel = ThreadCancel()
            call = partial(inside, thread_cancel.call, function, args)
        return await asyncio.get_running_loop().run_in_executor(executor, call)

    def _definition_of(self, polled: PolledAttempt) -> ActivityDefinition:
        name, version = polled.activity_type, polled.version
        definition = self._definitions.get(name)
        if definition is None:
            definition = self._dynamic
        elif version is not None and definition.version != version:
            definition = self._versions.get((name, version))
        if definition is None:
            known = sorted(self._definitions) + [f"{a} version {b}" for a, b in self._versions]
            what = f"{polled.kind} {name!r}"
            if version is not None and version > 1:
                what += f" version {version}"
            raise ApplicationError(
                f"{what} is not registered here; known: {', '.join(known) or 'none'}",
                type="NotFoundError",
            )
        return definition

    def _failure(self, attempt: Attempt, error: BaseException) -> Completion:
        progress = attempt.held.said_last
        return activity_failure(
            attempt.held.token,
            exception_to_failure(for_good(error), self.converter),
            None if progress is None else progress.details,
            0 if progress is None else progress.version,
        )

    def _settled_ahead(
        self,
        attempt: Attempt,
        completion: Completion,
        ahead: WorkAhead,
        error: RPCError | PayloadError | None,
    ) -> None:
        """Of what went with work done ahead. `completion`: the same without it."""
        ahead.settle(counts=ahead.completion.went_ahead)
        if error is not None and not is_too_late(error):
            # Whatever was wrong: the result may still be taken alone.
            self._completions.submit(completion, partial(self._settled, attempt, completion))
        else:
            self._settled(attempt, completion, error)

    def _settled(
        self, attempt: Attempt, completion: Completion, error: RPCError | PayloadError | None
    ) -> None:
        if isinstance(error, PayloadError):
            failure = self._failure(attempt, error)
            self._completions.submit(failure, partial(self._settled, attempt, failure))
            return
        if error is not None and error.status in REFUSED and not attempt.refused:
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
            logger.warning(
                "completion of %s %s was not taken: %s",
                attempt.polled.kind,
                attempt.polled.activity_type,
                error,
                extra=attempt.polled.log_fields,
            )
        self.held.remove(attempt.held.token)
        self._slots.release()


def is_too_late(error: RPCError | PayloadError) -> bool:
    return isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND


def for_good(error: BaseException) -> BaseException:
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
