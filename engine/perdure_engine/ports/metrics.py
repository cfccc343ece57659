"""What the rooms count and measure, under one name each; transport shows it.

Numbers and nothing else: no await, no lock, no library. Everything here is touched on the engine's
event loop only, so that a scrape sees one moment. The names are Prometheus': seconds and bytes,
counters end in `_total`. Labels come from closed sets, but for task queues, of which each family
has at most SERIES_MAX: run ids, worker ids and error texts are never labels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping

PREFIX = "perdure_"
SERIES_MAX = 200  # of a family; what comes later counts under OTHER
OTHER = "_other_"

LATENCY_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
AGE_S = (*LATENCY_S, 300, 1_800, 3_600, 14_400, 86_400)
SIZE_BYTES = tuple(1 << bits for bits in range(10, 27, 2))  # 1 KiB … 64 MiB
EVENTS = (5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)

Labels = tuple[str, ...]
Reading = Iterable[tuple[Labels, float]]


class Counter:
    """Grows only. `labels` are the names whose values `inc` is given, in their order."""

    kind = "counter"

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self.name, self.help, self.labels = PREFIX + name, help, labels
        self.values: dict[Labels, int] = {} if labels else {(): 0}

    def inc(self, *values: str, by: int = 1) -> None:
        known = self.values.get(values)
        if known is None:
            values = _capped(values, self.values)
            known = self.values.get(values, 0)
        self.values[values] = known + by

    def value(self, *values: str) -> int:
        return self.values.get(values, 0)


class Gauge:
    """Goes up and down. It is read when somebody looks, from whoever was named its source."""

    kind = "gauge"

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self.name, self.help, self.labels = PREFIX + name, help, labels
        self._source: Callable[[], Reading] | None = None

    def read_from(self, source: Callable[[], Reading]) -> None:
        self._source = source

    def read_number(self, source: Callable[[], float]) -> None:
        """Of a gauge without labels."""
        self._source = lambda: [((), source())]

    def read(self) -> Reading:
        return () if self._source is None else self._source()


class Series:
    """One line of a histogram: how many fell into each bucket, the last of which has no bound."""

    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.total = 0.0


class Histogram:
    """How often which values came, in buckets up to and including each of `bounds`."""

    kind = "histogram"

    def __init__(self, name: str, help: str, bounds: tuple[float, ...], *labels: str) -> None:
        self.name, self.help, self.labels, self.bounds = PREFIX + name, help, labels, bounds
        self.series: dict[Labels, Series] = {} if labels else {(): Series(len(bounds) + 1)}

    def observe(self, value: float, *values: str) -> None:
        """What is below 0 counts as 0: clocks of two machines meet in some of them."""
        series = self.series.get(values)
        if series is None:
            values = _capped(values, self.series)
            series = self.series.setdefault(values, Series(len(self.bounds) + 1))
        if value < 0:
            value = 0.0
        series.counts[bisect_left(self.bounds, value)] += 1
        series.total += value

    def count(self, *values: str) -> int:
        series = self.series.get(values)
        return 0 if series is None else sum(series.counts)


Family = Counter | Gauge | Histogram


def _capped(values: Labels, known: Mapping[Labels, object]) -> Labels:
    return values if len(known) < SERIES_MAX else (OTHER,) * len(values)


class CallsFigures:
    """What clients and workers call."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = Counter("requests_total", "Calls that ended, by code.", "operation", "code")
        self.request_seconds = Histogram(
            "request_seconds", "How long calls took; long polls too.", LATENCY_S, "operation"
        )


class MatchingFigures:
    """Tasks and who asks for them."""

    def __init__(self) -> None:
        super().__init__()
        self.inflight_polls = Gauge("inflight_polls", "Worker polls that wait now.")
        self.poll_results = Counter(
            "poll_results_total", "Worker polls that ended: tasks, empty, abandoned.", "result"
        )
        self.task_offers = Counter(
            "task_offers_total",
            "Tasks that became ready, by who waited for them: poll, completion (of a worker that "
            "takes its next tasks along), nobody.",
            "task_kind",
            "met",
        )
        self.workflow_task_schedule_to_start_seconds = Histogram(
            "workflow_task_schedule_to_start_seconds",
            "From when a workflow task was ready to its hand-out. Those that were done ahead are not handed out.",
            AGE_S,
        )
        self.activity_schedule_to_start_seconds = Histogram(
            "activity_schedule_to_start_seconds",
            "From when an activity attempt was ready to its hand-out.",
            AGE_S,
        )
        queue = ("task_queue", "task_kind")
        self.backlog_count = Gauge(
            "backlog_count",
            "Ready tasks of this node's shards that no worker has, in memory and saved.",
            *queue,
        )
        self.backlog_age_seconds = Gauge(
            "backlog_age_seconds", "Age of the oldest of them.", *queue
        )
        self.queue_add_rate = Gauge(
            "queue_add_rate", "Tasks a second that become ready, over about a minute.", *queue
        )
        self.queue_dispatch_rate = Gauge(
            "queue_dispatch_rate", "Tasks a second that workers get, over about a minute.", *queue
        )
        self.pollers = Gauge("pollers", "Workers that polled lately or hold tasks.", *queue)
        self.no_poller_tasks = Gauge("no_poller_tasks", "Ready tasks that no worker asks for.")


class ShardsFigures:
    """What this node owns."""

    def __init__(self) -> None:
        super().__init__()
        self.shards_owned = Gauge("shards_owned", "Shards that this node serves.")
        self.shard_acquire_seconds = Histogram(
            "shard_acquire_seconds", "From taking shards to serving them.", LATENCY_S
        )
        self.shard_moves = Counter(
            "shard_moves_total", "Shards taken, released, and lost to another owner.", "reason"
        )
        self.fenced_writes = Counter(
            "fenced_writes_total", "Batches refused: another owns a shard."
        )
        self.lease_renew_seconds = Histogram(
            "lease_renew_seconds", "How long renewals of the node's lease took.", LATENCY_S
        )
        self.runs_in_memory = Gauge("runs_in_memory", "Runs whose state is cached.")
        self.runs_quarantined = Gauge("runs_quarantined", "Runs set aside: they cannot be saved.")
        self.inbox_intents = Gauge("inbox_intents", "What waits to be decided.")


class DatabaseFigures:
    """What statements cost."""

    def __init__(self) -> None:
        super().__init__()
        self.db_txn_seconds = Histogram(
            "db_txn_seconds", "How long statements took, by what for.", LATENCY_S, "op"
        )
        self.db_batch_intents = Histogram(
            "db_batch_intents",
            "Intents saved by one statement.",
            (1, 2, 5, 10, 20, 50, 100, 200, 500),
        )
        self.db_retries = Counter(
            "db_retries_total", "Batches that were sent again, by why.", "reason"
        )
        self.db_ambiguous = Counter(
            "db_ambiguous_total", "Commits whose outcome had to be found out."
        )


class TimeFigures:
    """How punctual timers are."""

    def __init__(self) -> None:
        super().__init__()
        self.timer_lateness_seconds = Histogram(
            "timer_lateness_seconds", "From when timers were due to their firing.", AGE_S
        )
        self.timer_early = Counter(
            "timer_early_total", "Timers saved before their time. Must be 0."
        )
        self.queue_lag_seconds = Gauge(
            "queue_lag_seconds", "Age of the oldest row that should have been processed.", "queue"
        )
        self.clock_skew_seconds = Gauge(
            "clock_skew_seconds", "This machine's clock ahead of what is known of the database's."
        )
        self.tzdata_version_info = Gauge("tzdata_version_info", "The time zones in use.", "version")


class JobsFigures:
    """What became of jobs, and how punctual they are."""

    def __init__(self) -> None:
        super().__init__()
        self.job_created = Counter("job_created_total", "Job runs made.")
        self.job_ended = Counter("job_ended_total", "Job runs that ended.", "status")
        self.job_retries = Counter(
            "job_retries_total", "Attempts of jobs that failed and are tried again."
        )
        self.job_start_delay_seconds = Histogram(
            "job_start_delay_seconds", "From when attempts of jobs were due to their start.", AGE_S
        )
        self.jobs_removed = Counter("jobs_removed_total", "Job runs deleted by retention.")
        self.jobs_in_memory = Gauge("jobs_in_memory", "Job runs that are cached.")


class CrashesFigures:
    """Work that takes its workers down, by what it is: job, activity, workflow."""

    def __init__(self) -> None:
        super().__init__()
        self.task_crashes = Counter(
            "task_crashes_total",
            "Workers that died with a task in hand, once for each task.",
            "kind",
        )
        self.tasks_poisoned = Counter(
            "tasks_poisoned_total", "Tasks that only the surgical pool gets from then on.", "kind"
        )
        self.tasks_suspended = Counter(
            "tasks_suspended_total",
            "Tasks that were poisoned for 24 hours: they wait for an operator.",
            "kind",
        )


class RunsFigures:
    """What became of runs, and what must never happen."""

    def __init__(self) -> None:
        super().__init__()
        self.workflow_started = Counter("workflow_started_total", "Runs begun.")
        self.workflow_closed = Counter("workflow_closed_total", "Runs closed.", "status")
        self.workflow_task_failed = Counter(
            "workflow_task_failed_total", "Workflow tasks that failed or timed out.", "cause"
        )
        self.workflow_tasks_ahead = Counter(
            "workflow_tasks_ahead_total",
            "Workflow tasks that a worker did before they were made, with the result that led to them: counted, or "
            "left since the run had gone another way (they come again, as usual).",
            "outcome",
        )
        self.nondeterminism = Counter(
            "nondeterminism_total", "Workflow tasks failed because code and history differ."
        )
        self.history_events = Histogram("history_events", "Events of a run when it closed.", EVENTS)
        self.history_bytes = Histogram(
            "history_bytes", "Bytes of a run's history when it closed.", SIZE_BYTES
        )
        self.activity_completed = Counter("activity_completed_total", "Activities completed.")
        self.activity_failed = Counter("activity_failed_total", "Activities that failed for good.")
        self.activity_timeout = Counter(
            "activity_timeout_total", "Activities that timed out for good.", "kind"
        )
        self.activity_retries = Counter(
            "activity_retries_total", "Activity attempts that failed and are tried again."
        )
        self.progress_cas_conflicts = Counter(
            "progress_cas_conflicts_total", "Progress of stale attempts that was refused."
        )
        self.runs_removed = Counter("runs_removed_total", "Runs deleted, by call or retention.")
        self.archived = Counter("archived_total", "Runs put into the archive.", "kind")
        self.archived_bytes = Counter("archived_bytes_total", "Of them, compressed.", "kind")
        self.archive_failures = Counter(
            "archive_failures_total", "Times the archive did not take what it was given."
        )
        self.archive_lag_seconds = Gauge(
            "archive_lag_seconds",
            "By how much the oldest run that waits for the archive is over its retention. Up to an "
            "eighth of it, a day at most, is waiting for company.",
        )
        self.invariant_violations = Counter(
            "invariant_violations_total",
            "Alarms: each is a defect of the engine or the data.",
            "id",
        )


class SchedulesFigures:
    """What schedules did at their times."""

    def __init__(self) -> None:
        super().__init__()
        self.schedules = Gauge("schedules", "Schedules that this node has in memory.")
        self.schedule_slots = Counter(
            "schedule_slots_total", "Slots of schedules, by what became of them.", "outcome"
        )
        self.schedule_delay_seconds = Histogram(
            "schedule_delay_seconds", "How much later than its time a slot acted.", AGE_S
        )
        self.schedule_overdue = Gauge(
            "schedule_overdue", "Schedules past their time, or that nothing would wake."
        )


class Metrics(
    CallsFigures,
    MatchingFigures,
    ShardsFigures,
    DatabaseFigures,
    TimeFigures,
    RunsFigures,
    JobsFigures,
    CrashesFigures,
    SchedulesFigures,
):
    """All that one engine process shows. Whoever measures is handed it whole."""

    def families(self) -> Iterator[Family]:
        for family in vars(self).values():
            if isinstance(family, Family):
                yield family
