"""`POST /jobs:bulk`: jobs of one call, each with its own answer (A1, A4)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.transport.rest.conftest import Api
from tests.unit.transport.rest.jobs import TIME, saves

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.intents import CreateJobs
from perdure_engine.frontend.handlers.create_jobs import create_jobs

NOW = "1970-01-01T00:00:02Z"  # of the fakes


async def test_many_jobs_have_an_answer_each_in_their_order(api: Api) -> None:
    saves(api)

    response = await api.post(
        "/jobs:bulk",
        {
            "jobs": [
                {"task_id": "a", "parameters": {"n": 1}},
                {"task_id": "__a"},
                {"task_id": "r", "schedule": "@daily"},
                {"task_id": "a", "schedule": "nonsense"},
                {"task_id": "a", "parameters": {"n": 2}, "schedule": TIME},
            ]
        },
    )

    assert response.status_code == 200
    one, own, recurring, wrong, two = response.json()["jobs"]
    assert (one["next_run"], recurring["next_run"], two["next_run"]) == (NOW, TIME, TIME)
    assert (own["error"]["field"], wrong["error"]["field"]) == ("task_id", "schedule")
    assert own["error"]["status"] == 400
    assert "job_id" not in own
    jobs = [job for _, intent in api.history.jobs for job in intent.jobs]
    assert [uuid_text(job.job_id) for job in jobs] == [one["job_id"], two["job_id"]]


async def test_a_repeat_of_a_bulk_call_names_the_same_jobs(api: Api) -> None:
    saves(api)
    body = {"jobs": [{"task_id": "a"}, {"task_id": "r", "schedule": "@daily"}] * 3}
    key = {"idempotency-key": "import-7"}

    first = await api.post("/jobs:bulk", body, headers=key)
    again = await api.post("/jobs:bulk", body, headers=key)
    fresh = await api.post("/jobs:bulk", body)

    assert first.json() == again.json()
    assert len({one["job_id"] for one in first.json()["jobs"] + fresh.json()["jobs"]}) == 12
    hashes = [job.spec.body_hash for _, intent in api.history.jobs for job in intent.jobs]
    assert len(set(hashes)) == 1
    await api.post("/jobs:bulk", {"jobs": [{"task_id": "b"}]}, headers=key)
    assert api.history.jobs[-1][1].jobs[0].spec.body_hash != hashes[0]


async def test_options_that_are_the_same_are_looked_at_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes thousands of jobs cheap; the handler checks each object of options once."""
    seen: list[int] = []

    async def counted(frontend: Any, call: Any) -> Any:
        seen.append(len({id(asked.options) for asked in call.jobs}))
        return await create_jobs(frontend, call)

    monkeypatch.setattr("perdure_engine.transport.http.rest.making_jobs.create_jobs", counted)
    jobs = [{"task_id": "a", "parameters": {"n": number}} for number in range(1_000)]
    await api.post("/jobs:bulk", {"jobs": [*jobs, {"task_id": "b"}]})

    assert seen == [2]


async def test_a_failed_shard_is_told_for_its_jobs_alone(api: Api) -> None:
    plain = api.history.answer
    api.history.answer = lambda intent: (
        ValueError("secret") if intent.shard_id == 1 else plain(intent)
    )
    jobs = [{"task_id": "a", "idempotency_key": str(number)} for number in range(40)]

    answers = (await api.post("/jobs:bulk", {"jobs": jobs})).json()["jobs"]

    failed = [one["error"] for one in answers if "error" in one]
    assert 0 < len(failed) < 40
    assert {error["reason"] for error in failed} == {"INTERNAL"}
    assert "secret" not in str(answers)


async def test_recurring_jobs_of_a_call_are_told_although_the_others_failed(api: Api) -> None:
    saves(api)
    plain = api.history.answer
    full = Rejected(Code.RESOURCE_EXHAUSTED, "SHARD_FULL", "full", retry_after_ms=100)
    api.history.answer = lambda intent: full if isinstance(intent, CreateJobs) else plain(intent)
    jobs = [{"task_id": "a"}, {"task_id": "r", "schedule": "@daily"}]

    response = await api.post("/jobs:bulk", {"jobs": jobs})
    alone = await api.post("/jobs:bulk", {"jobs": jobs[:1]})

    once, recurring = response.json()["jobs"]
    assert once["error"]["reason"] == "SHARD_FULL"
    assert recurring["created"]
    assert alone.status_code == 429


async def test_a_batch_belongs_together_and_is_one_shards(api: Api) -> None:
    response = await api.post(
        "/jobs:bulk",
        {
            "jobs": [{"task_id": "a"}] * 3 + [{"task_id": "r", "schedule": "@daily"}],
            "batch": {
                "batch_id": "b1",
                "callback": {"task_id": "done", "parameters": {"n": 1}},
                "more": True,
            },
        },
    )

    *_, recurring = response.json()["jobs"]
    assert recurring["error"]["field"] == "schedule"
    ((_, intent),) = api.history.jobs
    assert isinstance(intent, CreateJobs)
    assert [job.batch_id for job in intent.jobs] == ["b1"] * 3
    assert intent.batch is not None
    assert intent.batch.callback is not None
    assert (intent.batch.callback.task_name, intent.batch.sealed) == ("done", False)
    assert intent.batch.callback.spec.input == b""  # what it is given is made when the batch ends


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"jobs": [{"task_id": "a"}, {"task_id": 1}]}, "jobs[1].task_id"),
        ({"jobs": [{"task_id": "a", "no": 1}]}, "jobs[0].no"),
        ({"jobs": "a"}, "jobs"),
        ({}, "jobs"),
        ({"jobs": [], "batch": {"batch_id": ""}}, "batch.batch_id"),
        (
            {
                "jobs": [],
                "batch": {"batch_id": "b", "callback": {"task_id": "a", "schedule": TIME}},
            },
            "batch.callback.schedule",
        ),
        ({"jobs": [{"task_id": "a"}] * 10_001}, "jobs"),
    ],
)
async def test_a_call_that_is_wrong_makes_no_job(
    api: Api, body: dict[str, Any], field: str
) -> None:
    response = await api.post("/jobs:bulk", body)

    assert (response.status_code, response.json()["field"]) == (400, field)
    assert not api.room.touched
