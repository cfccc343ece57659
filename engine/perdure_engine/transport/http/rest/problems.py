"""Rejections as problem+json (RFC 9457), and the one table of which status a code has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from perdure_engine.core.errors import Code, Rejected

MEDIA_TYPE = "application/problem+json"
DETAIL_CHARS_MAX = 1_000
FIELD_CHARS_MAX = 300
TYPE_PREFIX = "tag:perdure.dev,2026:"
"""A tag names a kind of problem for ever and need not lead anywhere (RFC 4151)."""

STATUSES: dict[Code, int] = {
    Code.CANCELLED: 503,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 409,
    Code.ABORTED: 412,  # it is not any more what the caller has seen
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}

NAMES = {"page_size": "limit", "retry_policy": "retry", "request_id": "idempotency-key"}
"""What fields of the handlers are called here, everywhere. Durations and instants have no unit in their names."""

SAFE_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Of every answer: it is somebody's data, and never to be taken for a page."""

REASONS = {"REQUEST_ID_REUSED": 422}
"""Statuses of single reasons, where that of their code would say less."""

RETRY_AFTER_S = 1  # of what is unavailable and does not say for how long: a take-over is shorter

encode = msgspec.json.Encoder().encode

_WORD = re.compile(r"[a-z][a-z0-9_]*")
_WITH_UNIT = re.compile(r"\b[a-z][a-z_]*_(?:us|ms)\b")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not served. Nothing was changed."""

    type: Annotated[str, Meta(description="A name for this kind of problem; it leads nowhere.")]
    title: str
    status: int
    detail: str
    reason: Annotated[str, Meta(description="Stable, for programs: WORKFLOW_NOT_FOUND.")]
    field: Annotated[str, Meta(description="What is wrong, as jobs[3].priority.")] | UnsetType = (
        UNSET
    )
    metadata: dict[str, str] | UnsetType = UNSET


class Refused(Exception):
    """A rejection that only HTTP has: of a method, a media type, a length."""

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        *,
        field: str = "",
        metadata: Mapping[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.detail = detail
        self.field = field
        self.metadata = dict(metadata or {})
        self.headers = headers or {}


def refused(rejected: Rejected, names: Mapping[str, str] | None = None) -> Refused:
    """What a rejection is over HTTP. `names`: what a handler's fields are called in the request, by the beginning of
    their path without units ('' is left out); None: it is not a handler's, and speaks of the request already."""
    headers = {}
    if rejected.retry_after_ms:
        headers["retry-after"] = str(-(-rejected.retry_after_ms // 1000))
    elif rejected.code is Code.UNAVAILABLE:
        headers["retry-after"] = str(RETRY_AFTER_S)
    field, detail = rejected.field, rejected.message
    if names is not None:
        field = _renamed(field, names)
        if field:
            detail = detail.replace(rejected.field, field, 1)
        detail = _WITH_UNIT.sub(lambda found: _renamed(found[0], names), detail)
    return Refused(
        REASONS.get(rejected.reason) or STATUSES[rejected.code],
        rejected.reason,
        detail,
        field=field,
        metadata=rejected.metadata,
        headers=headers,
    )


def _renamed(field: str, names: Mapping[str, str]) -> str:
    plain = _WORD.sub(lambda found: _without_unit(found[0]), field)
    for beginning in sorted(names, key=len, reverse=True):
        rest = plain.removeprefix(beginning)
        if plain.startswith(beginning) and rest[:1] in ("", ".", "["):
            return (names[beginning] + rest).lstrip(".")
    return plain


def _without_unit(word: str) -> str:
    plain = word.removesuffix("_ms").removesuffix("_us")
    return NAMES.get(plain, plain)


def problem_of(refusal: Refused) -> Problem:
    return Problem(
        type=TYPE_PREFIX + refusal.reason,
        title=refusal.reason.replace("_", " ").capitalize(),
        status=refusal.status,
        detail=refusal.detail[:DETAIL_CHARS_MAX],
        reason=refusal.reason,
        field=refusal.field[:FIELD_CHARS_MAX] or UNSET,
        metadata=refusal.metadata or UNSET,
    )


def problem_response(refusal: Refused) -> Response:
    headers = {**SAFE_HEADERS, **refusal.headers}
    return Response(encode(problem_of(refusal)), refusal.status, headers, MEDIA_TYPE)
