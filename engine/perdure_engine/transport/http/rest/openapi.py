"""The OpenAPI 3.1 document, made of the table of operations and of the types that decode and encode what they say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from perdure_engine.core import limits
from perdure_engine.transport.http.rest import problems
from perdure_engine.transport.http.rest.operations import (
    ETAG_PATTERN,
    IDEMPOTENCY_KEY_BYTES_MAX,
    Operation,
)
from perdure_engine.transport.http.rest.problems import Problem

Node = dict[str, Any]

OPENAPI = "3.1.0"
REFERENCE = "#/components/schemas/{name}"
UUID = {"type": "string", "format": "uuid"}
IDS: Mapping[str, Node] = {
    "job_id": UUID,
    "workflow_id": {"type": "string", "minLength": 1, "maxLength": limits.WORKFLOW_ID_BYTES_MAX},
}
NAME: Node = {"type": "string", "minLength": 1, "maxLength": limits.NAME_BYTES_MAX}

_PARAMETER = re.compile(r"{(\w+)}")


def document(operations: Iterable[Operation], version: str) -> Node:
    operations = list(operations)
    schemas = _Schemas(operations)
    paths: Node = {}
    for operation in operations:
        path = paths.setdefault(operation.path, {})
        path[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "Perdure",
            "version": version,
            "description": "Jobs, schedules and workflows. Durations are seconds, instants RFC 3339. A request that "
            "is not served is answered with problem+json and has changed nothing.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas.components},
    }


class _Schemas:
    """Of all types that the operations name, those of `Problem` included."""

    def __init__(self, operations: list[Operation]) -> None:
        types = [Problem, *(found for one in operations for found in _types(one))]
        unique = list(dict.fromkeys(types))
        made, components = msgspec.json.schema_components(unique, ref_template=REFERENCE)
        self._made: dict[Any, Node] = dict(zip(unique, made, strict=True))
        # Parameters are told one by one, never as an object.
        queries = {one.query.__name__ for one in operations}
        self._queries = {name: components[name] for name in queries}
        self.components = {
            name: schema for name, schema in components.items() if name not in queries
        }

    def of(self, kind: Any) -> Node:
        return self._made[kind]

    def parameters(self, query: type[msgspec.Struct]) -> Mapping[str, Node]:
        properties: Mapping[str, Node] = self._queries[query.__name__]["properties"]
        return properties


def _types(operation: Operation) -> list[Any]:
    bodies = [] if operation.body is None else [operation.body]
    answers = [body for body in operation.answers.values() if body is not None]
    return [operation.query, *bodies, *answers]


def _operation(operation: Operation, schemas: _Schemas) -> Node:
    node: Node = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [
            *(_path_parameter(name) for name in _PARAMETER.findall(operation.path)),
            *_query_parameters(operation, schemas),
            *_header_parameters(operation),
        ],
        "responses": _responses(operation, schemas),
    }
    if operation.body is not None:
        content: Node = {"schema": schemas.of(operation.body)}
        if operation.example is not None:
            content["example"] = operation.example
        node["requestBody"] = {
            "required": operation.body_required,
            "content": {"application/json": content},
        }
    return node


def _path_parameter(name: str) -> Node:
    return {"name": name, "in": "path", "required": True, "schema": IDS.get(name, NAME)}


def _query_parameters(operation: Operation, schemas: _Schemas) -> Iterable[Node]:
    for name, schema in schemas.parameters(operation.query).items():
        schema = dict(schema)
        parameter: Node = {"name": name, "in": "query", "required": False}
        if "description" in schema:
            parameter["description"] = schema.pop("description")
        yield {**parameter, "schema": _or_empty(schema)}


def _or_empty(schema: Node) -> Node:
    """A parameter without a value is as one that is not there."""
    if schema.get("type") == "array":
        return {**schema, "items": _or_empty(schema["items"])}
    is_any_text = schema.get("type") == "string" and "format" not in schema
    return schema if is_any_text else {"anyOf": [schema, {"const": ""}]}


def _header_parameters(operation: Operation) -> Iterable[Node]:
    namespace = {"type": "string", "maxLength": limits.NAMESPACE_BYTES_MAX}
    yield _header("Perdure-Namespace", "The namespace; `default` without.", namespace)
    if operation.idempotent:
        yield _header(
            "Idempotency-Key",
            "A repeat with the same key and body is answered as the first call was and changes nothing more; "
            "the same key with another body is refused.",
            {"type": "string", "maxLength": IDEMPOTENCY_KEY_BYTES_MAX},
        )
    if operation.conditional:
        description = "The ETag of what the caller has seen; 412 when it is another."
        yield _header("If-Match", description, {"type": "string", "pattern": ETAG_PATTERN})


def _header(name: str, description: str, schema: Node) -> Node:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": schema,
    }


def _responses(operation: Operation, schemas: _Schemas) -> Node:
    responses = {
        str(status): _answer(status, body, schemas) for status, body in operation.answers.items()
    }
    responses["default"] = {
        "description": f"Not served, with nothing changed. {_STATUSES}",
        "content": {problems.MEDIA_TYPE: {"schema": schemas.of(Problem)}},
    }
    return responses


def _answer(status: int, body: Any, schemas: _Schemas) -> Node:
    description = HTTPStatus(status).phrase
    if body is None:
        return {"description": description}
    return {
        "description": description,
        "content": {"application/json": {"schema": schemas.of(body)}},
    }


_STATUSES = "By status: " + ", ".join(
    f"{status} {', '.join(sorted(code.name for code, one in problems.STATUSES.items() if one == status))}"
    for status in sorted(set(problems.STATUSES.values()))
)
