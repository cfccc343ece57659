"""What the code of an activity uses: its decorator, and its context while it runs.

An activity is a plain function, async (it runs on the worker's event loop and hears of its
cancellation as asyncio.CancelledError) or not: then it runs in a thread, in which CancelledError is
raised, or in a process, where it asks: `is_cancelled`, `raise_if_cancelled`,
`wait_for_cancelled_sync`. Decorating leaves it callable as it was.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar, overload

from perdure._definitions import ActivityDefinition
from perdure._definitions import activity_definition as activity_definition
from perdure._interceptors.activity import ActivityOutboundInterceptor
from perdure._jobs import Info as JobInfo
from perdure._logs import InfoLoggerAdapter
from perdure._payload import Payload
from perdure._thread_cancel import ThreadCancel
from perdure.common import Priority, RetryPolicy
from perdure.converter import PayloadConverter
from perdure.errors import CancelledError

__all__ = [
    "ActivityCancellationDetails",
    "CancellationDetails",
    "Info",
    "LoggerAdapter",
    "cancellation_details",
    "checkpoint",
    "checkpoint_sync",
    "defn",
    "heartbeat",
    "in_activity",
    "info",
    "is_cancelled",
    "is_worker_shutdown",
    "logger",
    "payload_converter",
    "raise_complete_async",
    "raise_if_cancelled",
    "shield_thread_cancel_exception",
    "wait_for_cancelled",
    "wait_for_cancelled_sync",
    "wait_for_worker_shutdown",
    "wait_for_worker_shutdown_sync",
]

_Activity = TypeVar("_Activity", bound=Callable[..., Any])


@overload
def defn(fn: _Activity, /) -> _Activity: ...


@overload
def defn(
    *,
    name: str | None = None,
    dynamic: bool = False,
    version: int = 1,
    no_thread_cancel_exception: bool = False,
    pure: bool = False,
) -> Callable[[_Activity], _Activity]: ...


def defn(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    dynamic: bool = False,
    version: int = 1,
    no_thread_cancel_exception: bool = False,
    pure: bool = False,
) -> Callable[..., Any]:
    """Makes a function, a method or a class with `__call__` an activity; `name` is the function's
    unless given. Raises TypeError for what cannot be one.

    A `dynamic` one takes the calls of every name that the worker does not know: its parameter is
    a `Sequence[RawValue]`, to be read with `payload_converter`; `info().activity_type` is the name.

    `version` tells functions of one name apart, and a worker takes several: a run keeps the
    version that its history names first, and one that has not called the activity yet takes the
    newest. Register the old ones as long as runs use them.

    With `no_thread_cancel_exception` a sync activity has to ask whether it was cancelled.

    A `pure` one does nothing but return, and the same for the same input: `perdure contract verify`
    runs it again on recorded inputs and compares.
    """

    def decorate(decorated: _Activity) -> _Activity:
        ActivityDefinition.attach(
            decorated,
            name,
            dynamic=dynamic,
            version=version,
            cancel_raises=not no_thread_cancel_exception,
            pure=pure,
        )
        return decorated

    return decorate if fn is None else decorate(fn)


# No slots: programs that report errors take `info().__dict__` along.
@dataclass(frozen=True, kw_only=True)
class Info:
    """What is known of the attempt that runs. `idempotency_key` is the same for every attempt.

    One that no workflow called runs as a job: `job` then says which, and what is the workflow's is
    None.
    """

    activity_id: str
    activity_type: str
    attempt: int
    heartbeat_details: Sequence[Any]
    heartbeat_timeout: timedelta | None
    idempotency_key: str
    is_local: bool
    namespace: str
    priority: Priority
    retry_policy: RetryPolicy | None
    schedule_to_close_timeout: timedelta | None
    scheduled_time: datetime
    start_to_close_timeout: timedelta | None
    started_time: datetime
    task_queue: str
    task_token: bytes
    workflow_id: str | None
    workflow_namespace: str | None
    workflow_run_id: str | None
    workflow_type: str | None
    headers: Mapping[str, Payload]
    job: JobInfo | None = None
    crashes: int = 0
    """How many workers in a row have died with it in hand. From 2 on it has a process to itself,
    from 3 on one of the surgical pool; what returns, raises or is saved begins to count anew."""

    @property
    def activity_run_id(self) -> str | None:
        """The job's id; None in a workflow."""
        return None if self.job is None else self.job.job_id

    @property
    def current_attempt_scheduled_time(self) -> datetime:
        """The same as `scheduled_time`: both are this attempt's."""
        return self.scheduled_time

    @property
    def in_workflow(self) -> bool:
        """False: it runs as a job."""
        return self.workflow_id is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class CancellationDetails:
    """Why the attempt was asked to stop."""

    cancel_requested: bool = False
    """By the workflow."""
    paused: bool = False
    """An operator holds the activity back. An attempt that stops now is not counted."""
    not_found: bool = False
    """It is over or has another owner: nothing that it does counts any more."""
    worker_shutdown: bool = False


ActivityCancellationDetails = CancellationDetails


class _CompleteAsyncError(BaseException):
    """Leaves the activity's code without an outcome; not an Exception, so that no handler takes it."""


class _Context:
    """One attempt, as its code sees it. Made by the worker, one for each attempt.

    The worker runs the activity in a contextvars context in which `_enter` was called. It calls
    `request_cancel` and `begin_shutdown` from any thread, each at most once; it is called back
    through `send_heartbeat(details)` from the thread of the activity, and must not block there,
    and through `save_progress(details)` on its loop or `save_progress_sync(details)` elsewhere.
    `info` is a function, so that an activity that never asks costs nothing.
    """

    __slots__ = (
        "_info",
        "_make_info",
        "cancel",
        "cancellation",
        "outbound",
        "payload_converter",
        "save_progress",
        "save_progress_sync",
        "send_heartbeat",
        "shutdown",
        "thread_cancel",
    )

    def __init__(
        self,
        *,
        info: Callable[[], Info],
        payload_converter: PayloadConverter,
        send_heartbeat: Callable[[tuple[Any, ...]], None],
        save_progress: Callable[[tuple[Any, ...]], Awaitable[None]] | None = None,
        save_progress_sync: Callable[[tuple[Any, ...]], None] | None = None,
    ) -> None:
        self._make_info = info
        self._info: Info | None = None
        self.outbound: ActivityOutboundInterceptor | None = None
        self.payload_converter = payload_converter
        self.send_heartbeat = send_heartbeat
        self.save_progress = save_progress
        self.save_progress_sync = save_progress_sync
        self.cancellation: CancellationDetails | None = None
        self.thread_cancel: ThreadCancel | None = None
        self.cancel = _Flag()
        self.shutdown = _Flag()

    @property
    def info(self) -> Info:
        if self._info is None:
            self._info = self._make_info()
        return self._info

    def request_cancel(self, why: CancellationDetails | None = None) -> None:
        self.cancellation = why
        self.cancel.set()
        if self.thread_cancel is not None:
            self.thread_cancel.request()

    def begin_shutdown(self) -> None:
        self.shutdown.set()


class _Flag:
    """An event that costs nothing until somebody waits for it: hardly any activity does."""

    __slots__ = ("_event", "_wakes", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._event: threading.Event | None = None
        self._wakes: tuple[Callable[[], object], ...] = ()

    def set(self) -> None:
        self.is_set = True
        if self._event is not None:
            self._event.set()
        for wake in self._wakes:
            wake()

    def wait(self, timeout_s: float | None) -> bool:
        event = self._event
        if event is None:
            event = self._event = threading.Event()
        # Looked at after the event is in its place: `set` has either seen it or been seen here.
        if self.is_set:
            event.set()
        return event.wait(timeout_s)

    async def wait_async(self) -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(event.set)

        self._wakes = (*self._wakes, wake)
        try:
            # Looked at after it was added: `set` has either seen it or been seen here.
            if not self.is_set:
                await event.wait()
        finally:
            self._wakes = tuple(one for one in self._wakes if one is not wake)


_current: ContextVar[_Context] = ContextVar("perdure_activity")


def _enter(context: _Context) -> None:  # pyright: ignore[reportUnusedFunction]  # the worker uses it
    """Binds the attempt to the current contextvars context, for good."""
    _current.set(context)


def _context() -> _Context:
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError("not in an activity") from None


def in_activity() -> bool:
    return _current.get(None) is not None


def info() -> Info:
    context = _context()
    return context.info if context.outbound is None else context.outbound.info()


def payload_converter() -> PayloadConverter:
    return _context().payload_converter


def heartbeat(*details: Any) -> None:
    """Tells the engine that the attempt lives, and how far it has come.

    `details` are saved (not at once: batched) and found by the next attempt in
    `info().heartbeat_details`. Cancellation is heard of without heartbeats.
    """
    context = _context()
    if context.outbound is not None:
        context.outbound.heartbeat(*details)
    else:
        context.send_heartbeat(details)


async def checkpoint(*details: Any) -> None:
    """Saves how far the attempt has come, now: what this returned for is never done again because
    a worker died, as the next attempt finds it in `info().heartbeat_details`.

    For async activities; in threads and processes there is `checkpoint_sync`. Raises
    AttemptLostError, and the activity is asked to stop, when the attempt is over or has another
    owner; RPCError when the engine does not take the details.
    """
    save = _context().save_progress
    if save is None:
        raise RuntimeError("not on the worker's event loop: use activity.checkpoint_sync")
    await save(details)


def checkpoint_sync(*details: Any) -> None:
    """`checkpoint` for activities that run in threads or processes: blocks until it is saved."""
    save = _context().save_progress_sync
    if save is None:
        raise RuntimeError("it would block the event loop: await activity.checkpoint")
    save(details)


def raise_complete_async() -> NoReturn:
    """Ends the function without an outcome: it comes from elsewhere, by `info().task_token` or the
    ids, through `client.get_async_activity_handle`.

    From now on the worker does not watch over the attempt; its timeouts do, so give it a
    start-to-close or a heartbeat timeout that is long enough. Raises RuntimeError in a job and in a
    local activity: their outcome is what their function returns or raises.
    """
    info = _context().info
    if info.job is not None or info.is_local:
        raise RuntimeError("a job or a local activity cannot be completed from elsewhere")
    raise _CompleteAsyncError


def cancellation_details() -> CancellationDetails | None:
    """Why the attempt was asked to stop; None while it was not."""
    return _context().cancellation


def is_cancelled() -> bool:
    return _context().cancel.is_set


def raise_if_cancelled() -> None:
    """Raises perdure.errors.CancelledError once the activity's cancellation was requested."""
    if _context().cancel.is_set:
        raise CancelledError


@contextmanager
def shield_thread_cancel_exception() -> Generator[None]:
    """In a thread: what is in the block is not torn apart by a cancellation, which is raised after
    it. Elsewhere it does nothing."""
    thread_cancel = _context().thread_cancel
    if thread_cancel is None:
        yield
        return
    with thread_cancel.shield():
        yield


async def wait_for_cancelled() -> None:
    """For async activities. What waits for it is cancelled itself, unless it is a task of its own."""
    await _context().cancel.wait_async()


def wait_for_cancelled_sync(timeout: timedelta | float | None = None) -> bool:
    """Blocks until cancelled, or until the timeout (seconds or timedelta); says if cancelled.

    For activities in threads only: on an event loop it would block everything else.
    """
    return _context().cancel.wait(_seconds(timeout))


def is_worker_shutdown() -> bool:
    return _context().shutdown.is_set


async def wait_for_worker_shutdown() -> None:
    """For async activities: returns once the worker is told to stop."""
    await _context().shutdown.wait_async()


def wait_for_worker_shutdown_sync(timeout: timedelta | float | None = None) -> bool:
    return _context().shutdown.wait(_seconds(timeout))


def _seconds(timeout: timedelta | float | None) -> float | None:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


class LoggerAdapter(InfoLoggerAdapter):
    """Adds which attempt speaks: to the message for people (`activity_info_on_message`), as the dict
    `perdure_activity` of the record for machines (`activity_info_on_extra`), and if wanted as all
    of `info()`, the record's `activity_info` (`full_activity_info_on_extra`)."""

    def __init__(self, logger: logging.Logger, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(logger, extra)
        self.activity_info_on_message = True
        self.activity_info_on_extra = True
        self.full_activity_info_on_extra = False

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        context = _current.get(None)
        if context is None:
            return msg, kwargs
        info = context.info
        fields: dict[str, Any] = {
            "activity_id": info.activity_id,
            "activity_type": info.activity_type,
            "attempt": info.attempt,
            "namespace": info.namespace,
            "task_queue": info.task_queue,
        }
        if info.job is None:
            fields |= {
                "workflow_id": info.workflow_id,
                "workflow_run_id": info.workflow_run_id,
                "workflow_type": info.workflow_type,
            }
        added: dict[str, Any] = {}
        if self.activity_info_on_extra:
            added["perdure_activity"] = fields
        if self.full_activity_info_on_extra:
            added["activity_info"] = info
        kwargs["extra"] = self.with_info(kwargs, added)
        return f"{msg} ({fields})" if self.activity_info_on_message else msg, kwargs


logger = LoggerAdapter(logging.getLogger(__name__))
