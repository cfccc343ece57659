"""Batch operations, worked off: each owner walks through the runs of its own shards (ports/batches.py).

A chunk at a time: which runs it takes is saved, then they are acted on, and what came of it is saved with
the next chunk. Whoever goes on after a crash acts on the saved chunk again; each act has a request id
made of job and run, so that the run takes it once and the counts are right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar, assert_never

from perdure_engine.core import intents
from perdure_engine.core.decide.reset_workflow import RESET_BY_THE_JOB
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import batch_request_id, reset_run_id
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.shard import Shard
from perdure_engine.ports.batches import (
    BatchJob,
    BatchOperation,
    BatchRow,
    BatchStore,
    PartRow,
    PartState,
    ReadQuery,
    Target,
    targets_of,
)
from perdure_engine.ports.store import StoreError

POLL_S = 2.0  # until a job that another node has taken in is found
CHUNK_MAX = 100  # runs taken at once; fewer when that is more than a second's worth
RETRY_S = 1.0
ABORTED_MAX = 5  # of one act on one run: what is always changed meanwhile is never as memory has it
DELETE_WAIT_S = 30.0  # for a run that has something to say to others, and goes when it is said
RATE_MIN = 0.01  # of a node that has few of many shards: it still goes on
FAILURE_CHARACTERS_MAX = 500

JobKey = tuple[bytes, str]


class Batches:
    """Start it after the controller, stop it before. `wake`: there is a new job."""

    def __init__(
        self,
        rooms: Rooms,
        store: BatchStore,
        shards: Callable[[], Iterable[Shard]],
        number_of_shards: int,
        read_query: ReadQuery,
    ) -> None:
        self._rooms = rooms
        self._store = store
        self._shards = shards
        self._number_of_shards = number_of_shards
        self._read_query = read_query
        self._task: asyncio.Task[None] | None = None
        self._jobs: dict[JobKey, asyncio.Task[None]] = {}
        self._woken = asyncio.Event()

    async def start(self) -> None:
        assert self._task is None, "started once"
        self._task = asyncio.get_running_loop().create_task(self._run(), name="batches")

    async def stop(self) -> None:
        """Stopping twice is fine. What is under way goes on elsewhere, from where it was saved."""
        tasks = [*self._jobs.values(), *([self._task] if self._task is not None else [])]
        self._task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        self._woken.set()

    async def _run(self) -> None:
        while True:
            try:
                await self.run_once()
            except StoreError:
                pass
            except Exception as error:  # a bug: the next look may do better, and somebody must hear
                self._rooms.alarm("batches_failed", error=error)
            try:
                async with asyncio.timeout(POLL_S):
                    await self._woken.wait()
            except TimeoutError:
                pass
            self._woken.clear()

    async def run_once(self) -> None:
        """Begin, or go on with, what our shards have of jobs that nobody here works on. Raises StoreError."""
        shards = {shard.shard_id: shard for shard in self._shards()}
        if not shards:
            return
        found: dict[JobKey, list[PartRow]] = {}
        for part in await self._store.load_open_batch_parts(list(shards)):
            found.setdefault((part.namespace_id, part.job_id), []).append(part)
        for key, parts in found.items():
            if key not in self._jobs:
                work = self._work(key, parts, shards)
                task = asyncio.get_running_loop().create_task(work, name="batch")
                self._jobs[key] = task
                task.add_done_callback(partial(self._ended, key))

    def _ended(self, key: JobKey, task: asyncio.Task[None]) -> None:
        del self._jobs[key]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, StoreError):
            self._rooms.alarm("batch_failed", job_id=key[1], error=error)

    async def _work(self, key: JobKey, parts: list[PartRow], shards: dict[int, Shard]) -> None:
        for part in parts:
            walk = _Walk(self._rooms, self._store, shards[part.shard_id], part, self._read_query)
            await walk.run(lambda: len(list(self._shards())) / self._number_of_shards)


class _Walk:
    """One part, to its end, or until it is somebody else's."""

    def __init__(
        self, rooms: Rooms, store: BatchStore, shard: Shard, part: PartRow, read_query: ReadQuery
    ) -> None:
        self._rooms = rooms
        self._store = store
        self._shard = shard
        self._part = part
        self._read_query = read_query

    async def run(self, share: Callable[[], float]) -> None:
        """`share`: which part of the job's rate is this node's, by the shards that it has. Raises StoreError."""
        while not self._gone:
            part = self._part
            batch = await self._store.load_batch(part.namespace_id, part.job_id)
            if batch is None:
                return
            began = self._rooms.clock.monotonic()
            if not await self._act(batch, part):
                return
            rate = max(batch.job.rps * share(), RATE_MIN)
            paced_s = len(part.pending) / rate - (self._rooms.clock.monotonic() - began)
            if paced_s > 0:
                await self._rooms.clock.sleep(paced_s)
            if batch.stopped_us is not None:
                await self._save(pending=(), state=PartState.CLOSED)
                return
            chunk = max(1, min(CHUNK_MAX, int(rate)))
            where = targets_of(part.namespace_id, batch.job, batch.started_us, self._read_query)
            page = await self._store.load_batch_targets(part.shard_id, where, part.position, chunk)
            if not page.targets and page.last_run_id is None:
                await self._save(pending=(), state=PartState.CLOSED)
                return
            position = page.last_run_id or page.targets[-1].run_id
            if not await self._save(pending=tuple(page.targets), position=position):
                return

    @property
    def _gone(self) -> bool:
        return self._shard.closed or self._shard.leaving

    async def _save(
        self,
        *,
        pending: tuple[Target, ...],
        position: bytes | None = None,
        state: PartState = PartState.OPEN,
    ) -> bool:
        part = self._part._replace(
            pending=pending,
            state=state,
            position=position or self._part.position,
            saved_us=self._rooms.database_clock.low_us(),
        )
        if not await self._store.save_batch_part(part):
            return False
        self._part = part._replace(version=part.version + 1)
        return True

    async def _act(self, batch: BatchRow, part: PartRow) -> bool:
        """On the chunk that was saved. False: the shard has gone, and its next owner does it again."""
        done, failed, last = part.done, part.failed, part.last_failure
        outcomes = await asyncio.gather(*(self._act_on(batch, one) for one in part.pending))
        if self._gone:
            return False
        for outcome in outcomes:
            if outcome is None:
                done += 1
            elif outcome.reason != RESET_BY_THE_JOB:  # that one was counted as what it came from
                failed += 1
                last = f"{outcome.reason}: {outcome.message}"[:FAILURE_CHARACTERS_MAX]
        self._part = part._replace(done=done, failed=failed, last_failure=last)
        return True

    async def _act_on(self, batch: BatchRow, target: Target) -> Rejected | None:
        """Why not, if not. A run that has closed or gone meanwhile leaves nothing to do."""
        intent = intent_for(batch, target)
        aborted = 0
        while True:
            try:
                async with asyncio.timeout(DELETE_WAIT_S):
                    await self._shard.submit(intent)
            except TimeoutError:
                waits = batch.job.operation is BatchOperation.DELETE
                if self._gone or (waits and self._shard.outbox.holds(target.run_id)):
                    return _SPEAKS  # else it is only slow: the same request once more
            except Rejected as refusal:
                if refusal.code is Code.NOT_FOUND or refusal.reason in _AS_WANTED:
                    return None
                aborted += refusal.code is Code.ABORTED
                if self._gone or not _passes(refusal) or aborted == ABORTED_MAX:
                    return refusal
                await self._rooms.clock.sleep(RETRY_S * (0.5 + self._rooms.ids.jitter()))
            else:
                return None


_SPEAKS = Rejected(
    Code.UNAVAILABLE,
    "RUN_HAS_MESSAGES",
    "it has something to say to runs that do not answer, and is deleted when that is said",
)
_AS_WANTED = ("WORKFLOW_PAUSED", "WORKFLOW_NOT_PAUSED")
"""Reasons of refusals that say: somebody else has done it already."""


def _passes(refusal: Rejected) -> bool:
    """Whether it may be asked again: the database is away, the shard's inbox is full, the run has changed."""
    return refusal.code in (Code.UNAVAILABLE, Code.ABORTED) or refusal.retry_after_ms > 0


BatchIntent = (
    intents.TerminateWorkflow
    | intents.CancelWorkflow
    | intents.SignalWorkflow
    | intents.DeleteWorkflow
    | intents.ResetWorkflow
    | intents.PauseWorkflow
    | intents.UnpauseWorkflow
)


T = TypeVar(
    "T",
    intents.TerminateWorkflow,
    intents.CancelWorkflow,
    intents.DeleteWorkflow,
    intents.PauseWorkflow,
    intents.UnpauseWorkflow,
)


def intent_for(batch: BatchRow, target: Target) -> BatchIntent:
    """The only place that says what an operation does to one run."""
    job = batch.job
    address = (batch.namespace_id, target.workflow_id, target.run_id)
    request_id = batch_request_id(batch.namespace_id, batch.job_id, target.run_id)
    match job.operation:
        case BatchOperation.TERMINATE:
            return _named(intents.TerminateWorkflow, address, request_id, job)
        case BatchOperation.CANCEL:
            return _named(intents.CancelWorkflow, address, request_id, job)
        case BatchOperation.DELETE:
            return _named(intents.DeleteWorkflow, address, request_id, job)
        case BatchOperation.PAUSE:
            return _named(intents.PauseWorkflow, address, request_id, job)
        case BatchOperation.UNPAUSE:
            return _named(intents.UnpauseWorkflow, address, request_id, job)
        case BatchOperation.RESET:
            assert job.reset_type is not None, "checked when the job was asked for"
            return intents.ResetWorkflow(
                namespace_id=batch.namespace_id,
                workflow_id=target.workflow_id,
                run_id=target.run_id,
                request_id=request_id,
                body_hash=job.body_hash,
                new_run_id=reset_run_id(batch.namespace_id, target.workflow_id, request_id),
                reset_type=job.reset_type,
                build_id=job.build_id,
                reapply_exclude=frozenset(job.reapply_exclude),
                identity=job.identity,
                reason=job.reason,
                job_id=batch.job_id,
            )
        case BatchOperation.SIGNAL:
            return intents.SignalWorkflow(
                namespace_id=batch.namespace_id,
                workflow_id=target.workflow_id,
                run_id=target.run_id,
                signal_name=job.signal_name,
                request_id=request_id,
                body_hash=job.body_hash,
                input=job.signal_input,
                identity=job.identity,
            )
        case _:
            assert_never(job.operation)


def _named(kind: type[T], address: tuple[bytes, str, bytes], request_id: bytes, job: BatchJob) -> T:
    namespace_id, workflow_id, run_id = address
    return kind(
        namespace_id=namespace_id,
        workflow_id=workflow_id,
        run_id=run_id,
        request_id=request_id,
        body_hash=job.body_hash,
        identity=job.identity,
        reason=job.reason,
    )
