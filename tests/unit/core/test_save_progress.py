"""An activity's progress, saved by its holder only (design §6; invariant 33)."""

from __future__ import annotations

from tests.unit.core.scenario import (
    STALE,
    Scenario,
    Then,
    activity,
    application,
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


# ---- checkpoints: saved before they are answered


def checkpoint(token: TaskToken, details: bytes | None, version: int) -> intents.HeartbeatActivity:
    return intents.HeartbeatActivity(token, details, version)


def test_b18_a_stale_token_changes_no_row_and_the_next_attempt_resumes_from_k() -> None:
    """B18, invariant 33."""
    run = with_activity()
    first = run.hand_out("a")
    run.when(checkpoint(first, b"k", 1))
    run.when(put_back(first))
    run.reload()
    second = run.hand_out("a")
    assert run.task("a").progress == b"k"

    assert run.when(checkpoint(first, b"k + 1", 2)) == STALE
    assert (run.task("a").progress, run.task("a").progress_version) == (b"k", 1)
    assert run.when(checkpoint(second, b"k + 2", 2)).tasks == ["activity 5 ready 1"]


def test_invariant_33_older_progress_of_the_same_attempt_is_refused() -> None:
    run = with_activity()
    token = run.hand_out("a")
    run.when(checkpoint(token, b"3", 3))

    assert run.when(checkpoint(token, b"2", 2)).refused == "ABORTED PROGRESS_STALE"
    assert run.when(checkpoint(token, b"other", 3)).refused == "ABORTED PROGRESS_STALE"
    assert run.when(intents.SaveProgress(token, b"2", 2)) == Then()
    run.when(intents.FailActivity(token, application(), b"1", "w", 1))
    assert (run.task("a").progress, run.task("a").progress_version) == (b"3", 3)


def test_a_checkpoint_said_again_is_answered_again() -> None:
    run = with_activity()
    token = run.hand_out("a")
    first = run.when(checkpoint(token, b"3", 3))

    again = run.when(checkpoint(token, b"3", 3))
    assert again.reply == first.reply is not None
    assert again.tasks == []
