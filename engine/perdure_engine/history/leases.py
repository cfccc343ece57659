"""Leases of started tasks, in the owner's memory (design §6).

Renewals take effect on arrival, with no await and no commit. What is judged here only ever becomes an intent:
the decision, and what is saved of it, is the shard's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from perdure_engine.core.decide.attempts import key_of, options_of, stops_for_pause
from perdure_engine.core.draft import Draft
from perdure_engine.core.failures import TimeoutType
from perdure_engine.core.intents import (
    DescribeWorkflow,
    PutBackTask,
    SaveProgress,
    SaveStart,
    TimeOutTask,
)
from perdure_engine.core.state import RunState
from perdure_engine.core.tasks import Handout, TaskKind, TaskRecord, TaskState
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history.run import Run
from perdure_engine.ports.history import HeldVerdict, WorkerRef

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

LOOP_LATE_S_MAX = 1.0  # a longer gap of our own: renewals may wait unread in the socket
COMMIT_S_MAX = 2.0  # likewise
SAVE_RETRY_S = 0.2
SAVE_AGAIN_S = 5.0  # a start that could not be saved is tried again
PROGRESS_EVERY_S = 30.0  # at most so often is a task's progress saved (B18)
SUSPECT_LEASE_S = 4.0  # two heartbeats: what a worker keeps whose connection broke

LOST = HeldVerdict(lost=True, cancel_requested=False)
CANCEL = HeldVerdict(lost=False, cancel_requested=True)
PAUSED = HeldVerdict(lost=False, cancel_requested=False, paused=True)


class Held(msgspec.Struct, eq=False):
    """One hand-out and what it is judged by. Seconds are monotonic, µs are the database's."""

    run_id: bytes
    key: int  # in RunState.tasks
    handout: Handout
    kind: TaskKind
    scheduled_event_id: int
    handed_at: float
    deadline_us: int
    heartbeat_us: int
    progress_saved_at: float
    token: TaskToken
    details: bytes | None = None  # progress that is not saved yet
    details_version: int = 0
    save_told_at: float = -1e9  # when the shard was last asked to save the start
    ending: bool = False  # an intent about it is under way


class LeaseBook:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._held: dict[int, Held] = {}  # by start number
        self._by_worker: dict[bytes, dict[int, Held]] = {}
        # (run, kind, Scheduled's event id) -> (until, start number)
        self._orphans: dict[tuple[bytes, TaskKind, int], tuple[float, int]] = {}
        self._judged_at = shard.rooms.clock.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._held)

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
        self._held[handout.start_no] = held
        self._by_worker.setdefault(handout.worker_id, {})[handout.start_no] = held
        self._watch()

    def publish(self, run: Run, draft: Draft) -> None:
        """Hand-outs that the batch ended are no longer held."""
        for record in draft.gone_tasks:
            self.drop(record.start_no)
        for record in draft.tasks:
            if record.handout is None and record.start_no:
                self.drop(record.start_no)

    def drop(self, start_no: int) -> None:
        held = self._held.pop(start_no, None)
        if held is None:
            return
        worker_id = held.handout.worker_id
        of_worker = self._by_worker.get(worker_id)
        if of_worker is not None:
            of_worker.pop(start_no, None)
            if not of_worker:
                del self._by_worker[worker_id]

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
                held.save_told_at = -1e9
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
        held.handout.lease_until = (
            self._shard.rooms.clock.monotonic() + self._shard.rooms.config.lease_s
        )
        run = self._shard.runs.get(held.run_id)
        if details is not None:
            self._progress(run, held, details, version)
        if run is None or held.kind is not TaskKind.ACTIVITY:
            return None
        activity = run.state.folded.activities.get(held.key)
        if activity is not None and activity.cancel_requested_event_id and not run.busy:
            return CANCEL
        record = run.state.tasks.get(held.key)
        if record is not None and record.aside is not None and activity is not None:
            return PAUSED if stops_for_pause(activity, record) and not run.busy else None
        return None

    def _progress(self, run: Run | None, held: Held, details: bytes, version: int) -> None:
        """Remember it at once; save it now and then. An attempt that ends saves what is remembered."""
        held.handout.beat_us = self._shard.rooms.database_clock.low_us()
        held.details, held.details_version = details, version
        record = run.state.tasks.get(held.key) if run is not None else None
        if record is not None and not self._remember(held, record):
            return
        now = self._shard.rooms.clock.monotonic()
        if now - held.progress_saved_at >= PROGRESS_EVERY_S:
            self._save_progress(held, details, now)

    def _remember(self, held: Held, record: TaskRecord) -> bool:
        """False: a checkpoint has saved newer progress than this."""
        assert held.details is not None
        if held.details_version and held.details_version <= record.progress_version:
            self._shard.rooms.metrics.progress_cas_conflicts.inc()
            held.details = None
            return False
        record.progress = held.details
        return True

    def _save_progress(self, held: Held, details: bytes, now: float) -> None:
        held.progress_saved_at = now
        held.details = None
        self._shard.tell(SaveProgress(held.token, details, held.details_version))

    def listed(self, worker_id: bytes, start_nos: set[int]) -> None:
        """The worker said what it holds: whatever it was given but does not list, it never got."""
        now = self._shard.rooms.clock.monotonic()
        oldest = now - self._shard.rooms.config.unlisted_after_s
        for start_no, held in list(self._by_worker.get(worker_id, {}).items()):
            if start_no not in start_nos and held.handed_at < oldest and not held.ending:
                self._put_back(held, worker_dead=False)

    def suspect(self, worker_id: bytes) -> None:
        """The worker's connection broke: if no heartbeat comes soon, it is dead."""
        until = self._shard.rooms.clock.monotonic() + SUSPECT_LEASE_S
        for held in self._by_worker.get(worker_id, {}).values():
            held.handout.lease_until = min(held.handout.lease_until, until)

    def release(self, worker_id: bytes) -> None:
        """The worker said goodbye: what it still holds goes back."""
        for held in list(self._by_worker.get(worker_id, {}).values()):
            self._put_back(held, worker_dead=False)

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
        key = (token.run_id, token.kind, token.scheduled_event_id)
        if key in self._orphans:
            # it is claimed: it waits for the load, and for another try should that fail
            until = self._shard.rooms.clock.monotonic() + self._shard.rooms.config.lease_s
            self._orphans[key] = (until, self._orphans[key][1])
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
        key = key_of(token.kind, token.scheduled_event_id)
        record = run.state.tasks.get(key)
        if record is None or not may_adopt(run.state, record, token):
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

    # ---- judging

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> None:
        if self._timer is None and not self._shard.closed:
            self._judged_at = self._shard.rooms.clock.monotonic()
            every = self._shard.rooms.config.judge_every_s
            self._timer = asyncio.get_running_loop().call_later(every, self._tick)

    def _tick(self) -> None:
        self._timer = None
        last = self._judged_at
        self.judge(last)
        if self._held or self._orphans:
            self._watch()

    def judge(self, last_judged_at: float) -> None:
        """Look at every hand-out once. After a gap of our own nothing is judged before it is prolonged."""
        shard = self._shard
        now = shard.rooms.clock.monotonic()
        late = now - last_judged_at - shard.rooms.config.judge_every_s > LOOP_LATE_S_MAX
        if late or (shard.in_flight and now - shard.in_flight_since > COMMIT_S_MAX):
            self.prolong()
            return
        now_us = shard.rooms.database_clock.low_us()
        for held in list(self._held.values()):
            if not held.ending:
                self._judge_one(held, now, now_us)
        for key, (until, start_no) in list(self._orphans.items()):
            if now >= until:
                del self._orphans[key]
                run_id, kind, scheduled_event_id = key
                if start_no in self._held:
                    continue  # adopted before the scan had seen it
                shard.tell(
                    PutBackTask(run_id, kind, scheduled_event_id, start_no, worker_dead=True)
                )

    def prolong(self) -> None:
        now = self._shard.rooms.clock.monotonic()
        until = now + self._shard.rooms.config.lease_s
        now_us = self._shard.rooms.database_clock.low_us()
        for held in self._held.values():
            held.handout.beat_us = max(held.handout.beat_us, now_us)
            held.handout.lease_until = max(held.handout.lease_until, until)

    def _judge_one(self, held: Held, now: float, now_us: int) -> None:
        config = self._shard.rooms.config
        handout = held.handout
        if held.deadline_us and now_us >= held.deadline_us:
            self._time_out(held, TimeoutType.START_TO_CLOSE)
        elif (
            held.heartbeat_us
            and now_us - max(handout.beat_us, handout.started_us) >= held.heartbeat_us
        ):
            self._time_out(held, TimeoutType.HEARTBEAT)
        elif now >= handout.lease_until:
            self._put_back(held, worker_dead=True)
        elif not handout.saved and now - held.handed_at >= config.start_save_after_s:
            if now - held.save_told_at >= SAVE_AGAIN_S:
                held.save_told_at = now
                self._shard.tell(SaveStart(held.run_id, held.key, handout.start_no))
        elif held.details is not None and now - held.progress_saved_at >= PROGRESS_EVERY_S:
            self._save_progress(held, held.details, now)

    def _time_out(self, held: Held, timeout_type: TimeoutType) -> None:
        held.ending = True
        self._shard.tell(
            TimeOutTask(
                held.run_id, held.kind, held.scheduled_event_id, held.handout.start_no, timeout_type
            )
        )

    def _put_back(self, held: Held, *, worker_dead: bool) -> None:
        held.ending = True
        self._shard.tell(
            PutBackTask(
                held.run_id, held.kind, held.scheduled_event_id, held.handout.start_no, worker_dead
            )
        )

    async def save_all_starts(self) -> None:
        """Before a release: the next owner must know what may be running. Tried until the database has it."""
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
