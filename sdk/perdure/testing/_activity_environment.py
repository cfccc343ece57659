"""One activity, run without a worker."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar, overload

from perdure import activity
from perdure._definitions import ActivityDefinition
from perdure._thread_cancel import ThreadCancel
from perdure.common import Priority
from perdure.converter import DataConverter, PayloadConverter

P = ParamSpec("P")
R = TypeVar("R")

CANCELLED = activity.CancellationDetails(cancel_requested=True)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ActivityEnvironment:
    """Calls activities as a worker would: with their context, and nothing else around them.

    Set `info`, `on_heartbeat` and `payload_converter` before `run`; `cancel` and `worker_shutdown` may
    be called at any time from any thread (async activities: from the event loop), and hold for all
    that this environment runs.
    """

    def __init__(self) -> None:
        self.info = self.default_info()
        self.on_heartbeat: Callable[..., None] = _ignore
        """Called with the details of each heartbeat and checkpoint, in the activity's thread."""
        self.payload_converter: PayloadConverter = DataConverter.default.payload_converter
        self._cancelled: activity.CancellationDetails | None = None
        self._shutting_down = False
        self._running: set[_Attempt] = set()

    @staticmethod
    def default_info() -> activity.Info:
        """What `info` is at first; `dataclasses.replace` makes another of it."""
        return activity.Info(
            activity_id="test",
            activity_type="unknown",
            attempt=1,
            heartbeat_details=[],
            heartbeat_timeout=None,
            idempotency_key="test",
            is_local=False,
            namespace="default",
            priority=Priority(),
            retry_policy=None,
            schedule_to_close_timeout=timedelta(seconds=1),
            scheduled_time=_EPOCH,
            start_to_close_timeout=timedelta(seconds=1),
            started_time=_EPOCH,
            task_queue="test",
            task_token=b"test",
            workflow_id="test",
            workflow_namespace="default",
            workflow_run_id="test-run",
            workflow_type="test",
            headers={},
        )

    @overload
    def run(
        self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[R]: ...

    @overload
    def run(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Runs the activity: an async one when what is returned is awaited, any other one here and now.

        Returns and raises what it does.
        """
        attempt = _Attempt(self)
        if self._cancelled is not None:
            attempt.context.request_cancel(self._cancelled)
        if self._shutting_down:
            attempt.context.begin_shutdown()
        self._running.add(attempt)
        if _is_async(fn):
            return attempt.run_async(fn, args, kwargs)
        try:
            return attempt.run(fn, args, kwargs)
        finally:
            self._running.discard(attempt)

    def cancel(self, cancellation_details: activity.CancellationDetails = CANCELLED) -> None:
        """As when the workflow cancels the activity: an async one gets asyncio.CancelledError; in the
        thread of any other one CancelledError is raised. `cancellation_details`: as when it is for another reason."""
        if self._cancelled is not None:
            return
        self._cancelled = cancellation_details
        for attempt in list(self._running):
            attempt.cancel(cancellation_details)

    def worker_shutdown(self) -> None:
        """As when the worker is told to stop."""
        if self._shutting_down:
            return
        self._shutting_down = True
        for attempt in list(self._running):
            attempt.context.begin_shutdown()

    def forget(self, attempt: _Attempt) -> None:
        """For this module."""
        self._running.discard(attempt)


class _Attempt:
    def __init__(self, environment: ActivityEnvironment) -> None:
        self._environment = environment
        self._task: asyncio.Task[Any] | None = None
        self.context = activity._Context(  # pyright: ignore[reportPrivateUsage]  # made for workers
            info=lambda: environment.info,
            payload_converter=environment.payload_converter,
            send_heartbeat=lambda details: environment.on_heartbeat(*details),
            save_progress=self._save,
            save_progress_sync=lambda details: environment.on_heartbeat(*details),
        )

    async def _save(self, details: tuple[Any, ...]) -> None:
        self._environment.on_heartbeat(*details)

    def run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        inside = contextvars.copy_context().run
        if not _cancel_raises(fn):
            return inside(self._call, fn, args, kwargs)
        self.context.thread_cancel = thread_cancel = ThreadCancel()
        return inside(thread_cancel.call, self._call, (fn, args, kwargs))

    async def run_async(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """In a task of its own, as in a worker: its cancellation is not that of who waits for it."""

        async def call() -> Any:
            return await self._call(fn, args, kwargs)

        self._task = task = asyncio.ensure_future(call())
        try:
            if self.context.cancel.is_set:
                task.cancel()
            return await task
        finally:
            if not task.done():  # who waits was cancelled
                task.cancel()
            self._environment.forget(self)

    def cancel(self, why: activity.CancellationDetails) -> None:
        self.context.request_cancel(why)
        if self._task is not None:
            self._task.cancel()

    def _call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        activity._enter(self.context)  # pyright: ignore[reportPrivateUsage]  # made for workers
        return fn(*args, **kwargs)


def _ignore(*details: Any) -> None:
    pass


def _cancel_raises(fn: Callable[..., Any]) -> bool:
    """True unless its decorator says otherwise; it need not have one."""
    try:
        return ActivityDefinition.attached_to(fn).cancel_raises
    except TypeError:
        return True


def _is_async(fn: Callable[..., Any]) -> bool:
    """Of a function, a method, or an object that is called."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(fn, "__call__", None)  # noqa: B004 - it is its being async that is asked
    )
