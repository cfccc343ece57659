"""Poisoned jobs that are suspended (invariant 39), and what operators do with both: resume, redrive, cancel."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.jobs.bench import NAMESPACE, SHARD, JobBench, as_saved, id_of, new_job
from tests.unit.core.jobs.test_ladder import (
    NORMAL_NO,
    OTHERS,
    SURGICAL_NO,
    Audited,
    S,
    bench_with,
    live_timers,
    poisoned,
    put_back,
    save_start,
    take_back,
)

from perdure_engine.core.audit import Action
from perdure_engine.core.errors import Rejected
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.model import Concurrency, Unique
from perdure_engine.core.retry import RetryPolicy

DAY_S = 24 * 3600


def suspended(bench: JobBench) -> None:
    poisoned(bench)
    bench.pass_time(DAY_S)
    assert bench.run("a").status is S.SUSPENDED


# ---- suspended (39)


def test_invariant_39_after_24_hours_it_is_suspended_once_with_an_operators_record() -> None:
    bench = bench_with()
    first_us = bench.now_us
    poisoned(bench)
    while bench.run("a").status is S.POISONED:
        assert bench.now_us < first_us + DAY_S * 1_000_000
        bench.pass_time(1800)
        if bench.run("a").task_id:
            bench.crash("a")
    assert bench.now_us - first_us <= (DAY_S + 1800) * 1_000_000
    run = bench.run("a")
    assert (run.status, run.task_id, run.timer, run.expiry) == (S.SUSPENDED, 0, None, None)
    [entry] = bench.audit
    assert (entry.action, entry.identity) == (Action.SUSPEND_JOB, "perdure")
    assert (entry.before, entry.after) == ("POISONED", "SUSPENDED")
    assert entry.subject == uuid_text(run.job_id)
    assert entry.reason == run.reason
    assert "times in a row" in entry.reason
    bench.pass_time(30 * DAY_S)
    assert bench.row(id_of("a")).task_id == 0, "nothing gives it to a worker any more"
    assert len(bench.audit) == bench.counted[2] == 1


def test_invariant_39_also_where_no_worker_of_the_surgical_pool_comes_by() -> None:
    bench = bench_with()
    first_us = bench.now_us
    poisoned(bench)
    bench.forget()
    bench.pass_time(DAY_S - 1)
    assert (bench.run("a").status, bench.run("a").task_id > 0) == (S.POISONED, True)
    bench.pass_time(1)
    assert bench.run("a").status is S.SUSPENDED
    assert bench.audit[0].time_us == first_us + DAY_S * 1_000_000


def test_invariant_39_also_while_it_waits_for_its_key() -> None:
    one = Concurrency("k", 1)
    bench = bench_with(concurrency=one)
    poisoned(bench)
    bench.create(new_job("b", concurrency=one))
    bench.pass_time(DAY_S)
    assert (bench.run("a").status, bench.run("a").task_id) == (S.SUSPENDED, 0)
    bench.create(new_job("c", concurrency=one))
    bench.complete(bench.hand_out("b"))
    assert bench.row(id_of("c")).task_id > 0, "what is suspended waits for nothing"


@pytest.mark.parametrize("counted", [False, True])
def test_invariant_39_an_attempt_that_runs_then_is_the_last_one(counted: bool) -> None:
    bench = bench_with()
    poisoned(bench)
    bench.pass_time(60)
    save_start(bench, bench.hand_out("a"))
    bench.pass_time(DAY_S)
    assert bench.run("a").status is S.IN_PROGRESS, "it may succeed"
    if counted:
        bench.crash("a")
    else:
        put_back(bench, dead=False)
    assert bench.run("a").status is S.SUSPENDED
    assert [entry.before for entry in bench.audit] == ["IN_PROGRESS"]


def test_invariant_39_a_start_that_is_not_saved_then_is_saved() -> None:
    """Its timer has fired: the next owner of its shard would know of neither, and no worker might ever ask for it."""
    bench = bench_with()
    poisoned(bench)
    bench.pass_time(DAY_S - 1)
    bench.hand_out("a")
    bench.pass_time(2)
    bench.forget()
    assert bench.run("a").status is S.IN_PROGRESS
    put_back(bench, dead=True)
    assert bench.run("a").status is S.SUSPENDED


def test_invariant_39_the_first_crash_is_remembered_over_failures() -> None:
    """So a third crash in a row can come a day after it."""
    bench = bench_with(retry=RetryPolicy(maximum_attempts=0))
    bench.crash("a")
    bench.pass_time(DAY_S)
    bench.fail(bench.hand_out("a"))
    bench.pass_time(5)
    bench.crash("a")
    bench.crash("a")
    assert bench.run("a").status is S.RETRY
    bench.crash("a")
    assert bench.run("a").status is S.SUSPENDED
    assert bench.counted == [4, 1, 1]


def test_invariant_39_marks_of_a_suspended_job_stay() -> None:
    """Whether it goes on is an operator's word."""
    bench = bench_with()
    suspended(bench)
    before = as_saved(bench.run("a"))
    take_back(bench, OTHERS[0])
    assert as_saved(bench.run("a")) == before


# ---- operators


@pytest.mark.parametrize("make", [poisoned, suspended])
def test_resume_makes_it_ready_now_in_the_surgical_pool_with_24_hours_anew(make: Any) -> None:
    bench = bench_with()
    make(bench)
    status = bench.run("a").status
    bench.pass_time(7)
    request = b"r" * 16
    for _ in range(2):
        assert bench.operate(job.ResumeJob, "a", request, reason="fixed").status is S.POISONED
    row = bench.row(id_of("a"))
    assert (row.task_id > 0, row.queue_no) == (True, SURGICAL_NO)
    assert live_timers(bench) == [DAY_S]
    [entry] = [entry for entry in bench.audit if entry.action == Action.RESUME_JOB]
    assert (entry.before, entry.after, entry.reason) == (status.name, "POISONED", "fixed")
    bench.crash("a")
    assert live_timers(bench) == [300, DAY_S]
    bench.pass_time(DAY_S)
    assert bench.run("a").status is S.SUSPENDED


def test_resume_of_what_is_ready_there_keeps_its_turn() -> None:
    bench = bench_with()
    poisoned(bench)
    bench.pass_time(60)
    task_id = bench.row(id_of("a")).task_id
    bench.operate(job.ResumeJob, "a")
    assert bench.row(id_of("a")).task_id == task_id
    assert live_timers(bench) == [DAY_S]


@pytest.mark.parametrize("make", [poisoned, suspended])
def test_redrive_begins_anew_without_crashes_in_the_normal_pool(make: Any) -> None:
    bench = bench_with(unique=Unique("u"), concurrency=Concurrency("k", 1))
    make(bench)
    status = bench.run("a").status
    request = b"r" * 16
    for _ in range(2):
        assert bench.operate(job.RedriveJob, "a", request).status is S.PENDING
    row, run = bench.row(id_of("a")), bench.run("a")
    assert (row.status, row.task_id > 0, row.queue_no) == (S.PENDING, True, NORMAL_NO)
    assert (run.attempt, run.crashes, run.reason) == (1, None, "")
    assert bench.timers() == []
    entries = [entry for entry in bench.audit if entry.action == Action.REDRIVE_JOB]
    assert [(entry.before, entry.after) for entry in entries] == [(status.name, "PENDING")]


@pytest.mark.parametrize("make", [poisoned, suspended])
def test_cancel_ends_it_at_once(make: Any) -> None:
    bench = bench_with()
    make(bench)
    request = b"r" * 16
    for _ in range(2):
        assert bench.operate(job.CancelJob, "a", request).status is S.CANCELLED
    assert bench.timers() == []
    assert [entry.action for entry in bench.audit if entry.identity != "perdure"] == [
        Action.CANCEL_JOB
    ]


@pytest.mark.parametrize("operation", [job.ResumeJob, job.RedriveJob])
def test_what_runs_or_waits_as_ever_is_neither_resumed_nor_redriven(operation: Any) -> None:
    bench = bench_with()
    bench.crash("a")
    assert bench.run("a").status is S.PENDING
    with pytest.raises(Rejected):
        bench.operate(operation, "a")
    bench.crash("a")
    bench.crash("a")
    bench.pass_time(60)
    token = bench.hand_out("a")
    for _ in range(2):
        before = bench.row(id_of("a"))
        with pytest.raises(Rejected, match="IN_PROGRESS"):
            bench.operate(operation, "a")
        assert bench.row(id_of("a")) == before
        save_start(bench, token)
    assert bench.audit == []


def test_a_batch_waits_for_its_poisoned_jobs() -> None:
    bench = Audited()
    callback = new_job("callback")
    bench.create(new_job("a", batch_id="b"), batch=job.Callback("b", callback, sealed=True))
    suspended(bench)
    bench.operate(job.RedriveJob, "a")
    batch = bench.tables.job_batches.get(SHARD, (NAMESPACE, "b"))
    assert batch is not None
    assert (batch.total, batch.open) == (1, 1)
    bench.complete(bench.hand_out("a"))
    assert bench.row(id_of("callback")).status == S.PENDING
