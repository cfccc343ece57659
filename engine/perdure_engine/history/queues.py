"""The ready workflow tasks and activities of a shard, as matching knows of them."""

from __future__ import annotations

from perdure_engine.core.draft import Draft
from perdure_engine.core.state import pinned_version, version_ran_on
from perdure_engine.core.tasks import TaskKind, TaskRecord, TaskState
from perdure_engine.history.flows import Flow
from perdure_engine.history.offering import PAGE, Offering
from perdure_engine.history.run import Run
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.matching import TaskOffer
from perdure_engine.ports.rows import TaskRow


class QueueBooks(Offering[TaskRow]):
    __slots__ = ()

    # ---- after a commit

    def publish(self, run: Run, draft: Draft) -> None:
        """While the lease book still has what the batch ended."""
        for record in draft.gone_tasks:
            # what a worker had was forgotten when it got it
            if self._paged or not self._shard.leases.holds(record.start_no):
                self._forget(record.queue_no, record.task_id)
        if not draft.tasks:
            return
        offers = [
            offer
            for record in dict.fromkeys(draft.tasks)
            if record.state is TaskState.READY
            and record.handout is None
            and (offer := self._admit(run, record)) is not None
        ]
        if offers:
            self._shard.rooms.matching.offer(offers)

    def offer(self, run: Run, record: TaskRecord, *, at_once: bool = True) -> None:
        """Offer one ready task again, for which credit does not matter: at once, or soon."""
        book = self._book(record.queue_no)
        offer = self._offer_of(run, record)
        self._put(book, offer)
        if at_once:
            self._shard.rooms.matching.offer([offer])
        else:
            self.offer_soon()

    def taken(self, record: TaskRecord) -> None:
        self._forget(record.queue_no, record.task_id)

    def handed_out(self, run: Run, record: TaskRecord) -> None:
        self.taken(record)
        self._flow(run, record).dispatched += 1

    def _flow(self, run: Run, record: TaskRecord) -> Flow:
        """What the surgical pool gets is no flow of its queue, whose workers it does not concern."""
        namespace_id = run.state.folded.started.namespace_id
        if record.aside is not None and record.pool:
            return Flow(namespace_id, record.queue, record.kind)
        flows = self._shard.rooms.flows
        return flows.flow(record.queue_no, namespace_id, record.queue, record.kind)

    def _admit(self, run: Run, record: TaskRecord) -> TaskOffer | None:
        self._flow(run, record).added += 1
        book = self._book_with_room(record.queue_no, record.task_id)
        if book is None:
            return None
        offer = self._offer_of(run, record)
        self._put(book, offer)
        return offer

    def _offer_of(self, run: Run, record: TaskRecord) -> TaskOffer:
        folded = run.state.folded
        started = folded.started
        sticky = b""
        if record.kind is TaskKind.WORKFLOW and (record.aside is None or not record.isolated):
            sticky = run.state.sticky_worker_id
        version = ""
        if record.pinned or self._shard.rooms.routing.active:
            version = self.version_of(run, record)
            if version != version_ran_on(folded):
                sticky = b""  # it moves: who has it cached will not be asked
        return TaskOffer(
            self._shard.shard_id,
            started.namespace_id,
            record.kind,
            record.queue,
            record.queue_no,
            record.task_id,
            started.run_id,
            record.scheduled_event_id,
            record.priority,
            sticky,
            record.ready_us,
            0,
            version,
            record.pinned,
            "" if record.aside is None else record.pool,
        )

    def version_of(self, run: Run, record: TaskRecord) -> str:
        """Whose polls get the task now."""
        started = run.state.folded.started
        return self._version_of(
            started.namespace_id, record.queue, record.kind, started.run_id, record.pinned
        )

    def version_of_workflow_tasks(self, run: Run) -> str:
        """Whose polls get the run's workflow tasks now."""
        folded = run.state.folded
        pinned = pinned_version(folded)
        if not (pinned or self._shard.rooms.routing.active):
            return ""
        started = folded.started
        return self._version_of(
            started.namespace_id, started.task_queue, TaskKind.WORKFLOW, started.run_id, pinned
        )

    def _version_of(
        self, namespace_id: bytes, queue: str, kind: TaskKind, run_id: bytes, pinned: str
    ) -> str:
        return self._shard.rooms.routing.version_for(namespace_id, queue, kind, run_id, pinned)

    def _version_for(self, offer: TaskOffer) -> str:
        return self._version_of(
            offer.namespace_id, offer.queue, offer.kind, offer.run_id, offer.pinned
        )

    # ---- saved rows

    async def _read_page(self, queue_no: int, after_task_id: int) -> list[TaskRow]:
        shard = self._shard
        return await shard.rooms.store.load_queue_tasks(
            shard.shard_id, queue_no, after_task_id, PAGE
        )

    def _offer_of_row(self, row: TaskRow) -> TaskOffer | None:
        """One that does not read back is its run's trouble, not its queue's."""
        if row.state != TaskState.READY:
            return None
        try:
            return self._read_offer(row)
        except CorruptRow as error:
            self._shard.rooms.alarm("corrupt_task_row", run_id=row.run_id.hex(), error=error)
            return None

    def _read_offer(self, row: TaskRow) -> TaskOffer:
        codec = self._shard.rooms.codec
        record = codec.decode_task(row)
        namespace_id = codec.namespace_of_task(row)
        version = ""
        if record.pinned or self._shard.rooms.routing.active:
            version = self._version_of(
                namespace_id, record.queue, record.kind, row.run_id, record.pinned
            )
        return TaskOffer(
            row.shard_id,
            namespace_id,
            record.kind,
            record.queue,
            row.queue_no,
            row.task_id,
            row.run_id,
            record.scheduled_event_id,
            row.priority,
            b"",
            record.ready_us,
            0,
            version,
            record.pinned,
            record.pool,
        )
