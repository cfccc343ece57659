"""What a request may look like: paths, methods, headers, query and body, and how each is refused (B8, B14, B46)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, OTHER_NAMESPACE_ID
from tests.unit.transport.rest.conftest import Api

from perdure_engine.core import limits
from perdure_engine.core.intents import SignalWorkflow
from perdure_engine.transport.http.rest import reading, strict_json
from perdure_engine.transport.http.rest.problems import MEDIA_TYPE

START = {"workflow_id": "w1", "workflow_type": "T", "task_queue": "q"}


def assert_problem(response: Any, status: int, reason: str, field: str = "") -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    problem = response.json()
    assert (problem["status"], problem["reason"]) == (status, reason)
    assert problem.get("field", "") == field


# ---- paths and methods


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/workflows/",
        "/workflows/a/b",
        "/workflows/%2e%2e",
        "/workflows/.%2E/history",
        "/..%2f..%2fetc/passwd",
        "/..;/metrics",
        "/%252e%252e/metrics",
        "/JOBS",
        "/workflows//history",
    ],
)
async def test_b46_what_is_no_path_of_ours_is_not_found(api: Api, path: str) -> None:
    assert_problem(await api.get(path), 404, "NO_SUCH_PATH")
    assert not api.room.touched


@pytest.mark.parametrize(
    ("raw", "workflow_id"),
    [
        ("a%2Fb", "a/b"),
        ("a%252Fb", "a%2Fb"),
        ("order:cancel", "order:cancel"),
        ("order%3Acancel", "order:cancel"),
        ("a+b%20c", "a+b c"),
        ("%C3%A9", "é"),
        ("...", "..."),
    ],
)
async def test_an_id_is_what_was_quoted_and_is_unquoted_once(
    api: Api, raw: str, workflow_id: str
) -> None:
    await api.get(f"/workflows/{raw}")

    assert api.intent.workflow_id == workflow_id


async def test_the_last_colon_parts_the_verb_from_the_id(api: Api) -> None:
    await api.post("/workflows/a:cancel:terminate")

    assert api.intent.workflow_id == "a:cancel"
    assert type(api.intent).__name__ == "TerminateWorkflow"


async def test_an_id_that_is_not_utf_8_is_refused_by_its_name(api: Api) -> None:
    assert_problem(await api.get("/workflows/%ff"), 400, "INVALID_ARGUMENT", "workflow_id")


async def test_a_method_that_a_path_does_not_have_is_refused_with_those_that_it_has(
    api: Api,
) -> None:
    response = await api.http.put("/workflows", json={})

    assert_problem(response, 405, "NO_SUCH_METHOD")
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "OPTIONS", "POST"}


async def test_options_names_the_methods_and_head_is_get(api: Api) -> None:
    options = await api.http.options("/workflows/w1/signals/s")
    head = await api.http.head("/workflows")

    assert (options.status_code, options.headers["allow"]) == (204, "OPTIONS, POST")
    assert head.status_code == 200
    assert len(api.store.lists) == 1


async def test_answers_are_nobodys_pages_and_nobodys_cache(api: Api) -> None:
    for response in (await api.get("/workflows"), await api.get("/workflows?limit=x")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"


# ---- hosts and origins


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1", ""])
async def test_b46_a_name_that_is_not_ours_is_refused(api: Api, host: str) -> None:
    for path in ("/workflows", "/metrics", "/"):
        assert_problem(await api.get(path, headers={"host": host}), 400, "HOST_NOT_ALLOWED")
    assert not api.room.touched


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "[::1]", "[::1]:8233"])
async def test_names_of_ours_are_taken_with_any_port(api: Api, host: str) -> None:
    assert (await api.get("/workflows", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "http://["]
)
async def test_a_page_of_another_origin_changes_nothing(api: Api, origin: str) -> None:
    response = await api.post("/workflows/w1:terminate", headers={"origin": origin})

    assert_problem(response, 403, "CROSS_ORIGIN")
    assert not api.room.touched


async def test_a_page_of_our_own_is_served(api: Api) -> None:
    own = {"origin": "http://localhost:8233"}

    assert (await api.post("/workflows/w1:terminate", headers=own)).status_code == 204


# ---- namespaces


async def test_the_namespace_is_the_headers_or_the_parameters_or_default(api: Api) -> None:
    header = {"perdure-namespace": "other"}
    await api.post("/workflows", START)
    await api.post("/workflows", START, headers=header)
    await api.post("/workflows?namespace=other", START)
    await api.post("/workflows?namespace=other", START, headers=header)

    found = [intent.namespace_id for _, intent in api.history.submitted]
    assert found == [NAMESPACE_ID, *[OTHER_NAMESPACE_ID] * 3]


async def test_b14_two_namespaces_in_one_request_are_refused(api: Api) -> None:
    response = await api.post(
        "/workflows?namespace=default", START, headers={"perdure-namespace": "other"}
    )

    assert_problem(response, 400, "INVALID_ARGUMENT", "namespace")
    twice = [("perdure-namespace", "other"), ("perdure-namespace", "default")]
    assert_problem(
        await api.get("/workflows", headers=twice), 400, "INVALID_ARGUMENT", "perdure-namespace"
    )


async def test_b13_an_unknown_namespace_is_not_found(api: Api) -> None:
    response = await api.get("/workflows", headers={"perdure-namespace": "nobody"})

    assert_problem(response, 404, "NAMESPACE_NOT_FOUND")


# ---- query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=x", "limit"),
        ("limit=-1", "limit"),
        ("limit=1.5", "limit"),
        ("limit=null", "limit"),
        ("limit=%221%22", "limit"),
        ("limit=1&limit=2", "limit"),
        ("limt=1", "limt"),
        ("page_token=%21", "page_token"),
        ("page_token=AAAA", "page_token"),
        ("query=%ff", "query"),
        ("query=x" + "y" * 3_000, "query"),
        ("query=Nonsense+%3D", "query"),
        ("&".join(["a=1"] * 200), "query"),
    ],
)
async def test_a_query_that_is_wrong_is_refused_by_the_name_of_its_parameter(
    api: Api, query: str, field: str
) -> None:
    assert_problem(await api.get(f"/workflows?{query}"), 400, "INVALID_ARGUMENT", field)


async def test_a_parameter_without_a_value_is_not_given(api: Api) -> None:
    assert (await api.get("/workflows?limit=&page_token=&query=&namespace=")).status_code == 200
    assert api.store.lists[0][2] == limits.PAGE_SIZE_DEFAULT + 1


# ---- bodies


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"[]", "body"),
        (b"1", "body"),
        (b"null", "body"),
        (b"{}", "workflow_type"),
        (b'{"workflow_id": 1}', "workflow_id"),
        (b'{"no": 1, "such": 2}', "no"),
        (b'{"workflow_id":"w","workflow_type":"T","task_queue":"q","retry":{"x":1}}', "retry.x"),
        (
            b'{"workflow_id":"w","workflow_type":"T","task_queue":"q","retry":{"initial_interval":0}}',
            "retry.initial_interval",
        ),
        (
            b'{"workflow_id":"w","workflow_type":"T","task_queue":"q",'
            b'"search_attributes":{"a":{"type":"INT","value":"1"}}}',
            "search_attributes.a.value",
        ),
        (b'{"workflow_id":"__w","workflow_type":"T","task_queue":"q"}', "workflow_id"),
        (b'{"workflow_id":"w","workflow_type":"T","task_queue":"q","priority":6}', "priority"),
        (
            b'{"workflow_id":"w","workflow_type":"T","task_queue":"q","run_timeout":1e10}',
            "run_timeout",
        ),
    ],
)
async def test_a_body_that_is_wrong_is_refused_by_the_path_of_its_field(
    api: Api, body: bytes, field: str
) -> None:
    response = await api.post_raw("/workflows", body)

    assert response.status_code == 400
    assert response.json().get("field") == field
    assert not api.room.touched


async def test_b9_a_body_that_is_not_strict_json_is_refused(api: Api) -> None:
    for body in (b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":1e999}', b'{"a":%s}' % (b"9" * 30)):
        assert_problem(await api.post_raw("/workflows", body), 400, "MALFORMED_JSON", "body")


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""],
)
async def test_b46_a_body_of_another_type_is_refused(api: Api, content_type: str) -> None:
    response = await api.post_raw("/workflows", b"{}", **{"content-type": content_type})

    assert_problem(response, 415, "NOT_JSON")


async def test_json_may_say_its_character_set(api: Api) -> None:
    typed = {"content-type": "Application/JSON; charset=UTF-8"}

    assert (await api.post_raw("/workflows/w1/signals/s", b"{}", **typed)).status_code == 204


async def in_parts(part: bytes, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield part


@pytest.mark.parametrize("megabytes", [5, 10, 20])
async def test_b8_a_body_that_is_too_large_is_refused_before_it_is_parsed(
    api: Api, megabytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_json, "parse", lambda _: pytest.fail("it was parsed"))
    whole = b'{"a":' * (megabytes * 200_000)

    assert_problem(await api.post_raw("/workflows", whole), 413, "BODY_TOO_LARGE")
    response = await api.http.post(
        "/workflows",
        content=in_parts(bytes(1_000_000), megabytes),
        headers={"content-type": "application/json"},
    )
    assert_problem(response, 413, "BODY_TOO_LARGE")
    assert response.headers["connection"] == "close"


async def test_b46_a_chunked_body_without_an_end_is_refused_at_the_limit(api: Api) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1_000_000)

    response = await api.http.post(
        "/workflows", content=endless(), headers={"content-type": "application/json"}
    )

    assert_problem(response, 413, "BODY_TOO_LARGE")


async def test_b43_a_body_that_does_not_come_is_refused_after_a_time(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BODY_S", 0.01)

    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    response = await api.http.post(
        "/workflows", content=stalled(), headers={"content-type": "application/json"}
    )

    assert_problem(response, 408, "BODY_TOO_SLOW")
    assert response.headers["connection"] == "close"


async def test_a_large_body_is_parsed_beside_the_loop(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    to_thread = asyncio.to_thread

    async def counted(function: Any) -> Any:
        threads.append(1)
        return await to_thread(function)

    monkeypatch.setattr(asyncio, "to_thread", counted)
    await api.post("/workflows/w1/signals/s", {"args": ["x" * 1_000]})
    assert not threads
    await api.post("/workflows/w1/signals/s", {"args": ["x" * reading.PARSED_IN_LOOP_BYTES_MAX]})
    assert len(threads) == 1
    assert isinstance(api.intent, SignalWorkflow)


# ---- Idempotency-Key


async def test_a_repeat_with_the_same_key_is_the_same_request(api: Api) -> None:
    key = {"idempotency-key": "order-7"}
    await api.post("/workflows", START, headers=key)
    await api.post("/workflows", START, headers=key)
    await api.post("/workflows?namespace=other", START, headers=key)
    await api.post("/workflows", START)
    await api.post("/workflows", {**START, "args": [1]}, headers=key)

    first, again, elsewhere, fresh, changed = [intent for _, intent in api.history.submitted]
    assert first == again
    assert first.request_id != elsewhere.request_id  # type: ignore[union-attr]  # starts have one
    assert first.request_id != fresh.request_id  # type: ignore[union-attr]
    assert first.request_id == changed.request_id  # type: ignore[union-attr]
    assert first.body_hash != changed.body_hash  # type: ignore[union-attr]  # so that history refuses it


async def test_a_key_that_is_no_name_is_refused(api: Api) -> None:
    response = await api.post("/workflows", START, headers={"idempotency-key": "k" * 501})

    assert_problem(response, 400, "INVALID_ARGUMENT", "idempotency-key")
