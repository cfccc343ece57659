"""History's door: everything that is true is behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from perdure_engine.core.events import (
    ActivityTaskScheduled,
    Event,
    WorkflowExecutionUpdateAdmitted,
)
from perdure_engine.core.intents import ClientIntent, WorkerIntent
from perdure_engine.core.jobs.intents import JobClientIntent, JobWorkerIntent
from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.jobs.replies import JobReply
from perdure_engine.core.replies import QueryAnswer, Reply
from perdure_engine.core.schedules.intents import ScheduleIntent, ScheduleReply
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import QueryToken, TaskToken
from perdure_engine.ports.matching import TaskOffer


class WorkerRef(msgspec.Struct, frozen=True):
    """Which worker process takes a task. `worker_id` is new at every start of the process."""

    worker_id: bytes
    identity: str
    build_id: str
    deployment_name: str = ""
    version: str = ""  # deployment and build, if it takes the tasks of one version only
    pool: str = ""  # "surgical": it takes poisoned tasks, and no others


class HandedQuery(msgspec.Struct, frozen=True):
    token: QueryToken
    query_type: str
    args: bytes
    header: bytes


class HandedWorkflowTask(msgspec.Struct, frozen=True, gc=False):
    """A workflow task in a worker's hand. `token` is None when it only carries queries.

    `events` end with the (not yet saved) Started event, unless `next_event_id` says that more follow: then they
    are read from there with `read_task_events`, up to and with `started_event_id`.
    """

    token: TaskToken | None
    shard_id: int
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    workflow_type: str
    attempt: int
    previous_started_event_id: int
    started_event_id: int
    events: list[Event]
    next_event_id: int  # 0: complete
    tail: list[
        Event
    ]  # unsaved events (Scheduled of a transient task, Started): the end of the last page
    queries: list[HandedQuery]
    task_timeout_ms: int
    history_bytes: int
    suggest_continue_as_new: bool
    updates: Sequence[
        WorkflowExecutionUpdateAdmitted
    ] = ()  # oldest first; those wait for a verdict
    crashes: int = 0  # workers in a row that died with it in hand


class HandedActivityTask(msgspec.Struct, frozen=True, gc=False):
    token: TaskToken
    namespace_id: bytes
    workflow_id: str
    run_id: bytes
    workflow_type: str
    scheduled: ActivityTaskScheduled
    attempt: int
    started_us: int
    progress: bytes
    progress_version: int = 0  # what the worker counts its own sayings on from
    key_run_id: bytes = b""  # the run that its idempotency key names; b"": its own
    crashes: int = 0  # workers in a row that died with it in hand
    may_go_ahead: bool = False  # what follows from its result may come with it


class HandedJobTask(msgspec.Struct, frozen=True, gc=False):
    """An attempt of a job in a worker's hand."""

    token: TaskToken
    job: JobRun  # as it is now; read before anything is awaited
    started_us: int


Handed = HandedWorkflowTask | HandedActivityTask | HandedJobTask


StartOutcome = Handed | asyncio.Future[Handed | None] | None


class HeldTask(msgspec.Struct, frozen=True):
    """A task that a heartbeat says the worker holds, with new progress if there is any."""

    token: TaskToken
    details: bytes | None
    progress_version: int = 0  # of `details`; 0: the worker does not count


class HeldVerdict(msgspec.Struct, frozen=True):
    """What a worker must know of a task it holds: stop (lost), cancellation was requested, it was paused."""

    lost: bool
    cancel_requested: bool
    paused: bool = False


class EventsPage(msgspec.Struct, frozen=True):
    events: list[Event]
    next_event_id: int  # 0: no more now
    closed: bool
    run_id: bytes


class QueueName(NamedTuple):
    """What tells the tasks of one kind in one queue apart."""

    namespace_id: bytes
    queue: str
    kind: TaskKind


class QueueFacts(msgspec.Struct, frozen=True):
    """Of the shards of one node. Rates are tasks a second, averaged over about a minute; a task that is tried again is
    added again."""

    backlog_count: int  # ready, and not handed out; also what is not in memory
    oldest_ready_us: int  # 0: none
    add_rate: float
    dispatch_rate: float


NO_FACTS = QueueFacts(0, 0, 0.0, 0.0)


class History(Protocol):
    """All shards of this process.

    A future of `submit` gets its answer after the commit, or raises core.errors.Rejected: UNAVAILABLE with reason
    SHARD_MOVED when another node owns the shard, UNAVAILABLE when the outcome is not known, RESOURCE_EXHAUSTED
    when the shard is full. Cancelling the future does not undo anything.
    """

    number_of_shards: int

    def submit(self, shard_id: int, intent: ClientIntent) -> asyncio.Future[Reply]: ...

    def complete(self, intent: WorkerIntent) -> asyncio.Future[Reply]: ...

    def submit_job(
        self, shard_id: int, intent: JobClientIntent | JobWorkerIntent
    ) -> asyncio.Future[JobReply]: ...

    def submit_schedule(
        self, shard_id: int, intent: ScheduleIntent
    ) -> asyncio.Future[ScheduleReply]: ...

    def answer_query(self, token: QueryToken, answer: QueryAnswer) -> bool:
        """Give a query's answer to its caller. False: nobody waits for it any more."""
        ...

    def start_task(self, offer: TaskOffer, worker: WorkerRef) -> StartOutcome:
        """Hand a task out. None: the offer is stale. A future when the run must be loaded or saved first."""
        ...

    def undo_start(self, handed: Handed) -> None:
        """The worker never got it: the task is offered again, nothing is counted."""
        ...

    def heartbeat(self, worker: WorkerRef, held: list[HeldTask]) -> list[HeldVerdict | None]:
        """Renew leases at once, with no await and no commit. None: all is well."""
        ...

    def goodbye(self, worker: WorkerRef, released: list[TaskToken]) -> None: ...

    def poll_broken(self, worker_id: bytes) -> None:
        """A call of the worker's broke off (a poll, a completion): it may be dead. Its leases are shortened until it is
        heard of."""
        ...

    def refill(self, shard_id: int, queue_no: int) -> None:
        """Matching has room again for offers of this queue from this shard."""
        ...

    def queue_facts(self, name: QueueName) -> QueueFacts:
        """Of what waits for workers in the shards of this process."""
        ...

    async def read_events(
        self,
        shard_id: int,
        namespace_id: bytes,
        workflow_id: str,
        run_id: bytes,
        from_event_id: int,
        limit: int,
    ) -> EventsPage:
        """Saved events from an id on. Raises Rejected NOT_FOUND."""
        ...

    async def read_task_events(
        self, shard_id: int, run_id: bytes, from_event_id: int, to_event_id: int, limit_bytes: int
    ) -> tuple[list[Event], int]:
        """Saved events of a handed-out task and the id to go on from (0: done)."""
        ...
