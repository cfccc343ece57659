"""A shard's jobs under everything that can happen to them, in any order: keys, batches, stale tokens, lost memory.

The machine asks at random and knows little: which outcomes were accepted, who was handed what, when. What must hold all
the same is said in its invariants, after every step, of what is saved and of what is in memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.unit.core.jobs.bench import (
    FAILURE,
    NAMESPACE,
    SHARD,
    JobBench,
    as_saved,
    id_of,
    new_job,
)

from perdure_engine.core.errors import Rejected
from perdure_engine.core.failures import Failure, FailureKind, TimeoutType
from perdure_engine.core.ids import queue_number
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.memory import KeyId, unique_key_id
from perdure_engine.core.jobs.model import (
    OPEN_STATUSES,
    Concurrency,
    ConcurrencyPolicy,
    JobRun,
    JobStatus,
    Unique,
    UniqueScope,
)
from perdure_engine.core.poison import SURGICAL
from perdure_engine.core.retry import RetryPolicy, backoff_ms
from perdure_engine.core.tasks import TaskKind, TimerKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.core.versions import bucket
from perdure_engine.history.jobs.rows import job_of_row
from perdure_engine.store.codec import MsgpackCodec

CODEC = MsgpackCodec()
NAMES = [f"j{number}" for number in range(12)]
POLICIES = (
    RetryPolicy(maximum_attempts=1),
    RetryPolicy(maximum_attempts=2),
    RetryPolicy(initial_interval_ms=0, maximum_attempts=3),
    RetryPolicy(500, 1.0, maximum_attempts=0),
)
FAILURES = (
    FAILURE,
    Failure(FailureKind.APPLICATION, "never", non_retryable=True),
    Failure(FailureKind.APPLICATION, "later", next_retry_delay_ms=3_000),
    Failure(FailureKind.APPLICATION, "at once", next_retry_delay_ms=0),
)
LIMITS = {"one": 1, "two": 2}
keys = st.sampled_from(
    [
        None,
        None,
        *[Concurrency(key, LIMITS[key], policy) for key in LIMITS for policy in ConcurrencyPolicy],
        Concurrency("rated", 9, rate_per_s=0.5),
    ]
)
uniques = st.sampled_from(
    [None, None, None, *[Unique(scope.name, scope, 4_000) for scope in UniqueScope]]
)
seconds = st.sampled_from([0, 0, 0, 1, 5, 30])
some_name = st.sampled_from(NAMES)


WORKERS = [bytes([number]) * 16 for number in range(1, 5)]
some_worker = st.sampled_from(WORKERS)
NORMAL_NO = queue_number(NAMESPACE, TaskKind.JOB, "mail")
SURGICAL_NO = queue_number(NAMESPACE, TaskKind.JOB, bucket("mail", "", SURGICAL))


def count_of(run: JobRun) -> int:
    return 0 if run.crashes is None else run.crashes.count


class JobMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = JobBench()
        self.tokens: list[TaskToken] = []  # ever handed out
        self.applied: Counter[tuple[bytes, int]] = Counter()  # outcomes, by job and start number
        self.attempts: dict[bytes, int] = defaultdict(lambda: 1)

    # ---- what clients ask

    @rule(
        names=st.lists(some_name, min_size=1, max_size=4),
        concurrency=keys,
        unique=uniques,
        retry=st.sampled_from(POLICIES),
        due_s=seconds,
        expire_s=seconds,
        in_batch=st.booleans(),
        sealed=st.booleans(),
    )
    def create(
        self,
        names: list[str],
        concurrency: Concurrency | None,
        unique: Unique | None,
        retry: RetryPolicy,
        due_s: int,
        expire_s: int,
        in_batch: bool,
        sealed: bool,
    ) -> None:
        now_us = self.bench.now_us
        fields: dict[str, Any] = {
            # the frontend refuses both keys to a job of a batch: they decide another shard
            "concurrency": None if in_batch else concurrency,
            "unique": None if in_batch else unique,
            "retry": retry,
            "due_us": now_us + due_s * 1_000_000 if due_s else 0,
            "expire_us": now_us + expire_s * 1_000_000 if expire_s else 0,
        }
        batch = None
        if in_batch:
            fields["batch_id"] = "b"
            batch = job.Callback("b", new_job("callback"), sealed)
        made = self.bench.create(*[new_job(name, **fields) for name in names], batch=batch)
        for name, one in zip(names, made.jobs, strict=True):
            if isinstance(one, Rejected):
                assert in_batch, "only a sealed batch refuses"
            elif one.created:
                assert one.job_id == id_of(name)
                self.attempts[one.job_id] = 1

    @rule(name=some_name)
    def cancel(self, name: str) -> None:
        self._operate(job.CancelJob, name)

    @rule(name=some_name, due_s=seconds)
    def reschedule(self, name: str, due_s: int) -> None:
        self._operate(job.RescheduleJob, name, due_us=self.bench.now_us + due_s * 1_000_000)

    @rule(name=some_name)
    def redrive(self, name: str) -> None:
        if self._operate(job.RedriveJob, name):
            self.attempts[id_of(name)] = 1

    @rule(name=some_name)
    def resume(self, name: str) -> None:
        self._operate(job.ResumeJob, name)

    def _operate(self, kind: Any, name: str, **fields: Any) -> bool:
        """Said twice, it is done once."""
        request = self.bench.new_number().to_bytes(16, "big")
        try:
            self.bench.operate(kind, name, request, **fields)
        except Rejected:
            return False
        before = self.bench.row(id_of(name))
        self.bench.operate(kind, name, request, **fields)
        assert self.bench.row(id_of(name)) == before
        return True

    # ---- workers

    @rule(data=st.data(), worker_id=some_worker)
    def hand_out(self, data: st.DataObject, worker_id: bytes) -> None:
        ready = [
            row
            for row in self.bench.tables.job_runs.in_order(SHARD)
            if row.task_id > 0 and self.bench.run_of_row(row).handout is None
        ]
        if ready:
            row = data.draw(st.sampled_from(ready))
            self.tokens.append(self.bench.start(self.bench.run_of_row(row), worker_id))

    @rule(data=st.data(), which=st.sampled_from(["complete", "fail", "fail", "stop", "crash"]))
    def outcome(self, data: st.DataObject, which: str) -> None:
        """Of any hand-out that there ever was: most are stale."""
        if not self.tokens:
            return
        token = data.draw(st.sampled_from(self.tokens[-8:]))
        run = self.bench.run_of_row(self.bench.row(token.run_id))
        asked_to_stop, was = bool(run.cancel_us), self.bench.row(token.run_id)
        outcome: job.JobOutcome = job.JobCompleted(token, b"ok")
        if which == "fail":
            outcome = job.JobFailed(token, data.draw(st.sampled_from(FAILURES)))
        elif which == "stop":
            outcome = job.JobCanceled(token, b"")
        elif which == "crash":
            outcome = job.JobCrashed(token, FAILURE)
        if self.bench.outcome(outcome).refused:
            assert self.bench.row(token.run_id) == was, "invariant 30: it changes nothing"
            return
        self._applied(token)
        row = self.bench.row(token.run_id)
        if which == "complete":
            assert row.status == JobStatus.COMPLETED
        elif which == "crash":
            assert row.attempt == was.attempt
        elif asked_to_stop:
            assert row.status == JobStatus.CANCELLED, "invariant 32: no retry after that"
        else:
            assert which == "fail"
            assert row.status in (JobStatus.RETRY, JobStatus.FAILED, JobStatus.SKIPPED)
        if row.status == JobStatus.RETRY and which != "crash":
            self._retried(run, outcome)

    def _applied(self, token: TaskToken) -> None:
        self.applied[token.run_id, token.start_no] += 1
        assert self.applied[token.run_id, token.start_no] == 1, "invariant 30: once"

    def _retried(self, run: JobRun, outcome: job.JobOutcome) -> None:
        """Invariant 31: the attempt grows by one, within the policy, after its delay at the soonest."""
        self.attempts[run.job_id] += 1
        assert run.attempt == self.attempts[run.job_id]
        most = run.spec.retry.maximum_attempts
        assert not most or run.attempt <= most
        assert isinstance(outcome, job.JobFailed)
        assert not outcome.failure.non_retryable
        told_ms = outcome.failure.next_retry_delay_ms
        delay_ms = backoff_ms(run.spec.retry, run.attempt - 1) if told_ms is None else told_ms
        if delay_ms:
            assert run.timer is not None
            assert run.timer.due_us >= self.bench.now_us + delay_ms * 1_000

    @rule(data=st.data(), dead=st.booleans(), crashed=st.booleans())
    def put_back(self, data: st.DataObject, dead: bool, crashed: bool) -> None:
        if self.tokens:
            token = data.draw(st.sampled_from(self.tokens[-8:]))
            self._put_back(token, dead or crashed, crashed)

    @rule(data=st.data(), workers=st.permutations(WORKERS))
    def crash_again_and_again(self, data: st.DataObject, workers: list[bytes]) -> None:
        """Whoever takes the job dies of it, until nobody may have it."""
        ready = [row for row in self.bench.tables.job_runs.in_order(SHARD) if row.task_id > 0]
        if not ready:
            return
        job_id = data.draw(st.sampled_from(ready)).job_id
        for worker_id in workers:
            run = self.bench.run_of_row(self.bench.row(job_id))
            if run.task_id <= 0 or run.handout is not None:
                return
            self.tokens.append(self.bench.start(run, worker_id))
            self._put_back(self.tokens[-1], dead=True, crashed=True)

    def _put_back(self, token: TaskToken, dead: bool, crashed: bool) -> None:
        """Invariants 35, 37: no attempt is counted; a crash is, once, and the third in a row poisons in that step."""
        run = self.bench.run_of_row(self.bench.row(token.run_id))
        before, attempt = count_of(run), run.attempt
        told = job.PutBackJobs(SHARD, ((token.run_id, token.start_no, dead, crashed),))
        self.bench.decide(told, told)
        row = self.bench.row(token.run_id)
        assert row.attempt == attempt
        assert count_of(run) - before in ((0, 1) if crashed else (0,))
        if count_of(run) > before:
            assert (count_of(run) >= 3) == (row.status in (JobStatus.POISONED, JobStatus.SUSPENDED))

    @rule(data=st.data(), worker_id=some_worker)
    def take_back(self, data: st.DataObject, worker_id: bytes) -> None:
        """A worker that was thought dead is heard of, of a job that it has had."""
        if self.tokens:
            job_id = data.draw(st.sampled_from(self.tokens[-8:])).run_id
            run = self.bench.run_of_row(self.bench.row(job_id))
            before = run.status
            told = job.TakeBackCrashes(SHARD, ((job_id, worker_id),))
            self.bench.decide(told)
            after = as_saved(run)
            self.bench.decide(told)
            assert as_saved(run) == after
            gone = run.crashes is None or worker_id not in run.crashes.worker_ids
            assert gone or before is JobStatus.SUSPENDED or not run.open

    @rule(data=st.data())
    def save_start(self, data: st.DataObject) -> None:
        if self.tokens:
            token = data.draw(st.sampled_from(self.tokens[-8:]))
            self.bench.decide(job.SaveJobStarts(SHARD, ((token.run_id, token.start_no),)))

    @rule(data=st.data(), kind=st.sampled_from([TimeoutType.START_TO_CLOSE, TimeoutType.HEARTBEAT]))
    def time_out(self, data: st.DataObject, kind: TimeoutType) -> None:
        if not self.tokens:
            return
        token = data.draw(st.sampled_from(self.tokens[-8:]))
        before = self.bench.row(token.run_id)
        self.bench.decide(job.TimeOutJob(SHARD, token.run_id, token.start_no, kind))
        row = self.bench.row(token.run_id)
        if row != before:
            self._applied(token)
            if row.status == JobStatus.RETRY:
                self.attempts[token.run_id] += 1

    @rule(data=st.data(), version=st.integers(0, 3), beat=st.booleans())
    def save_progress(self, data: st.DataObject, version: int, beat: bool) -> None:
        """Invariant 33: what is older than what is kept changes nothing. 35: what is saved, and came with no heartbeat,
        forgives crashes."""
        if not self.tokens:
            return
        token = data.draw(st.sampled_from(self.tokens[-8:]))
        run = self.bench.run_of_row(self.bench.row(token.run_id))
        before, crashes = run.progress_version, count_of(run)
        try:
            self.bench.decide(job.SaveJobProgress(SHARD, token, b"half", version, beat=beat))
        except Rejected:
            assert run.progress_version == before
        else:
            assert run.progress_version == max(before, version or before + 1)
        forgiven = run.progress_version > before and not beat
        assert count_of(run) == (0 if forgiven else crashes)

    # ---- time and memory

    @rule(passed=st.sampled_from([1, 2, 4, 20, 60, 1800, 24 * 3600]))
    def pass_time(self, passed: int) -> None:
        self.bench.pass_time(passed)

    @rule()
    def lose_memory(self) -> None:
        """Another owner. Hand-outs that were not saved are not known to it; their tokens are."""
        self.bench.forget()

    # ---- what must hold

    @invariant()
    def memory_is_what_is_saved(self) -> None:
        """Every job that was touched has its row: a reload brings back the same, but for hand-outs (4, 5)."""
        for run in self.bench.memory.jobs.values():
            stored = job_of_row(self.bench.row(run.job_id), CODEC)
            mine, theirs = as_saved(run), as_saved(stored)
            if run.handout is not None:
                for name in ("start_no", "started_us", "worker_id", "worker_identity"):
                    theirs[name] = mine[name]
            if mine["attempt"] == theirs["attempt"] and run.handout is None:
                # a hand-out that was taken back left who had it
                for name in ("start_no", "started_us", "worker_id", "worker_identity"):
                    theirs[name] = mine[name]
            assert mine == theirs

    @invariant()
    def every_open_job_will_be_woken(self) -> None:
        """Invariant 13: it is ready, runs, waits behind somebody, or has a timer row; a closed one has nothing left."""
        live = {(row.wake_us, row.timer_id): row for row in self.bench.timers()}
        named: set[tuple[int, int]] = set()
        for row in self.bench.tables.job_runs.in_order(SHARD):
            run = job_of_row(row, CODEC)
            timers = [one for one in (run.timer, run.expiry) if one is not None]
            for one in timers:
                assert live[one.wake_us, one.timer_id].due_us == one.due_us
                named.add((one.wake_us, one.timer_id))
            if row.status not in OPEN_STATUSES:
                assert not timers
                assert (row.task_id, row.closed_us is None) == (0, False)
                continue
            wakes = run.timer is not None or row.task_id != 0
            assert wakes or row.status in (JobStatus.IN_PROGRESS, JobStatus.SUSPENDED)
            if run.timer is not None and row.task_id >= 0:
                assert (row.task_id, run.timer.kind) == (0, TimerKind.JOB_DUE)
        assert named == set(live), "no timer of nobody"

    @invariant()
    def only_the_surgical_pool_gets_what_is_poisoned(self) -> None:
        """Invariants 37 to 39: by the status and by the queue number that ready rows are read by."""
        for row in self.bench.tables.job_runs.in_order(SHARD):
            run = job_of_row(row, CODEC)
            poisoned = count_of(run) >= 3
            status = JobStatus(row.status)
            if row.task_id > 0:
                assert row.queue_no == (SURGICAL_NO if poisoned else NORMAL_NO)
            if status in (JobStatus.PENDING, JobStatus.RETRY):
                assert not poisoned
            elif status is JobStatus.POISONED:
                assert poisoned
                assert run.expiry is not None, "when it is to be suspended"
                assert run.reason
            elif status is JobStatus.SUSPENDED:
                assert (poisoned, row.task_id, run.timer, run.expiry) == (True, 0, None, None)

    @invariant()
    def places_are_within_the_limit_and_none_is_free_while_somebody_waits(self) -> None:
        held, waiting = Counter[str](), defaultdict[str, list[JobRun]](list)
        for row in self.bench.tables.job_runs.in_order(SHARD):
            if row.task_id > 0 or row.status == JobStatus.IN_PROGRESS:
                held[row.concurrency_key] += 1
            elif row.task_id < 0:
                waiting[row.concurrency_key].append(job_of_row(row, CODEC))
        for key, limit in LIMITS.items():
            assert held[key] <= limit
            assert not waiting[key] or held[key] == limit
        # the poisoned ones stand behind the others
        rated = sorted(waiting["rated"], key=lambda run: (bool(run.pool), -run.task_id))
        assert not rated or rated[0].timer is not None, (
            "the first who waits for the rate has a timer"
        )

    @invariant()
    def a_poisoned_job_that_nobody_has_keeps_no_other_of_its_key_waiting(self) -> None:
        """Invariant 40."""
        idle, waiting = set[str](), set[str]()
        for row in self.bench.tables.job_runs.in_order(SHARD):
            run = self.bench.memory.jobs.get(row.job_id) or job_of_row(row, CODEC)
            if row.task_id > 0 and run.handout is None and run.pool:
                idle.add(row.concurrency_key)
            elif row.task_id < 0 and not run.pool:
                waiting.add(row.concurrency_key)
        assert not idle & waiting & LIMITS.keys()

    @invariant()
    def a_unique_key_has_one_live_job(self) -> None:
        """Invariant 57; the key's row names it. Beside a concurrency key it is another key."""
        live = defaultdict[KeyId, list[bytes]](list)
        for row in self.bench.tables.job_runs.in_order(SHARD):
            spec = CODEC.decode_job_spec(row.spec)
            unique = spec.unique
            if row.status not in OPEN_STATUSES or unique is None:
                continue
            if unique.scope is UniqueScope.ACTIVE:
                live[unique_key_id(NAMESPACE, spec)].append(row.job_id)
        for key_id, job_ids in live.items():
            key = self.bench.tables.job_keys.get(SHARD, key_id)
            assert key is not None
            assert job_ids == [key.job_id]

    @invariant()
    def the_batch_adds_up(self) -> None:
        row = self.bench.tables.job_batches.get(SHARD, (NAMESPACE, "b"))
        if row is None:
            return
        state = CODEC.decode_job_batch(row.state)
        ended = state.completed + state.failed + state.cancelled + state.skipped
        assert row.total == row.open + ended
        members = [r for r in self.bench.tables.job_runs.in_order(SHARD) if r.batch_id == "b"]
        assert row.total == len(members)
        callback = self.bench.tables.job_runs.get(SHARD, id_of("callback"))
        assert state.over == (callback is not None)
        if state.over:
            assert (row.open, row.sealed, state.callback) == (0, True, None)
        else:
            assert row.open == sum(member.status in OPEN_STATUSES for member in members)
            assert not (row.sealed and row.open == 0)
