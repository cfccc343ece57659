"""Leases of what workers hold, in the owner's memory (design §6): one book for tasks of runs, one for jobs.

Renewals take effect on arrival, with no await and no commit. What is judged here only ever becomes an intent:
the decision, and what is saved of it, is the shard's. Which intent, the two kinds of books say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from perdure_engine.core.failures import TimeoutType
from perdure_engine.core.tasks import Handout, TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history.rounds import ROUNDS
from perdure_engine.ports.history import HeldVerdict

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

LOOP_LATE_S_MAX = 1.0  # a longer gap of our own: renewals may wait unread in the socket
COMMIT_S_MAX = 2.0  # likewise
SAVE_RETRY_S = 0.2
SAVE_AGAIN_S = 5.0  # a start that could not be saved is tried again
PROGRESS_EVERY_S = 30.0  # at most so often is a task's progress saved (B18)
SUSPECT_LEASE_S = 4.0  # two heartbeats: what a worker keeps whose connection broke
LONG_AGO = -1e9

LOST = HeldVerdict(lost=True, cancel_requested=False)
CANCEL = HeldVerdict(lost=False, cancel_requested=True)
PAUSED = HeldVerdict(lost=False, cancel_requested=False, paused=True)


class Held(msgspec.Struct, eq=False, gc=False):
    """One hand-out and what it is judged by. Seconds are monotonic, µs are the database's."""

    run_id: bytes
    key: int  # in RunState.tasks; of a job 0
    handout: Handout
    kind: TaskKind
    scheduled_event_id: int
    handed_at: float
    deadline_us: int
    heartbeat_us: int
    progress_saved_at: float
    token: TaskToken
    details: bytes | None = None  # progress that is not saved yet
    details_version: int = 0
    save_told_at: float = LONG_AGO  # when the shard was last asked to save the start
    ending: bool = False  # an intent about it is under way
    suspected: bool = False  # its worker's connection broke, and it has not been heard of since

    def renewed(self, lease_until: float) -> None:
        """Its worker lives."""
        self.handout.lease_until = lease_until
        self.suspected = False


class Progressing(Protocol):
    """What keeps the progress of a hand-out in memory."""

    progress: bytes
    progress_version: int


K = TypeVar("K")


class Leases(ABC, Generic[K]):
    """`K` names what was handed out by the owner before us, whose start is saved."""

    __slots__ = ("_held", "_holders", "_orphans", "_round", "_shard", "_waits")

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._held: dict[int, Held] = {}  # by start number
        self._holders = shard.rooms.holders
        self._orphans: dict[K, tuple[float, int]] = {}  # until when, and the start number
        self._round = shard.rooms.rounds[shard.shard_id % ROUNDS]
        self._waits = False  # for its round

    def __len__(self) -> int:
        return len(self._held)

    def holds(self, start_no: int) -> bool:
        return start_no in self._held

    # ---- what the kinds of books say

    @abstractmethod
    def _progressing(self, held: Held) -> Progressing | None:
        """None: it is not in memory."""

    @abstractmethod
    def _time_out(self, held: Held, timeout_type: TimeoutType) -> None: ...

    @abstractmethod
    def _put_back(self, held: Held, *, worker_dead: bool, crashed: bool) -> None:
        """`crashed`: the worker died with it in hand, which is counted (`core.poison`); it is dead then."""

    @abstractmethod
    def _put_orphan_back(self, key: K, start_no: int) -> None:
        """Nobody has claimed it after a take-over: no crash is counted, for nobody saw its worker die."""

    @abstractmethod
    def came_back(self, died_with: Sequence[Held]) -> None:
        """The worker that was thought to have died with these lives. Also what it never got, because the answer was
        lost, and so does not list, has not crashed it."""

    @abstractmethod
    def _save_start(self, held: Held) -> None: ...

    @abstractmethod
    def _tell_progress(self, held: Held, details: bytes) -> None: ...

    @abstractmethod
    def _tell(self) -> None:
        """A look is over: what it found may be told together."""

    @abstractmethod
    async def save_all_starts(self) -> None:
        """Before a release: the next owner must know what may be running. Tried until the database has it."""

    # ---- what changes the book

    def _hold(self, held: Held) -> None:
        if self._shard.closed:
            return  # the next owner judges it
        self._held[held.handout.start_no] = held
        self._holders.add(held)
        if not self._waits:
            self._watch()

    def drop(self, start_no: int) -> None:
        held = self._held.pop(start_no, None)
        if held is not None:
            self._holders.remove(held)

    def _claimed(self, key: K) -> None:
        """If it is an orphan, it waits for its load, and for another try should that fail."""
        if key in self._orphans:
            until = self._shard.rooms.clock.monotonic() + self._shard.rooms.config.lease_s
            self._orphans[key] = (until, self._orphans[key][1])

    # ---- heartbeats

    def _progress(self, held: Held, details: bytes, version: int) -> None:
        """Remember it at once; save it now and then. An attempt that ends saves what is remembered."""
        held.handout.beat_us = self._shard.rooms.database_clock.low_us()
        held.details, held.details_version = details, version
        record = self._progressing(held)
        if record is not None and not self._remember(held, record):
            return
        now = self._shard.rooms.clock.monotonic()
        if now - held.progress_saved_at >= PROGRESS_EVERY_S:
            self._save_progress(held, details, now)

    def _remember(self, held: Held, record: Progressing) -> bool:
        """False: a checkpoint has saved newer progress than this."""
        assert held.details is not None
        if held.details_version and held.details_version <= record.progress_version:
            self._shard.rooms.metrics.progress_cas_conflicts.inc()
            held.details = None
            return False
        record.progress = held.details
        return True

    def _save_progress(self, held: Held, details: bytes, now: float) -> None:
        held.progress_saved_at = now
        held.details = None
        self._tell_progress(held, details)

    def listed(self, given: Sequence[Held], start_nos: Set[int]) -> None:
        """A worker said what it holds: whatever it was given but does not list, it never got."""
        now = self._shard.rooms.clock.monotonic()
        oldest = now - self._shard.rooms.config.unlisted_after_s
        for held in given:
            unlisted = held.handout.start_no not in start_nos
            if unlisted and held.handed_at < oldest and not held.ending:
                held.ending = True
                self._put_back(held, worker_dead=False, crashed=False)
        self._tell()

    def suspect(self, given: Sequence[Held]) -> None:
        """The connection of the worker that has these broke: if no heartbeat comes soon, it is dead."""
        until = self._shard.rooms.clock.monotonic() + SUSPECT_LEASE_S
        for held in given:
            held.handout.lease_until = min(held.handout.lease_until, until)
            held.suspected = True

    def release(self, given: Sequence[Held]) -> None:
        """The worker that has these said goodbye: they go back."""
        for held in given:
            held.ending = True
            self._put_back(held, worker_dead=False, crashed=False)
        self._tell()

    # ---- judging

    def stop(self) -> None:
        self._round.leave(self)
        self._waits = False
        for held in self._held.values():
            self._holders.remove(held)

    def _watch(self) -> None:
        if not (self._waits or self._shard.closed):
            self._waits = True
            self._round.join(self)

    def judge_again(self, last_judged_at: float) -> bool:
        """See `rounds`."""
        if self._held or self._orphans:
            self.judge(last_judged_at)
        self._waits = bool(self._held or self._orphans)
        return self._waits

    def judge(self, last_judged_at: float) -> None:
        """Look at every hand-out once. After a gap of our own nothing is judged before it is prolonged."""
        shard = self._shard
        now = shard.rooms.clock.monotonic()
        late = now - last_judged_at - shard.rooms.config.judge_every_s > LOOP_LATE_S_MAX
        if late or (shard.in_flight and now - shard.in_flight_since > COMMIT_S_MAX):
            self.prolong()
            return
        now_us = shard.rooms.database_clock.low_us()
        for held in list(self._held.values()):
            if not held.ending:
                self._judge_one(held, now, now_us)
        for key, (until, start_no) in list(self._orphans.items()):
            if now >= until:
                del self._orphans[key]
                if start_no not in self._held:  # else adopted before the scan had seen it
                    self._put_orphan_back(key, start_no)
        self._tell()

    def prolong(self) -> None:
        now = self._shard.rooms.clock.monotonic()
        until = now + self._shard.rooms.config.lease_s
        now_us = self._shard.rooms.database_clock.low_us()
        for held in self._held.values():
            held.handout.beat_us = max(held.handout.beat_us, now_us)
            held.renewed(max(held.handout.lease_until, until))

    def _judge_one(self, held: Held, now: float, now_us: int) -> None:
        handout = held.handout
        timeout_type = _timeout_of(held, now_us)
        if timeout_type is not TimeoutType.NONE and not held.suspected:
            held.ending = True
            self._time_out(held, timeout_type)
        elif timeout_type is not TimeoutType.NONE or now >= handout.lease_until:
            # That a time is over which is shorter than the lease, is no failure of code whose worker died.
            held.ending = True
            # One that was silent already when it was given the task had died before: its poll was still open.
            silent = self._shard.rooms.hearing.was_silent(handout.worker_id, held.handed_at)
            self._put_back(held, worker_dead=True, crashed=not silent)
            if not silent:
                self._holders.died(held)
        elif (
            not handout.saved
            and now - held.handed_at >= self._shard.rooms.config.start_save_after_s
        ):
            if now - held.save_told_at >= SAVE_AGAIN_S:
                held.save_told_at = now
                self._save_start(held)
        elif held.details is not None and now - held.progress_saved_at >= PROGRESS_EVERY_S:
            self._save_progress(held, held.details, now)


def _timeout_of(held: Held, now_us: int) -> TimeoutType:
    """NONE: it has time left."""
    if held.deadline_us and now_us >= held.deadline_us:
        return TimeoutType.START_TO_CLOSE
    heard_us = max(held.handout.beat_us, held.handout.started_us)
    if held.heartbeat_us and now_us - heard_us >= held.heartbeat_us:
        return TimeoutType.HEARTBEAT
    return TimeoutType.NONE
