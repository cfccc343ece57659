"""The ready jobs of a shard, as matching knows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure_engine.core.jobs.model import JobRun
from perdure_engine.core.tasks import TaskKind
from perdure_engine.history.offering import PAGE, Offering
from perdure_engine.ports.matching import TaskOffer
from perdure_engine.ports.rows import JobRunRow

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs


class JobQueues(Offering[JobRunRow]):
    def __init__(self, jobs: Jobs) -> None:
        super().__init__(jobs.shard)
        self._jobs = jobs

    # ---- after a commit

    def publish(self, ready: list[JobRun]) -> None:
        """Jobs that became ready, and are saved; those among them that are not any more are left out."""
        offers: list[TaskOffer] = []
        flows = self._shard.rooms.flows
        for run in ready:
            task_id = run.task_id
            if task_id > 0 and run.handout is None:
                flows.flow(run.queue_no, run.namespace_id, run.queue, TaskKind.JOB).added += 1
                book = self._book_with_room(run.queue_no, task_id)
                if book is not None:
                    offer = self._offer_of(run)
                    self._put(book, offer)
                    offers.append(offer)
        if offers:
            self._shard.rooms.matching.offer(offers)

    def offer(self, run: JobRun, *, at_once: bool = True) -> None:
        """Offer one ready job again, for which credit does not matter: at once, or soon."""
        offer = self._offer_of(run)
        self._put(self._book(run.queue_no), offer)
        if at_once:
            self._shard.rooms.matching.offer([offer])
        else:
            self.offer_soon()

    def withdraw(self, withdrawn: list[tuple[int, int]]) -> None:
        """(queue, task id) of jobs that are not ready any more."""
        for queue_no, task_id in withdrawn:
            self._forget(queue_no, task_id)

    def taken(self, run: JobRun) -> None:
        self._forget(run.queue_no, run.task_id)

    def handed_out(self, run: JobRun) -> None:
        self.taken(run)
        flows = self._shard.rooms.flows
        flows.flow(run.queue_no, run.namespace_id, run.queue, TaskKind.JOB).dispatched += 1

    def _offer_of(self, run: JobRun) -> TaskOffer:
        routing = self._shard.rooms.routing
        version = ""
        if routing.active:
            version = self.version_of(run.namespace_id, run.queue, run.job_id)
        return TaskOffer(
            self._shard.shard_id,
            run.namespace_id,
            TaskKind.JOB,
            run.queue,
            run.queue_no,
            run.task_id,
            run.job_id,
            0,
            run.priority,
            b"",
            run.ready_us,
            0,
            version,
        )

    def version_of(self, namespace_id: bytes, queue: str, job_id: bytes) -> str:
        """Whose polls get the job now: those that get an activity of a run that is pinned to none."""
        return self._shard.rooms.routing.version_for(
            namespace_id, queue, TaskKind.ACTIVITY, job_id, ""
        )

    def _version_for(self, offer: TaskOffer) -> str:
        return self.version_of(offer.namespace_id, offer.queue, offer.run_id)

    # ---- saved rows

    async def _read_page(self, queue_no: int, after_task_id: int) -> list[JobRunRow]:
        """Puts them into memory too: they are about to be handed out."""
        shard, loading = self._shard, self._jobs.loading
        while True:
            with loading.read() as read:
                rows = await shard.rooms.store.load_ready_jobs(
                    shard.shard_id, queue_no, after_task_id, PAGE
                )
                if shard.closed:
                    return []
                for row in rows:
                    loading.take(read, row)
            if not any(read.is_stale(row.job_id, row.version) for row in rows):
                return rows

    def _offer_of_row(self, row: JobRunRow) -> TaskOffer | None:
        run = self._jobs.memory.jobs.get(row.job_id)
        if run is None or run.task_id != row.task_id or run.handout is not None:
            return None  # it has gone on since the row was read
        return self._offer_of(run)
