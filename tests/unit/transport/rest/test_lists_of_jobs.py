"""Jobs by a filter: their lists, their runs, and how failed ones begin anew (A3, A5, A7, A18)."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, OTHER_NAMESPACE_ID, SHARDS
from tests.unit.transport.rest.conftest import Api
from tests.unit.transport.rest.jobs import ACTION, INFO, RECURRING, RUN, RUN_ID, TIME, US, describes

from perdure_engine.core.jobs.model import JobSpec, JobState, JobStatus
from perdure_engine.core.jobs.replies import JobDescription
from perdure_engine.ports.rows import JobRunRow
from perdure_engine.store.codec import MsgpackCodec

codec = MsgpackCodec()


def row(number: int, **changes: Any) -> JobRunRow:
    fields: dict[str, Any] = {
        "shard_id": number % SHARDS + 1,
        "job_id": number.to_bytes(16, "big"),
        "namespace_id": NAMESPACE_ID,
        "bucket": 1,
        "task_name": "t",
        "queue": "default",
        "queue_no": 1,
        "user_id": "ada",
        "schedule_id": "",
        "concurrency_key": "",
        "batch_id": "",
        "status": int(JobStatus.PENDING),
        "attempt": 1,
        "priority": 3,
        "created_us": US,
        "scheduled_us": US + number * 1_000_000,
        "closed_us": None,
        "task_id": 0,
        "start_no": 0,
        "spec": codec.encode_job_spec(JobSpec()),
        "state": codec.encode_job_state(JobState()),
        "result": b"",
        "version": 1,
    }
    return JobRunRow(**(fields | changes))


@pytest.fixture
def listed(api: Api) -> Api:
    """Five jobs of Ada's a second apart, the newest of them j5, and one of Bob's."""
    rows = [
        row(1),
        row(2, status=int(JobStatus.FAILED), task_name="other"),
        row(3, queue="mail"),
        row(4, schedule_id=RECURRING),
        row(5, batch_id="b1", status=int(JobStatus.COMPLETED), closed_us=US),
        row(6, user_id="bob"),
        row(7, namespace_id=OTHER_NAMESPACE_ID),
    ]
    for one in rows:
        api.room.operations.tables.job_runs.put(one)
    return api


def numbers(response: httpx.Response) -> list[int]:
    assert response.status_code == 200, response.text
    return [uuid.UUID(job["job_id"]).int for job in response.json()["jobs"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [6, 5, 4, 3, 2, 1]),
        ("user_id=ada", [5, 4, 3, 2, 1]),
        ("user_id=bob", [6]),
        ("user_id=nobody", []),
        ("status=FAILED", [2]),
        ("status=FAILED&status=COMPLETED", [5, 2]),
        ("start_time=2027-01-15T08:00:03Z", [6, 5, 4, 3]),
        ("end_time=2027-01-15T08:00:03Z", [2, 1]),
        ("end_time=1969-01-01T00:00:00Z", []),
        ("start_time=2027-01-15T09:00:02%2B01:00&end_time=2027-01-15T08:00:04Z", [3, 2]),
        ("task_id=other", [2]),
        ("queue=mail", [3]),
        (f"schedule_id={RECURRING}", [4]),
        ("batch_id=b1", [5]),
        ("oldest_first=true&user_id=ada", [1, 2, 3, 4, 5]),
        (
            "user_id=ada&status=PENDING&start_time=2027-01-15T08:00:02Z&end_time=2027-01-15T08:00:04Z",
            [3],
        ),
        ("user_id=&status=&start_time=&end_time=", [6, 5, 4, 3, 2, 1]),
    ],
)
async def test_a3_a5_each_filter_holds_alone_and_with_others(
    listed: Api, query: str, found: list[int]
) -> None:
    assert numbers(await listed.get(f"/jobs?{query}")) == found


@pytest.mark.parametrize("order", ["true", "false"])
async def test_a5_pages_bring_every_job_once(listed: Api, order: str) -> None:
    seen: list[int] = []
    token = ""
    while True:
        page = await listed.get(f"/jobs?limit=2&oldest_first={order}&page_token={token}")
        seen += numbers(page)
        token = page.json().get("next_page_token", "")
        if not token:
            break

    assert seen == ([1, 2, 3, 4, 5, 6] if order == "true" else [6, 5, 4, 3, 2, 1])


async def test_b20_a_token_of_another_list_is_refused(listed: Api) -> None:
    token = (await listed.get("/jobs?limit=2")).json()["next_page_token"]

    for other in ("user_id=ada", "namespace=other", "oldest_first=true"):
        response = await listed.get(f"/jobs?limit=2&{other}&page_token={token}")
        assert (response.status_code, response.json()["field"]) == (400, "page_token")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=DONE", "status[0]"),
        ("status=PENDING&status=4", "status[1]"),
        ("start_time=yesterday", "start_time"),
        ("start_time=null", "start_time"),
        ("start_time=1800000000", "start_time"),
        ("end_time=2027-01-15T08:00:03", "end_time"),
        ("user_id=%00", "user_id"),
        ("task_id=__x", "task_id"),
        ("oldest_first=maybe", "oldest_first"),
        ("oldest_first=1", "oldest_first"),
    ],
)
async def test_a_filter_that_is_wrong_is_refused_by_its_parameter(
    listed: Api, query: str, field: str
) -> None:
    response = await listed.get(f"/jobs?{query}")

    assert (response.status_code, response.json()["field"]) == (400, field)


async def test_an_entry_of_a_list_tells_when_and_what(listed: Api) -> None:
    (job,) = (await listed.get("/jobs?queue=mail")).json()["jobs"]

    assert job == {
        "job_id": str(uuid.UUID(int=3)),
        "task_id": "t",
        "queue": "mail",
        "status": "PENDING",
        "attempt": 1,
        "user_id": "ada",
        "schedule_id": "",
        "batch_id": "",
        "priority": 3,
        "create_time": TIME,
        "scheduled_time": "2027-01-15T08:00:03Z",
        "unique_key": "",
        "concurrency_key": "",
        "reason": "",
        "failure_type": "",
        "failure_message": "",
        "crashes": 0,
        "archived": False,
    }


async def test_a7_the_runs_of_a_recurring_job_are_those_of_its_schedule(listed: Api) -> None:
    describes(listed, ACTION)

    assert numbers(await listed.get(f"/jobs/{RECURRING}/runs")) == [4]
    assert numbers(await listed.get(f"/jobs/{RECURRING}/runs?status=FAILED")) == []


async def test_a_job_that_runs_once_is_its_only_run(api: Api) -> None:
    api.history.answer = lambda _: JobDescription(INFO, b"")

    assert numbers(await api.get(f"/jobs/{RUN}/runs")) == [uuid.UUID(RUN).int]
    assert numbers(await api.get(f"/jobs/{RUN}/runs?status=RETRY")) == [uuid.UUID(RUN).int]
    assert numbers(await api.get(f"/jobs/{RUN}/runs?status=FAILED")) == []


# ---- redrive


async def test_a18_failed_jobs_begin_anew_by_their_ids_or_by_a_filter(listed: Api) -> None:
    by_id = await listed.post("/jobs:redrive", {"job_ids": [RUN], "reason": "mended"})
    by_filter = await listed.post("/jobs:redrive", {"filter": {"user_id": "ada"}})
    counted = await listed.post("/jobs:redrive", {"filter": {}, "dry_run": True})

    assert [one.json() for one in (by_id, by_filter, counted)] == [{"count": 1}] * 3
    (_, one), (_, two) = listed.history.jobs
    assert (one.job_id, one.reason) == (RUN_ID, "mended")
    assert two.job_id == (2).to_bytes(16, "big")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "filter"),
        ({"job_ids": ["x"]}, "job_ids[0]"),
        ({"job_ids": [RUN], "filter": {"user_id": "a"}}, "filter"),
        ({"filter": {"task_id": "__x"}}, "filter.task_id"),
        ({"filter": {"status": ["FAILED", "COMPLETED"]}}, "filter.status[1]"),
    ],
)
async def test_a_redrive_that_is_wrong_redrives_nothing(
    api: Api, body: dict[str, Any], field: str
) -> None:
    response = await api.post("/jobs:redrive", body)

    assert (response.status_code, response.json()["field"]) == (400, field)
    assert not api.room.touched
