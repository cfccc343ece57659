"""Jobs that crash their workers: what is counted, what follows, and the ways down (invariants 35, 37, 38, 40)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.jobs.bench import (
    NAMESPACE,
    SHARD,
    JobBench,
    id_of,
    new_job,
)

from perdure_engine.core.audit import Entry
from perdure_engine.core.failures import Failure, FailureKind, TimeoutType
from perdure_engine.core.ids import queue_number
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.decide import places
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.model import Concurrency, ConcurrencyPolicy, JobStatus
from perdure_engine.core.poison import SURGICAL
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.core.versions import bucket
from perdure_engine.history.jobs.rows import job_of_row
from perdure_engine.store.codec import MsgpackCodec

S = JobStatus
SEGFAULT = Failure(FailureKind.WORKER_LOST, "killed by signal 11 (SIGSEGV)", "its stacks")
OTHERS = [bytes([number]) * 16 for number in range(1, 9)]
NORMAL_NO = queue_number(NAMESPACE, TaskKind.JOB, "mail")
SURGICAL_NO = queue_number(NAMESPACE, TaskKind.JOB, bucket("mail", "", SURGICAL))


class Audited(JobBench):
    """Keeps what the audit log is told, and what the metrics are."""

    def __init__(self) -> None:
        super().__init__()
        self.audit: list[Entry] = []
        self.counted = [0, 0, 0]  # crashes, poisoned, suspended

    def save(self, draft: JobDraft) -> None:
        self.audit += draft.audit
        for index, number in enumerate((draft.crashes, draft.poisoned, draft.suspended)):
            self.counted[index] += number
        super().save(draft)


def bench_with(**fields: Any) -> Audited:
    bench = Audited()
    bench.create(new_job("a", **fields))
    return bench


def poisoned(bench: JobBench, name: str = "a") -> None:
    for worker_id in OTHERS[:3]:
        bench.crash(name, worker_id)


def put_back(bench: JobBench, *, dead: bool, name: str = "a") -> None:
    """Not counted: a goodbye, an answer that got lost, nobody who claims it after a take-over."""
    run = bench.run(name)
    bench.decide(job.PutBackJobs(SHARD, ((run.job_id, run.start_no, dead, False),)))


def save_start(bench: JobBench, token: TaskToken) -> None:
    bench.decide(job.SaveJobStarts(SHARD, ((token.run_id, token.start_no),)))


def take_back(bench: JobBench, worker_id: bytes) -> None:
    bench.decide(job.TakeBackCrashes(SHARD, ((id_of("a"), worker_id),)))


def crashes(bench: JobBench) -> int:
    found = bench.run("a").crashes
    return 0 if found is None else found.count


def live_timers(bench: JobBench) -> list[int]:
    return sorted((timer.due_us - bench.now_us) // 1_000_000 for timer in bench.timers())


# ---- what is counted (35)


@pytest.mark.parametrize("saved", [False, True])
def test_invariant_35_a_lease_that_ends_is_a_crash_and_no_attempt(saved: bool) -> None:
    bench = bench_with()
    token = bench.hand_out("a", OTHERS[0])
    if saved:
        save_start(bench, token)
    bench.crash("a")
    run = bench.run("a")
    assert (run.status, run.attempt, run.task_id > 0) == (S.PENDING, 1, True)
    assert run.crashes is not None
    assert (run.crashes.count, run.crashes.worker_ids) == (1, (OTHERS[0],))
    assert run.crashes.first_us == bench.now_us
    bench.forget()
    assert crashes(bench) == 1, "it is saved, and outlives its owner"
    assert bench.counted == [1, 0, 0]


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_invariant_35_goodbyes_and_take_overs_are_no_crashes(dead: bool, saved: bool) -> None:
    bench = bench_with()
    bench.crash("a")
    for _ in range(4):
        token = bench.hand_out("a")
        if saved:
            save_start(bench, token)
        put_back(bench, dead=dead)
    assert crashes(bench) == 1
    assert bench.run("a").task_id > 0


def test_invariant_35_an_end_of_a_lease_is_counted_once() -> None:
    bench = bench_with()
    token = bench.hand_out("a")
    told = job.PutBackJobs(SHARD, ((token.run_id, token.start_no, True, True),))
    bench.decide(told, told)
    bench.decide(told)
    assert crashes(bench) == 1


def test_invariant_35_nobody_dies_twice() -> None:
    """A poll of the dead worker was still open, and its answer got lost."""
    bench = bench_with()
    for _ in range(3):
        bench.crash("a", OTHERS[0])
    assert (crashes(bench), bench.run("a").task_id > 0) == (1, True)
    take_back(bench, OTHERS[0])
    bench.crash("a", OTHERS[0])
    assert crashes(bench) == 1


def test_invariant_30_and_35_a_crash_that_is_reported_again_is_counted_once() -> None:
    """The worker's call was answered, and the answer got lost."""
    bench = bench_with()
    token = bench.hand_out("a")
    assert bench.outcome(job.JobCrashed(token, SEGFAULT)).refused == []
    run = bench.run("a")
    assert run.crashes is not None
    assert (run.crashes.count, run.crashes.worker_ids, run.crashes.last) == (1, (), SEGFAULT)
    assert (run.status, run.attempt) == (S.PENDING, 1)
    bench.forget()
    before = bench.row(id_of("a"))
    for again in (job.JobCrashed(token, SEGFAULT), job.JobCompleted(token, b"ok")):
        assert len(bench.outcome(again).refused) == 1
    assert bench.row(id_of("a")) == before


def test_invariant_35_a_worker_thought_dead_reports_the_crash_that_was_counted() -> None:
    """It is the same one; and since the worker lives, nothing takes it back."""
    bench = bench_with()
    token = bench.hand_out("a", OTHERS[0])
    bench.crash("a")
    assert bench.outcome(job.JobCrashed(token, SEGFAULT)).refused == []
    take_back(bench, OTHERS[0])
    assert crashes(bench) == 1
    assert len(bench.outcome(job.JobCrashed(token, SEGFAULT)).refused) == 1


def test_what_was_put_back_uncounted_is_counted_when_its_worker_says_so() -> None:
    """After a take-over nobody claimed it in time. That another worker had died with it is another crash."""
    bench = bench_with()
    bench.crash("a", OTHERS[0])
    token = bench.hand_out("a", OTHERS[1])
    put_back(bench, dead=True)
    assert bench.outcome(job.JobCrashed(token, SEGFAULT)).refused == []
    found = bench.run("a").crashes
    assert found is not None
    assert (found.count, found.worker_ids) == (2, (OTHERS[0],))


@pytest.mark.parametrize("how", ["raised", "timeout"])
def test_invariant_35_a_raised_failure_breaks_the_row_and_keeps_the_first_crash(how: str) -> None:
    bench = bench_with(retry=RetryPolicy(maximum_attempts=0, initial_interval_ms=0))
    first_us = bench.now_us
    for _ in range(3):
        bench.crash("a")
        bench.crash("a")
        bench.now_us += 1_000_000
        token = bench.hand_out("a")
        if how == "raised":
            bench.fail(token)
        else:
            kind = TimeoutType.START_TO_CLOSE
            bench.decide(job.TimeOutJob(SHARD, token.run_id, token.start_no, kind))
        assert crashes(bench) == 0
    run = bench.run("a")
    assert run.crashes is not None
    assert run.crashes.first_us == first_us
    assert run.status is S.RETRY


@pytest.mark.parametrize(("beat", "left"), [(False, 0), (True, 2)])
def test_invariant_35_a_checkpoint_breaks_the_row_and_a_heartbeat_does_not(
    beat: bool, left: int
) -> None:
    bench = bench_with()
    bench.crash("a")
    bench.crash("a")
    token = bench.hand_out("a")
    bench.decide(job.SaveJobProgress(SHARD, token, b"half", 1, beat=beat))
    assert crashes(bench) == left
    bench.crash("a")
    assert (bench.run("a").status is S.POISONED) == beat


def test_invariant_35_a_stale_checkpoint_forgives_nothing() -> None:
    bench = bench_with()
    bench.crash("a")
    token = bench.hand_out("a")
    bench.decide(job.SaveJobProgress(SHARD, token, b"more", 2, beat=True))
    bench.decide(job.SaveJobProgress(SHARD, token, b"half", 1))
    assert crashes(bench) == 1


def test_invariant_35_success_clears_all_of_it() -> None:
    bench = bench_with()
    bench.crash("a")
    bench.complete(bench.hand_out("a"))
    assert bench.run("a").crashes is None


@pytest.mark.parametrize("reported", [False, True])
def test_one_attempt_only_means_one_attempt(reported: bool) -> None:
    """No ladder: it fails, as one whose worker is lost does."""
    bench = bench_with(retry=RetryPolicy(maximum_attempts=1))
    token = bench.hand_out("a")
    if reported:
        bench.outcome(job.JobCrashed(token, SEGFAULT))
    else:
        bench.crash("a")
    run = bench.run("a")
    assert (run.status, run.crashes) == (S.FAILED, None)
    assert [one.failure.kind for one in run.failures] == [FailureKind.WORKER_LOST]


@pytest.mark.parametrize("reported", [False, True])
def test_a_crash_of_what_was_asked_to_stop_is_its_end(reported: bool) -> None:
    bench = bench_with()
    token = bench.hand_out("a")
    bench.operate(job.CancelJob, "a")
    if reported:
        bench.outcome(job.JobCrashed(token, SEGFAULT))
    else:
        bench.crash("a")
    assert (bench.run("a").status, crashes(bench)) == (S.CANCELLED, 0)


# ---- poisoned (37, 38)


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("attempt", [1, 2])
def test_invariant_37_the_third_crash_poisons_in_the_same_step(saved: bool, attempt: int) -> None:
    bench = bench_with()
    if attempt == 2:
        bench.fail(bench.hand_out("a"))
        bench.pass_time(2)
    bench.crash("a", OTHERS[0])
    bench.crash("a", OTHERS[1])
    token = bench.hand_out("a", OTHERS[2])
    if saved:
        save_start(bench, token)
    version = bench.row(id_of("a")).version
    bench.crash("a")
    row = bench.row(id_of("a"))
    assert row.version == version + 1, "one step: put back, counted and poisoned"
    assert (row.status, row.task_id, row.attempt) == (S.POISONED, 0, attempt)
    assert row.queue_no == SURGICAL_NO
    run = bench.run("a")
    assert run.pool == SURGICAL
    assert "3 times in a row" in run.reason
    assert bench.counted == [3, 1, 0]


def test_invariant_37_the_delays_are_1_5_30_30_minutes_and_never_early() -> None:
    bench = bench_with()
    poisoned(bench)
    for delay_s, worker_id in zip((60, 300, 1800, 1800, 1800), OTHERS[3:], strict=True):
        bench.pass_time(delay_s - 0.000_001)
        assert bench.row(id_of("a")).task_id == 0
        bench.pass_time(0.000_001)
        assert bench.row(id_of("a")).task_id > 0
        assert bench.run("a").ready_us == bench.now_us
        bench.crash("a", worker_id)
        assert bench.run("a").status is S.POISONED


def test_invariant_38_a_poisoned_job_is_ready_in_the_surgical_pool_alone() -> None:
    bench = bench_with()
    assert bench.row(id_of("a")).queue_no == NORMAL_NO
    poisoned(bench)
    bench.pass_time(60)
    row = bench.row(id_of("a"))
    assert (row.status, row.task_id > 0, row.queue_no) == (S.POISONED, True, SURGICAL_NO)
    bench.forget()
    assert bench.run("a").pool == SURGICAL


@pytest.mark.parametrize("saved", [False, True])
def test_invariant_38_what_comes_back_uncounted_is_ready_there_at_once(saved: bool) -> None:
    bench = bench_with()
    poisoned(bench)
    bench.pass_time(60)
    token = bench.hand_out("a")
    if saved:
        save_start(bench, token)
        assert bench.row(id_of("a")).status == S.IN_PROGRESS
    put_back(bench, dead=False)
    row = bench.row(id_of("a"))
    assert (row.status, row.task_id > 0, row.queue_no) == (S.POISONED, True, SURGICAL_NO)


@pytest.mark.parametrize("saved", [False, True])
def test_a_failure_in_the_surgical_pool_follows_the_policy_and_goes_to_the_normal_pool(
    saved: bool,
) -> None:
    bench = bench_with()
    poisoned(bench)
    bench.pass_time(60)
    token = bench.hand_out("a")
    if saved:
        save_start(bench, token)
    bench.fail(token)
    run = bench.run("a")
    assert (run.status, run.attempt, run.reason, run.expiry) == (S.RETRY, 2, "", None)
    bench.pass_time(2)
    row = bench.row(id_of("a"))
    assert (row.task_id > 0, row.queue_no) == (True, NORMAL_NO)


def test_a_checkpoint_in_the_surgical_pool_is_worth_one_more_crash_in_the_normal_one() -> None:
    bench = bench_with()
    poisoned(bench)
    bench.pass_time(60)
    token = bench.hand_out("a")
    bench.decide(job.SaveJobProgress(SHARD, token, b"half", 1))
    assert bench.row(id_of("a")).status == S.IN_PROGRESS
    bench.crash("a")
    row = bench.row(id_of("a"))
    assert (row.status, row.task_id > 0, row.queue_no) == (S.PENDING, True, NORMAL_NO)
    assert crashes(bench) == 1


def test_success_in_the_surgical_pool_ends_it() -> None:
    bench = bench_with()
    poisoned(bench)
    bench.pass_time(60)
    bench.complete(bench.hand_out("a"))
    assert bench.run("a").status is S.COMPLETED
    assert bench.timers() == []


def test_a_job_that_expires_does_not_any_more_once_it_is_poisoned() -> None:
    """It has started in time."""
    bench = bench_with(expire_us=JobBench().now_us + 30_000_000)
    poisoned(bench)
    bench.pass_time(60)
    row = bench.row(id_of("a"))
    assert (row.status, row.task_id > 0) == (S.POISONED, True)


# ---- places of concurrency keys (40)


def test_invariant_40_a_poisoned_job_leaves_its_place_to_others() -> None:
    one = Concurrency("k", 1)
    bench = bench_with(concurrency=one)
    bench.create(new_job("b", concurrency=one))
    assert bench.row(id_of("b")).task_id < 0
    poisoned(bench)
    assert bench.row(id_of("b")).task_id > 0
    bench.pass_time(60)
    row = bench.row(id_of("a"))
    assert (row.status, row.task_id < 0) == (S.POISONED, True), "it waits behind the other"
    bench.complete(bench.hand_out("b"))
    row = bench.row(id_of("a"))
    assert (row.task_id > 0, row.queue_no) == (True, SURGICAL_NO)
    assert "3 times in a row" in bench.run("a").reason


@pytest.mark.parametrize("policy", list(ConcurrencyPolicy))
@pytest.mark.parametrize("lost", [False, True])
def test_invariant_40_a_poisoned_job_that_no_worker_has_makes_way(
    policy: ConcurrencyPolicy, lost: bool
) -> None:
    """Else a surgical pool that is not there would hold up everything of its key."""
    one = Concurrency("k", 1, policy)
    bench = bench_with(concurrency=one)
    poisoned(bench)
    bench.pass_time(60)
    assert bench.row(id_of("a")).task_id > 0
    if lost:
        bench.forget()
    bench.create(new_job("b", concurrency=one))
    assert bench.row(id_of("b")).task_id > 0
    row = bench.row(id_of("a"))
    assert (row.status, row.task_id < 0) == (S.POISONED, True)
    bench.complete(bench.hand_out("b"))
    assert bench.row(id_of("a")).task_id > 0


def test_invariant_40_one_that_runs_keeps_its_place_until_it_comes_back() -> None:
    one = Concurrency("k", 1)
    bench = bench_with(concurrency=one)
    poisoned(bench)
    bench.pass_time(60)
    token = bench.hand_out("a")
    bench.create(new_job("b", concurrency=one))
    save_start(bench, token)
    assert bench.row(id_of("b")).task_id < 0
    put_back(bench, dead=False)
    assert bench.row(id_of("b")).task_id > 0
    assert bench.row(id_of("a")).task_id < 0


def test_invariant_40_poisoned_jobs_stand_behind_all_others_of_their_key() -> None:
    one = Concurrency("k", 1)
    bench = bench_with(concurrency=one)
    poisoned(bench)
    for name in ("b", "c"):
        bench.create(new_job(name, concurrency=one))
    bench.pass_time(60)
    bench.create(new_job("d", concurrency=one))
    for name in ("b", "c", "d", "a"):
        assert bench.row(id_of(name)).task_id > 0, name
        bench.complete(bench.hand_out(name))


@pytest.mark.parametrize("read_anew", [False, True])
def test_invariant_40_more_of_them_than_memory_keeps_hold_nobody_of_their_key_up(
    monkeypatch: pytest.MonkeyPatch, read_anew: bool
) -> None:
    """Those of which only the rows are known stand behind all others too: that is how they are read."""
    monkeypatch.setattr(places, "WAITING_KEPT_MAX", 3)
    one = Concurrency("k", 1)
    bench, many = Audited(), "pqrstu"
    bench.create(*[new_job(name, concurrency=one) for name in many])
    for name in many:
        poisoned(bench, name)
    bench.pass_time(65)
    if read_anew:
        bench.forget()
    bench.create(*[new_job(name, concurrency=one) for name in "bcdef"])
    assert bench.row(id_of("b")).task_id > 0
    waiting = [bench.row(id_of(name)).task_id for name in many]
    assert max(waiting) < min(bench.row(id_of(name)).task_id for name in "cdef") < 0
    for name in "bcdef":
        bench.complete(bench.hand_out(name))
    for _ in many:
        [name] = [name for name in many if bench.row(id_of(name)).task_id > 0]
        bench.complete(bench.hand_out(name))


def test_a_poisoned_job_cancels_nobody_of_its_key() -> None:
    """Its turn comes again, but it is not the newest."""
    one = Concurrency("k", 1, ConcurrencyPolicy.CANCEL_RUNNING)
    bench = Audited()
    bench.create(new_job("b", concurrency=one))
    bench.fail(bench.hand_out("b"))
    bench.now_us += 1
    bench.create(new_job("a", concurrency=one))
    poisoned(bench)
    bench.pass_time(5)
    bench.hand_out("b")
    bench.pass_time(60)
    assert bench.run("b").cancel_us == 0
    assert (bench.run("a").status, bench.run("a").task_id < 0) == (S.POISONED, True)


@pytest.mark.parametrize("policy", list(ConcurrencyPolicy))
def test_what_was_poisoned_is_not_taken_for_a_new_job_of_its_key(policy: ConcurrencyPolicy) -> None:
    """Its turn came before: the newest is not it, but the oldest may be."""
    one = Concurrency("k", 1, policy)
    bench = bench_with(concurrency=one)
    poisoned(bench)
    bench.create(new_job("b", concurrency=one))
    take_back(bench, OTHERS[0])
    run = bench.run("a")
    if policy is ConcurrencyPolicy.CANCEL_RUNNING:
        assert run.status is S.CANCELLED
    else:
        assert (run.status, run.task_id < 0) == (S.PENDING, True)


# ---- a worker that was thought dead returns


@pytest.mark.parametrize("count", [1, 2])
def test_invariant_35_a_worker_that_returns_takes_its_marks_back(count: int) -> None:
    bench = bench_with()
    for worker_id in OTHERS[:count]:
        bench.crash("a", worker_id)
    take_back(bench, OTHERS[0])
    take_back(bench, OTHERS[0])
    take_back(bench, OTHERS[7])
    assert crashes(bench) == count - 1
    assert (bench.run("a").crashes is None) == (count == 1)


@pytest.mark.parametrize("wait_s", [0, 61])
def test_invariant_35_what_is_not_poisoned_any_more_goes_on_in_the_normal_pool(wait_s: int) -> None:
    bench = bench_with()
    poisoned(bench)
    bench.pass_time(wait_s)
    bench.forget()
    take_back(bench, OTHERS[1])
    row, run = bench.row(id_of("a")), bench.run("a")
    assert (row.status, row.task_id > 0, row.queue_no) == (S.PENDING, True, NORMAL_NO)
    assert (run.reason, run.timer, run.expiry, crashes(bench)) == ("", None, None, 2)
    assert bench.timers() == []
    bench.crash("a", OTHERS[4])
    assert bench.run("a").status is S.POISONED


@pytest.mark.parametrize("saved", [False, True])
def test_marks_taken_back_while_the_surgical_pool_has_it(saved: bool) -> None:
    bench = bench_with()
    poisoned(bench)
    bench.pass_time(60)
    token = bench.hand_out("a", OTHERS[5])
    if saved:
        save_start(bench, token)
    take_back(bench, OTHERS[0])
    assert bench.row(id_of("a")).status == S.IN_PROGRESS
    assert bench.timers() == []
    put_back(bench, dead=False)
    row = bench.row(id_of("a"))
    assert (row.status, row.task_id > 0, row.queue_no) == (S.PENDING, True, NORMAL_NO)


def test_a_completion_of_a_worker_thought_dead_counts_while_nobody_else_has_had_the_job() -> None:
    """Invariant 30: it is the newest start's. What it brings is better than to run it again in a minute."""
    bench = bench_with()
    bench.crash("a")
    bench.crash("a")
    token = bench.hand_out("a")
    bench.crash("a")
    bench.forget()
    assert bench.complete(token).refused == []
    assert bench.run("a").status is S.COMPLETED
    assert bench.timers() == []


def test_a_failure_of_a_worker_thought_dead_makes_a_poisoned_job_retry() -> None:
    bench = bench_with()
    bench.crash("a")
    bench.crash("a")
    token = bench.hand_out("a")
    bench.crash("a")
    assert bench.fail(token).refused == []
    run = bench.run("a")
    assert (run.status, run.queue_no, crashes(bench)) == (S.RETRY, NORMAL_NO, 0)
    assert live_timers(bench) == [1]


# ---- at rest


def test_a_job_without_crashes_takes_not_a_byte_more() -> None:
    """Thousands of rows a second carry its state: as before the ladder it is an array of 15."""
    codec = MsgpackCodec()
    bench = bench_with()
    plain = bench.row(id_of("a")).state
    assert plain[:2] == b"\x00\x9f"
    bench.crash("a")
    state = codec.decode_job_state(bench.row(id_of("a")).state)
    assert state.crashes is not None
    assert codec.decode_job_state(plain).crashes is None


def test_timers_of_a_poisoned_job_read_back() -> None:
    bench = bench_with()
    poisoned(bench)
    run, read = bench.run("a"), job_of_row(bench.row(id_of("a")), MsgpackCodec())
    for mine, stored in ((run.timer, read.timer), (run.expiry, read.expiry)):
        assert mine is not None
        assert stored is not None
        for field in ("kind", "due_us", "timer_id"):
            assert getattr(mine, field) == getattr(stored, field)


def test_what_operators_read_of_a_poisoned_job() -> None:
    bench = bench_with()
    for _ in range(3):
        bench.outcome(job.JobCrashed(bench.hand_out("a"), SEGFAULT))
    at = "2023-11-14T22:13:20Z"
    assert bench.run("a").reason == (
        f"has crashed 3 times in a row, for the first time at {at}: killed by signal 11 (SIGSEGV)"
    )
    found = bench.run("a").crashes
    assert found is not None
    assert found.last == SEGFAULT
    assert bench.run("a").failures == (), "no attempt has failed"
