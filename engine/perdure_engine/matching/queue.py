"""One task queue: its offers of both kinds, its waiting polls, and the pairing of the two.

A poll asks for both kinds at once, so both meet here. How a task is handed over:

    backlog ── take ──▶ start_task ──▶ poll.answer ── set_result ──▶ the caller of poll()
                            │ future       │ cancelled, forgotten
                            ▼              ▼
              another poll of the worker, else undo_start

Between `start_task` and the caller's hands a task is always in exactly one of three places: a
pending future's callback, the answer of an open poll, or the result that the awaiting coroutine is
about to get. Each of the three knows how to undo it, so a poll that ends in any way but by
returning has taken nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from perdure_engine.core.errors import Rejected
from perdure_engine.core.limits import POLL_TIMEOUT_MS_MAX
from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.backlog import ANYBODY, Backlog
from perdure_engine.matching.polls import Poll, Waiters
from perdure_engine.ports.history import Handed, WorkerRef
from perdure_engine.ports.matching import PollAnswer, PollRequest, QueueInfo, TaskOffer

STICKY_WAIT_S = 1.0  # a worker that does not come back within this costs less than a full replay
STICKY_PASS_S_MIN = 0.05  # offers expire together: at most 20 passes over the heaps a second
# A worker that took tasks may be busy in all its slots: it counts as a poller for a longest poll.
BUSY_WORKER_SEEN_S = POLL_TIMEOUT_MS_MAX / 1000


class TaskSource(Protocol):
    """The part of ports.history.History that matching uses."""

    def start_task(
        self, offer: TaskOffer, worker: WorkerRef
    ) -> Handed | asyncio.Future[Handed | None] | None: ...

    def undo_start(self, handed: Handed) -> None: ...

    def refill(self, shard_id: int, queue_no: int) -> None: ...


class TaskQueue:
    """`wake` is called with the queue when it has something to pair; then `pair` must be called."""

    def __init__(
        self,
        source: TaskSource,
        loop: asyncio.AbstractEventLoop,
        wake: Callable[[TaskQueue], None],
    ) -> None:
        self._source = source
        self._loop = loop
        self._wake = wake
        self._backlogs = {kind: Backlog(kind) for kind in TaskKind}
        self._waiters = {kind: Waiters() for kind in TaskKind}
        self._seen: dict[TaskKind, dict[bytes, float]] = {kind: {} for kind in TaskKind}
        self._open: dict[Poll, None] = {}
        self._filled: dict[Poll, None] = {}  # open polls whose answer is not empty
        self._sticky_timer: asyncio.TimerHandle | None = None

    # ---- offers

    def add(self, offer: TaskOffer, sticky: bool) -> None:
        until = self._loop.time() + STICKY_WAIT_S if sticky else ANYBODY
        if not self._backlogs[offer.kind].add(offer, until):
            return
        if sticky and self._sticky_timer is None:
            self._sticky_timer = self._loop.call_at(until, self._expire_sticky)
        if self._waiters[offer.kind]:
            self._wake(self)

    def withdraw(self, shard_id: int) -> None:
        for backlog in self._backlogs.values():
            backlog.withdraw(shard_id)
        self._wake(self)  # there may be room again for other shards

    def _expire_sticky(self) -> None:
        now = self._loop.time()
        self._sticky_timer = None
        earliest = [until for b in self._backlogs.values() if (until := b.expire(now)) != ANYBODY]
        if earliest:
            when = max(min(earliest), now + STICKY_PASS_S_MIN)
            self._sticky_timer = self._loop.call_at(when, self._expire_sticky)
        self._wake(self)

    # ---- polls

    def open(self, request: PollRequest) -> Poll:
        """Let a poll wait. Await its `answered`, and abandon it if that is interrupted."""
        poll = Poll(request, self._loop.create_future())
        poll.timer = self._loop.call_later(request.timeout_s, self._answer, poll)
        self._open[poll] = None
        seen_until = self._loop.time() + request.timeout_s
        for kind, room in poll.room.items():
            if room > 0:
                self._waiters[kind].add(poll)
                self._see(kind, poll.worker_id, seen_until)
                if self._backlogs[kind]:
                    self._wake(self)
        return poll

    def abandon(self, poll: Poll) -> None:
        """The caller of poll() will not get the answer: whatever is in it was never taken."""
        self._close(poll)
        for handed in poll.empty_out():
            self._undo(handed)

    def forget_worker(self, worker_id: bytes) -> None:
        freed = [backlog.free_worker(worker_id) for backlog in self._backlogs.values()]
        for poll in [poll for poll in self._open if poll.worker_id == worker_id]:
            self.abandon(poll)
            if not poll.answered.done():
                poll.answered.set_result(PollAnswer([], []))
        for seen in self._seen.values():
            seen.pop(worker_id, None)
        if any(freed):
            self._wake(self)

    def end_polls(self) -> None:
        for poll in list(self._open):
            self._answer(poll)

    def _answer(self, poll: Poll) -> None:
        if poll.answered.done():  # cancelled, and its coroutine has not run yet
            self.abandon(poll)
            return
        self._close(poll)
        poll.answered.set_result(poll.answer)

    def _close(self, poll: Poll) -> None:
        if poll not in self._open:
            return
        del self._open[poll]
        self._filled.pop(poll, None)
        if poll.timer is not None:
            poll.timer.cancel()
        took = bool(poll.answer.workflow_tasks or poll.answer.activity_tasks)
        stays_s = max(poll.request.timeout_s, BUSY_WORKER_SEEN_S if took else 0.0)
        seen_until = self._loop.time() + stays_s
        for kind, waiters in self._waiters.items():
            waiters.discard(poll)
            if poll.worker_id in self._seen[kind]:
                self._see(kind, poll.worker_id, seen_until)

    def _see(self, kind: TaskKind, worker_id: bytes, until: float) -> None:
        """Remember the worker, and drop the one not seen for longest if its time is over."""
        seen = self._seen[kind]
        until = max(until, seen.pop(worker_id, 0.0))
        seen[worker_id] = until
        oldest = next(iter(seen))
        if seen[oldest] < self._loop.time():
            del seen[oldest]

    # ---- pairing

    def pair(self) -> None:
        """Give what waits to whoever waits; answer each poll that got something."""
        for kind, backlog in self._backlogs.items():
            if backlog and self._waiters[kind]:
                self._pair_kind(backlog, self._waiters[kind])
        for poll in list(self._filled):
            self._answer(poll)
        for backlog in self._backlogs.values():
            for shard_id, queue_no in backlog.pop_refused():
                self._refill(shard_id, queue_no)

    def _pair_kind(self, backlog: Backlog, waiters: Waiters) -> None:
        """Each worker gets what is reserved for it, and of the rest at most its even share.

        Rounds go on while there is work and room: a share that found no room goes to the others.
        """
        share = fair_share(len(backlog.anybody), len(waiters))
        taken: dict[bytes, int] = {}
        for worker_id in backlog.workers_with_own(waiters.by_worker):
            taken[worker_id] = self._serve(backlog, waiters, worker_id, share)
        while backlog.anybody and waiters:
            for worker_id in waiters.first_workers(len(backlog.anybody)):
                allowance = share - taken.pop(worker_id, 0)
                if allowance > 0:
                    self._serve(backlog, waiters, worker_id, allowance)
            share = fair_share(len(backlog.anybody), len(waiters))
            taken.clear()

    def _serve(self, backlog: Backlog, waiters: Waiters, worker_id: bytes, allowance: int) -> int:
        """Fill the worker's polls; return how many offers it got that were not reserved for it."""
        taken = 0
        while (poll := waiters.first(worker_id)) is not None:
            if poll.answered.done():
                self.abandon(poll)
                continue
            waiting = backlog.take(worker_id, or_anybodys=taken < allowance)
            if waiting is None:
                break
            if self._start(poll, waiting.offer) and waiting.sticky_until == ANYBODY:
                taken += 1
        return taken

    def _start(self, poll: Poll, offer: TaskOffer) -> bool:
        """Turn an offer into a hand-out for this poll. False: it was stale, and is dropped."""
        try:
            started = self._source.start_task(offer, poll.request.worker)
        except Exception as error:
            # One run's trouble must not cost the other tasks of this turn. The offer is dropped:
            # the shard repeats one that was not started.
            self._report("start_task failed", error)
            return False
        if started is None:
            return False
        self._use_room(poll, offer.kind)
        if isinstance(started, asyncio.Future):
            started.add_done_callback(partial(self._started, poll, offer.kind))
        else:
            self._hand(poll, offer.kind, started)
        return True

    def _started(self, poll: Poll, kind: TaskKind, future: asyncio.Future[Handed | None]) -> None:
        handed = self._outcome(future)
        if handed is None:
            self._free_room(poll, kind)
        else:
            self._hand(poll, kind, handed)
        self._wake(self)

    def _hand(self, poll: Poll, kind: TaskKind, handed: Handed) -> None:
        """Put a task into its poll's answer or, if that has ended, into another of the worker."""
        if poll.answered.done():
            other = self._open_poll(kind, poll.worker_id)
            if other is None:
                self._undo(handed)
                return
            self._use_room(other, kind)
            poll = other
        poll.collect(handed)
        self._filled[poll] = None
        if poll.is_full:
            for waiters in self._waiters.values():
                waiters.discard(poll)

    def _open_poll(self, kind: TaskKind, worker_id: bytes) -> Poll | None:
        waiters = self._waiters[kind]
        while (poll := waiters.first(worker_id)) is not None and poll.answered.done():
            self.abandon(poll)
        return poll

    def _use_room(self, poll: Poll, kind: TaskKind) -> None:
        poll.room[kind] -= 1
        if poll.room[kind] == 0:
            self._waiters[kind].discard(poll)

    def _free_room(self, poll: Poll, kind: TaskKind) -> None:
        poll.room[kind] += 1
        if poll in self._open and not poll.is_full:
            self._waiters[kind].add(poll)

    def _outcome(self, future: asyncio.Future[Handed | None]) -> Handed | None:
        if future.cancelled():
            return None
        error = future.exception()
        if error is None:
            return future.result()
        if not isinstance(error, Rejected):  # Rejected: the shard moved or its outcome is unknown
            self._report("the start of a task failed", error)
        return None

    def _undo(self, handed: Handed) -> None:
        try:
            self._source.undo_start(handed)
        except Exception as error:
            self._report("undo_start failed", error)

    def _refill(self, shard_id: int, queue_no: int) -> None:
        try:
            self._source.refill(shard_id, queue_no)
        except Exception as error:
            self._report("refill failed", error)

    def _report(self, message: str, error: BaseException) -> None:
        self._loop.call_exception_handler({"message": f"matching: {message}", "exception": error})

    # ---- what others ask

    def is_idle(self) -> bool:
        """Nothing here is worth keeping."""
        return (
            not self._open
            and all(backlog.is_idle for backlog in self._backlogs.values())
            and not any(self.has_pollers(kind) for kind in TaskKind)
        )

    def has_pollers(self, kind: TaskKind) -> bool:
        now = self._loop.time()
        return any(until >= now for until in reversed(self._seen[kind].values()))

    def describe(self, kind: TaskKind) -> QueueInfo:
        now = self._loop.time()
        tasks = [offer for offer in self._backlogs[kind] if offer.query_no == 0]
        return QueueInfo(
            backlog_count=len(tasks),
            oldest_ready_us=min((offer.ready_us for offer in tasks), default=0),
            pollers=sum(until >= now for until in self._seen[kind].values()),
        )


def fair_share(tasks: int, workers: int) -> int:
    return -(-tasks // max(workers, 1))
