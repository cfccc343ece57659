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
from perdure_engine.core.tasks import ROOM_OF, WORKER_KINDS, TaskKind
from perdure_engine.matching.backlog import ANYBODY, Backlog
from perdure_engine.matching.pace import Pace
from perdure_engine.matching.polls import Poll, Waiters
from perdure_engine.ports.history import Handed, StartOutcome, WorkerRef
from perdure_engine.ports.matching import PollAnswer, PollRequest, QueueInfo, TaskOffer
from perdure_engine.ports.metrics import Metrics

KIND_NAMES = {kind: kind.name.lower() for kind in ROOM_OF}
# What a worker's completions lead to is there when they are saved, and travels with their answer: a
# poll's answer would cost both sides a call more. Its polls wait for that as long as one commit under
# load takes; a completion that needs longer waits for something else.
TAKER_WAIT_S = 0.01
STICKY_WAIT_S = 1.0  # a worker that does not come back within this costs less than a full replay
STICKY_PASS_S_MIN = 0.05  # offers expire together: at most 20 passes over the heaps a second
# A worker that took tasks may be busy in all its slots: it counts as a poller for a longest poll.
BUSY_WORKER_SEEN_S = POLL_TIMEOUT_MS_MAX / 1000


class TaskSource(Protocol):
    """The part of ports.history.History that matching uses."""

    def start_task(self, offer: TaskOffer, worker: WorkerRef) -> StartOutcome: ...

    def undo_start(self, handed: Handed) -> None: ...

    def refill(self, shard_id: int, queue_no: int) -> None: ...


class TaskQueue:
    """`wake` is called with the queue when it has something to pair; then `pair` must be called."""

    def __init__(
        self,
        source: TaskSource,
        loop: asyncio.AbstractEventLoop,
        wake: Callable[[TaskQueue], None],
        metrics: Metrics,
    ) -> None:
        self._source = source
        self._metrics = metrics
        self._loop = loop
        self._wake = wake
        self._backlogs = {kind: Backlog(kind) for kind in WORKER_KINDS}
        self._waiters = {kind: Waiters() for kind in WORKER_KINDS}
        self._seen: dict[TaskKind, dict[bytes, float]] = {kind: {} for kind in WORKER_KINDS}
        self._open: dict[Poll, None] = {}
        self._filled: dict[Poll, None] = {}  # open polls whose answer is not empty
        self._sticky_timer: asyncio.TimerHandle | None = None
        self._takers: dict[bytes, dict[QueueTaker, None]] = {}  # by worker
        self._taker_timer: asyncio.TimerHandle | None = None
        self._pace: Pace | None = None  # of jobs
        self._pace_timer: asyncio.TimerHandle | None = None

    def limit_jobs(self, per_s: float) -> None:
        """So many jobs may start in a second; 0: any. Told as much as before, it goes on: a new pace starts full."""
        if per_s == (self._pace.per_s if self._pace is not None else 0.0):
            return
        self._pace = Pace(per_s, self._loop.time()) if per_s else None
        self._backlogs[TaskKind.ACTIVITY].hold_jobs(self._pace is not None)
        self._wake(self)

    # ---- offers

    def add(self, offer: TaskOffer, sticky: bool) -> None:
        until = self._loop.time() + STICKY_WAIT_S if sticky else ANYBODY
        room = ROOM_OF[offer.kind]
        if not self._backlogs[room].add(offer, until):
            return
        counts, met = (
            self._metrics.task_offers.values,
            (KIND_NAMES[offer.kind], self._met_by(offer)),
        )
        counts[met] = counts.get(met, 0) + 1  # a closed set of labels: `inc` would only cap them
        if sticky and self._sticky_timer is None:
            self._sticky_timer = self._loop.call_at(until, self._expire_sticky)
        if self._waiters[room]:
            self._wake(self)

    def _met_by(self, offer: TaskOffer) -> str:
        if offer.sticky_worker_id in self._takers:
            return "completion"
        return "poll" if self._waiters[ROOM_OF[offer.kind]] else "nobody"

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

    def announce(self, request: PollRequest) -> QueueTaker:
        """For a while the worker's polls leave to this taker what it has room for."""
        taker = QueueTaker(self, request, self._loop.time() + TAKER_WAIT_S)
        self._takers.setdefault(taker.worker_id, {})[taker] = None
        return taker

    def end(self, taker: QueueTaker) -> bool:
        """False: it had ended before, or its worker is forgotten."""
        takers = self._takers.get(taker.worker_id, {})
        if taker not in takers:
            return False
        del takers[taker]
        if not takers:
            del self._takers[taker.worker_id]
        if any(self._backlogs.values()):
            self._wake(self)  # the polls may have what it leaves
        return True

    def take(self, request: PollRequest) -> PollAnswer:
        """What can be had at once: like a poll that is answered in the moment it is opened.

        Among the workers that wait it counts as one. A start that takes time goes to a waiting poll
        of the worker, or is undone.
        """
        poll = Poll(request, self._loop.create_future())
        for kind, backlog in self._backlogs.items():
            if backlog and poll.room[kind]:
                if backlog.held:
                    self._let_jobs_go(backlog)
                workers = len(self._waiters[kind].by_worker.keys() | {poll.worker_id})
                self._fill(backlog, poll, fair_share(len(backlog.anybody), workers))
        self._filled.pop(poll, None)
        poll.answered.set_result(poll.answer)
        return poll.answer

    def abandon(self, poll: Poll) -> None:
        """The caller of poll() will not get the answer: whatever is in it was never taken."""
        if poll in self._open:
            self._metrics.poll_results.inc("abandoned")
        self._close(poll)
        for handed in poll.empty_out():
            self._undo(handed)

    def forget_worker(self, worker_id: bytes) -> None:
        freed = [backlog.free_worker(worker_id) for backlog in self._backlogs.values()]
        for poll in [poll for poll in self._open if poll.worker_id == worker_id]:
            self.abandon(poll)
            if not poll.answered.done():
                poll.answered.set_result(PollAnswer([], []))
        self._takers.pop(worker_id, None)
        for seen in self._seen.values():
            seen.pop(worker_id, None)
        if any(freed):
            self._wake(self)

    def end_polls(self) -> None:
        self._takers.clear()
        for poll in list(self._open):
            self._answer(poll)

    def _answer(self, poll: Poll) -> None:
        if poll.answered.done():  # cancelled, and its coroutine has not run yet
            self.abandon(poll)
            return
        self._close(poll)
        answer = poll.answer
        self._metrics.poll_results.inc("empty" if answer.is_empty else "tasks")
        poll.answered.set_result(answer)

    def _close(self, poll: Poll) -> None:
        if poll not in self._open:
            return
        del self._open[poll]
        self._filled.pop(poll, None)
        if poll.timer is not None:
            poll.timer.cancel()
        stays_s = max(poll.request.timeout_s, 0.0 if poll.answer.is_empty else BUSY_WORKER_SEEN_S)
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

        Rounds go on while there is work and room: a share that found no room goes to the others. A
        worker with a taker under way gets nothing yet; its share is kept for it.
        """
        if backlog.held:
            self._let_jobs_go(backlog)
        share = fair_share(len(backlog.anybody), len(waiters))
        later = self._with_takers(backlog, waiters) if self._takers else ()
        taken: dict[bytes, int] = {}
        for worker_id in backlog.workers_with_own(waiters.by_worker):
            if worker_id not in later:
                taken[worker_id] = self._serve(backlog, waiters, worker_id, share)
        while backlog.anybody and len(waiters) > len(later):
            for worker_id in waiters.first_workers(len(backlog.anybody) + len(later)):
                allowance = share - taken.pop(worker_id, 0)
                if allowance > 0 and worker_id not in later:
                    self._serve(backlog, waiters, worker_id, allowance)
            if later:
                break  # what is left is their share
            share = fair_share(len(backlog.anybody), len(waiters))
            taken.clear()

    def _let_jobs_go(self, backlog: Backlog) -> None:
        """As many as the queue's limit allows, but no more than a burst ahead of the workers that take them."""
        pace, now = self._pace, self._loop.time()
        assert pace is not None
        ahead = max(0, int(pace.burst) - backlog.let_go)
        pace.use(backlog.let_jobs_go(min(pace.available(now), ahead)))
        if backlog.held and self._pace_timer is None:
            self._pace_timer = self._loop.call_later(pace.next_s, self._pace_is_over)

    def _pace_is_over(self) -> None:
        self._pace_timer = None
        self._wake(self)

    def _with_takers(self, backlog: Backlog, waiters: Waiters) -> set[bytes]:
        """The workers whose polls wait because their takers have room for all that is here.

        So nothing waits for a taker in vain: what is more than they take goes to the polls at once.
        """
        now = self._loop.time()
        later: set[bytes] = set()
        look_again = 0.0
        for worker_id, takers in self._takers.items():
            young = [taker for taker in takers if taker.until > now]
            if worker_id not in waiters.by_worker or len(backlog) > sum(
                taker.room(backlog.kind) for taker in young
            ):
                continue
            later.add(worker_id)
            look_again = max(look_again, *(taker.until for taker in young))
        if later and self._taker_timer is None:
            self._taker_timer = self._loop.call_at(look_again, self._look_again)
        return later

    def _look_again(self) -> None:
        self._taker_timer = None
        self._wake(self)

    def _serve(self, backlog: Backlog, waiters: Waiters, worker_id: bytes, allowance: int) -> int:
        """Fill the worker's polls; return how many offers it got that were not reserved for it."""
        taken = 0
        while (poll := waiters.first(worker_id)) is not None:
            if poll.answered.done():
                self.abandon(poll)
                continue
            taken += self._fill(backlog, poll, allowance - taken)
            if poll.has_room(backlog.kind):
                break  # the backlog has nothing more for this worker
        return taken

    def _fill(self, backlog: Backlog, poll: Poll, allowance: int) -> int:
        """Start tasks for this poll; return how many it got that were not reserved for its worker."""
        taken = 0
        while poll.has_room(backlog.kind):
            waiting = backlog.take(poll.worker_id, or_anybodys=taken < allowance)
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
        room = ROOM_OF[offer.kind]
        self._use_room(poll, room)
        if isinstance(started, asyncio.Future):
            started.add_done_callback(partial(self._started, poll, room))
        else:
            self._hand(poll, room, started)
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
            and not any(self.has_pollers(kind) for kind in WORKER_KINDS)
        )

    @property
    def waiting_polls(self) -> int:
        return len(self._open)

    def has_pollers(self, kind: TaskKind) -> bool:
        now = self._loop.time()
        return any(until >= now for until in reversed(self._seen[ROOM_OF[kind]].values()))

    def pollers(self, kind: TaskKind) -> int:
        now = self._loop.time()
        return sum([until >= now for until in self._seen[ROOM_OF[kind]].values()])

    def describe(self, kind: TaskKind) -> QueueInfo:
        room = ROOM_OF[kind]
        tasks = [o for o in self._backlogs[room] if o.query_no == 0 and o.kind is kind]
        return QueueInfo(
            backlog_count=len(tasks),
            oldest_ready_us=min((offer.ready_us for offer in tasks), default=0),
            pollers=self.pollers(kind),
        )


class QueueTaker:
    """Implements ports.matching.Taker."""

    __slots__ = ("_queue", "_request", "until", "worker_id")

    def __init__(self, queue: TaskQueue, request: PollRequest, until: float) -> None:
        self._queue = queue
        self._request = request
        self.worker_id = request.worker.worker_id
        self.until = until

    def room(self, kind: TaskKind) -> int:
        request = self._request
        workflow = kind is TaskKind.WORKFLOW
        return request.max_workflow_tasks if workflow else request.max_activity_tasks

    def take(self) -> PollAnswer:
        return self._queue.take(self._request) if self._queue.end(self) else PollAnswer([], [])

    def leave(self) -> None:
        self._queue.end(self)


def fair_share(tasks: int, workers: int) -> int:
    return -(-tasks // max(workers, 1))
