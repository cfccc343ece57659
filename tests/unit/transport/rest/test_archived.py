"""What has left the tables, over HTTP: found by its id as before, listed when it is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
from tests.unit.core import samples
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, FakeClock, Room
from tests.unit.transport.rest.conftest import Api, api_over
from tests.unit.transport.rest.jobs import INFO, RUN, US
from tests.unit.transport.rest.test_workflows import shown

from perdure_engine.core.errors import not_found
from perdure_engine.core.events import Event, WorkflowExecutionCompleted
from perdure_engine.core.ids import shard_of, shard_of_job, uuid_text
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.jobs.replies import JobDescription, JobInfo
from perdure_engine.core.replies import Closed
from perdure_engine.core.status import Status
from perdure_engine.ports.archive import DAY_US, ArchiveUnavailable, Kind, Parcel, Shelf
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.store.archive.archive import ObjectArchive
from perdure_engine.store.archive.memory import MemoryObjects
from perdure_engine.transport.grpc.convert.events import event_message
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.messages import event_body
from perdure_engine.transport.json.form import ContractForm

ENDED = msgspec.structs.replace(INFO, status=JobStatus.COMPLETED, closed_us=US + 2_000_000)
GONE = not_found("RUN", "it is not in the tables")
JOB = JobDescription(ENDED, payloads.from_values([{"sent": True}]))
EVENTS: list[Event] = [
    samples.STARTED,
    WorkflowExecutionCompleted(2, US, payloads.from_values(["done"]), 1),
]


class Clock(FakeClock):
    """The archive gives way now and then."""

    async def sleep(self, seconds: float) -> None:
        assert seconds == 0


class Objects(MemoryObjects):
    """A bucket that may be out of reach."""

    away = False

    async def get(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        if self.away:
            raise ArchiveUnavailable("s3://secret")
        return await super().get(name, start, size)


class Archived:
    """An archive behind the API, whose tables are empty."""

    def __init__(self, api: Api, objects: Objects, archive: ObjectArchive) -> None:
        self.api = api
        self.objects = objects
        self.archive = archive
        api.history.answer = lambda _: GONE
        api.history.pages = [GONE, GONE]

    async def put_job(self, job: JobDescription) -> None:
        shard_id = shard_of_job(job.info.job_id)
        parcel = self._parcel(Kind.JOBS, job.info.closed_us, shard_id)
        parcel.add_job(job)
        await parcel.put()

    async def put_run(self, workflow_id: str = "w1", events: Sequence[Event] = EVENTS) -> None:
        shard_id = shard_of(NAMESPACE_ID, workflow_id, self.api.history.number_of_shards)
        row = VisibilityRow(
            *(shard_id, RUN_ID, NAMESPACE_ID, 1, workflow_id, "T", "q", Status.COMPLETED),
            *(US, US + 1_000_000, len(events), 900, b"", "{}"),
        )

        async def pages() -> AsyncIterator[Sequence[Event]]:
            yield events

        parcel = self._parcel(Kind.WORKFLOWS, US + 1_000_000, shard_id)
        await parcel.add_run(row, pages())
        await parcel.put()

    def _parcel(self, kind: Kind, closed_us: int, shard_id: int) -> Parcel:
        return self.archive.parcel(Shelf(NAMESPACE_ID, kind, closed_us // DAY_US, shard_id))


def changed(number: int, **changes: Any) -> JobInfo:
    """An ended job that differs from the others in its id and these."""
    job_id = ENDED.job_id[:-1] + bytes((number,))
    return msgspec.structs.replace(ENDED, job_id=job_id, **changes)


@pytest.fixture
async def archived() -> AsyncIterator[Archived]:
    objects = Objects()
    archive = ObjectArchive(objects, Clock(), ContractForm())
    async with api_over(Room(archive)) as api:
        yield Archived(api, objects, archive)


async def test_a_job_is_shown_as_before(archived: Archived) -> None:
    """But for what was not kept of it: nobody sends heartbeats any more."""
    api = archived.api
    await archived.put_job(JOB)
    gone = (await api.get(f"/jobs/{RUN}")).json()
    api.history.answer = lambda _: JOB
    before = (await api.get(f"/jobs/{RUN}")).json()

    assert gone == {**before, "archived": True}
    assert (gone["result"], gone["failures"][0]["attempt"]) == ({"sent": True}, 1)


async def test_jobs_are_listed_when_they_are_asked_for(archived: Archived) -> None:
    api = archived.api
    infos = [changed(number, queue=f"q{number}") for number in (1, 2, 3)]
    for info in infos:
        await archived.put_job(JobDescription(info, b""))

    assert (await api.get("/jobs")).json() == {"jobs": []}
    found, token = list[Any](), ""
    while token is not None:
        page = (await api.get(f"/jobs?archived=true&limit=1&page_token={token}")).json()
        found += page["jobs"]
        token = page.get("next_page_token")

    assert sorted(job["job_id"] for job in found) == [uuid_text(info.job_id) for info in infos]
    assert {job["archived"] for job in found} == {True}
    (third,) = (await api.get("/jobs?archived=true&queue=q3")).json()["jobs"]
    api.history.answer = lambda _: JobDescription(infos[2], b"")
    (before,) = (await api.get(f"/jobs/{uuid_text(infos[2].job_id)}/runs")).json()["jobs"]
    assert third == {**before, "archived": True}


async def test_the_runs_of_a_job_are_found_too(archived: Archived) -> None:
    api = archived.api
    await archived.put_job(JOB)

    for query, count in [("", 1), ("?archived=true", 1), ("?status=FAILED", 0)]:
        (*runs,) = (await api.get(f"/jobs/{RUN}/runs{query}")).json()["jobs"]
        assert [job["archived"] for job in runs] == [True] * count
    api.history.answer = lambda _: JOB
    assert (await api.get(f"/jobs/{RUN}/runs?archived=true")).json() == {"jobs": []}


async def test_the_archive_has_no_other_order(archived: Archived) -> None:
    told = (await archived.api.get("/jobs?archived=true&oldest_first=true")).json()

    assert (told["status"], told["field"]) == (400, "oldest_first")


async def test_a_run_is_described_listed_and_its_history_shown(archived: Archived) -> None:
    api = archived.api
    await archived.put_run()

    (listed,) = (await api.get("/workflows?archived=true")).json()["workflows"]
    told = (await api.get("/workflows/w1")).json()
    first = (await api.get("/workflows/w1/history?limit=1")).json()
    second = (
        await api.get(f"/workflows/w1/history?limit=1&page_token={first['next_page_token']}")
    ).json()

    assert told["info"] == listed
    assert (listed["archived"], listed["status"]) == (True, "COMPLETED")
    assert told["first_run_id"] == uuid_text(samples.STARTED.first_run_id)
    assert told["pending_activities"] == told["pending_timers"] == told["pending_children"] == []
    assert first["events"] + second["events"] == [
        shown(event_body(event_message(event))) for event in EVENTS
    ]
    assert (await api.get("/workflows")).json() == {"workflows": []}


async def test_the_result_of_an_archived_run_is_told_as_before(archived: Archived) -> None:
    api = archived.api
    await archived.put_run()

    gone = (await api.get("/workflows/w1/result")).json()
    end = EVENTS[-1]
    assert isinstance(end, WorkflowExecutionCompleted)
    api.history.answer = lambda _: Closed(RUN_ID, Status.COMPLETED, end)

    assert gone == (await api.get("/workflows/w1/result")).json()
    assert (gone["status"], gone["result"]) == ("COMPLETED", "done")


async def test_a_query_of_an_archived_run_is_told_where_it_is(archived: Archived) -> None:
    await archived.put_run()

    response = await archived.api.post("/workflows/w1/queries/status", {})

    assert (response.status_code, response.json()["reason"]) == (404, "WORKFLOW_ARCHIVED")


async def test_what_does_not_answer_is_not_what_is_not_there(archived: Archived) -> None:
    await archived.put_job(JOB)
    archived.objects.away = True

    response = await archived.api.get(f"/jobs/{RUN}")

    assert (response.status_code, response.json()["reason"]) == (503, "ARCHIVE_UNAVAILABLE")
    assert "secret" not in response.text


@pytest.mark.parametrize("path", ["/jobs", "/workflows"])
async def test_without_an_archive_there_is_no_such_list(api: Api, path: str) -> None:
    told = (await api.get(f"{path}?archived=true")).json()

    assert (told["reason"], told["field"]) == ("NO_ARCHIVE", "archived")
