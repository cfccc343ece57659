"""Kinds of values that many requests and answers share. Durations are seconds, instants RFC 3339 in UTC."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from perdure_engine.core import limits
from perdure_engine.core.search_attributes import AttributeType

DURATION_S_MAX = limits.DURATION_MS_MAX // 1000
INTEGER_MAX = 2**63 - 1
"""What the contract's messages can hold, by which workers and clients with the SDK are told of it."""


def one_of(enumeration: type[enum.Enum]) -> Meta:
    """Of a text that is a member's name."""
    return Meta(extra_json_schema={"enum": [member.name for member in enumeration]})


def name_of(member: enum.Enum) -> Any:
    """The text of a choice. Any, since no type checker knows that an enumeration has just the names of a Literal."""
    return member.name


Duration = Annotated[float, Meta(gt=0, le=DURATION_S_MAX, description="Seconds, also fractions.")]
Instant = Annotated[datetime, Meta(tz=True, description="RFC 3339, with its offset.")]
Json = Annotated[Any, Meta(description="Any JSON value.")]
Value = Annotated[
    Any,
    Meta(
        description="The JSON value of a payload; of one that is encrypted or no JSON an object with its "
        "encoding, its data in base64 and its metadata."
    ),
]
WorkflowId = Annotated[str, Meta(min_length=1, max_length=limits.WORKFLOW_ID_BYTES_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_BYTES_MAX)]
Label = Annotated[str, Meta(max_length=limits.IDENTITY_BYTES_MAX)]
Reason = Annotated[str, Meta(max_length=limits.REASON_BYTES_MAX)]
Uuid = Annotated[str, Meta(description="A UUID in canonical text form.")]
Priority = Annotated[int, Meta(ge=1, le=5, description="1 goes first.")]
Limit = Annotated[int, Meta(ge=0, description="Entries of a page: at most 1,000; 0 is 100.")]
PageToken = Annotated[str, Meta(description="The next_page_token of the page before.")]
Archived = Annotated[bool, Meta(description="It has left the tables.")]
ArchivedInstead = Annotated[
    bool,
    Meta(
        description="Those that have left the tables instead, by the day of their end, the newest first. A page may be "
        "empty and yet have a next_page_token. 409: there is no archive."
    ),
]
NextPageToken = Annotated[
    str,
    Meta(
        description="Absent on the last page. A page before it may have fewer items than asked for, and none."
    ),
]


class Retry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a failed attempt is tried again."""

    initial_interval: Duration = 1.0
    backoff_coefficient: Annotated[float, Meta(ge=1, le=1e6)] = 2.0
    maximum_interval: Annotated[
        Duration | None, Meta(description="100 times the initial one without.")
    ] = None
    maximum_attempts: (
        Annotated[int, Meta(ge=0, le=2**31 - 1, description="0: without end.")] | None
    ) = None
    non_retryable_error_types: Annotated[list[Name], Meta(max_length=100)] = []


class SearchAttribute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What filters find a run by. A DATETIME is an instant, a KEYWORD_LIST a list of texts."""

    type: Annotated[str, one_of(AttributeType)]
    value: bool | int | float | str | list[str]


class Failure(msgspec.Struct, kw_only=True):
    """Why something did not succeed, with its causes. Beside `message` stands what is known of its kind, as the
    messages of proto/perdure_api/v1/common.proto have it."""

    message: str = ""
    source: str | UnsetType = UNSET
    stack_trace: str | UnsetType = UNSET
    encoded_attributes: Value | UnsetType = UNSET
    cause: Failure | UnsetType = UNSET
    application: dict[str, Any] | UnsetType = UNSET
    timeout: dict[str, Any] | UnsetType = UNSET
    canceled: dict[str, Any] | UnsetType = UNSET
    terminated: dict[str, Any] | UnsetType = UNSET
    server: dict[str, Any] | UnsetType = UNSET
    activity: dict[str, Any] | UnsetType = UNSET
    worker_lost: dict[str, Any] | UnsetType = UNSET
    child_workflow: dict[str, Any] | UnsetType = UNSET
