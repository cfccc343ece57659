"""What a shard has in memory of its jobs, as decisions see it: everything that an intent is about is in here before it
is decided (`core.jobs.needs`). Changed in place by decisions; what goes in and out otherwise is the shard's business.
"""

from __future__ import annotations

from math import ceil

import msgspec

from perdure_engine.core.jobs.model import ConcurrencyPolicy, JobRun, JobSpec, NewJob

KIND_UNIQUE = 1  # in the key of `job_keys`

KeyId = tuple[bytes, int, str]  # namespace id, kind, key
RoomId = tuple[bytes, str]  # namespace id, concurrency key
BatchId = tuple[bytes, str]  # namespace id, batch id

PLACES_MAX = 1_000
"""Of one key: what a larger limit counts as. So many jobs are in memory as long as one is of interest."""

WAITING_KEPT_MAX = 2 * PLACES_MAX
"""Of one key in memory; the rest are rows until there is room."""

RATE_BURST_S = 0.1
"""How much of a key's rate may come at once: in any second at most a tenth more than the rate starts."""


def unique_key_id(namespace_id: bytes, spec: JobSpec) -> KeyId:
    """Of a job with a unique key. Beside a concurrency key it holds among the jobs of that one, whose owner decides
    about both."""
    assert spec.unique is not None
    key = spec.unique.key
    if spec.concurrency is not None:
        key = f"{key}\n{spec.concurrency.key}"  # no key has a line break
    return namespace_id, KIND_UNIQUE, key


class UniqueKey(msgspec.Struct, eq=False, gc=False):
    """Who holds a unique key. `version` 0: there is no row of it yet, and `job_id` is b"". `until_us` 0: as long as
    its scope says."""

    job_id: bytes = b""
    until_us: int = 0
    version: int = 0


class KeyRoom(msgspec.Struct, eq=False):
    """The open jobs of one concurrency key whose time has come: those that hold a place, and those that wait for one,
    in their order. The settings of the newest of them are the key's."""

    namespace_id: bytes
    key: str
    limit: int = 1
    policy: ConcurrencyPolicy = ConcurrencyPolicy.QUEUE
    rate_per_s: float = 0.0
    places: dict[bytes, JobRun] = {}
    poisoned: dict[bytes, JobRun] = {}  # of those that have a place; some may not be it any more
    waiting: dict[bytes, JobRun] = {}
    behind: dict[bytes, JobRun] = {}  # poisoned ones that wait: all of `waiting` go before them
    more: bool = False  # further ones wait that are not in memory
    tokens: float = 0.0  # of the bucket that holds the rate
    tokens_at_us: int = 0
    as_of_us: int = 0  # when the job was made whose settings are the key's

    def go_by(self, run: JobRun) -> None:
        """The job's settings, unless those of a newer one are known."""
        concurrency = run.spec.concurrency
        assert concurrency is not None
        if run.created_us < self.as_of_us:
            return
        self.as_of_us = run.created_us
        self.limit = min(max(1, concurrency.limit), PLACES_MAX)
        self.policy = concurrency.policy
        if concurrency.rate_per_s != self.rate_per_s:
            self.rate_per_s = concurrency.rate_per_s
            self.tokens = self._burst

    def take_token(self, now_us: int) -> bool:
        """Whether the rate lets one start now; then it is counted."""
        if not self.rate_per_s:
            return True
        passed_s = max(0, now_us - self.tokens_at_us) / 1_000_000
        self.tokens = min(self._burst, self.tokens + passed_s * self.rate_per_s)
        self.tokens_at_us = now_us
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True

    @property
    def _burst(self) -> float:
        return max(1.0, self.rate_per_s * RATE_BURST_S)

    @property
    def next_token_us(self) -> int:
        """When the rate lets the next one start."""
        return self.tokens_at_us + ceil((1.0 - self.tokens) / self.rate_per_s * 1_000_000)

    @property
    def is_short(self) -> bool:
        """Whether those that wait in memory may be fewer than the places that one intent may free. So no place is left
        free while somebody waits for it whom only the database knows."""
        return self.more and len(self.waiting) + len(self.behind) <= len(self.places)


class BatchState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What of a batch is no column. At rest in `job_batches.state`; appended to only."""

    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    callback: NewJob | None = None
    over: bool = False  # sealed, and all jobs have ended: the callback has been made
    callback_job_id: bytes = b""
    ended_us: int = 0  # when it was over


class JobBatch(msgspec.Struct, eq=False, gc=False):
    """`version` 0: there is no row of it yet."""

    namespace_id: bytes
    batch_id: str
    total: int = 0
    open: int = 0
    sealed: bool = False
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    callback: NewJob | None = None
    over: bool = False
    callback_job_id: bytes = b""
    ended_us: int = 0
    version: int = 0

    @property
    def closed(self) -> bool:
        """Nothing that becomes of its jobs is counted any more: it is over, or has left the tables."""
        return self.over or not self.total


class JobMemory:
    __slots__ = ("batches", "jobs", "keys", "rooms")

    def __init__(self) -> None:
        self.jobs: dict[bytes, JobRun] = {}
        self.keys: dict[KeyId, UniqueKey] = {}
        self.rooms: dict[RoomId, KeyRoom] = {}
        self.batches: dict[BatchId, JobBatch] = {}
