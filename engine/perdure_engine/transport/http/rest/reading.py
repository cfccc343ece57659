"""Requests, read: headers, query and body, each with its limits, before anything is done for them."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from msgspec import inspect
from starlette.types import Receive, Scope

from perdure_engine.core import limits
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.transport.http.rest import strict_json
from perdure_engine.transport.http.rest.problems import Refused

BODY_S = 30.0  # for the whole of a body: the largest one at 140 KB/s
DRAINED_BYTES_MAX = 16 * 1024 * 1024
"""Of a body that is too large: so much is read and dropped, so that its sender is still there to read the refusal."""
PARSED_IN_LOOP_BYTES_MAX = 64 * 1024  # about 1 ms; beyond it a thread parses, and the loop goes on
PARAMETERS_MAX = 100
LITERALS = (inspect.IntType, inspect.FloatType, inspect.BoolType)

# msgspec tells the place at the end: "Expected `str`, got `int` - at `$.jobs[0].task_id`"
_PLACE = re.compile(r"^(?P<problem>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_FIELD = re.compile(
    r"^Object (?:missing required|contains unknown) field `(?P<name>.*)`$", re.DOTALL
)


def header(scope: Scope, name: bytes) -> str:
    """'' when it is not there."""
    found = [value for key, value in scope["headers"] if key == name]
    if not found:
        return ""
    told = name.decode("ascii")
    if len(found) > 1:
        raise invalid(told, "is given twice")
    try:
        return str(found[0], "utf-8")
    except UnicodeDecodeError:
        raise invalid(told, "is not UTF-8") from None


def segment(name: str, raw: str) -> str:
    """The text of a path's parameter. What a proxy would take for a way up is no name."""
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise invalid(name, "is not UTF-8") from None
    if text in (".", ".."):
        raise Refused(404, "NO_SUCH_PATH", "there is nothing at this path")
    return text


def query(raw: bytes, into: Any) -> Any:
    """The parameters as `into` has them. Raises INVALID_ARGUMENT."""
    if not raw:
        return into()
    values: dict[str, Any] = {}
    kinds = _kinds_of(into)
    for name, value in _pairs(raw):
        kind = kinds.get(name)
        if kind is None:
            raise invalid(name, "is not a parameter of this operation")
        if not value:
            continue
        if issubclass(kind, inspect.ListType):
            values.setdefault(name, []).append(value)
        elif name in values:
            raise invalid(name, "is given twice")
        else:
            values[name] = _literal(value) if issubclass(kind, LITERALS) else value
    return converted(values, into)


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=PARAMETERS_MAX,
            errors="strict",
        )
    except UnicodeDecodeError:
        raise invalid("query", "is not UTF-8") from None
    except ValueError:
        raise invalid("query", f"has more than {PARAMETERS_MAX} parameters") from None


@cache
def _kinds_of(into: Any) -> dict[str, type[inspect.Type]]:
    """What each parameter is: those of lists may come more than once, those of numbers and truth are no texts."""
    told = inspect.type_info(into)
    assert isinstance(told, inspect.StructType)
    return {field.name: _plain(field.type) for field in told.fields}


def _plain(kind: inspect.Type) -> type[inspect.Type]:
    """Without its description."""
    return _plain(kind.type) if isinstance(kind, inspect.Metadata) else type(kind)


def _literal(text: str) -> Any:
    """The number or truth that a text says; the text itself when it says neither."""
    try:
        return strict_json.parse(text.encode())
    except Rejected:
        return text


async def body(scope: Scope, receive: Receive, into: Any, *, required: bool) -> Any:
    """The body as `into` has it. Raises Refused 408, 413 and 415, and INVALID_ARGUMENT."""
    raw = await _bytes(scope, receive)
    if not raw:
        if required:
            raise invalid("body", "is required")
        return into()
    _check_type(scope)
    if len(raw) <= PARSED_IN_LOOP_BYTES_MAX:
        return converted(strict_json.parse(raw), into)
    return await asyncio.to_thread(lambda: converted(strict_json.parse(raw), into))


def converted(value: Any, into: Any) -> Any:
    """A JSON value as a type has it. Raises INVALID_ARGUMENT with the path of the field."""
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as error:
        raise _misfit(str(error)) from None


def _misfit(told: str) -> Rejected:
    found = _PLACE.match(told)
    assert found is not None, "it matches anything"
    path, problem = found["path"] or "", found["problem"]
    about = _FIELD.match(problem)
    if about is not None:
        path = f"{path}.{about['name']}" if path else about["name"]
        unknown = "unknown" in problem.partition("`")[0]
        problem = "is not a field that is known here" if unknown else "is required"
    return invalid(path or "body", problem)


async def _bytes(scope: Scope, receive: Receive) -> bytes:
    declared = header(scope, b"content-length")
    if declared and int(declared) > DRAINED_BYTES_MAX:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_S):
            more = True
            while more and size <= DRAINED_BYTES_MAX:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "BODY_INCOMPLETE", "the body ended before its time")
                part = message.get("body", b"")
                size += len(part)
                if size <= limits.REQUEST_BYTES_MAX:
                    parts.append(part)
                more = message.get("more_body", False)
    except TimeoutError:
        raise Refused(
            408,
            "BODY_TOO_SLOW",
            f"the body did not come within {BODY_S:g} s",
            headers={"connection": "close"},
        ) from None
    if size > limits.REQUEST_BYTES_MAX:
        raise _too_large()
    return b"".join(parts)


def _too_large() -> Refused:
    return Refused(
        413,
        "BODY_TOO_LARGE",
        f"a body has at most {limits.REQUEST_BYTES_MAX} bytes",
        headers={"connection": "close"},
    )


def _check_type(scope: Scope) -> None:
    told = header(scope, b"content-type").lower()
    media, _, parameters = told.partition(";")
    charset = parameters.strip()
    if media.strip() != "application/json" or charset not in (
        "",
        "charset=utf-8",
        'charset="utf-8"',
    ):
        raise Refused(
            415,
            "NOT_JSON",
            "a body is application/json in UTF-8, and says so in Content-Type",
            headers={"accept": "application/json"},
        )
