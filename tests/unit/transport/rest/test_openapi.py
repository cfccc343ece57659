"""The document is true: it says what is served, as it is served. schemathesis holds it against a running engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.frontend.fakes import plain_answer
from tests.unit.transport.rest.conftest import Api

from perdure_engine.core.errors import Code
from perdure_engine.core.schedules.intents import CreateSchedule, ScheduleSaved
from perdure_engine.transport.http.rest.openapi import document
from perdure_engine.transport.http.rest.table import OPERATIONS, by_path

METHODS = {"get", "put", "post", "delete"}


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return document(OPERATIONS, "1.2.3")


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def operations(spec: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in spec["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


async def test_it_is_served(api: Api) -> None:
    response = await api.get("/openapi.json")

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["openapi"] == "3.1.0"
    assert response.json()["info"]["version"] == "0.1.0"
    assert response.content == (await api.get("/openapi.json")).content


async def test_every_path_and_method_of_it_is_served(api: Api, spec: dict[str, Any]) -> None:
    for path, item in spec["paths"].items():
        concrete = re.sub(r"{\w+}", "00000001-0000-8000-8000-000000000000", path)
        allowed = (await api.http.options(concrete)).headers["allow"].split(", ")
        assert METHODS & {method.lower() for method in allowed} == set(item)


def test_the_routes_of_the_task_are_there(spec: dict[str, Any]) -> None:
    found = {(method.upper(), path) for path, method, _ in operations(spec)}

    for method, path in (
        ("POST", "/jobs"),
        ("POST", "/jobs:bulk"),
        ("GET", "/jobs"),
        ("GET", "/jobs/{job_id}"),
        ("DELETE", "/jobs/{job_id}"),
        ("GET", "/jobs/{job_id}/runs"),
        ("POST", "/jobs/{job_id}:reschedule"),
        ("POST", "/jobs:redrive"),
        ("PUT", "/schedules/{schedule_id}"),
        ("POST", "/schedules:preview"),
        ("GET", "/schedules/{schedule_id}/slots"),
        ("POST", "/workflows/{workflow_id}/signals/{signal_name}"),
    ):
        assert (method, path) in found


def test_every_reference_leads_somewhere(spec: dict[str, Any]) -> None:
    schemas = spec["components"]["schemas"]
    named = {one.removeprefix("#/components/schemas/") for one in references(spec)}

    assert named <= schemas.keys()
    assert schemas.keys() - named == set(), "schemas that nothing names"


def test_operations_have_names_of_their_own_and_say_what_they_do(spec: dict[str, Any]) -> None:
    found = [operation for _, _, operation in operations(spec)]

    assert len({operation["operationId"] for operation in found}) == len(found)
    assert all(operation["summary"].endswith(".") for operation in found)
    assert all("default" in operation["responses"] for operation in found)


def test_every_parameter_of_a_path_is_told(spec: dict[str, Any]) -> None:
    for path, _, operation in operations(spec):
        told = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert told == set(re.findall(r"{(\w+)}", path))


def test_requests_forbid_what_they_do_not_know_and_answers_do_not(spec: dict[str, Any]) -> None:
    """A client of today reads the answers of tomorrow."""
    for _, _, operation in operations(spec):
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            name = schema["$ref"].removeprefix("#/components/schemas/")
            assert spec["components"]["schemas"][name]["additionalProperties"] is False
    assert "additionalProperties" not in spec["components"]["schemas"]["JobInfo"]


async def test_its_examples_are_served(api: Api, spec: dict[str, Any]) -> None:
    examples = [
        (path, method, content["example"])
        for path, method, operation in operations(spec)
        for content in operation.get("requestBody", {"content": {}})["content"].values()
        if "example" in content
    ]
    assert examples
    api.history.answer = lambda intent: (
        ScheduleSaved(1, 1, []) if isinstance(intent, CreateSchedule) else plain_answer(intent)
    )
    for path, method, example in examples:
        response = await api.http.request(method, path, json=example)
        assert response.is_success, response.text


def test_it_says_which_statuses_a_rejection_may_have(spec: dict[str, Any]) -> None:
    told = spec["paths"]["/jobs"]["post"]["responses"]["default"]["description"]

    for code in Code:
        assert code.name in told


def test_a_path_with_a_verb_is_matched_before_the_one_with_the_id_alone() -> None:
    paths = list(by_path())
    for path in paths:
        if "}:" in path:
            plain = path.rpartition(":")[0]
            assert plain not in paths or paths.index(path) < paths.index(plain)
