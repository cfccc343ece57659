"""What is not in the tables any more is looked for in the archive, and only then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.core import samples
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, Room
from tests.unit.frontend.test_get_history import request

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, not_found, unavailable
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.intents import (
    DescribeWorkflow,
    ExplainWorkflow,
    QueryWorkflow,
    ResetWorkflow,
    WaitResult,
)
from perdure_engine.core.jobs.replies import EndedJob
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.describe_workflow import describe_workflow
from perdure_engine.frontend.handlers.explain_workflow import explain_workflow
from perdure_engine.frontend.handlers.get_history import get_history
from perdure_engine.frontend.handlers.get_job_results import (
    ARCHIVE_LOOKS_MAX,
    ArchivedEnd,
    GetJobResults,
    get_job_results,
)
from perdure_engine.frontend.handlers.get_result import get_result
from perdure_engine.frontend.handlers.list_workflows import (
    list_archived_workflows,
    list_workflows,
)
from perdure_engine.frontend.handlers.query_workflow import query_workflow
from perdure_engine.frontend.handlers.reset_workflow import reset_workflow
from perdure_engine.ports.archive import (
    ArchiveCorrupt,
    ArchivedJob,
    ArchivedRun,
    ArchivedRuns,
    ArchivePlace,
    ArchiveUnavailable,
)
from perdure_engine.ports.filters import Column, Compare
from perdure_engine.ports.history import EventsPage
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import VisibilityFilter

ALL = VisibilityFilter(NAMESPACE_ID)
GONE = not_found("WORKFLOW", "workflow 'order-1' does not exist")
TARGET: dict[str, Any] = {"namespace_id": NAMESPACE_ID, "workflow_id": "order-1", "run_id": b""}
WANTED: dict[Any, Any] = {
    query_workflow: QueryWorkflow(**TARGET, query_type="status"),
    explain_workflow: ExplainWorkflow(**TARGET),
    reset_workflow: ResetWorkflow(
        **TARGET, event_id=4, new_run_id=RUN_ID, request_id=RUN_ID, body_hash=b"h" * 8
    ),
}


def row(number: int, memo: bytes = b"") -> VisibilityRow:
    run_id = number.to_bytes(16, "big")
    return VisibilityRow(
        1, run_id, NAMESPACE_ID, 1, f"w{number}", "T", "q", 2, number, number + 1, 3, 9, memo, "{}"
    )


class FakeArchive:
    """Answers with `run`, or raises `broken`; lists `rows`, so many in each object."""

    def __init__(self, run: ArchivedRun | None = None, broken: Exception | None = None) -> None:
        self.run = run
        self.broken = broken
        self.asked: list[tuple[Any, ...]] = []
        self.rows: list[VisibilityRow] = []
        self.looks_max = 1_000
        self.jobs: dict[bytes, ArchivedJob | Exception] = {}
        self.wheres: list[VisibilityFilter] = []

    async def find_run(self, *asked: Any) -> ArchivedRun | None:
        self.asked.append(asked)
        if self.broken is not None:
            raise self.broken
        return self.run

    async def find_job(self, *asked: Any) -> ArchivedJob | None:
        self.asked.append(asked)
        found = self.jobs.get(asked[2])
        if isinstance(found, Exception):
            raise found
        return found

    async def list_runs(
        self, where: VisibilityFilter, past: ArchivePlace | None, limit: int
    ) -> ArchivedRuns:
        if self.broken is not None:
            raise self.broken
        self.wheres.append(where)
        first = 0 if past is None else past.index + 1
        rows: list[tuple[VisibilityRow, ArchivePlace]] = []
        for index in range(first, len(self.rows)):
            place = ArchivePlace(1, "o", index)
            if not where.statuses or self.rows[index].status in where.statuses:
                rows.append((self.rows[index], place))
            if len(rows) == limit or index - first + 1 == self.looks_max:
                return ArchivedRuns(rows, place)
        return ArchivedRuns(rows, None)


def with_archive(room: Room, archive: FakeArchive) -> Frontend:
    fields = {name: getattr(room.frontend, name) for name in Frontend.__struct_fields__}
    return Frontend(**{**fields, "archive": archive})


def describe() -> DescribeWorkflow:
    return DescribeWorkflow(namespace_id=NAMESPACE_ID, workflow_id="order-1", run_id=b"")


def run_of(number_of_events: int, size: int = 10) -> ArchivedRun:
    return ArchivedRun(row(1), [b"%08d" % n + b" " * size for n in range(1, number_of_events + 1)])


async def test_what_the_tables_have_is_not_looked_for() -> None:
    room = Room()
    archive = FakeArchive(run_of(1))
    room.history.answer = lambda _: "described"
    assert await describe_workflow(with_archive(room, archive), describe()) == "described"
    room.history.answer = lambda _: unavailable("SHARD_MOVED", "elsewhere")
    with pytest.raises(Rejected, match="elsewhere"):
        await describe_workflow(with_archive(room, archive), describe())

    assert archive.asked == []


async def test_an_archived_run_is_described() -> None:
    room = Room()
    archive = FakeArchive(run_of(1))
    room.history.answer = lambda _: GONE

    assert await describe_workflow(with_archive(room, archive), describe()) is archive.run

    ((namespace_id, _, workflow_id, run_id),) = archive.asked
    assert (namespace_id, workflow_id, run_id) == (NAMESPACE_ID, "order-1", b"")


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (None, Code.NOT_FOUND),
        (ArchiveUnavailable("s3://secret"), Code.UNAVAILABLE),
        (ArchiveCorrupt("s3://secret"), Code.DATA_LOSS),
    ],
)
async def test_not_to_know_is_not_the_same_as_not_to_be_there(
    broken: Exception | None, code: Code
) -> None:
    room = Room()
    frontend = with_archive(room, FakeArchive(broken=broken))
    room.history.answer = lambda _: GONE
    room.history.pages = [GONE]

    for call in (describe_workflow(frontend, describe()), get_history(frontend, request())):
        with pytest.raises(Rejected) as caught:
            await call
        assert caught.value.code is code
        assert "secret" not in str(caught.value)


async def test_without_an_archive_nothing_changes() -> None:
    room = Room()
    room.history.answer = lambda _: GONE
    with pytest.raises(Rejected) as caught:
        await describe_workflow(room.frontend, describe())
    assert caught.value.code is Code.NOT_FOUND
    with pytest.raises(Rejected) as caught:
        await list_archived_workflows(room.frontend, ALL, 10, b"")
    assert (caught.value.code, caught.value.reason) == (Code.FAILED_PRECONDITION, "NO_ARCHIVE")


async def test_an_archived_history_comes_in_pages_of_its_run() -> None:
    room = Room()
    archive = FakeArchive(run_of(5))
    frontend = with_archive(room, archive)
    texts: list[bytes] = []
    token = b""
    for _ in range(3):
        room.history.pages = [GONE]
        answer = await get_history(frontend, request(page_token=token, wait_new_event=True))
        assert answer.events == []
        texts += answer.archived
        token = answer.next_page_token

    assert token == b""
    assert texts == run_of(5).events
    assert [asked[3] for asked in archive.asked] == [b"", row(1).run_id, row(1).run_id]


async def test_a_history_that_is_archived_between_two_pages_goes_on() -> None:
    room = Room()
    frontend = with_archive(room, FakeArchive(run_of(3)))
    room.history.pages = [EventsPage(list(samples.EVENTS[:2]), 3, True, RUN_ID), GONE]
    first = await get_history(frontend, request())
    second = await get_history(frontend, request(page_token=first.next_page_token))

    assert len(first.events) == 2
    assert second.archived == run_of(3).events[2:]
    assert second.next_page_token == b""


async def test_a_page_of_an_archived_history_fits_into_a_message() -> None:
    room = Room()
    half = limits.BATCH_MESSAGE_BYTES_MAX // 2 + 1
    frontend = with_archive(room, FakeArchive(run_of(2, half)))
    room.history.pages = [GONE, GONE]

    first = await get_history(frontend, request())
    second = await get_history(frontend, request(page_token=first.next_page_token))

    assert (len(first.archived), len(second.archived)) == (1, 1)
    assert second.next_page_token == b""


@pytest.mark.parametrize("ask", [query_workflow, reset_workflow, explain_workflow])
async def test_who_wants_more_than_to_read_an_archived_run_is_told_where_it_is(ask: Any) -> None:
    room = Room()
    frontend = with_archive(room, FakeArchive(run_of(1)))
    room.history.answer = lambda _: GONE

    with pytest.raises(Rejected, match="lies in the archive") as caught:
        await ask(frontend, WANTED[ask])

    assert (caught.value.code, caught.value.reason) == (Code.NOT_FOUND, "WORKFLOW_ARCHIVED")


@pytest.mark.parametrize("ask", [query_workflow, reset_workflow, explain_workflow])
@pytest.mark.parametrize(
    ("broken", "code"),
    [(None, Code.NOT_FOUND), (ArchiveUnavailable("s3://secret"), Code.UNAVAILABLE)],
)
async def test_what_is_nowhere_is_not_said_to_be_archived(
    ask: Any, broken: Exception | None, code: Code
) -> None:
    room = Room()
    room.history.answer = lambda _: GONE

    for frontend in (room.frontend, with_archive(room, FakeArchive(broken=broken))):
        with pytest.raises(Rejected) as caught:
            await ask(frontend, WANTED[ask])
        assert caught.value.reason in ("WORKFLOW_NOT_FOUND", "ARCHIVE_UNAVAILABLE")
    assert caught.value.code is code


async def test_the_result_of_an_archived_run_is_known_at_once() -> None:
    room = Room()
    archive = FakeArchive(run_of(2))
    frontend = with_archive(room, archive)
    room.history.answer = lambda _: GONE
    wait = WaitResult(namespace_id=NAMESPACE_ID, workflow_id="order-1", run_id=RUN_ID)

    assert await get_result(frontend, wait, 60_000) is archive.run
    archive.run = None
    with pytest.raises(Rejected) as caught:
        await get_result(frontend, wait, 60_000)

    assert caught.value is GONE
    assert [asked[3] for asked in archive.asked] == [RUN_ID, RUN_ID]


async def test_results_of_archived_jobs_are_known_at_once() -> None:
    """More than some of them only in the next call: each is a search. What one meets is its own affair."""
    room, archive = Room(), FakeArchive()
    frontend = with_archive(room, archive)
    texts = [uuid_text(job_id(1, number)) for number in range(ARCHIVE_LOOKS_MAX + 5)]
    archive.jobs = {
        job_id(1, 0): ArchivedJob(b"{}"),
        job_id(1, 1): ArchiveUnavailable("s3://secret"),
    }

    found = await get_job_results(
        frontend, GetJobResults(namespace_id=NAMESPACE_ID, job_ids=texts, timeout_ms=0)
    )

    there, away, *nowhere = found
    assert there == ArchivedEnd(job_id(1, 0), ArchivedJob(b"{}"))
    assert isinstance(away, ArchivedEnd)
    assert isinstance(away.job, Rejected)
    assert away.job.reason == "ARCHIVE_UNAVAILABLE"
    assert nowhere == [EndedJob(job_id(1, n), None) for n in range(2, ARCHIVE_LOOKS_MAX)]


async def test_jobs_that_no_shard_made_are_not_looked_for() -> None:
    archive = FakeArchive()
    asked = GetJobResults(
        namespace_id=NAMESPACE_ID, job_ids=[uuid_text(job_id(99, 1))], timeout_ms=0
    )

    assert await get_job_results(with_archive(Room(), archive), asked) == [
        EndedJob(job_id(99, 1), None)
    ]
    assert archive.asked == []


def job_id(shard_id: int, number: int) -> bytes:
    return shard_id.to_bytes(4, "big") + number.to_bytes(12, "big")


async def listed(frontend: Frontend, size: int, where: VisibilityFilter = ALL) -> list[list[str]]:
    pages: list[list[str]] = []
    token = b""
    while True:
        answer = await list_archived_workflows(frontend, where, size, token)
        pages.append([found.workflow_id for found in answer.rows])
        token = answer.next_page_token
        if not token:
            return pages


async def test_a_list_of_archived_runs_has_each_once() -> None:
    room, archive = Room(), FakeArchive()
    archive.rows = [row(number) for number in range(7)]
    names = [f"w{number}" for number in range(7)]

    pages = await listed(with_archive(room, archive), 3)
    assert [name for page in pages for name in page] == names
    archive.looks_max = 2
    nobodys = VisibilityFilter(NAMESPACE_ID, statuses=(3,))
    assert await listed(with_archive(room, archive), 3, nobodys) == [[], [], [], []]
    memo = bytes(limits.BATCH_MESSAGE_BYTES_MAX // 2 + 1)
    archive.looks_max = 1_000
    archive.rows = [row(1, memo), row(2, memo), row(3)]
    assert await listed(with_archive(room, archive), 100) == [["w1"], ["w2", "w3"]]


async def test_a_query_holds_of_archived_runs_too_and_means_the_same_on_each_page() -> None:
    room, archive = Room(), FakeArchive()
    archive.rows = [row(1), row(2)]
    frontend = with_archive(room, archive)

    first = await list_archived_workflows(frontend, ALL, 1, b"", "CloseTime > '2h'")
    later = msgspec.structs.replace(frontend, db_now_us=lambda: room.frontend.db_now_us() + 5)
    await list_archived_workflows(later, ALL, 1, first.next_page_token, "CloseTime > '2h'")

    one, two = [where.expression for where in archive.wheres]
    assert isinstance(one, Compare)
    assert one.column is Column.CLOSE_TIME
    assert one == two


@pytest.mark.parametrize(
    "query", ["ORDER BY CloseTime DESC", "WorkflowType = 'T' ORDER BY StartTime", "nonsense"]
)
async def test_an_order_cannot_be_asked_of_the_archive(query: str) -> None:
    frontend = with_archive(Room(), FakeArchive())

    with pytest.raises(Rejected) as caught:
        await list_archived_workflows(frontend, ALL, 10, b"", query)

    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, "query")


async def test_tokens_of_the_two_lists_are_apart() -> None:
    room, archive = Room(), FakeArchive()
    archive.rows = [row(1), row(2)]
    room.store.runs = [row(1), row(2)]
    frontend = with_archive(room, archive)
    of_archive = (await list_archived_workflows(frontend, ALL, 1, b"")).next_page_token
    of_tables = (await list_workflows(frontend, ALL, 1, b"")).next_page_token

    for list_, token in ((list_workflows, of_archive), (list_archived_workflows, of_tables)):
        with pytest.raises(Rejected) as caught:
            await list_(frontend, ALL, 1, token)
        assert caught.value.field == "page_token"
