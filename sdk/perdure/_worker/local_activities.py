"""Local activities: run beside the code of their workflow, on the worker that has its workflow task.

One attempt after the other, as long as the back-off between them is short; with a longer one the outcome says after
how long the workflow is to ask again. Nothing of it is told to the engine: what became of it is for the workflow's
code, whose commands take it there. So one whose worker dies is run again: at least once.
"""

from __future__ import annotations

import asyncio
import builtins
import contextvars
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

from perdure import activity
from perdure._definitions import ActivityDefinition
from perdure._failures import exception_to_failure
from perdure._interceptors.activity import ExecuteActivityInput
from perdure._interceptors.worker import Interceptor
from perdure._replay.messages import LocalActivityOutcome, LocalActivityTask
from perdure._wire.policies import duration_from_ms, instant_from_us
from perdure._worker.exits import is_of_the_process
from perdure._worker.interception import intercepted
from perdure._worker.local_retries import RESULT_BYTES_MAX, Deadlines, next_backoff_ms
from perdure.common import Priority
from perdure.converter import PayloadConverter
from perdure.errors import (
    ApplicationError,
    CancelledError,
    RetryState,
    TimeoutError,
    is_benign,
)

logger = logging.getLogger(__name__)

Done = Callable[[LocalActivityOutcome], None]


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that a local activity belongs to."""

    workflow_id: str
    run_id: str
    workflow_type: str


class LocalActivities:
    def __init__(
        self,
        definitions: Mapping[str, ActivityDefinition],
        *,
        namespace: str,
        task_queue: str,
        converter: PayloadConverter,
        executor: Executor,
        at_once_max: int,
        now_us: Callable[[], int],
        interceptors: Sequence[Interceptor] = (),
        hides_messages: bool = False,
    ) -> None:
        self.namespace = namespace
        self.task_queue = task_queue
        self.converter = converter
        self.definitions = definitions
        self.executor = executor
        self.now_us = now_us
        self.interceptors = interceptors
        self.hides_messages = hides_messages  # of failures, from the log too
        self.places = asyncio.Semaphore(at_once_max)
        self.stopping = False
        self._running: set[LocalActivity] = set()
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    def start(self, origin: Origin, task: LocalActivityTask, done: Done) -> LocalActivity:
        """`done` is called once, on the loop, unless the activity is dropped."""
        one = LocalActivity(self, origin, task, done)
        self._running.add(one)
        self._all_ended.clear()
        one.begin()
        return one

    def start_cancelled(self, activity_id: str, done: Done) -> None:
        """One that was cancelled before it was given to anybody: `done` is called soon."""
        outcome = LocalActivityOutcome(
            activity_id=activity_id,
            attempt=1,
            failure=exception_to_failure(CancelledError(), self.converter),
            retry_state=RetryState.CANCEL_REQUESTED,
        )
        asyncio.get_running_loop().call_soon(done, outcome)

    def ended(self, one: LocalActivity) -> None:
        self._running.discard(one)
        if not self._running:
            self._all_ended.set()

    @property
    def running(self) -> int:
        return len(self._running)

    def begin_shutdown(self) -> None:
        self.stopping = True
        for one in self._running:
            one.begin_shutdown()

    async def wait_ended(self) -> None:
        """Returns when no local activity runs."""
        await self._all_ended.wait()

    def give_up(self) -> None:
        """Asks all to stop; nothing is told of them any more."""
        for one in list(self._running):
            one.drop()


class LocalActivity:
    """One of them, with all its attempts."""

    def __init__(
        self, room: LocalActivities, origin: Origin, task: LocalActivityTask, done: Done
    ) -> None:
        self._room = room
        self._origin = origin
        self._task = task
        self._done: Done | None = done
        self._cancel_requested = False
        self._context: activity._Context | None = None  # pyright: ignore[reportPrivateUsage]
        self._started_us = 0
        self._attempt = task.attempt
        self._work: asyncio.Task[None] | None = None
        self._interruptible = False  # a thread cannot be stopped from outside

    def begin(self) -> None:
        self._work = asyncio.ensure_future(self._run())

    def cancel(self) -> None:
        """Asks its code to stop. What it then does is told."""
        if self._cancel_requested:
            return
        self._cancel_requested = True
        if self._context is not None:
            self._context.request_cancel()
        if self._interruptible and self._work is not None:
            self._work.cancel()

    def drop(self) -> None:
        """Nobody wants to know any more."""
        self._done = None
        self.cancel()

    def begin_shutdown(self) -> None:
        if self._context is not None:
            self._context.begin_shutdown()

    async def _run(self) -> None:
        # What escapes here ends the process, on purpose (see `exits`).
        outcome: LocalActivityOutcome | None = None
        try:
            outcome = await self._to_its_end()
        finally:
            self._work = None
            self._context = None
            self._room.ended(self)
        done, self._done = self._done, None
        if done is not None:
            done(outcome)

    async def _to_its_end(self) -> LocalActivityOutcome:
        task = self._task
        deadlines = Deadlines(task, self._room.now_us)
        try:
            self._interruptible = True
            if not await self._take_place(deadlines):
                return self._failed(deadlines.expired_waiting(), RetryState.TIMEOUT)
        except asyncio.CancelledError:
            return self._cancelled()
        try:
            while True:
                outcome = await self._one_attempt(deadlines)
                if not isinstance(outcome, _Again):
                    return outcome
                if outcome.backoff_ms > task.local_retry_threshold_ms:
                    return self._failed(outcome.error, None, outcome.backoff_ms)
                self._interruptible = True
                if self._cancel_requested:
                    return self._cancelled()
                try:
                    await asyncio.sleep(outcome.backoff_ms / 1000)
                except asyncio.CancelledError:
                    return self._cancelled()
                self._attempt += 1
        finally:
            self._room.places.release()

    async def _take_place(self, deadlines: Deadlines) -> bool:
        if self._cancel_requested:
            raise asyncio.CancelledError
        try:
            async with asyncio.timeout(deadlines.waiting_s()):
                await self._room.places.acquire()
        except builtins.TimeoutError:
            return False
        return True

    async def _one_attempt(self, deadlines: Deadlines) -> LocalActivityOutcome | _Again:
        task = self._task
        try:
            self._interruptible = False
            result = await self._call(deadlines)
            payload = self._room.converter.to_payload(result)
            if len(payload.data) > RESULT_BYTES_MAX:
                raise ApplicationError(
                    f"the result has {len(payload.data)} bytes; at most {RESULT_BYTES_MAX}",
                    type="ResultRefusedError",
                    non_retryable=True,
                )
            return LocalActivityOutcome(
                activity_id=task.activity_id, attempt=self._attempt, result=[payload]
            )
        except asyncio.CancelledError as error:
            if self._cancel_requested:
                return self._cancelled()
            failed: BaseException = error
        except CancelledError as error:
            if self._cancel_requested:
                return self._failed(error, RetryState.CANCEL_REQUESTED)
            failed = error
        except BaseException as error:
            if is_of_the_process(error):
                raise
            failed = error.exit if isinstance(error, _Exited) else error
            self._log_failure(failed)
        return self._after(failed, deadlines)

    def _log_failure(self, error: BaseException) -> None:
        task, origin = self._task, self._origin
        fields = {
            "activity_id": task.activity_id,
            "activity_type": task.activity_type,
            "attempt": self._attempt,
            "workflow_id": origin.workflow_id,
            "workflow_run_id": origin.run_id,
            "workflow_type": origin.workflow_type,
        }
        logger.log(
            logging.DEBUG if is_benign(error) else logging.WARNING,
            "local activity %s failed: %s: %s",
            task.activity_type,
            type(error).__name__,
            "(not shown, it is encoded)" if self._room.hides_messages else error,
            extra={"perdure_activity": fields},
        )

    def _after(self, error: BaseException, deadlines: Deadlines) -> LocalActivityOutcome | _Again:
        backoff_ms = next_backoff_ms(self._task, self._attempt, error, deadlines)
        if isinstance(backoff_ms, RetryState):
            return self._failed(error, backoff_ms)
        return _Again(error, backoff_ms)

    async def _call(self, deadlines: Deadlines) -> Any:
        room, task = self._room, self._task
        definition = room.definitions.get(task.activity_type)
        if definition is None:
            known = ", ".join(sorted(room.definitions)) or "none"
            raise ApplicationError(
                f"activity {task.activity_type!r} is not registered here; known: {known}",
                type="NotFoundError",
            )
        args = definition.signature.decode(task.input, room.converter)
        self._started_us = room.now_us()
        context = self._context = activity._Context(  # pyright: ignore[reportPrivateUsage]
            info=partial(self._info, self._attempt),
            payload_converter=room.converter,
            send_heartbeat=_no_heartbeat,
        )
        if self._cancel_requested:
            context.request_cancel()
        if room.stopping:
            context.begin_shutdown()
        scope = contextvars.copy_context()
        scope.run(activity._enter, context)  # pyright: ignore[reportPrivateUsage]
        timeout_s, which = deadlines.attempt()
        running = self._begin(definition, args, scope)
        if definition.is_async:
            self._interruptible = True
            if self._cancel_requested:
                running.cancel()
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                # A thread runs on whatever its waiter hears; a coroutine must end with it.
                return await (running if definition.is_async else asyncio.shield(running))
        except builtins.TimeoutError as late:
            if not limit.expired():
                raise  # the code's own
            context.request_cancel()
            running.add_done_callback(_look_at)
            raise TimeoutError(f"local activity {which.name} timeout", type=which) from late

    def _begin(
        self, definition: ActivityDefinition, args: Sequence[Any], scope: contextvars.Context
    ) -> asyncio.Future[Any]:
        room, loop = self._room, asyncio.get_running_loop()
        if room.interceptors:
            return loop.create_task(_kept(self._intercepted(definition, args)), context=scope)
        if definition.is_async:
            return loop.create_task(_kept(definition.function(*args)), context=scope)
        return loop.run_in_executor(room.executor, partial(scope.run, definition.function, *args))

    async def _intercepted(self, definition: ActivityDefinition, args: Sequence[Any]) -> Any:
        async def call(given: ExecuteActivityInput) -> Any:
            if definition.is_async:
                return await given.fn(*given.args)
            inside: Callable[..., Any] = contextvars.copy_context().run
            return await asyncio.get_running_loop().run_in_executor(
                given.executor, partial(inside, given.fn, *given.args)
            )

        room, context = self._room, self._context
        assert context is not None
        executor = None if definition.is_async else room.executor
        given = ExecuteActivityInput(
            fn=definition.function, args=args, executor=executor, headers=self._task.header
        )
        return await intercepted(room.interceptors, context, given, call)

    def _cancelled(self) -> LocalActivityOutcome:
        return self._failed(CancelledError(), RetryState.CANCEL_REQUESTED)

    def _failed(
        self, error: BaseException, retry_state: RetryState | None, backoff_ms: int = 0
    ) -> LocalActivityOutcome:
        return LocalActivityOutcome(
            activity_id=self._task.activity_id,
            attempt=self._attempt,
            failure=exception_to_failure(error, self._room.converter),
            retry_state=retry_state,
            backoff_ms=backoff_ms,
        )

    def _info(self, attempt: int) -> activity.Info:
        task, origin, room = self._task, self._origin, self._room
        scheduled_time = instant_from_us(task.scheduled_time_us)
        started_time = instant_from_us(self._started_us)
        assert scheduled_time is not None
        assert started_time is not None
        return activity.Info(
            activity_id=task.activity_id,
            activity_type=task.activity_type,
            attempt=attempt,
            heartbeat_details=(),
            heartbeat_timeout=None,
            idempotency_key=f"{origin.run_id}:local:{task.activity_id}",
            is_local=True,
            namespace=room.namespace,
            priority=Priority(),
            retry_policy=task.retry_policy,
            schedule_to_close_timeout=duration_from_ms(task.schedule_to_close_timeout_ms),
            scheduled_time=scheduled_time,
            start_to_close_timeout=duration_from_ms(task.start_to_close_timeout_ms),
            started_time=started_time,
            task_queue=room.task_queue,
            task_token=b"",
            workflow_id=origin.workflow_id,
            workflow_namespace=room.namespace,
            workflow_run_id=origin.run_id,
            workflow_type=origin.workflow_type,
            headers=task.header,
        )


@dataclass(frozen=True, slots=True)
class _Again:
    error: BaseException
    backoff_ms: int


def _no_heartbeat(_: tuple[Any, ...]) -> None:
    """There is no next attempt elsewhere that would want it; the task is renewed by the worker."""


class _Exited(Exception):
    def __init__(self, error: SystemExit) -> None:
        super().__init__()
        self.exit = error


async def _kept(code: Awaitable[Any]) -> Any:
    """A SystemExit that left a task would end the loop."""
    try:
        return await code
    except SystemExit as error:
        if is_of_the_process(error):
            raise
        raise _Exited(error) from error


def _look_at(ended: asyncio.Future[Any]) -> None:
    """What ends after its time is over: nobody asks for its error, and none must be logged for that."""
    if not ended.cancelled():
        ended.exception()
