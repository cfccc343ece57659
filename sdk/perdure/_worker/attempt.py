"""One attempt of an activity under way, as its code, the heartbeats and the shutdown reach it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure import activity
from perdure._jobs import DEFAULT_RETRY_POLICY
from perdure._jobs import Info as JobInfo
from perdure._wire.activity_service import Heard
from perdure._wire.payloads import payloads_to_bytes
from perdure._wire.policies import duration_from_ms, instant_from_us
from perdure._wire.tasks import ActivityTask, JobOfTask, PolledAttempt
from perdure._worker.holding import HeldTask, HeldTasks, Progress
from perdure._worker.sealing import ProgressWay
from perdure.activity import CancellationDetails
from perdure.common import Priority
from perdure.converter import Payload, PayloadConverter
from perdure.errors import AttemptLostError

SaveProgress = Callable[[bytes, bytes, int, Callable[[], bool]], Awaitable[Heard | None]]
"""See `ProgressDoor.save`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRoom:
    """What all attempts of a worker share."""

    namespace: str
    task_queue: str
    converter: PayloadConverter
    held: HeldTasks
    save_progress: SaveProgress
    sealing: ProgressWay | None
    """None: there is no codec."""


class Attempt:
    __slots__ = (
        "_loop",
        "_room",
        "_running",
        "_taken_ns",
        "_versions",
        "can_be_cancelled",
        "cancel_requested",
        "context",
        "given_up",
        "held",
        "lost",
        "paused",
        "polled",
        "refused",
        "returned",
        "tell_process",
        "was_asked_to_stop",
    )

    def __init__(self, room: AttemptRoom, polled: PolledAttempt) -> None:
        self._room = room
        self.polled = polled
        self.held = HeldTask(polled.token, self._on_loss, self._on_cancel_request, self._on_pause)
        self.context = activity._Context(  # pyright: ignore[reportPrivateUsage]  # made for us
            info=self.info,
            payload_converter=room.converter,
            send_heartbeat=self.heartbeat,
        )
        self.cancel_requested = False
        self.paused = False
        self.lost = False
        self.given_up = False
        self.refused = False
        self.returned: Payload | None = None  # what it came to, where the workflow may go ahead
        self._taken_ns = time.monotonic_ns()
        self.was_asked_to_stop = False
        # Its code runs in another process, which is told so as well; from any thread.
        self.tell_process: Callable[[], None] | None = None
        self._versions: itertools.count[int] | None = None
        self._running: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # A task that is cancelled before its first step never runs, not even its finally. And a
        # thread cannot be stopped from outside: cancelling what waits for it would only free the
        # slot of a thread that still runs.
        self.can_be_cancelled = False

    def begins(self, task: asyncio.Task[None]) -> None:
        """`task` carries its code from now on."""
        self._running = task

    def end(self) -> None:
        """Its code has ended. Opens the rings of references that would wait for the garbage
        collector otherwise, one or more for every activity."""
        self.held.on_loss = self.held.on_cancel_request = self.held.on_pause = None
        self.tell_process = None
        del self.context
        self._running = None

    def bind_checkpoints(self, *, on_loop: bool) -> None:
        """Before the code runs: on the event loop, or somewhere where it may block."""
        if on_loop:
            self.context.save_progress = self.save_progress
        else:
            self._loop = asyncio.get_running_loop()
            self.context.save_progress_sync = self.save_progress_sync

    def engine_time_us(self) -> int:
        """Of an activity: at most what the engine's clock says now, unless the clocks drift apart."""
        passed_us = (time.monotonic_ns() - self._taken_ns) // 1000
        return self.polled.started_time_us + passed_us

    # --- what it is told ------------------------------------------------------------------------

    def begin_shutdown(self) -> None:
        self.context.begin_shutdown()
        if self.tell_process is not None:
            self.tell_process()

    def give_up(self) -> None:
        self.given_up = True
        self._ask_to_stop(CancellationDetails(worker_shutdown=True))

    def _on_loss(self) -> None:
        self.lost = True
        self._room.held.remove(self.held.token)
        self._ask_to_stop(CancellationDetails(not_found=True))

    def _on_cancel_request(self) -> None:
        self.cancel_requested = True
        self._ask_to_stop(CancellationDetails(cancel_requested=True))

    def _on_pause(self) -> None:
        self.paused = True
        self._ask_to_stop(CancellationDetails(paused=True))

    def _ask_to_stop(self, why: CancellationDetails) -> None:
        if self.was_asked_to_stop:
            return
        self.was_asked_to_stop = True
        self.context.request_cancel(why)
        if self.tell_process is not None:
            self.tell_process()
        if self.can_be_cancelled and self._running is not None:
            self._running.cancel()

    # --- what its code says and asks ------------------------------------------------------------

    def heartbeat(self, details: Sequence[Any]) -> None:
        """From any thread. Converted here and now: the caller may change its values afterwards."""
        progress = self._progress(details)
        if self._room.sealing is None:
            self.held.progress = progress
        else:
            self._room.sealing.report(self.held, progress)

    async def save_progress(self, details: Sequence[Any]) -> None:
        """On the loop. See `activity.checkpoint`."""
        if self.lost:
            raise AttemptLostError
        progress = self._progress(details)
        if self._room.sealing is not None:
            progress = await self._room.sealing.seal(self.held, progress)
        self.held.progress = progress  # what fails later brings it along
        try:
            heard = await self._room.save_progress(
                self.held.token, progress.details, progress.version, self._may_go_on
            )
        except AttemptLostError:
            self._on_loss()
            raise
        if self.held.progress is progress:
            self.held.progress_sent = progress
        if heard is not None and heard.cancel_requested:
            self._on_cancel_request()
        elif heard is not None and heard.paused:
            self._on_pause()

    def save_progress_sync(self, details: Sequence[Any]) -> None:
        """From a thread other than the loop's."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self.save_progress(details), self._loop).result()

    def _may_go_on(self) -> bool:
        return not self.was_asked_to_stop

    def _progress(self, details: Sequence[Any]) -> Progress:
        if self._versions is None:
            self._versions = itertools.count(self.polled.progress_version + 1)
        payloads = self._room.converter.to_payloads(details)
        return Progress(payloads_to_bytes(payloads), next(self._versions))

    def info(self) -> activity.Info:
        return _info(self._room, self.polled.read())


def _info(room: AttemptRoom, task: ActivityTask) -> activity.Info:
    scheduled_time = instant_from_us(task.scheduled_time_us)
    started_time = instant_from_us(task.started_time_us)
    assert scheduled_time is not None
    assert started_time is not None
    of_workflow = task.job is None
    info = activity.Info(
        activity_id=task.activity_id,
        activity_type=task.activity_type,
        attempt=task.attempt,
        heartbeat_details=room.converter.from_payloads(task.heartbeat_details),
        heartbeat_timeout=duration_from_ms(task.heartbeat_timeout_ms),
        idempotency_key=task.idempotency_key,
        is_local=False,
        namespace=room.namespace,
        priority=Priority(priority_key=task.priority or None),
        retry_policy=task.retry_policy,
        schedule_to_close_timeout=duration_from_ms(task.schedule_to_close_timeout_ms),
        scheduled_time=scheduled_time,
        start_to_close_timeout=duration_from_ms(task.start_to_close_timeout_ms),
        started_time=started_time,
        task_queue=room.task_queue,
        task_token=task.token,
        workflow_id=task.workflow_id if of_workflow else None,
        workflow_namespace=room.namespace if of_workflow else None,
        workflow_run_id=task.run_id if of_workflow else None,
        workflow_type=task.workflow_type if of_workflow else None,
        headers=task.header,
        crashes=task.crashes,
    )
    return info if task.job is None else replace(info, job=_job_info(info, task.job))


def _job_info(info: activity.Info, of_task: JobOfTask) -> JobInfo:
    create_time = instant_from_us(of_task.create_time_us)
    assert create_time is not None
    return JobInfo(
        job_id=info.activity_id,
        task_name=info.activity_type,
        queue=info.task_queue,
        namespace=info.namespace,
        attempt=info.attempt,
        idempotency_key=info.idempotency_key,
        create_time=create_time,
        due_time=info.scheduled_time,
        start_time=info.started_time,
        timeout=info.start_to_close_timeout,
        heartbeat_timeout=info.heartbeat_timeout,
        progress=info.heartbeat_details,
        retry_policy=info.retry_policy or DEFAULT_RETRY_POLICY,
        priority=info.priority,
        user_id=of_task.user_id,
        schedule_id=of_task.schedule_id,
        headers=info.headers,
        crashes=info.crashes,
    )
