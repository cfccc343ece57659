"""The pump beside the actor for schedules: carries what they have to say to workflows (`core.schedules.errands`).

As the outbox of runs (`history.outbox`), but for three things. What is to be said stands in the schedule's own row,
which the owner has in memory: there are no rows of `tasks`, and none to find after a take-over. A minute in which
thousands of schedules fire has no future and no task for each: what goes to a shard of this process goes straight into
its inbox, and all answers of a turn of the loop go back as one intent. And a question is asked again and again while
something depends on it: of a run on this node when that ends, else with a growing wait.

Nothing here is true: it may be lost at any time, and the next owner says it again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from perdure_engine.core.errors import Rejected, unavailable
from perdure_engine.core.ids import shard_of
from perdure_engine.core.intents import DeliveredIntent, WaitResult
from perdure_engine.core.replies import RunStatus
from perdure_engine.core.schedules.decide.run_heard import OPEN
from perdure_engine.core.schedules.errands import Errand, ErrandKind, action_of, errands_of, said_by
from perdure_engine.core.schedules.intents import Heard, HearErrands
from perdure_engine.core.schedules.model import OverlapPolicy, ScheduleRecord
from perdure_engine.history.refusals import is_expected, is_final
from perdure_engine.history.work import AnyReply, Item

if TYPE_CHECKING:
    from perdure_engine.history.schedules.schedules import Schedules

WINDOW = 128  # under way to one shard: what one statement there takes
WAIT_S = 0.1  # before what had no definite answer is said again; doubles
WAIT_S_MAX = 10.0
ASK_S = 1.0  # before an open run of another node is asked again; doubles
ASK_S_MAX = 60.0
TRIES_SHOWN = 5  # of what has no definite answer; then it is an alarm (bug report 7), unless one that is expected


class OnWay(msgspec.Struct, eq=False):
    """An errand until it is none any more."""

    uid: bytes
    errand: Errand
    target: int  # the shard it goes to
    out: bool = False  # it is being said
    told: bool = False  # its schedule knows the answer, or it is none any more
    open: bool = False  # its run is, by the last answer
    asked_us: int = 0  # when it was said last
    soon: bool = False  # it is to be asked once more: a slot has come since
    watched: bool = False  # its run tells when it ends
    tries: int = 0  # without a definite answer
    opens: int = 0  # answers in a row that it is open
    again: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Nothing will say it: it was to be said while its schedule was being read."""
        return not (self.out or self.told or self.watched or self.again is not None)


class _Said(Item):
    """What is said to a run of a shard of this process."""

    __slots__ = ("_errands", "_one")

    def __init__(self, errands: Errands, one: OnWay, intent: DeliveredIntent) -> None:
        super().__init__(intent, None)
        self._errands = errands
        self._one = one

    def answer(self, reply: AnyReply) -> None:
        self._errands.answered(self._one, reply)

    def refuse(self, error: Rejected) -> None:
        self._errands.refused(self._one, error)


class _Watch(Item):
    """Waits for a run of this process to close."""

    __slots__ = ("_errands", "_one")

    def __init__(self, errands: Errands, one: OnWay, intent: WaitResult) -> None:
        super().__init__(intent, None)
        self._errands = errands
        self._one = one

    def answer(self, reply: AnyReply) -> None:
        self._errands.watched(self._one)

    def refuse(self, error: Rejected) -> None:
        self._errands.watched(self._one)


class _Telling(Item):
    __slots__ = ("_errands",)

    def __init__(self, errands: Errands, intent: HearErrands) -> None:
        super().__init__(intent, None)
        self._errands = errands

    def refuse(self, error: Rejected) -> None:
        assert isinstance(self.intent, HearErrands)
        self._errands.not_heard(self.intent)


class Errands:
    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._on_way: dict[bytes, dict[Errand, OnWay]] = {}  # by schedule
        self._windows: dict[int, int] = {}  # how many are out to each shard
        self._queues: dict[int, deque[OnWay]] = {}  # those that have no place
        self._heard: list[Heard] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Something is to be said or told. Not: a run that is open will say when it ends."""
        return bool(self._heard) or any(
            not one.open for known in self._on_way.values() for one in known.values()
        )

    def sync(self, record: ScheduleRecord) -> None:
        """A schedule is saved, or was read: say what it has to say now, and no more."""
        wanted = [] if record.gone else errands_of(record)
        known = self._on_way.get(record.uid)
        if known is None:
            if not wanted:
                return
            known = self._on_way[record.uid] = {}
        for errand in known.keys() - set(wanted):
            self._drop(known.pop(errand))
        for errand in wanted:
            one = known.get(errand)
            if one is None:
                one = known[errand] = OnWay(record.uid, errand, self._target(record, errand))
                self._say(one)
            elif one.idle or (errand.kind is ErrandKind.ASK and _needs_newer(record, one)):
                self._say_now(one)
        if not known:
            del self._on_way[record.uid]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for known in self._on_way.values():
            for one in known.values():
                self._drop(one)
        self._on_way.clear()
        self._queues.clear()

    def _drop(self, one: OnWay) -> None:
        one.told = True  # whatever it hears still
        self._cancel(one)

    def _cancel(self, one: OnWay) -> None:
        if one.again is not None:
            one.again.cancel()
            one.again = None

    def _target(self, record: ScheduleRecord, errand: Errand) -> int:
        action = action_of(record.state, errand)
        assert action is not None, "its errand"
        number_of_shards = self._schedules.shard.rooms.delivery.number_of_shards
        return shard_of(record.namespace_id, action.workflow_id, number_of_shards)

    # ---- saying

    def _say(self, one: OnWay) -> None:
        """Now, or when there is a place."""
        one.again = None
        one.out = True
        if self._windows.get(one.target, 0) >= WINDOW:
            self._queues.setdefault(one.target, deque()).append(one)
        else:
            self._send(one)

    def _send(self, one: OnWay) -> None:
        intent = self._intent_of(one)
        if intent is None:
            one.out = False
            return
        shard = self._schedules.shard
        self._windows[one.target] = self._windows.get(one.target, 0) + 1
        one.asked_us = shard.rooms.database_clock.low_us()
        there = shard.rooms.local_shard(one.target)
        if there is not None:
            there.put(_Said(self, one, intent))
        else:
            task = asyncio.get_running_loop().create_task(self._carry(one, intent))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _intent_of(self, one: OnWay) -> DeliveredIntent | None:
        """None: it is none any more, or its schedule is being read. What cannot be made is its schedule's trouble, not
        its neighbours'."""
        record = self._schedules.records.get(one.uid)
        if record is None or one.told:
            return None
        try:
            return said_by(record, one.errand)
        except Exception as error:
            schedule_id = record.schedule_id
            self._schedules.shard.rooms.alarm("errand_failed", schedule_id=schedule_id, error=error)
            one.told = True
            return None

    async def _carry(self, one: OnWay, intent: DeliveredIntent) -> None:
        """To another node."""
        rooms = self._schedules.shard.rooms
        try:
            reply = await rooms.delivery.deliver(one.target, intent)
        except Rejected as refusal:
            self.refused(one, refusal)
        except Exception as error:  # a bug: it must not be lost
            rooms.alarm("errand_failed", kind=one.errand.kind.name, error=error)
            self.refused(one, unavailable("ERRAND_FAILED", repr(error)))
        else:
            self.answered(one, reply)

    def _is_back(self, one: OnWay) -> None:
        """Its place is another's."""
        one.out = False
        target = one.target
        self._windows[target] -= 1
        queue = self._queues.get(target)
        while queue and self._windows[target] < WINDOW:
            self._send(queue.popleft())
        if not queue:
            self._queues.pop(target, None)
            if not self._windows[target]:
                del self._windows[target]

    def _say_later(self, one: OnWay, wait_s: float) -> None:
        jitter = 0.5 + self._schedules.shard.rooms.ids.jitter()
        self._cancel(one)
        one.again = asyncio.get_running_loop().call_later(wait_s * jitter, self._say, one)

    # ---- answers

    def answered(self, one: OnWay, reply: object) -> None:
        self._is_back(one)
        if one.told:
            return
        one.tries = 0
        if isinstance(reply, RunStatus) and reply.status in OPEN:
            self._is_open(one, reply)
            return
        one.told = True
        status = reply.status if isinstance(reply, RunStatus) else None
        self._tell(Heard(one.uid, one.errand, status=status, asked_us=one.asked_us))

    def refused(self, one: OnWay, error: Rejected) -> None:
        self._is_back(one)
        if one.told or self._schedules.shard.closed:
            return
        if is_final(error):
            one.told = True
            self._tell(Heard(one.uid, one.errand, refused=error.message, asked_us=one.asked_us))
            return
        one.tries += 1
        if one.tries == TRIES_SHOWN and not is_expected(error):
            record = self._schedules.records.get(one.uid)
            schedule_id = "" if record is None else record.schedule_id
            self._schedules.shard.rooms.alarm(
                "errand_not_answered",
                schedule_id=schedule_id,
                kind=one.errand.kind.name,
                why=error,
            )
        self._say_later(one, min(WAIT_S * 2**one.tries, WAIT_S_MAX))

    def _is_open(self, one: OnWay, reply: RunStatus) -> None:
        """Slots that would be skipped for it hear so; then it is asked when it has closed, or after a while."""
        one.open = True
        one.opens += 1
        record = self._schedules.records.get(one.uid)
        if record is not None and _waits_for_answer(record):
            heard = Heard(one.uid, one.errand, status=reply.status, asked_us=one.asked_us)
            self._tell(heard)
        if one.soon:
            self._say_now(one)
        elif record is not None and _needs_newer(record, one):
            self._say_later(one, WAIT_S)  # the slot came by the clock of an owner ahead of ours
        elif not one.watched:
            self._watch(one)

    def _watch(self, one: OnWay) -> None:
        rooms = self._schedules.shard.rooms
        there = rooms.local_shard(one.target)
        record = self._schedules.records.get(one.uid)
        action = None if record is None else action_of(record.state, one.errand)
        if there is None:
            self._say_later(one, min(ASK_S * 2 ** (one.opens - 1), ASK_S_MAX))
        elif record is not None and action is not None:
            one.watched = True
            wait = WaitResult(
                namespace_id=record.namespace_id, workflow_id=action.workflow_id, run_id=b""
            )
            there.put(_Watch(self, one, wait))

    def watched(self, one: OnWay) -> None:
        """The run has closed, or nobody watches it any more."""
        one.watched = False
        if not one.told and not self._schedules.shard.closed:
            self._say_now(one)

    def _say_now(self, one: OnWay) -> None:
        """Or, if it is being said, as soon as that is answered."""
        one.soon = one.out
        if not one.out and not one.told:
            self._cancel(one)
            self._say(one)

    # ---- telling

    def _tell(self, heard: Heard) -> None:
        """What has come in one turn of the loop goes as one intent."""
        self._heard.append(heard)
        if len(self._heard) == 1:
            asyncio.get_running_loop().call_soon(self._tell_all)

    def _tell_all(self) -> None:
        heard, self._heard = self._heard, []
        shard = self._schedules.shard
        if heard and not shard.closed:
            shard.put(_Telling(self, HearErrands(shard.shard_id, heard)))

    def not_heard(self, intent: HearErrands) -> None:
        """A bug, or a row that cannot be written: it is said again."""
        if self._schedules.shard.closed:
            return
        for heard in intent.heard:
            one = self._on_way.get(heard.uid, {}).get(heard.errand)
            if one is not None and one.told:
                one.told = False
                self._say_later(one, WAIT_S_MAX)


def _waits_for_answer(record: ScheduleRecord) -> bool:
    return any(slot.overlap is OverlapPolicy.SKIP for slot in record.state.waiting)


def _needs_newer(record: ScheduleRecord, one: OnWay) -> bool:
    """A slot has come since the run was asked, and is skipped if it is open."""
    return any(
        slot.overlap is OverlapPolicy.SKIP and slot.since_us > one.asked_us
        for slot in record.state.waiting
    )
