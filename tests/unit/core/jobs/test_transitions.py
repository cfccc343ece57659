"""The table of legal moves: what is in it happens, what is not raises before anything changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import pytest
from tests.unit.core.jobs.bench import FAILURE, JobBench, id_of, new_job

from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.model import OPEN_STATUSES, JobStatus
from perdure_engine.core.jobs.transitions import MOVES, move
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.core.transitions import IllegalMove

S = JobStatus
Story = Callable[[JobBench], object]
DAY_US = 24 * 3600 * 1_000_000


@pytest.mark.parametrize(("before", "after"), list(itertools.product(S, S)))
def test_a_move_is_made_if_the_table_has_it_and_else_changes_nothing(before: S, after: S) -> None:
    bench = JobBench()
    bench.create(new_job("a"))
    run = bench.run("a")
    run.status = before
    if after in MOVES[before]:
        move(run, after)
        assert run.status is after
    else:
        with pytest.raises(IllegalMove):
            move(run, after)
        assert run.status is before


def test_what_has_ended_stays_so_unless_it_failed() -> None:
    for status in S:
        ends = status not in OPEN_STATUSES
        assert not (ends and MOVES[status]) or status is S.FAILED


def test_every_legal_move_is_made_by_some_decision() -> None:
    """And none that is not there: a row of what each step makes of a job, from what it was."""
    made: set[tuple[S, S]] = set()
    for before, act in STORIES:
        bench = JobBench()
        policy = RetryPolicy(maximum_attempts=2)
        bench.create(new_job("a", retry=policy, expire_us=bench.now_us + 60_000_000))
        before(bench)
        was = bench.run("a").status
        act(bench)
        now = JobStatus(bench.row(id_of("a")).status)
        assert now in MOVES[was]
        made.add((was, now))
    assert made == {(before, after) for before, afters in MOVES.items() for after in afters}


def nothing(bench: JobBench) -> None:
    pass


def retry(bench: JobBench) -> None:
    bench.fail(bench.hand_out("a"))
    bench.pass_time(2)


def running(bench: JobBench) -> None:
    token = bench.hand_out("a")
    bench.decide(job.SaveJobStarts(1, ((token.run_id, token.start_no),)))


def running_again(bench: JobBench) -> None:
    retry(bench)
    running(bench)


def failed(bench: JobBench) -> None:
    retry(bench)
    bench.fail(bench.hand_out("a"))


def complete(bench: JobBench) -> None:
    run = bench.run("a")
    if run.status is S.IN_PROGRESS:
        bench.outcome(job.JobCompleted(token_of(bench), b""))
    else:
        bench.complete(bench.hand_out("a"))


def fail(bench: JobBench) -> None:
    token = token_of(bench) if bench.run("a").handout is not None else bench.hand_out("a")
    bench.fail(token)


def fail_for_good(bench: JobBench) -> None:
    token = token_of(bench) if bench.run("a").handout is not None else bench.hand_out("a")
    bench.fail(token, msgspec.structs.replace(FAILURE, non_retryable=True))


def retry_at_once(bench: JobBench) -> None:
    """Of a policy without an end: the second attempt fails too."""
    run = bench.run("a")
    run.spec = new_job("a", retry=RetryPolicy(maximum_attempts=0)).spec
    fail(bench)


def token_of(bench: JobBench) -> TaskToken:
    run = bench.run("a")
    kind, start_no = TaskKind.JOB, run.start_no
    return TaskToken(1, run.namespace_id, run.job_id, kind, 0, run.attempt, start_no, 0, 0)


def cancel_and_put_back(bench: JobBench) -> None:
    bench.operate(job.CancelJob, "a")
    put_back(bench)


def put_back(bench: JobBench) -> None:
    run = bench.run("a")
    bench.decide(job.PutBackJobs(1, ((run.job_id, run.start_no, True, False),)))


def twice(before: Story, act: Story) -> tuple[Story, Story]:
    """The step is the third crash in a row."""

    def with_two_crashes(bench: JobBench) -> None:
        before(bench)
        bench.crash("a")
        bench.crash("a")

    return with_two_crashes, act


def twice_and_running(bench: JobBench) -> None:
    bench.crash("a")
    bench.crash("a")
    running(bench)


def crash(bench: JobBench) -> None:
    bench.crash("a")


def crash_a_day_later(bench: JobBench) -> None:
    bench.now_us += DAY_US
    bench.crash("a")


def poisoned(bench: JobBench) -> None:
    """And ready in the surgical pool."""
    for _ in range(3):
        bench.crash("a")
    bench.pass_time(60)


def poisoned_again(bench: JobBench) -> None:
    retry(bench)
    poisoned(bench)


def suspended(bench: JobBench) -> None:
    poisoned(bench)
    bench.pass_time(DAY_US / 1_000_000)


def come_back(bench: JobBench) -> None:
    crashes = bench.run("a").crashes
    assert crashes is not None
    bench.decide(job.TakeBackCrashes(1, ((id_of("a"), crashes.worker_ids[0]),)))


STORIES: list[tuple[Story, Story]] = [
    (nothing, running),
    (nothing, complete),
    (nothing, fail),
    (nothing, fail_for_good),
    (nothing, lambda bench: bench.operate(job.CancelJob, "a")),
    (nothing, lambda bench: bench.pass_time(61)),
    (retry, running),
    (retry, complete),
    (retry, retry_at_once),
    (retry, fail),
    (retry, lambda bench: bench.operate(job.CancelJob, "a")),
    (running, complete),
    (running, fail),
    (running, fail_for_good),
    (running, cancel_and_put_back),
    (running, put_back),
    (running_again, put_back),
    (failed, lambda bench: bench.operate(job.RedriveJob, "a")),
    twice(nothing, crash),
    twice(nothing, crash_a_day_later),
    twice(retry, crash),
    twice(retry, crash_a_day_later),
    (twice_and_running, crash),
    (twice_and_running, crash_a_day_later),
    (poisoned, running),
    (poisoned, complete),
    (poisoned, fail),
    (poisoned, fail_for_good),
    (poisoned, lambda bench: bench.operate(job.CancelJob, "a")),
    (poisoned, lambda bench: bench.operate(job.RedriveJob, "a")),
    (poisoned, come_back),
    (poisoned_again, come_back),
    (poisoned, lambda bench: bench.pass_time(DAY_US / 1_000_000)),
    (suspended, lambda bench: bench.operate(job.ResumeJob, "a")),
    (suspended, lambda bench: bench.operate(job.RedriveJob, "a")),
    (suspended, lambda bench: bench.operate(job.CancelJob, "a")),
]
