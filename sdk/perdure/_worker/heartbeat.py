"""One heartbeat for all tasks of the process, every 2 s, whatever the event loop is doing.

More often only while the worker holds an activity whose own heartbeat timeout is shorter than that
would serve.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from perdure._wire.connection import BATCH_BYTES_MAX
from perdure._wire.held import HeldTaskNews, HeldTaskState
from perdure._worker.guard import TICK_S
from perdure._worker.holding import HeldTask, HeldTasks, Progress
from perdure.errors import RPCError

logger = logging.getLogger(__name__)

# A quarter of the lease (8 s): three heartbeats may be lost.
PERIOD_S = 2.0
# An activity whose heartbeat timeout is shorter than this is heard of in less than a period: with
# a period's delay its progress would come too late, however often its code reports it.
SHORT_TIMEOUT_S = 10.0
# Of that timeout. Code that reports its progress every half of the timeout, as it is usual to do,
# leaves the other half for the wait until it is sent, for the look whether there is any, and for
# the way.
_SHARE_OF_TIMEOUT = 0.4
_SHARE_WITH_NEWS = 0.1
_TICK_S_MIN = 0.05
# Less than the lease by more than one period, so that a heartbeat that hangs is not the last.
CALL_TIMEOUT_S = 5.0


class HeartbeatDoor(Protocol):
    def heartbeat(
        self, held: Sequence[HeldTaskNews], loop_stalled_ms: int, timeout_s: float
    ) -> list[tuple[int, HeldTaskState]]:
        """States by index in `held`, of those tasks only that need something done."""
        ...


class LoopProbe:
    """Measures from another thread how long an event loop has not turned.

    The loop is asked to bump a counter; a question without an answer shows the stall. Rejected: a
    timer in the loop that bumps by itself, because it would wake an idle process for nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, monotonic_s: Callable[[], float]) -> None:
        self._loop = loop
        self._monotonic_s = monotonic_s
        self._turns = 0  # written by the loop only
        self._asked = 0  # written by the thread only
        self._asked_at_s = 0.0

    def stalled_ms(self) -> int:
        """Since the oldest question without an answer; asks again once there was an answer."""
        if self._turns != self._asked:
            return int((self._monotonic_s() - self._asked_at_s) * 1000)
        self._asked += 1
        self._asked_at_s = self._monotonic_s()
        self._loop.call_soon_threadsafe(self._turn)
        return 0

    def _turn(self) -> None:
        self._turns += 1


class Heartbeats:
    """Lists all held tasks to the engine, with their news, and passes on what it answers.

    `tick` is called from the guard thread; the tasks' callbacks are called on the event loop.
    """

    def __init__(
        self,
        held: HeldTasks,
        door: HeartbeatDoor,
        probe: LoopProbe,
        loop: asyncio.AbstractEventLoop,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._held = held
        self._door = door
        self._probe = probe
        self._loop = loop
        self._monotonic_s = monotonic_s
        self._next_at_s = monotonic_s()
        self._failing = False

    def tick(self) -> None:
        started_s = self._monotonic_s()
        if started_s < self._next_at_s and not self._is_hurried(started_s):
            return
        try:
            self.beat()
        except RPCError as error:
            # The next tick tries again: leases run while the engine is away.
            if not self._failing:
                logger.warning("heartbeat failed, trying again until it works: %s", error)
            self._failing = True
            return
        self._failing = False
        self._next_at_s = started_s + PERIOD_S

    def _is_hurried(self, now_s: float) -> bool:
        timeout_s = self._held.shortest_timeout_s()
        if timeout_s is None:
            return False
        share = _SHARE_WITH_NEWS if self._held.have_news() else _SHARE_OF_TIMEOUT
        return now_s - (self._next_at_s - PERIOD_S) >= timeout_s * share

    def tick_after_s(self) -> float:
        """How soon `tick` is to be called again."""
        timeout_s = self._held.shortest_timeout_s()
        if timeout_s is None:
            return TICK_S
        return max(_TICK_S_MIN, min(TICK_S, timeout_s * _SHARE_WITH_NEWS))

    def beat(self) -> None:
        tasks = self._held.all()
        news, progress = self._news_of(tasks)
        notices = self._door.heartbeat(news, self._probe.stalled_ms(), CALL_TIMEOUT_S)
        for task, sent in progress:
            task.progress_sent = sent
        if notices:
            found = [(tasks[index], state) for index, state in notices if index < len(tasks)]
            self._loop.call_soon_threadsafe(self._deliver, found)

    def _news_of(
        self, tasks: list[HeldTask]
    ) -> tuple[list[HeldTaskNews], list[tuple[HeldTask, Progress]]]:
        """Every task is always listed: one left out would be taken for lost. Progress that does
        not fit into the message waits for the next one."""
        news: list[HeldTaskNews] = []
        progress: list[tuple[HeldTask, Progress]] = []
        size = 0
        for task in tasks:
            latest = task.progress
            fits = latest is not None and (
                not progress or size + len(latest.details) <= BATCH_BYTES_MAX
            )
            if latest is not None and latest is not task.progress_sent and fits:
                size += len(latest.details)
                progress.append((task, latest))
                news.append(HeldTaskNews(task.token, latest.details, latest.version))
            else:
                news.append(HeldTaskNews(task.token, None))
        return news, progress

    def _deliver(self, notices: list[tuple[HeldTask, HeldTaskState]]) -> None:
        for task, state in notices:
            if not self._held.holds(task):  # it ended while the heartbeat was under way
                continue
            if state is HeldTaskState.LOST and task.on_loss is not None:
                task.on_loss()
            if state is HeldTaskState.CANCEL_REQUESTED and task.on_cancel_request is not None:
                task.on_cancel_request()
            if state is HeldTaskState.PAUSED and task.on_pause is not None:
                task.on_pause()
