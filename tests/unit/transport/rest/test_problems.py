"""Rejections over HTTP: a status for each code, whole when they are ours, mute when they are not."""

import asyncio
import http
import logging
from typing import Any

import msgspec
import pytest
from tests.unit.frontend.fakes import turn
from tests.unit.transport.rest.conftest import Api

from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.ports.store import Conflict, OutcomeUnknown, ReadTooLong, StoreUnavailable
from perdure_engine.transport.http.rest.problems import (
    MEDIA_TYPE,
    STATUSES,
    problem_response,
    refused,
)


def told(error: Rejected, **names: str) -> tuple[int, dict[str, str], dict[str, Any]]:
    response = problem_response(refused(error, names))
    assert isinstance(response.body, bytes)
    return response.status_code, dict(response.headers), msgspec.json.decode(response.body)


def test_every_code_has_a_status_that_says_whose_fault_it_is() -> None:
    assert STATUSES.keys() == set(Code)
    ours = {Code.INTERNAL, Code.UNAVAILABLE, Code.DATA_LOSS, Code.UNIMPLEMENTED}
    ours |= {Code.DEADLINE_EXCEEDED, Code.CANCELLED}
    assert {code for code, status in STATUSES.items() if status >= 500} == ours
    assert all(http.HTTPStatus(status) >= 400 for status in STATUSES.values())


def test_a_rejection_travels_whole() -> None:
    status, headers, problem = told(
        Rejected(
            Code.RESOURCE_EXHAUSTED,
            "SHARD_FULL",
            "jobs: try later",
            field="jobs",
            metadata={"shard": "3"},
            retry_after_ms=1_250,
        )
    )

    assert status == 429
    assert headers["content-type"] == MEDIA_TYPE
    assert headers["retry-after"] == "2"
    assert problem == {
        "type": "tag:perdure.dev,2026:SHARD_FULL",
        "title": "Shard full",
        "status": 429,
        "detail": "jobs: try later",
        "reason": "SHARD_FULL",
        "field": "jobs",
        "metadata": {"shard": "3"},
    }


def test_a_retry_time_is_told_only_where_trying_again_helps() -> None:
    exhausted = Rejected(Code.RESOURCE_EXHAUSTED, "READ_TOO_LONG", "ask for less")

    assert "retry-after" not in told(exhausted)[1]
    assert told(Rejected(Code.UNAVAILABLE, "SHUTTING_DOWN", "later"))[1]["retry-after"] == "1"


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("page_size", "limit"),
        ("jobs[3].retry_policy.initial_interval_ms", "jobs[3].retry.initial_interval"),
        ("schedule.spec.start_time_us", "schedule.spec.start_time"),
        ("task_name", "task_id"),
        ("start.input[0]", "args[0]"),
        ("start.inputs", "inputs"),
    ],
)
def test_a_field_is_called_what_it_is_called_in_the_request(inside: str, outside: str) -> None:
    names = {"task_name": "task_id", "start": "", "start.input": "args"}
    _, _, problem = told(invalid(inside, "must not be negative"), **names)

    assert problem["field"] == outside
    assert problem["detail"] == f"{outside}: must not be negative"


def test_long_texts_are_cut() -> None:
    _, _, problem = told(Rejected(Code.NOT_FOUND, "X", "m" * 10_000, field="f" * 10_000))

    assert len(problem["detail"]) == 1_000
    assert len(problem["field"]) == 300


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (StoreUnavailable("dsn=secret"), 503, "STORE_UNAVAILABLE"),
        (Conflict("secret"), 503, "STORE_UNAVAILABLE"),
        (OutcomeUnknown("secret"), 503, "STORE_UNAVAILABLE"),
        (ReadTooLong("secret"), 429, "READ_TOO_LONG"),
        (ValueError("secret"), 500, "INTERNAL"),
    ],
)
async def test_other_errors_say_nothing_of_what_is_inside(
    api: Api, caplog: pytest.LogCaptureFixture, error: Exception, status: int, reason: str
) -> None:
    api.history.answer = lambda _: error

    with caplog.at_level(logging.CRITICAL):
        response = await api.get("/workflows/w1")

    assert response.status_code == status
    assert response.headers["content-type"] == MEDIA_TYPE
    assert response.json()["reason"] == reason
    assert "secret" not in response.text
    assert "Traceback" not in response.text


async def test_what_ends_because_the_node_stops_is_to_be_asked_for_elsewhere(api: Api) -> None:
    api.history.answer = lambda _: api.history.PENDING
    asking = asyncio.ensure_future(api.get("/workflows/w1"))
    while not api.history.futures:
        await turn()
    api.history.futures[0].cancel()

    response = await asking

    assert response.status_code == 503
    assert response.json()["reason"] == "SHUTTING_DOWN"


async def test_an_internal_error_is_in_the_log_by_the_id_that_its_caller_has(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    api.history.answer = lambda _: ValueError("secret")

    problem = (await api.get("/workflows/w1")).json()

    assert problem["metadata"]["error_id"] in caplog.text
    assert "secret" in caplog.text


async def test_calls_are_counted_by_their_outcome(api: Api) -> None:
    await api.get("/workflows")
    await api.get("/workflows?limit=x")
    await api.post_raw("/workflows", b"{}", **{"content-type": "text/plain"})

    requests = api.metrics.requests
    assert requests.value("list_workflows", "OK") == 1
    assert requests.value("list_workflows", "INVALID_ARGUMENT") == 1
    assert requests.value("start_workflow", "HTTP_415") == 1
    assert api.metrics.request_seconds.count("list_workflows") == 2
