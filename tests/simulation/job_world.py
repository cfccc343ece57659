"""Jobs in the simulated cluster: clients that repeat themselves until the answer is definite, workers that do jobs,
and a look at every statement that is saved."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.cluster import NAMESPACE, QUEUE, SHARDS, Cluster, Gone, Node, Worker

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.model import OPEN_STATUSES, JobSpec, JobStatus, NewJob
from perdure_engine.core.tokens import TaskToken
from perdure_engine.ports.history import HandedJobTask
from perdure_engine.ports.matching import PollAnswer, PollRequest
from perdure_engine.ports.rows import JobRunRow
from perdure_engine.ports.store import Batch
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.memory.store import MemoryStore

CODEC = MsgpackCodec()
FLAKY = b"flaky"  # input of jobs whose first attempt fails


@dataclass
class JobEffects:
    """What jobs did to the world, and which of their outcomes the engine took."""

    done: Counter[bytes] = field(default_factory=Counter)
    taken: Counter[tuple[bytes, int]] = field(default_factory=Counter)  # by job and start number
    taken_ends: Counter[bytes] = field(default_factory=Counter)  # completions, by job


class WatchedStore(MemoryStore):
    """Looks at what every statement leaves: what must hold, holds at every moment."""

    limits: dict[str, int]

    async def commit(self, batch: Batch) -> int:
        try:
            return await super().commit(batch)
        finally:
            keys = {row.concurrency_key for row in batch.job_runs}
            rows = self.tables.job_runs.all() if batch.job_runs else []
            self._look(rows, keys)

    def _look(self, rows: list[JobRunRow], keys: set[str]) -> None:
        held: Counter[str] = Counter()
        live: dict[str, list[bytes]] = defaultdict(list)
        for row in rows:
            if row.concurrency_key and (row.task_id > 0 or row.status == JobStatus.IN_PROGRESS):
                held[row.concurrency_key] += 1
            if row.status in OPEN_STATUSES and row.user_id.startswith("unique "):
                live[row.user_id].append(row.job_id)
        for key, count in held.items():
            assert count <= self.limits[key], f"invariant 57: {count} places of {key}"
        for key, jobs in live.items():
            assert len(jobs) == 1, f"invariant 57: {key} has {len(jobs)} live jobs"


class JobCluster(Cluster):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        store = WatchedStore(self.database_clock.now_us, SHARDS)
        store.limits = {"one": 1, "two": 2}
        self.store = store
        self.jobs = JobEffects()

    def new_worker(self, name: str) -> Worker:
        return JobWorker(self, name)

    async def ask_job(
        self, shard_id: int, intent: job.JobClientIntent, limit_s: float = 3.0
    ) -> Any:
        """As `Cluster.ask`."""
        while True:
            for node in self._owners_first(shard_id):
                try:
                    return await self.call(node, _submit(node, shard_id, intent), limit_s)
                except Gone:
                    pass
                except Rejected as refusal:
                    if refusal.code not in (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED):
                        raise
            await asyncio.sleep(0.2)

    def _owners_first(self, shard_id: int) -> list[Node]:
        return sorted(self.nodes.values(), key=lambda node: shard_id not in node.history.owned())

    def row(self, job_id: bytes) -> JobRunRow:
        row = self.store.tables.job_runs.get(int.from_bytes(job_id[:4], "big"), job_id)
        assert row is not None, "invariant 57: what was acknowledged is there"
        return row


def _submit(
    node: Node, shard_id: int, intent: job.JobClientIntent | job.JobWorkerIntent
) -> Callable[[], Awaitable[Any]]:
    async def work() -> Any:
        return await node.history.submit_job(shard_id, intent)

    return work


def new_job(job_id: bytes, input_: bytes = b"", **fields: Any) -> NewJob:
    spec = {key: fields.pop(key) for key in list(fields) if key in JobSpec.__struct_fields__}
    return NewJob(
        job_id=job_id, task_name="work", queue=QUEUE, spec=JobSpec(input=input_, **spec), **fields
    )


class JobWorker(Worker):
    """Does jobs, one attempt a tenth of a second; flaky ones fail the first time. Outcomes go in lists."""

    cluster: JobCluster

    async def _poll(self, node: Node) -> None:
        request = PollRequest(NAMESPACE, QUEUE, self.ref, 0, 20, 10.0)
        while node.name in self.cluster.nodes:
            try:
                answer: PollAnswer = await self.cluster.call(
                    node, lambda: node.matcher.poll(request), limit_s=15.0
                )
            except Gone:
                continue
            for task in answer.job_tasks:
                self.held[task.token.shard_id, task.token.start_no] = task.token
            if answer.job_tasks:
                self._spawn(self._work(answer.job_tasks))
            else:
                await asyncio.sleep(0.01)

    async def _work(self, tasks: list[HandedJobTask]) -> None:
        outcomes: dict[int, list[job.JobOutcome]] = defaultdict(list)
        for task in tasks:
            await asyncio.sleep(0.1 * self.cluster.ids.jitter())
            outcomes[task.token.shard_id].append(self._do(task))
        for shard_id, of_shard in outcomes.items():
            self._spawn(self._tell(shard_id, of_shard))

    def _do(self, task: HandedJobTask) -> job.JobOutcome:
        token = task.token
        if task.job.spec.input == FLAKY and token.attempt == 1:
            return job.JobFailed(token, Failure(FailureKind.APPLICATION, "again", type="Flaky"))
        self.cluster.jobs.done[token.run_id] += 1
        return job.JobCompleted(token, b"done")

    async def _tell(self, shard_id: int, outcomes: list[job.JobOutcome]) -> None:
        """Until the answer is definite; what is refused then was taken before, or is stale."""
        intent = job.CompleteJobs(shard_id, outcomes, self.name)
        try:
            while True:
                if await self._told(shard_id, intent):
                    return
                await asyncio.sleep(0.2)
        finally:
            for outcome in outcomes:
                self.held.pop((shard_id, outcome.token.start_no), None)

    async def _told(self, shard_id: int, intent: job.CompleteJobs) -> bool:
        for node in self.cluster._owners_first(shard_id):
            try:
                answered = await self.cluster.call(node, _submit(node, shard_id, intent))
            except Gone:
                continue
            except Rejected as refusal:
                if refusal.code is not Code.UNAVAILABLE:
                    raise
                continue
            refused = {index for index, _ in answered.refused}
            for index, outcome in enumerate(intent.outcomes):
                if index not in refused:
                    self._note(outcome.token, isinstance(outcome, job.JobCompleted))
            return True
        return False

    def _note(self, token: TaskToken, completed: bool) -> None:
        jobs = self.cluster.jobs
        jobs.taken[token.run_id, token.start_no] += 1
        jobs.taken_ends[token.run_id] += completed
