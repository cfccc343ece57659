"""The ports behind a frontend, as small as a test needs: they record, and answer what they are
told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from perdure_engine.core.audit import AuditRow
from perdure_engine.core.errors import not_found
from perdure_engine.core.events import Event
from perdure_engine.core.intents import ClientIntent, StartWorkflow, WaitResult, WorkerIntent
from perdure_engine.core.jobs.intents import (
    CancelJob,
    CompleteJobs,
    CreatedJob,
    CreateJobs,
    DescribeJob,
    JobClientIntent,
    JobWorkerIntent,
    RedriveJob,
    RescheduleJob,
    ResumeJob,
    WaitJobs,
)
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.jobs.replies import JobAnswered, JobReply, JobsAnswered, JobsCreated
from perdure_engine.core.replies import QueryAnswer, Reply, Started
from perdure_engine.core.schedules.intents import ScheduleIntent, ScheduleReply
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import QueryToken, TaskToken
from perdure_engine.frontend.deployments import Deployments
from perdure_engine.frontend.frontend import About, Frontend
from perdure_engine.frontend.ledger import InstallationLedger
from perdure_engine.frontend.namespaces import Namespaces
from perdure_engine.frontend.seal import Sealer
from perdure_engine.ports.archive import Archive
from perdure_engine.ports.filters import Group, Order
from perdure_engine.ports.history import (
    NO_FACTS,
    EventsPage,
    Handed,
    HeldTask,
    HeldVerdict,
    QueueFacts,
    QueueName,
    WorkerRef,
)
from perdure_engine.ports.matching import PollAnswer, PollRequest, QueueInfo, TaskOffer
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import (
    RUNS_LOOKED_AT,
    DeploymentRow,
    NamespaceRow,
    NodeRow,
    PageKey,
    RunPage,
    ShardRow,
    StoreUnavailable,
    TokenKeyRow,
    VisibilityFilter,
)
from perdure_engine.scheduler.cron import CronSpecs
from perdure_engine.scheduler.times import Times
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.memory.store import MemoryStore

NAMESPACE_ID = b"namespace-A" + bytes(5)
OTHER_NAMESPACE_ID = b"namespace-B" + bytes(5)
RUN_ID = bytes(range(16))
WORKER_ID = b"w" * 16
SHARDS = 4


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the frontend does not sleep")


class FakeIds:
    def __init__(self) -> None:
        self._count = 0

    def new_id(self) -> bytes:
        self._count += 1
        return b"\xaa" * 8 + self._count.to_bytes(8, "big")

    def jitter(self) -> float:
        return 0.5


class FakeHistory:
    """Answers a submitted intent by `answer`: a reply, an exception to fail with, or PENDING."""

    PENDING = object()

    def __init__(self) -> None:
        self.number_of_shards = SHARDS
        self.submitted: list[tuple[int, ClientIntent]] = []
        self.futures: list[asyncio.Future[Reply]] = []
        self.completed: list[WorkerIntent] = []
        self.jobs: list[tuple[int, Any]] = []
        self.scheduled: list[tuple[int, ScheduleIntent]] = []
        self.query_answers: list[tuple[QueryToken, QueryAnswer]] = []
        self.undone: list[Handed] = []
        self.beats: list[tuple[WorkerRef, list[HeldTask]]] = []
        self.verdicts: list[HeldVerdict | None] = []
        self.byes: list[tuple[WorkerRef, list[TaskToken]]] = []
        self.reads: list[tuple[Any, ...]] = []
        self.pages: list[EventsPage | Exception] = []
        self.task_pages: list[tuple[list[Event], int]] = []
        self.answer: Callable[[Any], Any] = plain_answer
        self.completed_seen = asyncio.Event()
        self.undo_seen = asyncio.Event()
        self.broken_polls: list[bytes] = []
        self.broken_seen = asyncio.Event()
        self.queues: dict[QueueName, QueueFacts] = {}

    @property
    def touched(self) -> bool:
        return bool(
            self.submitted
            or self.completed
            or self.jobs
            or self.scheduled
            or self.query_answers
            or self.beats
            or self.byes
            or self.reads
        )

    def queue_facts(self, name: QueueName) -> QueueFacts:
        return self.queues.get(name, NO_FACTS)

    def submit(self, shard_id: int, intent: ClientIntent) -> asyncio.Future[Reply]:
        self.submitted.append((shard_id, intent))
        return self._future(intent)

    def complete(self, intent: WorkerIntent) -> asyncio.Future[Reply]:
        self.completed.append(intent)
        self.completed_seen.set()
        return self._future(intent)

    def submit_job(
        self, shard_id: int, intent: JobClientIntent | JobWorkerIntent
    ) -> asyncio.Future[JobReply]:
        self.jobs.append((shard_id, intent))
        return self._future(intent)

    def submit_schedule(
        self, shard_id: int, intent: ScheduleIntent
    ) -> asyncio.Future[ScheduleReply]:
        self.scheduled.append((shard_id, intent))
        return self._future(intent)

    def _future(self, intent: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        answer = self.answer(intent)
        if isinstance(answer, Exception):
            future.set_exception(answer)
        elif answer is not FakeHistory.PENDING:
            future.set_result(answer)
        return future

    def answer_query(self, token: QueryToken, answer: QueryAnswer) -> bool:
        self.query_answers.append((token, answer))
        return True

    def start_task(self, offer: TaskOffer, worker: WorkerRef) -> None:
        raise AssertionError("matching starts tasks")

    def undo_start(self, handed: Handed) -> None:
        self.undone.append(handed)
        self.undo_seen.set()

    def heartbeat(self, worker: WorkerRef, held: list[HeldTask]) -> list[HeldVerdict | None]:
        self.beats.append((worker, held))
        return self.verdicts or [None] * len(held)

    def goodbye(self, worker: WorkerRef, released: list[TaskToken]) -> None:
        self.byes.append((worker, released))

    def poll_broken(self, worker_id: bytes) -> None:
        self.broken_polls.append(worker_id)
        self.broken_seen.set()

    def refill(self, shard_id: int, queue_no: int) -> None:
        raise AssertionError("matching refills")

    async def read_events(
        self,
        shard_id: int,
        namespace_id: bytes,
        workflow_id: str,
        run_id: bytes,
        from_event_id: int,
        limit: int,
    ) -> EventsPage:
        self.reads.append((shard_id, namespace_id, workflow_id, run_id, from_event_id, limit))
        page = self.pages.pop(0)
        if isinstance(page, Exception):
            raise page
        return page

    async def read_task_events(
        self, shard_id: int, run_id: bytes, from_event_id: int, to_event_id: int, limit_bytes: int
    ) -> tuple[list[Event], int]:
        self.reads.append((shard_id, run_id, from_event_id, to_event_id, limit_bytes))
        return self.task_pages.pop(0)


def plain_answer(intent: Any) -> Any:
    match intent:
        case StartWorkflow():
            return Started(intent.run_id, True)
        case CreateJobs():
            made = [CreatedJob(job.job_id, True, JobStatus.PENDING) for job in intent.jobs]
            return JobsCreated([*made])
        case CompleteJobs():
            return JobsAnswered([])
        case DescribeJob():
            return not_found("JOB", "the job does not exist")
        case CancelJob() | RescheduleJob() | RedriveJob() | ResumeJob():
            return JobAnswered(JobStatus.CANCELLED)
        case WaitResult() | WaitJobs():
            return FakeHistory.PENDING
        case _:
            return None


class FakeMatching:
    """Answers polls with `answers`, in order; without one a poll waits until it is cancelled."""

    def __init__(self) -> None:
        self.polls: list[PollRequest] = []
        self.answers: list[PollAnswer] = []
        self.takers: list[FakeTaker] = []
        self.to_take: list[PollAnswer] = []
        self.forgotten: list[bytes] = []
        self.info = QueueInfo(0, 0, 0)
        self.described: list[str | None] = []
        self.parked = asyncio.Event()
        self.cancelled = asyncio.Event()

    def offer(self, offers: list[TaskOffer]) -> None:
        raise AssertionError("history offers")

    def withdraw(self, shard_id: int) -> None:
        raise AssertionError("history withdraws")

    async def poll(self, request: PollRequest) -> PollAnswer:
        self.polls.append(request)
        if self.answers:
            return self.answers.pop(0)
        self.parked.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.cancelled.set()
        raise AssertionError("nothing sets that future")

    def announce(self, request: PollRequest) -> FakeTaker:
        taker = FakeTaker(request, self.to_take)
        self.takers.append(taker)
        return taker

    def has_pollers(
        self, namespace_id: bytes, queue: str, kind: TaskKind, version: str = "", pool: str = ""
    ) -> bool:
        return True

    def forget_worker(self, worker_id: bytes) -> None:
        self.forgotten.append(worker_id)

    def describe(
        self, namespace_id: bytes, queue: str, kind: TaskKind, version: str | None = None
    ) -> QueueInfo:
        self.described.append(version)
        return self.info


class FakeTaker:
    """Takes the next of `answers`, or nothing."""

    def __init__(self, request: PollRequest, answers: list[PollAnswer]) -> None:
        self.request = request
        self.ended = ""
        self._answers = answers

    def take(self) -> PollAnswer:
        self.ended = self.ended or "took"
        return self._answers.pop(0) if self._answers else PollAnswer([], [])

    def leave(self) -> None:
        self.ended = self.ended or "left"


class FakeStore:
    """Namespaces, members, token keys and lists. `down`: the database does not answer."""

    def __init__(self) -> None:
        self.rows = {
            "default": NamespaceRow(NAMESPACE_ID, "default", "", 3_600_000, 1),
            "other": NamespaceRow(OTHER_NAMESPACE_ID, "other", "", 3_600_000, 1),
        }
        self.namespace_reads = 0
        self.keys: list[TokenKeyRow] = []
        self.runs: list[VisibilityRow] = []
        self.lists: list[tuple[VisibilityFilter, PageKey | None, int]] = []
        self.orders: list[Order] = []
        self.nodes: list[NodeRow] = []
        self.shards: list[ShardRow] = []
        self.audited: list[AuditRow | None] = []
        self.down = False
        self.broken: Exception | None = None

        self.deployments: dict[tuple[bytes, str], DeploymentRow] = {}

    async def list_deployments(self) -> list[DeploymentRow]:
        self._check()
        return list(self.deployments.values())

    async def put_deployment(self, row: DeploymentRow, audited: AuditRow | None = None) -> bool:
        self._check()
        stored = self.deployments.get((row.namespace_id, row.name))
        if (stored.conflict_token if stored is not None else 0) != row.conflict_token:
            return False
        self.audited.append(audited)
        token = row.conflict_token + 1
        self.deployments[row.namespace_id, row.name] = msgspec.structs.replace(
            row, conflict_token=token
        )
        return True

    def _check(self) -> None:
        if self.down:
            raise StoreUnavailable("connection to postgres://user:secret@db lost")
        if self.broken is not None:
            raise self.broken

    async def list_namespaces(self) -> list[NamespaceRow]:
        self._check()
        self.namespace_reads += 1
        return list(self.rows.values())

    async def create_namespace(self, row: NamespaceRow, audited: AuditRow | None = None) -> bool:
        self._check()
        if row.name in self.rows:
            return False
        self.audited.append(audited)
        self.rows[row.name] = row
        return True

    async def update_namespace(self, row: NamespaceRow, audited: AuditRow | None = None) -> bool:
        self._check()
        if self.rows[row.name].conflict_token != row.conflict_token:
            return False
        self.audited.append(audited)
        self.rows[row.name] = msgspec.structs.replace(row, conflict_token=row.conflict_token + 1)
        return True

    async def list_runs(
        self,
        where: VisibilityFilter,
        before: PageKey | None,
        limit: int,
        order: Order = Order.START_DESC,
        look: int = RUNS_LOOKED_AT,
    ) -> RunPage:
        self._check()
        self.lists.append((where, before, limit))
        self.orders.append(order)
        rows = sorted(self.runs, key=lambda row: (row.start_us, row.run_id), reverse=True)
        if before is not None:
            rows = [row for row in rows if (row.start_us, row.run_id) < before[:2]]
        end = (rows[limit - 1].start_us, rows[limit - 1].run_id) if len(rows) > limit else None
        return RunPage(rows[:limit], end)

    async def count_runs(self, where: VisibilityFilter) -> int:
        self._check()
        self.lists.append((where, None, 0))
        return len(self.runs)

    async def count_groups(
        self, where: VisibilityFilter, group: Group
    ) -> list[tuple[int | str, int]]:
        self._check()
        self.lists.append((where, None, 0))
        return [(2, 3), (7, 1)] if group is Group.STATUS else [("Order", 4)]

    async def list_nodes(self) -> list[NodeRow]:
        return self.nodes

    async def list_shards(self) -> list[ShardRow]:
        return self.shards

    async def list_token_keys(self) -> list[TokenKeyRow]:
        return self.keys

    async def put_token_key(self, key_id: int, secret: bytes) -> bool:
        if any(key.key_id == key_id for key in self.keys):
            return False
        self.keys.append(TokenKeyRow(key_id, secret, 0))
        return True

    async def renew_node(self, *_: Any) -> int:
        raise AssertionError("membership renews")

    async def release_node(self, node_id: bytes) -> None:
        raise AssertionError("membership releases")

    async def put_shard(self, shard_id: int, node_id: bytes, address: str) -> None:
        raise AssertionError("history puts shards")


class FakeMembership:
    node_id = b"n" * 16
    address = "here:1"

    def lease_valid(self) -> bool:
        return True

    def live_nodes(self) -> list[NodeRow]:
        return []

    def owner_of(self, shard_id: int) -> NodeRow | None:
        return None

    def subscribe(self, changed: Callable[[], None]) -> None:
        raise AssertionError("the frontend does not follow the members")


class Room:
    """A frontend and everything it stands on."""

    def __init__(self, archive: Archive | None = None) -> None:
        self.history = FakeHistory()
        self.matching = FakeMatching()
        self.store = FakeStore()
        self.clock = FakeClock()
        self.ids = FakeIds()
        self.sealer = Sealer([TokenKeyRow(1, b"k" * 32, 0)])
        self.namespaces = Namespaces(self.store, self.clock)
        self.operations = MemoryStore(lambda: 2_000_000)  # the audit log and the batch operations
        self.woken = 0
        self.deployments = Deployments(self.store)
        self.frontend = Frontend(
            history=self.history,
            matching=self.matching,
            visibility=self.store,
            members=self.store,
            membership=FakeMembership(),
            namespaces=self.namespaces,
            sealer=self.sealer,
            ids=self.ids,
            clock=self.clock,
            db_now_us=lambda: 2_000_000,
            about=About("0.1.0", "PostgreSQL 18.6"),
            cron=CronSpecs(),
            audit=self.operations,
            ledger=InstallationLedger(self.operations),
            batches=self.operations,
            batch_begun=self._batch_begun,
            deployments=self.deployments,
            jobs=self.operations,
            queue_limits=self.operations,
            schedules=self.operations,
            times=Times(),
            codec=MsgpackCodec(),
            archive=archive,
        )

    def _batch_begun(self) -> None:
        self.woken += 1

    @property
    def touched(self) -> bool:
        """Whether anything reached the ports."""
        return self.history.touched or bool(self.matching.polls or self.store.lists)


async def turn() -> None:
    """One turn of the event loop."""
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


def task_token(
    kind: TaskKind = TaskKind.WORKFLOW, namespace_id: bytes = NAMESPACE_ID, **changes: Any
) -> TaskToken:
    token = TaskToken(2, namespace_id, RUN_ID, kind, 2, 1, 77, 1_000, 11_000, 3)
    return msgspec.structs.replace(token, **changes)
