"""What every shard of a process shares: the doors to other rooms, and the process's own parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from perdure_engine.core.audit import Head
from perdure_engine.core.draft import as_it_is
from perdure_engine.core.limits import DEFAULT_RUN_LIMITS, RunLimits
from perdure_engine.history.database_clock import DatabaseClock
from perdure_engine.history.flows import Flows
from perdure_engine.history.hearing import Hearing
from perdure_engine.history.holders import Holders
from perdure_engine.history.jobs.cache import JobCache
from perdure_engine.history.loading import CurrentLoader
from perdure_engine.history.rounds import ROUNDS, Round
from perdure_engine.history.trimming import LatelyClosed
from perdure_engine.ports.clock import Clock, IdSource
from perdure_engine.ports.codec import Codec
from perdure_engine.ports.cron import Cron
from perdure_engine.ports.delivery import Delivery
from perdure_engine.ports.jobs import JobStore, ScheduleStore
from perdure_engine.ports.matching import Matching
from perdure_engine.ports.metrics import Metrics
from perdure_engine.ports.schedules import ScheduleTimes
from perdure_engine.ports.store import CommitStore, RunStore
from perdure_engine.ports.versions import NoRouting, Routing

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard


class HistoryStore(CommitStore, RunStore, JobStore, ScheduleStore, Protocol):
    """What history needs of the store."""

    async def load_audit_heads(self, chains: list[int]) -> list[Head]:
        """As ports.audit.AuditStore."""
        ...


class Alarm(Protocol):
    """Told of what must never happen (and is survived). `server` logs and counts it."""

    def __call__(self, what: str, **facts: object) -> None: ...


class Readiness(Protocol):
    """The writer, as a shard sees it."""

    def ready(self, shard: Shard) -> None: ...

    async def statement_over(self) -> None:
        """Returns when a statement has ended, at once while none is in flight."""
        ...


class HistoryConfig(msgspec.Struct, frozen=True):
    """Times in seconds unless their name says otherwise."""

    group_intents_max: int = 128  # of one statement; more only adds latency (FLOOR.md F, point 4)
    # Statements in flight at once, on different shards. A second one cuts what one message brought in two, and the
    # halves never meet again: at W2 twice the statements, half as large (ADR 0010).
    writers: int = 1
    runs_cached_max: int = 10_000  # per process
    closed_runs_cached_max: int = 128  # per process, of those
    jobs_cached_max: int = 20_000  # per process, besides those that workers have
    jobs_ahead_bytes_max: int = 64 << 20  # per process, of jobs in memory that wait for their time
    loads_in_flight_max: int = 16  # per shard
    lease_s: float = 8.0  # of a started task: three missed heartbeats and room; 10 s would miss W9
    start_save_after_s: float = 1.0
    unlisted_after_s: float = 2.0
    adopt_ready_s: float = 3.0  # after a take-over: tasks whose start may not have been saved
    adopt_started_s: float = 10.0  # after a take-over: tasks whose start was saved
    offer_again_after_s: float = 5.0
    judge_every_s: float = 0.5
    window_s: float = 120.0  # of timers in memory
    window_load_every_s: float = 60.0
    timers_in_memory_max: int = 200_000  # per shard
    fires_per_s_max: int = 20_000  # per shard: a mass wake-up is drained, not stampeded
    # Between two passes over what has ended in all shards, at most: they come as often as the shortest retention asks.
    retention_pass_every_s: float = 86_400.0
    sweep_every_s: float = 30.0  # or as soon as a statement's worth of dead rows has come together


class Rooms:
    """`matching`, `writer`, `delivery` and `local_shard` are set once both sides exist: they know each other."""

    def __init__(
        self,
        *,
        node_id: bytes,
        store: HistoryStore,
        codec: Codec,
        clock: Clock,
        ids: IdSource,
        lease_valid: Callable[[], bool],
        alarm: Alarm,
        config: HistoryConfig,
        cron: Cron,
        times: ScheduleTimes,
        run_limits: RunLimits = DEFAULT_RUN_LIMITS,
        metrics: Metrics | None = None,
        routing: Routing | None = None,
        json_payload: Callable[[bytes], bytes] = as_it_is,
    ) -> None:
        self.node_id = node_id  # whose fences these are
        self.store = store
        self.codec = codec
        self.clock = clock
        self.ids = ids
        self.lease_valid = lease_valid
        self.alarm = alarm
        self.config = config
        self.cron = cron
        self.times = times
        self.run_limits = run_limits
        self.metrics = metrics or Metrics()
        self.routing = routing or NoRouting()
        self.json_payload = json_payload  # Payloads of one JSON document; the transport knows how
        self.database_clock = DatabaseClock(clock)
        self.current_loader = CurrentLoader(self)
        self.flows = Flows(clock)
        self.hearing = Hearing(clock)
        self.rounds = [Round(self) for _ in range(ROUNDS)]  # of shards, by their number
        self.holders = Holders()
        self.lately_closed = LatelyClosed(config.closed_runs_cached_max)
        self.job_cache = JobCache(config.jobs_cached_max, config.jobs_ahead_bytes_max)
        self.matching: Matching
        self.writer: Readiness
        self.delivery: Delivery  # history's own service
        self.local_shard: Callable[[int], Shard | None]  # one that is served here; likewise
