"""`/workflows`: what a request asks of the handlers, and what their replies are as JSON."""

from __future__ import annotations

import asyncio
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from tests.unit.core import samples
from tests.unit.frontend.fakes import NAMESPACE_ID, RUN_ID, turn
from tests.unit.transport.rest.conftest import Api

from perdure._wire import history_json
from perdure._wire.history import history_event_from_message
from perdure_engine.core import events as ev
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import run_id_of, uuid_text
from perdure_engine.core.intents import (
    CancelWorkflow,
    IdConflictPolicy,
    IdReusePolicy,
    QueryRejectCondition,
    StartWorkflow,
    TerminateWorkflow,
    UpdateStage,
)
from perdure_engine.core.parents import Parent, ParentClosePolicy
from perdure_engine.core.replies import (
    Closed,
    Description,
    PendingActivity,
    PendingChild,
    PendingTimer,
    PendingWorkflowTask,
    QueryAnswer,
    RunInfo,
    Started,
    UpdateStatus,
)
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute
from perdure_engine.core.status import Status
from perdure_engine.ports.history import EventsPage
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.transport.grpc.convert.events import event_message
from perdure_engine.transport.grpc.convert.failures import failure_message
from perdure_engine.transport.http.rest.bodies import workflows as bodies
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.messages import event_body, failure_of

FAILURE = Failure(FailureKind.APPLICATION, "no stock", type="OutOfStock", non_retryable=True)
DIED = Failure(FailureKind.WORKER_LOST, "killed by signal 9")
US = 1_800_000_000_000_001
TIME = "2027-01-15T08:00:00.000001Z"
RUN = uuid_text(RUN_ID)


def shown(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


# ---- start


async def test_a_start_carries_all_that_it_says(api: Api) -> None:
    response = await api.post(
        "/workflows",
        {
            "workflow_id": "order-1",
            "workflow_type": "Order",
            "task_queue": "orders",
            "args": ["Ada", {"n": 1}],
            "id_reuse_policy": "REJECT_DUPLICATE",
            "id_conflict_policy": "USE_EXISTING",
            "execution_timeout": 3600,
            "run_timeout": 60.5,
            "task_timeout": 20,
            "start_delay": 0.25,
            "retry": {"maximum_attempts": 4, "non_retryable_error_types": ["ValueError"]},
            "priority": 1,
            "memo": {"note": "rush"},
            "search_attributes": {
                "Region": {"type": "KEYWORD", "value": "eu"},
                "Paid": {"type": "BOOL", "value": True},
                "Total": {"type": "DOUBLE", "value": 3},
                "Due": {"type": "DATETIME", "value": TIME},
                "Tags": {"type": "KEYWORD_LIST", "value": ["a", "b"]},
            },
            "static_summary": "an order",
            "identity": "shop",
        },
    )

    start = api.intent
    request_id = start.request_id
    assert msgspec.structs.asdict(start) | {"body_hash": b""} == msgspec.structs.asdict(
        StartWorkflow(
            namespace_id=NAMESPACE_ID,
            workflow_id="order-1",
            run_id=run_id_of(NAMESPACE_ID, "order-1", request_id),
            request_id=request_id,
            body_hash=b"",
            workflow_type="Order",
            task_queue="orders",
            input=payloads.from_values(["Ada", {"n": 1}]),
            memo=payloads.from_fields({"note": "rush"}),
            execution_timeout_ms=3_600_000,
            run_timeout_ms=60_500,
            task_timeout_ms=20_000,
            retry_policy=RetryPolicy(1_000, 2.0, 0, 4, ("ValueError",)),
            identity="shop",
            id_reuse_policy=IdReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=IdConflictPolicy.USE_EXISTING,
            start_delay_ms=250,
            priority=1,
            static_summary=payloads.from_text("an order"),
            search_attributes=(
                SearchAttribute("Region", AttributeType.KEYWORD, "eu"),
                SearchAttribute("Paid", AttributeType.BOOL, True),
                SearchAttribute("Total", AttributeType.DOUBLE, 3.0),
                SearchAttribute("Due", AttributeType.DATETIME, US),
                SearchAttribute("Tags", AttributeType.KEYWORD_LIST, ("a", "b")),
            ),
        )
    )
    assert response.status_code == 201
    assert response.json() == {
        "workflow_id": "order-1",
        "run_id": uuid_text(start.run_id),
        "started": True,
    }


async def test_a_start_says_where_its_run_is(api: Api) -> None:
    body = {"workflow_id": "a/é b", "workflow_type": "T", "task_queue": "q"}

    location = (await api.post("/workflows", body)).headers["location"]
    await api.get(location)

    assert location == "/workflows/a%2F%C3%A9%20b"
    assert api.intent.workflow_id == "a/é b"


async def test_a_start_that_found_a_run_is_200_and_names_it(api: Api) -> None:
    api.history.answer = lambda _: Started(RUN_ID, False)

    response = await api.post(
        "/workflows", {"workflow_id": "w", "workflow_type": "T", "task_queue": "q"}
    )

    assert (response.status_code, response.json()["run_id"]) == (200, RUN)


@pytest.mark.parametrize(
    ("of", "field", "enumeration"),
    [
        (bodies.StartWorkflow, "id_reuse_policy", IdReusePolicy),
        (bodies.StartWorkflow, "id_conflict_policy", IdConflictPolicy),
        (bodies.WorkflowQuery, "reject_condition", QueryRejectCondition),
        (bodies.Update, "wait_stage", UpdateStage),
    ],
)
def test_choices_are_those_of_the_engine(of: Any, field: str, enumeration: Any) -> None:
    assert set(get_args(get_type_hints(of)[field])) == set(enumeration.__members__)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("INT", 1.5),
        ("INT", True),
        ("INT", 2**63),
        ("BOOL", 1),
        ("DATETIME", "2027-01-15T08:00:00"),
        ("DATETIME", "x"),
        ("KEYWORD", ["a"]),
        ("KEYWORD_LIST", "a"),
        ("DOUBLE", "1"),
    ],
)
async def test_a_search_attribute_of_another_type_is_refused(
    api: Api, type_: str, value: Any
) -> None:
    body = {"workflow_id": "w", "workflow_type": "T", "task_queue": "q"}
    attributes = {"search_attributes": {"A": {"type": type_, "value": value}}}

    response = await api.post("/workflows", body | attributes)

    assert response.json()["field"] == "search_attributes.A.value"


# ---- signals, queries, updates, endings


async def test_a_signal_is_sent_and_answered_with_nothing(api: Api) -> None:
    response = await api.post(
        "/workflows/w1/signals/paid", {"args": [5], "run_id": RUN, "identity": "shop"}
    )

    assert (response.status_code, response.content) == (204, b"")
    signal = api.intent
    assert (signal.workflow_id, signal.signal_name, signal.run_id) == ("w1", "paid", RUN_ID)
    assert signal.input == payloads.from_values([5])
    assert signal.identity == "shop"


async def test_a_signal_without_a_body_has_no_arguments(api: Api) -> None:
    await api.post("/workflows/w1/signals/paid")

    assert (api.intent.input, api.intent.run_id) == (b"", b"")


async def test_a_query_is_answered_with_its_result(api: Api) -> None:
    api.history.answer = lambda _: QueryAnswer(payloads.from_values([{"state": "new"}]), None)

    response = await api.post("/workflows/w1/queries/state", {"reject_condition": "NOT_OPEN"})

    assert response.json() == {"result": {"state": "new"}}
    assert api.intent.reject_condition is QueryRejectCondition.NOT_OPEN


async def test_a_query_that_raised_is_a_bad_request(api: Api) -> None:
    api.history.answer = lambda _: QueryAnswer(b"", FAILURE)

    response = await api.post("/workflows/w1/queries/state")

    assert (response.status_code, response.json()["reason"]) == (400, "QUERY_FAILED")


async def test_who_asks_and_goes_leaves_nothing_waiting(api: Api) -> None:
    api.history.answer = lambda _: api.history.PENDING
    asking = asyncio.ensure_future(api.post("/workflows/w1/queries/state"))
    while not api.history.futures:
        await turn()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await turn()

    assert api.history.futures[0].cancelled()


@pytest.mark.parametrize(
    ("sent", "key", "update_id"),
    [({"update_id": "u1"}, "k1", "u1"), ({}, "k1", "k1"), ({}, "", None)],
)
async def test_an_update_has_an_id_by_which_it_is_one(
    api: Api, sent: dict[str, Any], key: str, update_id: str | None
) -> None:
    api.history.answer = lambda intent: UpdateStatus(
        RUN_ID, intent.update_id, UpdateStage.COMPLETED, payloads.from_values([7])
    )

    response = await api.post(
        "/workflows/w1/updates/add", sent, headers={"idempotency-key": key} if key else {}
    )

    used = api.intent.update_id
    assert update_id in (used, None)
    assert response.json() == {
        "update_id": used,
        "run_id": RUN,
        "stage": "COMPLETED",
        "result": 7,
    }


async def test_an_update_that_failed_says_why_and_one_on_its_way_how_far_it_is(api: Api) -> None:
    api.history.answer = lambda _: UpdateStatus(RUN_ID, "u", UpdateStage.COMPLETED, failure=FAILURE)
    failed = (await api.post("/workflows/w1/updates/add", {"update_id": "u"})).json()
    api.history.answer = lambda _: UpdateStatus(RUN_ID, "u", UpdateStage.ACCEPTED)
    accepted = (
        await api.post("/workflows/w1/updates/add", {"update_id": "u", "wait_stage": "ACCEPTED"})
    ).json()

    assert failed["failure"]["application"] == {"type": "OutOfStock", "non_retryable": True}
    assert "result" not in failed
    assert accepted == {"update_id": "u", "run_id": RUN, "stage": "ACCEPTED"}


@pytest.mark.parametrize(
    ("verb", "intent"), [("cancel", CancelWorkflow), ("terminate", TerminateWorkflow)]
)
async def test_a_run_is_ended_with_a_reason(api: Api, verb: str, intent: Any) -> None:
    response = await api.post(f"/workflows/w1:{verb}", {"reason": "too late", "run_id": RUN})

    assert response.status_code == 204
    assert type(api.intent) is intent
    assert (api.intent.reason, api.intent.run_id) == ("too late", RUN_ID)


# ---- what is told


async def test_a_list_shows_runs_and_goes_on_by_its_token(api: Api) -> None:
    attrs = '{"k":{"Region":"eu"}}'
    memo = payloads.from_fields({"note": "rush"})
    api.store.runs = [
        VisibilityRow(
            1, bytes([n]) * 16, NAMESPACE_ID, 1, f"w{n}", "T", "q", 2, US, US, 3, 300, memo, attrs
        )
        for n in range(3)
    ]

    first = (await api.get("/workflows?limit=2")).json()
    token = first["next_page_token"]
    second = (await api.get(f"/workflows?limit=2&page_token={token}")).json()

    assert [one["workflow_id"] for one in first["workflows"]] == ["w2", "w1"]
    assert [one["workflow_id"] for one in second["workflows"]] == ["w0"]
    assert "next_page_token" not in second
    assert first["workflows"][0] == {
        "workflow_id": "w2",
        "run_id": uuid_text(b"\2" * 16),
        "workflow_type": "T",
        "task_queue": "q",
        "status": "COMPLETED",
        "start_time": TIME,
        "close_time": TIME,
        "history_events": 3,
        "history_size_bytes": 300,
        "memo": {"note": "rush"},
        "search_attributes": {"Region": {"type": "KEYWORD", "value": "eu"}},
        "archived": False,
    }


async def test_b20_a_token_of_another_list_is_refused(api: Api) -> None:
    api.store.runs = [
        VisibilityRow(
            1, bytes([n]) * 16, NAMESPACE_ID, 1, f"w{n}", "T", "q", 2, US, US, 3, 300, b"", "{}"
        )
        for n in range(3)
    ]
    token = (await api.get("/workflows?limit=1")).json()["next_page_token"]

    for other in ("?query=Stuck+%3D+true&", "?namespace=other&", "/w1/history?"):
        response = await api.get(f"/workflows{other}page_token={token}")
        assert (response.status_code, response.json()["field"]) == (400, "page_token")


async def test_a_description_tells_what_a_run_does(api: Api) -> None:
    info = RunInfo("w1", RUN_ID, "T", "q", Status.RUNNING, US, 0, 9, 900, b"", True, "it fails")
    api.history.answer = lambda _: Description(
        info,
        execution_timeout_ms=60_000,
        run_timeout_ms=0,
        task_timeout_ms=10_000,
        activities=[
            PendingActivity(
                "1", "charge", "q", "BACKING_OFF", 2, 5, US, US, US, "w@h", FAILURE, b""
            ),
            PendingActivity(
                *("2", "charge", "q", "BACKING_OFF", 1, 0, US, 0, US, "", None, b""),
                crashes=3,
                first_crash_us=US,
                last_crash=DIED,
            ),
        ],
        timers=[PendingTimer("t1", US)],
        workflow_task=PendingWorkflowTask(1, US, 0, "w@h", None, 4, US, DIED, US),
        pause_us=US,
        pause_reason="it crashes",
        suspended=True,
        cancel_requested=True,
        buffered_events=1,
        first_run_id=RUN_ID,
        children=[PendingChild("c1", b"", "Child", 7, ParentClosePolicy.ABANDON)],
        parent=Parent("p1", RUN_ID, 5, "p1", RUN_ID),
        static_summary=payloads.from_text("an order"),
    )

    told = (await api.get(f"/workflows/w1?run_id={RUN}")).json()

    assert api.intent.run_id == RUN_ID
    assert told["info"]["stuck_reason"] == "it fails"
    assert "close_time" not in told["info"]
    assert (told["execution_timeout"], told["task_timeout"]) == (60, 10)
    assert "run_timeout" not in told
    assert told["static_summary"] == "an order"
    assert told["parent"] == {"workflow_id": "p1", "run_id": RUN}
    assert told["pending_timers"] == [{"timer_id": "t1", "fire_time": TIME}]
    assert told["pending_children"] == [
        {"workflow_id": "c1", "workflow_type": "Child", "parent_close_policy": "ABANDON"}
    ]
    assert told["pending_workflow_task"] == {
        "attempt": 1,
        "scheduled_time": TIME,
        "next_attempt_time": TIME,
        "worker_identity": "w@h",
        "crashes": 4,
        "first_crash_time": TIME,
        "last_crash": {"message": "killed by signal 9", "source": "Engine", "worker_lost": {}},
    }
    activity, poisoned = told["pending_activities"]
    assert (activity["state"], activity["next_attempt_time"]) == ("BACKING_OFF", TIME)
    assert activity["last_failure"]["message"] == "no stock"
    assert not {"crashes", "first_crash_time", "last_crash"} & activity.keys()
    assert (poisoned["crashes"], poisoned["first_crash_time"]) == (3, TIME)
    assert poisoned["last_crash"]["message"] == "killed by signal 9"
    assert (told["suspended"], told["pause_reason"]) == (True, "it crashes")


@pytest.mark.parametrize(
    ("status", "event", "expected"),
    [
        (
            Status.COMPLETED,
            ev.WorkflowExecutionCompleted(9, US, payloads.from_values([{"a": 1}]), 8),
            {"result": {"a": 1}},
        ),
        (
            Status.TERMINATED,
            ev.WorkflowExecutionTerminated(9, US, "stop", b"", "cli", RUN_ID, b""),
            {"failure": {"message": "stop", "source": "Engine", "terminated": {}}},
        ),
    ],
)
async def test_a_result_is_that_of_the_run_that_closed(
    api: Api, status: Status, event: Any, expected: dict[str, Any]
) -> None:
    api.history.answer = lambda _: Closed(RUN_ID, status, event)

    told = (await api.get("/workflows/w1/result")).json()

    assert told == {"status": status.name, "run_id": RUN, **expected}


async def test_a_run_that_is_still_open_after_the_time_is_running(api: Api) -> None:
    told = (await api.get("/workflows/w1/result?timeout=0.01")).json()

    assert told == {"status": "RUNNING"}
    assert api.history.futures[0].cancelled()


@pytest.mark.parametrize("seconds", ["0", "-1", "61", "x"])
async def test_nobody_waits_longer_than_may_be_waited(api: Api, seconds: str) -> None:
    response = await api.get(f"/workflows/w1/result?timeout={seconds}")

    assert (response.status_code, response.json()["field"]) == (400, "timeout")


# ---- histories


async def test_a_history_comes_in_pages(api: Api) -> None:
    api.history.pages = [
        EventsPage([samples.STARTED], 2, False, RUN_ID),
        EventsPage([], 0, True, RUN_ID),
    ]

    first = (await api.get("/workflows/w1/history?limit=1")).json()
    second = (
        await api.get(f"/workflows/w1/history?limit=1&page_token={first['next_page_token']}")
    ).json()

    assert [event["event_type"] for event in first["events"]] == ["WorkflowExecutionStarted"]
    assert second == {"events": []}


ENCODED = {
    **dict.fromkeys(("header", "memo", "upserted_memo"), payloads.from_fields({"a": 1, "b": None})),
    **dict.fromkeys(("static_summary", "static_details", "summary"), payloads.from_text("short")),
    **dict.fromkeys(("input", "result", "details"), payloads.from_values([{"a": [1]}, None])),
    "last_completion_result": payloads.from_values([1]),
}


def with_values(event: ev.Event) -> ev.Event:
    """The sample with payloads where it has just bytes."""
    found = {
        name: value
        for name, value in ENCODED.items()
        if getattr(event, name, b"") and isinstance(getattr(event, name), bytes)
    }
    return msgspec.structs.replace(event, **found)


@pytest.mark.parametrize("event", samples.EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_shown_as_the_sdk_writes_and_reads_it(event: ev.Event) -> None:
    """So that a history that was fetched with curl can be given to the replayer."""
    event = with_values(event)
    by_sdk = history_json.event_to_json(history_event_from_message(event_message(event)))

    assert shown(event_body(event_message(event))) == shown(by_sdk)


def test_a_failure_keeps_its_causes_and_what_is_known_of_its_kind() -> None:
    told = shown(failure_of(failure_message(samples.FAILURE)))

    assert told["message"] == samples.FAILURE.message
    assert samples.FAILURE.cause is not None
    assert told["cause"]["message"] == samples.FAILURE.cause.message
