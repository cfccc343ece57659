"""An activity's progress, saved by its holder only (design §6; invariant 33)."""

from __future__ import annotations

from tests.unit.core.scenario import (
    STALE,
    Scenario,
    Then,
    activity,
    completed,
    failed,
    put_back,
    start,
    timed_out,
)

from perdure_engine.core import intents
from perdure_engine.core.tasks import TimerKind
from perdure_engine.core.tokens import TaskToken


def progress(token: TaskToken, details: bytes) -> intents.SaveProgress:
    return intents.SaveProgress(token, details)


def with_activity() -> Scenario:
    run = Scenario(start())
    run.turn(activity("a"))
    return run


def test_progress_is_saved_in_the_tasks_row() -> None:
    run = with_activity()

    assert run.when(progress(run.hand_out("a"), b"half")) == Then(tasks=["activity 5 ready 1"])
    run.reload()
    assert (run.task("a").progress, run.task("a").progress_version) == (b"half", 1)


def test_invariant_33_the_version_of_the_progress_only_grows() -> None:
    run = with_activity()
    token = run.hand_out("a")
    versions = []
    for details in (b"1", b"2", b"3"):
        run.when(progress(token, details))
        versions.append(run.task("a").progress_version)
    run.when(failed(token, progress=b"4"))
    versions.append(run.task("a").progress_version)

    assert versions == [1, 2, 3, 4]


def test_invariant_33_the_next_attempt_has_the_last_that_was_saved() -> None:
    run = with_activity()
    first = run.hand_out("a")
    run.when(progress(first, b"half"))
    run.when(timed_out(first))
    run.fire(TimerKind.ACTIVITY_RETRY, 5)
    second = run.hand_out("a")
    assert run.task("a").progress == b"half"

    assert run.when(progress(first, b"stale")) == STALE
    assert run.task("a").progress == b"half"
    run.when(progress(second, b"more"))
    assert run.task("a").progress == b"more"


def test_invariant_33_a_worker_that_lost_its_task_saves_nothing() -> None:
    run = with_activity()
    first = run.hand_out("a")
    run.when(put_back(first))
    run.hand_out("a")

    assert run.when(progress(first, b"stale")) == STALE


def test_progress_of_an_activity_that_is_over_is_not_found() -> None:
    """B38."""
    run = with_activity()
    token = run.hand_out("a")
    run.when(completed(token))

    assert run.when(progress(token, b"late")) == STALE
