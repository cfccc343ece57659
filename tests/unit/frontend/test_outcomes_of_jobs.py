"""CompleteTasks with jobs: one intent for those of a shard, what is refused told in its place."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, Room, task_token

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, invalid, not_found, unavailable
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import CompleteActivity
from perdure_engine.core.jobs.intents import (
    CompleteJobs,
    JobCanceled,
    JobCompleted,
    JobFailed,
    SaveJobProgress,
)
from perdure_engine.core.jobs.model import JobRun, JobSpec
from perdure_engine.core.jobs.replies import JobsAnswered
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.frontend.handlers.complete_tasks import Completion, complete_tasks
from perdure_engine.frontend.handlers.poll_tasks import give_back
from perdure_engine.frontend.handlers.report_activity import save_job_progress
from perdure_engine.ports.history import HandedJobTask
from perdure_engine.ports.matching import PollAnswer

FAILURE = Failure(FailureKind.APPLICATION, "no")
TOO_MUCH = bytes(limits.PAYLOAD_BYTES_MAX + 1)


def token(shard_id: int = 2, start_no: int = 1) -> TaskToken:
    return task_token(TaskKind.JOB, shard_id=shard_id, start_no=start_no, scheduled_event_id=0)


async def test_the_outcomes_of_a_shard_are_one_intent() -> None:
    room = Room()
    outcomes = [
        JobCompleted(token(1, 1), b"r"),
        JobFailed(token(2, 2), FAILURE),
        JobCompleted(token(1, 3), b"r"),
        JobCanceled(token(2, 4), b"d"),
    ]

    assert await complete_tasks(room.frontend, outcomes, "w@host") == ([], [])
    assert room.history.jobs == [
        (1, CompleteJobs(1, [outcomes[0], outcomes[2]], "w@host")),
        (2, CompleteJobs(2, [outcomes[1], outcomes[3]], "w@host")),
    ]


async def test_what_was_not_taken_is_told_by_its_place_in_the_message() -> None:
    room = Room()
    late, moved = not_found("TASK", "late"), unavailable("SHARD_MOVED", "elsewhere")

    def answer(intent: Any) -> Any:
        if isinstance(intent, CompleteActivity):
            return None
        return moved if intent.shard_id == 3 else JobsAnswered([(1, late)])

    room.history.answer = answer
    unreadable = invalid("token", "is not ours")
    activity = CompleteActivity(task_token(TaskKind.ACTIVITY), b"r", "w")
    said = [
        JobCompleted(token(2, 1), b"r"),
        unreadable,
        Completion(activity, []),
        JobCompleted(token(3, 2), b"r"),
        JobCompleted(token(2, 3), b"r"),
        JobCompleted(token(3, 4), b"r"),
    ]

    failures, _ = await complete_tasks(room.frontend, said)

    assert sorted(failures, key=lambda one: one[0]) == [
        (1, unreadable),
        (3, moved),
        (4, late),
        (5, moved),
    ]
    assert room.history.completed == [activity]


@pytest.mark.parametrize(
    ("outcome", "field"),
    [
        (JobCompleted(token(), TOO_MUCH), "activity_success.result"),
        (JobFailed(token(), FAILURE, TOO_MUCH), "activity_failure.heartbeat_details"),
        (JobCanceled(token(), TOO_MUCH), "activity_cancellation.details"),
    ],
)
async def test_b7_what_is_too_large_is_refused_and_nothing_else(outcome: Any, field: str) -> None:
    room = Room()
    good = JobCompleted(token(), b"r")
    ((index, error),), _ = await complete_tasks(room.frontend, [outcome, good])

    assert index == 0
    assert isinstance(error, Rejected)
    assert (error.code, error.field) == (Code.INVALID_ARGUMENT, field)
    ((_, intent),) = room.history.jobs
    assert intent.outcomes == [good]


async def test_jobs_that_a_worker_never_got_are_given_back() -> None:
    room = Room()
    job = JobRun(b"j" * 16, NAMESPACE_ID, "mail", "mails", 1, JobSpec())
    handed = HandedJobTask(token(), job, 5)

    give_back(room.frontend, PollAnswer([], [], [handed]))
    assert room.history.undone == [handed]


async def test_a_checkpoint_goes_to_the_jobs_shard() -> None:
    room = Room()
    save = SaveJobProgress(2, token(), b"details", 7)
    await save_job_progress(room.frontend, save)
    assert room.history.jobs == [(2, save)]

    with pytest.raises(Rejected) as caught:
        await save_job_progress(room.frontend, SaveJobProgress(2, token(), TOO_MUCH))
    assert caught.value.field == "details"
