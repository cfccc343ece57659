"""Leases of started workflow tasks and activities (`judging` says what all leases have in common)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from perdure_engine.core.decide.attempts import key_of, options_of, stops_for_pause
from perdure_engine.core.draft import Draft
from perdure_engine.core.failures import TimeoutType
from perdure_engine.core.intents import (
    CameBack,
    DescribeWorkflow,
    PutBackTask,
    SaveProgress,
    SaveStart,
    TimeOutTask,
)
from perdure_engine.core.state import RunState
from perdure_engine.core.tasks import Handout, TaskKind, TaskRecord, TaskState
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history.judging import (
    CANCEL,
    LONG_AGO,
    LOST,
    PAUSED,
    SAVE_RETRY_S,
    Held,
    Leases,
)
from perdure_engine.history.run import Run
from perdure_engine.ports.history import HeldVerdict, WorkerRef


class LeaseBook(Leases[tuple[bytes, TaskKind, int]]):
    """Orphans are named by run, kind and Scheduled's event id."""

    __slots__ = ()

    # ---- what changes the book

    def hand_out(self, run: Run, key: int, record: TaskRecord, token: TaskToken) -> None:
        handout = record.handout
        assert handout is not None
        now = self._shard.rooms.clock.monotonic()
        activity = run.state.folded.activities.get(key)
        heartbeat_ms = (
            options_of(activity, record).heartbeat_timeout_ms if activity is not None else 0
        )
        held = Held(
            run.state.run_id,
            key,
            handout,
            record.kind,
            record.scheduled_event_id,
            now,
            token.deadline_us,
            heartbeat_ms * 1000,
            now,
            token,
        )
        self._hold(held)

    def publish(self, run: Run, draft: Draft) -> None:
        """Hand-outs that the batch ended are no longer held."""
        for record in draft.gone_tasks:
            self.drop(record.start_no)
        for record in draft.tasks:
            if record.handout is None and record.start_no:
                self.drop(record.start_no)

    def of_run(self, run_id: bytes) -> dict[int, tuple[int, Handout]]:
        """The run's hand-outs by task key, with their attempt: what only a commit changes."""
        return {
            held.key: (held.token.attempt, held.handout)
            for held in self._held.values()
            if held.run_id == run_id
        }

    def reloaded(self, run: Run) -> None:
        """What was under way for the run's hand-outs may have come to nothing: they are judged again."""
        for held in [held for held in self._held.values() if held.run_id == run.state.run_id]:
            record = run.state.tasks.get(held.key)
            if record is not None and record.handout is held.handout:
                held.ending = False
                held.save_told_at = LONG_AGO
                if held.details is not None:
                    self._remember(held, record)
            else:
                self.drop(held.handout.start_no)

    def add_orphan(self, run_id: bytes, record: TaskRecord, until: float) -> None:
        """A saved start of before the take-over: its worker has until then to claim it."""
        self._orphans[run_id, record.kind, record.scheduled_event_id] = (until, record.start_no)
        self._watch()

    # ---- heartbeats

    def renew(
        self, worker: WorkerRef, token: TaskToken, details: bytes | None, version: int = 0
    ) -> HeldVerdict | None:
        held = self._held.get(token.start_no)
        if held is None:
            return self._adopt_or_lose(worker, token)
        held.renewed(self._shard.rooms.clock.monotonic() + self._shard.rooms.config.lease_s)
        run = self._shard.runs.get(held.run_id)
        if details is not None:
            self._progress(held, details, version)
        if run is None or held.kind is not TaskKind.ACTIVITY:
            return None
        activity = run.state.folded.activities.get(held.key)
        if activity is not None and activity.cancel_requested_event_id and not run.busy:
            return CANCEL
        record = run.state.tasks.get(held.key)
        if record is not None and record.aside is not None and activity is not None:
            return PAUSED if stops_for_pause(activity, record) and not run.busy else None
        return None

    # ---- adoption (design §6, take-over)

    def _adopt_or_lose(self, worker: WorkerRef, token: TaskToken) -> HeldVerdict | None:
        """A token this memory does not know: handed out by the owner before us, or over."""
        run = self._shard.runs.get(token.run_id)
        if run is None:
            if token.run_id not in self._shard.quarantined:
                self._load_and_adopt(worker, token)
            return None
        if run.busy:
            run.then.append(lambda: self._adopt_when_free(run, worker, token))
            return None
        return None if self.adopt(run, worker, token) else LOST

    def _adopt_when_free(self, run: Run, worker: WorkerRef, token: TaskToken) -> None:
        if self._shard.runs.get(token.run_id) is run and token.start_no not in self._held:
            self.adopt(run, worker, token)

    def _load_and_adopt(self, worker: WorkerRef, token: TaskToken) -> None:
        self._claimed((token.run_id, token.kind, token.scheduled_event_id))
        intent = DescribeWorkflow(
            namespace_id=token.namespace_id, workflow_id="", run_id=token.run_id
        )
        future = self._shard.submit(intent)
        future.add_done_callback(
            lambda f: self._loaded(worker, token, f.cancelled() or f.exception() is not None)
        )

    def _loaded(self, worker: WorkerRef, token: TaskToken, failed: bool) -> None:
        run = self._shard.runs.get(token.run_id)
        if failed or run is None:
            return
        if run.busy:
            run.then.append(lambda: self._adopt_when_free(run, worker, token))
        else:
            self._adopt_when_free(run, worker, token)

    def adopt(self, run: Run, worker: WorkerRef, token: TaskToken) -> bool:
        """Whether the worker has the task again."""
        key = key_of(token.kind, token.scheduled_event_id)
        record = run.state.tasks.get(key)
        if record is None:
            return False
        if record.crashes is not None and worker.worker_id in record.crashes.worker_ids:
            self._take_back(worker.worker_id, token.run_id, token.kind, token.scheduled_event_id)
        if not may_adopt(run.state, record, token):
            return False
        self._orphans.pop((token.run_id, token.kind, token.scheduled_event_id), None)
        lease_until = self._shard.rooms.clock.monotonic() + self._shard.rooms.config.lease_s
        record.start_no = token.start_no
        record.worker_id, record.identity, record.started_us = (
            worker.worker_id,
            worker.identity,
            token.started_us,
        )
        record.handout = Handout(
            token.start_no,
            worker.worker_id,
            worker.identity,
            token.started_us,
            lease_until,
            token.started_event_id,
            saved=record.state is TaskState.STARTED,
            beat_us=self._shard.rooms.database_clock.low_us(),
        )
        self._shard.queues.taken(record)
        self.hand_out(run, key, record, token)
        return True

    def _take_back(
        self, worker_id: bytes, run_id: bytes, kind: TaskKind, scheduled_event_id: int
    ) -> None:
        """It was thought dead with the task in hand, and lives: no crash of its is counted (invariant 35)."""
        self._shard.tell(CameBack(run_id, kind, scheduled_event_id, worker_id))

    # ---- what it is asked by all leases

    def _progressing(self, held: Held) -> TaskRecord | None:
        run = self._shard.runs.get(held.run_id)
        return run.state.tasks.get(held.key) if run is not None else None

    def _time_out(self, held: Held, timeout_type: TimeoutType) -> None:
        start_no = held.handout.start_no
        self._shard.tell(
            TimeOutTask(held.run_id, held.kind, held.scheduled_event_id, start_no, timeout_type)
        )

    def _put_back(self, held: Held, *, worker_dead: bool, crashed: bool) -> None:
        handout = held.handout
        self._shard.tell(
            PutBackTask(
                held.run_id,
                held.kind,
                held.scheduled_event_id,
                handout.start_no,
                worker_dead,
                handout.worker_id if crashed else b"",
            )
        )

    def _put_orphan_back(self, key: tuple[bytes, TaskKind, int], start_no: int) -> None:
        self._shard.tell(PutBackTask(*key, start_no, worker_dead=True))

    def came_back(self, died_with: Sequence[Held]) -> None:
        for held in died_with:
            worker_id = held.handout.worker_id
            self._take_back(worker_id, held.run_id, held.kind, held.scheduled_event_id)

    def _save_start(self, held: Held) -> None:
        self._shard.tell(SaveStart(held.run_id, held.key, held.handout.start_no))

    def _tell_progress(self, held: Held, details: bytes) -> None:
        self._shard.tell(SaveProgress(held.token, details, held.details_version))

    def _tell(self) -> None:
        """Nothing is kept for it: each is told at once."""

    # ---- before a release

    async def save_all_starts(self) -> None:
        while not self._shard.closed:
            pending = [
                self._shard.submit(SaveStart(held.run_id, held.key, held.handout.start_no))
                for held in self._held.values()
                if not held.handout.saved
            ]
            answers = await asyncio.gather(*pending, return_exceptions=True)
            if not any(isinstance(answer, BaseException) for answer in answers):
                return
            await self._shard.rooms.clock.sleep(SAVE_RETRY_S)


def may_adopt(state: RunState, record: TaskRecord, token: TaskToken) -> bool:
    """Whether a token of another owner's hand-out is still the task's newest start."""
    if (
        record.kind is not token.kind
        or record.attempt != token.attempt
        or record.handout is not None
    ):
        return False
    if record.scheduled_event_id != token.scheduled_event_id or token.start_no < record.start_no:
        return False
    if record.state in (TaskState.BACKOFF, TaskState.ASYNC):
        return False
    if record.kind is TaskKind.WORKFLOW:
        expected = state.folded.next_event_id + (0 if record.scheduled_event_id else 1)
        return token.started_event_id == expected
    return True
