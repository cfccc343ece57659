"""A history that knows whether each task is ready or held, and complains about anything else."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.simulation.loop import SimulatedLoop, simulate

from perdure_engine.core.events import ActivityTaskScheduled
from perdure_engine.core.jobs.model import JobRun, JobSpec
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.history import (
    Handed,
    HandedActivityTask,
    HandedJobTask,
    HandedWorkflowTask,
    WorkerRef,
)
from perdure_engine.ports.matching import PollAnswer, PollRequest, TaskOffer

T = TypeVar("T")

NAMESPACE = b"namespace-------"
QUEUE = "orders"
RUN = b"run-------------"


def offer(
    task_id: int,
    *,
    shard: int = 1,
    kind: TaskKind = TaskKind.WORKFLOW,
    queue: str = QUEUE,
    priority: int = 3,
    ready_us: int = 0,
    sticky: bytes = b"",
    query: int = 0,
) -> TaskOffer:
    return TaskOffer(
        shard_id=shard,
        namespace_id=NAMESPACE,
        kind=kind,
        queue=queue,
        queue_no=kind * 10,
        task_id=task_id,
        run_id=RUN,
        scheduled_event_id=2,
        priority=priority,
        sticky_worker_id=sticky,
        ready_us=ready_us,
        query_no=query,
    )


def request(
    worker: bytes = b"w1",
    *,
    workflows: int = 100,
    activities: int = 100,
    timeout_s: float = 30.0,
    queue: str = QUEUE,
) -> PollRequest:
    ref = WorkerRef(worker, f"identity of {worker!r}", "build")
    return PollRequest(NAMESPACE, queue, ref, workflows, activities, timeout_s)


def handed_of(offer: TaskOffer, start_no: int, input_bytes: int = 0) -> Handed:
    token = TaskToken(
        offer.shard_id,
        NAMESPACE,
        RUN,
        offer.kind,
        offer.task_id or -offer.query_no,  # not what history does, but lets a test tell tasks apart
        1,
        start_no,
        0,
        0,
    )
    if offer.kind is TaskKind.WORKFLOW:
        return HandedWorkflowTask(
            token, offer.shard_id, NAMESPACE, "w", RUN, "t", 1, 0, 3, [], 0, [], [], 0, 0, False
        )
    if offer.kind is TaskKind.JOB:
        spec = JobSpec(input=b"x" * input_bytes)
        return HandedJobTask(token, JobRun(RUN, NAMESPACE, "t", QUEUE, 0, spec), 0)
    scheduled = ActivityTaskScheduled(
        5, 0, "a", "t", QUEUE, b"x" * input_bytes, b"", 0, 0, 0, 0, 4, RetryPolicy(), 3
    )
    return HandedActivityTask(token, NAMESPACE, "w", RUN, "t", scheduled, 1, 0, b"")


def key_of(handed: Handed) -> tuple[int, int]:
    assert handed.token is not None
    return handed.token.shard_id, handed.token.scheduled_event_id


def handed_in(answer: PollAnswer) -> list[Handed]:
    return answer.tasks


def tasks_of(answer: PollAnswer) -> list[int]:
    """Task ids in the order in which the answer has them; a query is minus its number."""
    return [key_of(handed)[1] for handed in handed_in(answer)]


class FakeHistory:
    """Implements what matching uses of ports.history.History.

    A task that was made is ready, held by one worker, or gone. `slow` tasks start by a future that
    the test resolves with `finish`. An undone task is offered again, as a shard does.
    """

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.offers: dict[tuple[int, int], TaskOffer] = {}
        self.ready: set[tuple[int, int]] = set()
        self.holder: dict[tuple[int, int], tuple[bytes, int]] = {}  # worker, start number
        self.slow: set[int] = set()
        self.pending: dict[int, list[tuple[TaskOffer, WorkerRef, asyncio.Future[Handed | None]]]]
        self.pending = {}
        self.broken: set[int] = set()
        self.input_bytes = 0
        self.starts = 0
        self.undone: list[int] = []
        self.refills: list[tuple[int, int]] = []
        self.offer_again = True
        matcher.connect(self)

    def publish(self, *offers: TaskOffer) -> None:
        """What a shard does after a commit."""
        for made in offers:
            key = made.shard_id, made.task_id or -made.query_no
            self.offers[key] = made
            self.ready.add(key)
        self.matcher.offer(list(offers))

    def start_task(
        self, offer: TaskOffer, worker: WorkerRef
    ) -> Handed | asyncio.Future[Handed | None] | None:
        number = offer.task_id or -offer.query_no
        if number in self.broken:
            raise RuntimeError(f"task {number} is broken")
        if number in self.slow:
            future: asyncio.Future[Handed | None] = asyncio.get_running_loop().create_future()
            self.pending.setdefault(number, []).append((offer, worker, future))
            return future
        return self._start(offer, worker)

    def finish(self, number: int) -> None:
        """The run of a slow task is loaded."""
        self.slow.discard(number)
        for offer, worker, future in self.pending.pop(number, []):
            future.set_result(self._start(offer, worker))

    def fail(self, number: int, error: BaseException) -> None:
        for _, _, future in self.pending.pop(number, []):
            future.set_exception(error)

    def _start(self, offer: TaskOffer, worker: WorkerRef) -> Handed | None:
        key = offer.shard_id, offer.task_id or -offer.query_no
        if key not in self.ready:
            return None
        assert key not in self.holder, "invariant 16: two workers hold one task"
        self.ready.discard(key)
        self.starts += 1
        self.holder[key] = worker.worker_id, self.starts
        return handed_of(offer, self.starts, self.input_bytes)

    def undo_start(self, handed: Handed) -> None:
        key = key_of(handed)
        assert handed.token is not None
        assert self.holder[key][1] == handed.token.start_no, "undone twice"
        del self.holder[key]
        self.ready.add(key)
        self.undone.append(key[1])
        if self.offer_again:
            self.matcher.offer([self.offers[key]])

    def refill(self, shard_id: int, queue_no: int) -> None:
        self.refills.append((shard_id, queue_no))


def run(main: Callable[[Matcher, FakeHistory], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    """Run a test's coroutine on a simulated loop with a matcher and its history."""

    async def within(_: SimulatedLoop) -> T:
        matcher = Matcher()
        return await main(matcher, FakeHistory(matcher))

    return simulate(within, seed)
