"""Work that crashes its workers: the count, and the ladder that it climbs (design §7).

An error that code raises follows its retry policy. A *crash* is the death of the worker instance that had the task in
hand, or of the process that the task had to itself; so is a deadlock of a workflow's code. Three in a row mark it
*poisoned*: from then on only the surgical pool gets it, after 1, 5, 30, 30, … minutes; 24 hours after the first crash
without success it is *suspended*.
"""

from __future__ import annotations

import enum

import msgspec

from perdure_engine.core.failures import Failure
from perdure_engine.core.instants import instant_text

ISOLATED_FROM = 2
"""So many crashes, and it runs in a process of its own: its neighbours count none of its further crashes."""

POISONED_FROM = 3

DELAYS_US = (60_000_000, 300_000_000, 1_800_000_000)
"""After the third crash, the fourth, the fifth and each later one."""

SUSPENDED_AFTER_US = 24 * 3600 * 1_000_000

SURGICAL = "surgical"
"""The pool of workers that alone gets poisoned work; the other has no name."""

MESSAGE_TOLD_MAX = 300  # characters of the last crash, where it is said in a line

WORKERS_KEPT_MAX = 4
"""Whose marks can be taken back: a worker that was thought dead returns within minutes."""


class Rung(enum.Enum):
    """What has just become of a task, as it is counted."""

    CRASHED = enum.auto()
    POISONED = enum.auto()
    SUSPENDED = enum.auto()


class Crashes(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of one task. At rest in its row; appended to only."""

    count: int = 0  # in a row
    first_us: int = 0  # of all of them; only success clears it
    worker_ids: tuple[bytes, ...] = ()  # of the last ones, where a whole worker died
    last: Failure | None = None
    request_id: bytes = b""  # of the operator's call that let it go on last
    start_no: int = 0  # that the last of worker_ids died with

    @property
    def is_isolated(self) -> bool:
        return self.count >= ISOLATED_FROM

    @property
    def is_poisoned(self) -> bool:
        return self.count >= POISONED_FROM

    @property
    def pool(self) -> str:
        """Whose polls alone get the task."""
        return SURGICAL if self.is_poisoned else ""

    @property
    def suspended_us(self) -> int:
        """When it is suspended, if it is poisoned then."""
        return self.first_us + SUSPENDED_AFTER_US

    @property
    def told(self) -> str:
        """What happened, how often and since when, in a line for operators."""
        since = instant_text(self.first_us - self.first_us % 1_000_000)
        last = self.last.message[:MESSAGE_TOLD_MAX] if self.last is not None else ""
        return f"has crashed {self.count} times in a row, for the first time at {since}: {last}"

    def is_counted(self, start_no: int) -> bool:
        """Whether the worker that had this start is thought dead: what it says of it now is of the same crash."""
        return bool(start_no) and self.start_no == start_no

    def is_over_time(self, now_us: int) -> bool:
        """Whether poisoned work is to be suspended."""
        return self.is_poisoned and now_us >= self.suspended_us

    def next_us(self, now_us: int) -> int:
        """When poisoned work is ready again, or is to be suspended."""
        rung = min(self.count - POISONED_FROM, len(DELAYS_US) - 1)
        return min(now_us + DELAYS_US[rung], self.suspended_us)


NO_CRASHES = Crashes()


def crashed(
    before: Crashes | None, worker_id: bytes, start_no: int, failure: Failure, now_us: int
) -> Crashes:
    """One more, with this start. `worker_id` b"": no worker died of it, so that none comes back."""
    known = before or NO_CRASHES
    worker_ids = known.worker_ids
    if worker_id:
        worker_ids = (*worker_ids, worker_id)[-WORKERS_KEPT_MAX:]
    return msgspec.structs.replace(
        known,
        count=known.count + 1,
        first_us=known.first_us or now_us,
        worker_ids=worker_ids,
        last=failure,
        start_no=start_no if worker_id else 0,
    )


def came_back(before: Crashes, worker_id: bytes) -> Crashes | None:
    """The worker was not dead: its marks are taken back. None: nothing is left."""
    marks = before.worker_ids.count(worker_id)
    count = max(0, before.count - marks)
    if not count:
        return None
    worker_ids = tuple(one for one in before.worker_ids if one != worker_id)
    start_no = 0 if before.worker_ids[-1] == worker_id else before.start_no
    return msgspec.structs.replace(before, count=count, worker_ids=worker_ids, start_no=start_no)


def reported(before: Crashes, failure: Failure) -> Crashes:
    """The last worker, which was thought dead, says that it was its code only: that is the crash that was counted, and
    nothing takes it back."""
    worker_ids = before.worker_ids[:-1]
    return msgspec.structs.replace(before, worker_ids=worker_ids, last=failure, start_no=0)


def handed_on(before: Crashes, sticky_worker_id: bytes) -> Crashes | None:
    """What the workflow task that an activity leads to begins with. If the worker that had the run in memory died with
    the activity in hand, that crash may have been of the workflow's code, which had gone ahead. Nobody takes it back.
    """
    if not sticky_worker_id or sticky_worker_id not in before.worker_ids:
        return None
    return Crashes(1, before.first_us, last=before.last)


def forgiven(before: Crashes | None) -> Crashes | None:
    """Its code ended as code does, or saved a checkpoint: the row is broken, the first crash is remembered."""
    if before is None or not before.count:
        return before
    return msgspec.structs.replace(before, count=0, worker_ids=(), start_no=0)


def resumed(before: Crashes, now_us: int, request_id: bytes = b"") -> Crashes:
    """An operator lets it go on, in the surgical pool: the hours until it is suspended begin anew."""
    return msgspec.structs.replace(before, first_us=now_us, request_id=request_id)
