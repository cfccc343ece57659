"""The API of a whole engine on a database, used as its documentation shows it (A1 to A7, A13, A17, A18, A20, A24)."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.channels import http_to
from tests.engine_node import running_node

from perdure import job, workflow
from perdure.client import Client, WorkflowHistory
from perdure.worker import Replayer, Worker
from perdure_engine.server.node import Node

# As row A4 of the requirements writes it.
A4 = (
    '{"task_id":"send_email","schedule":"0 10 * * *",'
    '"parameters":{"to":"…","subject":"Daily Report"}}'
)


@job.defn
async def send_email(to: str, subject: str = "Hello") -> dict[str, str]:
    return {"to": to, "subject": subject}


@job.defn
async def refuse(reason: str) -> None:
    raise ValueError(reason)


@workflow.defn
class Greeting:
    def __init__(self) -> None:
        self.greeted: list[str] = []
        self.done = False

    @workflow.run
    async def run(self, name: str) -> list[str]:
        self.greeted.append(name)
        await workflow.wait_condition(lambda: self.done)
        return self.greeted

    @workflow.signal
    def greet(self, name: str) -> None:
        self.greeted.append(name)

    @workflow.query
    def count(self) -> int:
        return len(self.greeted)

    @workflow.update
    async def finish(self, name: str) -> str:
        self.greeted.append(name)
        self.done = True
        return f"bye {name}"


class Api:
    """An engine's API, and what a worker of it would need."""

    def __init__(self, node: Node, http: httpx.AsyncClient) -> None:
        self.node = node
        self.http = http

    async def ended(self, job_id: str) -> dict[str, Any]:
        """The job, as soon as it has ended."""
        told: dict[str, Any] = {"status": "PENDING"}
        async with asyncio.timeout(20):
            while told["status"] in ("PENDING", "IN_PROGRESS", "RETRY"):
                told = (await self.http.get(f"/jobs/{job_id}")).json()
        return told


@pytest.fixture
async def api(database_dsn: str) -> AsyncIterator[Api]:
    async with (
        running_node(database_dsn) as node,
        http_to(node.http_address) as http,
    ):
        yield Api(node, http)


@pytest.fixture
async def worked(api: Api) -> AsyncIterator[Api]:
    """With a worker."""
    client = await Client.connect(api.node.address)
    async with Worker(
        client, task_queue="default", workflows=[Greeting], activities=[send_email, refuse]
    ):
        yield api


# ---- jobs


async def test_a4_the_example_of_the_design_works_byte_for_byte(api: Api) -> None:
    """Whether or not a worker knows the task: here there is none. A7: the next run is there, beside the definition."""
    response = await api.http.post(
        "/jobs", content=A4.encode(), headers={"content-type": "application/json"}
    )

    assert response.status_code == 201, response.text
    made = response.json()
    assert made["next_run"].endswith("T10:00:00Z")
    (run,) = (await api.http.get(f"/jobs/{made['job_id']}/runs")).json()["jobs"]
    assert (run["status"], run["scheduled_time"]) == ("PENDING", made["next_run"])
    assert run["schedule_id"] == made["job_id"]
    job = (await api.http.get(f"/jobs/{made['job_id']}")).json()
    assert (job["recurring"], job["parameters"]["subject"]) == (True, "Daily Report")

    assert (await api.http.delete(f"/jobs/{made['job_id']}")).json()["status"] == "CANCELLED"
    assert (await api.http.get(f"/jobs/{made['job_id']}")).status_code == 404


async def test_a2_a_job_runs_now_with_its_parameters_and_shows_its_result(worked: Api) -> None:
    made = await worked.http.post(
        "/jobs", json={"task_id": "send_email", "parameters": {"to": "ada"}, "user_id": "ada"}
    )

    job = await worked.ended(made.json()["job_id"])

    assert (job["status"], job["attempt"]) == ("COMPLETED", 1)
    assert job["result"] == {"to": "ada", "subject": "Hello"}
    assert job["parameters"] == {"to": "ada"}


async def test_a1_a_task_has_many_jobs_and_a3_each_user_sees_their_own(worked: Api) -> None:
    for user in ("ada", "bob", "ada"):
        made = await worked.http.post(
            "/jobs",
            json={"task_id": "send_email", "parameters": {"to": user}, "user_id": user},
        )
        await worked.ended(made.json()["job_id"])

    of_ada = (await worked.http.get("/jobs?user_id=ada&status=COMPLETED")).json()["jobs"]
    of_bob = (await worked.http.get("/jobs?user_id=bob")).json()["jobs"]

    assert [one["user_id"] for one in of_ada] == ["ada"] * 2
    assert len(of_bob) == 1


async def test_a13_a18_a_job_that_fails_has_three_attempts_and_begins_anew_when_asked(
    worked: Api,
) -> None:
    made = await worked.http.post(
        "/jobs",
        json={
            "task_id": "refuse",
            "parameters": {"reason": "no stock"},
            "retry": {"initial_interval": 0.01},
        },
    )
    job_id = made.json()["job_id"]

    failed = await worked.ended(job_id)
    counted = await worked.http.post(
        "/jobs:redrive", json={"filter": {"task_id": "refuse"}, "dry_run": True}
    )
    redriven = await worked.http.post("/jobs:redrive", json={"job_ids": [job_id]})
    again = await worked.ended(job_id)

    assert failed["status"] == "FAILED"
    assert [one["attempt"] for one in failed["failures"]] == [1, 2, 3]
    assert failed["failures"][0]["failure"]["application"]["type"] == "ValueError"
    assert (counted.json(), redriven.json()) == ({"count": 1}, {"count": 1})
    assert (again["status"], len(again["failures"])) == ("FAILED", 6)


async def test_a17_fifty_concurrent_posts_with_one_key_are_one_job(api: Api) -> None:
    body = {"task_id": "send_email", "parameters": {"to": "ada"}}
    posts = [
        api.http.post("/jobs", json=body, headers={"idempotency-key": "order-7"}) for _ in range(50)
    ]

    answers = await asyncio.gather(*posts)
    other = await api.http.post(
        "/jobs", json={**body, "parameters": {}}, headers={"idempotency-key": "order-7"}
    )

    assert len({one.json()["job_id"] for one in answers}) == 1
    assert sorted(one.status_code for one in answers) == [200] * 49 + [201]
    assert len((await api.http.get("/jobs")).json()["jobs"]) == 1
    assert other.status_code == 422
    assert other.json()["field"] == "idempotency_key"


async def test_a20_thousands_are_made_in_one_call_and_listed_in_pages(api: Api) -> None:
    jobs = [
        {"task_id": "send_email", "parameters": {"to": str(number)}, "user_id": "ada"}
        for number in range(3_000)
    ]

    made = (await api.http.post("/jobs:bulk", json={"jobs": jobs})).json()["jobs"]
    seen: list[str] = []
    token = ""
    while True:
        page = await api.http.get(f"/jobs?user_id=ada&limit=1000&page_token={token}")
        seen += [job["job_id"] for job in page.json()["jobs"]]
        token = page.json().get("next_page_token", "")
        if not token:
            break

    assert all(one["created"] for one in made)
    assert sorted(seen) == sorted(one["job_id"] for one in made)
    assert len(set(seen)) == 3_000


async def test_a24_a_job_of_the_future_is_moved_and_another_is_cancelled(worked: Api) -> None:
    later = {"task_id": "send_email", "parameters": {"to": "a"}, "schedule": "2099-01-01T00:00:00Z"}
    moved, cancelled = [(await worked.http.post("/jobs", json=later)).json() for _ in range(2)]
    assert moved["next_run"] == "2099-01-01T00:00:00Z"

    assert (await worked.http.post(f"/jobs/{moved['job_id']}:reschedule")).status_code == 204
    gone = await worked.http.delete(f"/jobs/{cancelled['job_id']}?reason=enough")
    again = await worked.http.delete(f"/jobs/{cancelled['job_id']}")

    assert (await worked.ended(moved["job_id"]))["status"] == "COMPLETED"
    assert gone.json()["status"] == "CANCELLED"
    assert (await worked.ended(cancelled["job_id"]))["reason"] == "enough"
    assert again.status_code == 409


async def test_a_job_that_is_not_there_is_not_found(api: Api) -> None:
    for job_id in (uuid.uuid4(), uuid.UUID(int=1 << 96 | 1)):
        for method, path in (
            ("GET", f"/jobs/{job_id}"),
            ("DELETE", f"/jobs/{job_id}"),
            ("GET", f"/jobs/{job_id}/runs"),
            ("POST", f"/jobs/{job_id}:reschedule"),
            ("POST", f"/jobs/{job_id}:resume"),
        ):
            response = await api.http.request(method, path)
            assert (response.status_code, response.json()["reason"]) == (404, "JOB_NOT_FOUND")


# ---- schedules


async def test_a_schedule_lives_from_its_making_to_its_end(worked: Api) -> None:
    schedule = {
        "spec": {"cron": ["0 10 * * *"], "timezone": "Europe/Brussels"},
        "action": {"job": {"task_id": "send_email", "parameters": {"to": "ada"}}},
    }
    http = worked.http
    made = await http.post("/schedules", json={**schedule, "schedule_id": "daily"})
    assert made.status_code == 201, made.text
    etag = made.headers["etag"]

    triggered = (await http.post("/schedules/daily:trigger")).json()["slot"]
    assert (await worked.ended(triggered["job_id"]))["result"]["to"] == "ada"
    paused = await http.post("/schedules/daily:pause", json={"note": "holiday"})
    told = (await http.get("/schedules/daily")).json()
    assert (paused.status_code, told["info"]["paused"], told["info"]["note"]) == (
        *(200, True),
        "holiday",
    )
    current = (await http.get("/schedules/daily")).headers["etag"]
    changed = {**told["schedule"], "spec": {"cron": ["0 11 * * *"]}}
    stale = await http.put("/schedules/daily", json=changed, headers={"if-match": '"999"'})
    fresh = await http.put("/schedules/daily", json=changed, headers={"if-match": current})
    assert (stale.status_code, fresh.status_code) == (412, 200)
    assert etag != fresh.headers["etag"]
    assert "11:00" in (await http.get("/schedules/daily")).json()["info"]["description"]
    assert (await http.post("/schedules/daily:unpause")).json()["next_time"]
    slots = (await http.get("/schedules/daily/slots")).json()["slots"]
    assert [(one["outcome"], one["manual"]) for one in slots] == [("FIRED", True)]
    listed = (await http.get("/schedules?id_prefix=da")).json()["schedules"]
    assert [one["schedule_id"] for one in listed] == ["daily"]

    assert (await http.delete("/schedules/daily")).status_code == 200
    assert (await http.get("/schedules/daily")).status_code == 404


# ---- workflows


async def test_a_workflow_is_started_asked_told_and_awaited(worked: Api) -> None:
    http = worked.http
    start = {"workflow_type": "Greeting", "task_queue": "default", "args": ["Ada"]}
    started = await http.post("/workflows", json={**start, "workflow_id": "hello/1"})
    assert started.status_code == 201, started.text
    path = "/workflows/hello%2F1"

    assert (await http.post(f"{path}/signals/greet", json={"args": ["Bob"]})).status_code == 204
    assert (await http.post(f"{path}/queries/count")).json() == {"result": 2}
    open_ = await http.get(f"{path}/result?timeout=0.05")
    updated = (await http.post(f"{path}/updates/finish", json={"args": ["Eve"]})).json()
    result = (await http.get(f"{path}/result")).json()

    assert open_.json() == {"status": "RUNNING"}
    assert (updated["stage"], updated["result"]) == ("COMPLETED", "bye Eve")
    assert (result["status"], result["result"]) == ("COMPLETED", ["Ada", "Bob", "Eve"])
    listed = await http.get("/workflows", params={"query": "WorkflowType = 'Greeting'"})
    assert [one["workflow_id"] for one in listed.json()["workflows"]] == ["hello/1"]
    assert (await http.get(path)).json()["info"]["status"] == "COMPLETED"
    again = await http.post(f"{path}/signals/greet")
    assert again.status_code == 404


async def test_a_history_that_is_fetched_is_one_that_replays(worked: Api) -> None:
    http = worked.http
    start = {"workflow_type": "Greeting", "task_queue": "default", "args": ["Ada"]}
    await http.post("/workflows", json={**start, "workflow_id": "w1"})
    await http.post("/workflows/w1/updates/finish", json={"args": ["Eve"]})
    await http.get("/workflows/w1/result")

    fetched = (await http.get("/workflows/w1/history")).text

    await Replayer(workflows=[Greeting]).replay_workflow(WorkflowHistory.from_json("w1", fetched))


async def test_a_workflow_is_cancelled_and_terminated(api: Api) -> None:
    start = {"workflow_type": "Idle", "task_queue": "nobody"}
    for verb in ("cancel", "terminate"):
        path = f"/workflows/{verb}"
        await api.http.post("/workflows", json={**start, "workflow_id": verb})
        assert (await api.http.post(f"{path}:{verb}", json={"reason": "r"})).status_code == 204

    asked = (await api.http.get("/workflows/cancel")).json()
    ended = (await api.http.get("/workflows/terminate/result")).json()

    assert asked["cancel_requested"]
    assert (ended["status"], ended["failure"]["message"]) == ("TERMINATED", "r")


async def test_a_query_that_nobody_can_answer_fails_soon(api: Api) -> None:
    start = {"workflow_type": "Idle", "task_queue": "nobody", "workflow_id": "w"}
    await api.http.post("/workflows", json=start)

    response = await api.http.post("/workflows/w/queries/state")

    assert (response.status_code, response.json()["reason"]) == (409, "NO_POLLERS")


# ---- the archive


def make_old(dsn: str) -> None:
    """All that has ended, nine days ago: over the retention of a week."""
    with psycopg.connect(dsn) as connection:
        connection.execute("update job_runs set closed_at = closed_at - interval '9 days'")
        connection.execute("update visibility set close_time = close_time - interval '9 days'")


async def test_a22_what_has_left_the_tables_is_fetched_and_listed_as_before(
    database_dsn: str, tmp_path: Path
) -> None:
    settings = {
        "history.retention_pass_every_s": 0.1,
        "archive.url": f"file://{tmp_path}/archive",
    }
    async with (
        running_node(database_dsn, settings) as node,
        http_to(node.http_address) as http,
    ):
        client = await Client.connect(node.address)
        start = {"workflow_type": "Greeting", "task_queue": "default", "args": ["Ada"]}
        new = {"task_id": "send_email", "parameters": {"to": "ada"}, "user_id": "ada"}
        async with Worker(
            client, task_queue="default", workflows=[Greeting], activities=[send_email]
        ):
            made = (await http.post("/jobs", json=new)).json()
            await http.post("/workflows", json={**start, "workflow_id": "w"})
            await http.post("/workflows/w/updates/finish", json={"args": ["Eve"]})
            await http.get("/workflows/w/result")
            await Api(node, http).ended(made["job_id"])
        paths = (f"/jobs/{made['job_id']}", "/workflows/w", "/workflows/w/history")
        before = [(await http.get(path)).json() for path in paths]
        make_old(database_dsn)
        async with asyncio.timeout(20):
            while (await http.get("/jobs")).json()["jobs"] or (
                (await http.get("/workflows")).json()["workflows"]
            ):
                pass

        after = [(await http.get(path)).json() for path in paths]
        jobs = (await http.get("/jobs?archived=true&user_id=ada")).json()["jobs"]
        runs = (await http.get("/workflows?archived=true")).json()["workflows"]

        assert (after[0]["archived"], after[1]["info"]["archived"]) == (True, True)
        for told in (before[0], after[0], before[1]["info"], after[1]["info"]):
            del told["close_time"], told["archived"]
        assert after == before
        assert [one["job_id"] for one in jobs] == [made["job_id"]]
        assert [one["workflow_id"] for one in runs] == ["w"]
        await client.close()


async def test_without_an_archive_none_is_listed(api: Api) -> None:
    for path in ("/jobs?archived=true", "/workflows?archived=true"):
        response = await api.http.get(path)
        assert (response.status_code, response.json()["reason"]) == (409, "NO_ARCHIVE")


# ---- the door


async def test_b46_an_engine_on_loopback_answers_to_the_names_of_loopback_alone(
    api: Api,
) -> None:
    rebound = await api.http.get("/jobs", headers={"host": "evil.example"})
    named = await api.http.get("/jobs", headers={"host": "localhost:1"})

    assert (rebound.status_code, named.status_code) == (400, 200)


@pytest.mark.parametrize(
    ("setting", "host", "status"),
    [("api.example", "api.example", 200), ("api.example", "localhost", 400), ("*", "any", 200)],
)
async def test_b46_names_are_a_setting(
    database_dsn: str, setting: str, host: str, status: int
) -> None:
    async with (
        running_node(database_dsn, {"http.allowed_hosts": setting}) as node,
        http_to(node.http_address) as http,
    ):
        assert (await http.get("/jobs", headers={"host": host})).status_code == status


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_says_the_same(api: Api) -> None:
    """The design's examples, as somebody would type them."""

    async def curl(*arguments: str) -> tuple[int, Any]:
        command = ["curl", "-sS", "-w", "\n%{http_code}", *arguments]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=20, check=True
        )
        body, _, status = done.stdout.rpartition("\n")
        return int(status), json.loads(body)

    url = f"http://{api.node.http_address}/jobs"
    typed = ("-H", "Content-Type: application/json")
    status, made = await curl("-X", "POST", url, *typed, "-d", A4)
    query = f"{url}?user_id=&status=PENDING&start_time=2020-01-01T00:00:00Z&end_time="
    listed_status, listed = await curl(query)

    assert (status, listed_status) == (201, 200)
    assert made["next_run"]
    assert [one["schedule_id"] for one in listed["jobs"]] == [made["job_id"]]
