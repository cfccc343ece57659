"""Workflows: bodies to intents, replies to bodies."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from perdure_engine.core import search_attributes as attributes
from perdure_engine.core.errors import invalid
from perdure_engine.core.ids import run_id_of
from perdure_engine.core.intents import (
    CancelWorkflow,
    IdConflictPolicy,
    IdReusePolicy,
    QueryRejectCondition,
    QueryWorkflow,
    SignalWorkflow,
    StartWorkflow,
    TerminateWorkflow,
    UpdateStage,
    UpdateWorkflow,
)
from perdure_engine.core.limits import TASK_TIMEOUT_MS_DEFAULT
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute
from perdure_engine.frontend.checks import uuid_bytes_or_none
from perdure_engine.transport.http.rest.bodies import fields, workflows
from perdure_engine.transport.http.rest.bodies.fields import Instant
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.times import (
    instant,
    seconds_or_none,
    to_ms,
    to_seconds,
    to_us,
)

BODY_HASH_BYTES = 8

EndingT = TypeVar("EndingT", CancelWorkflow, TerminateWorkflow)

canonical = msgspec.msgpack.Encoder().encode

# What a value of a type is in JSON.
KINDS: dict[AttributeType, type | tuple[type, ...]] = {
    AttributeType.TEXT: str,
    AttributeType.KEYWORD: str,
    AttributeType.INT: int,
    AttributeType.DOUBLE: (int, float),
    AttributeType.BOOL: bool,
    AttributeType.DATETIME: str,
    AttributeType.KEYWORD_LIST: list,
}


def body_hash(*said: object) -> bytes:
    """What a repeated request must have in common with the first. Raises INVALID_ARGUMENT."""
    try:
        told = canonical(said)
    except OverflowError:  # an instant that has no place in UTC: the last day of 9999 far west
        raise invalid("body", "has an instant outside the years 1 to 9999") from None
    return blake2b(told, digest_size=BODY_HASH_BYTES).digest()


def start_workflow(
    body: workflows.StartWorkflow, namespace_id: bytes, request_id: bytes
) -> StartWorkflow:
    return StartWorkflow(
        namespace_id=namespace_id,
        workflow_id=body.workflow_id,
        run_id=run_id_of(namespace_id, body.workflow_id, request_id),
        request_id=request_id,
        body_hash=body_hash(body),
        id_reuse_policy=IdReusePolicy[body.id_reuse_policy],
        id_conflict_policy=IdConflictPolicy[body.id_conflict_policy],
        start_delay_ms=to_ms(body.start_delay),
        cron_schedule=body.cron_schedule,
        **_settings(body),
    )


def scheduled_workflow(body: workflows.WorkflowSettings) -> StartWorkflow:
    """What a schedule starts at each of its slots. Says nothing of which run that is."""
    return StartWorkflow(
        namespace_id=b"",
        workflow_id="",
        run_id=b"",
        request_id=b"",
        body_hash=b"",
        **_settings(body),
    )


def _settings(body: workflows.WorkflowSettings) -> dict[str, Any]:
    return {
        "workflow_type": body.workflow_type,
        "task_queue": body.task_queue,
        "input": payloads.from_values(body.args),
        "memo": payloads.from_fields(body.memo),
        "execution_timeout_ms": to_ms(body.execution_timeout),
        "run_timeout_ms": to_ms(body.run_timeout),
        "task_timeout_ms": to_ms(body.task_timeout) or TASK_TIMEOUT_MS_DEFAULT,
        "retry_policy": None if body.retry is None else retry_policy(body.retry, 0),
        "identity": body.identity,
        "priority": body.priority,
        "static_summary": payloads.from_text(body.static_summary),
        "static_details": payloads.from_text(body.static_details),
        "search_attributes": tuple(
            [_attribute(name, one) for name, one in body.search_attributes.items()]
        ),
    }


def settings_of(start: StartWorkflow) -> dict[str, Any]:
    """The fields of `WorkflowSettings` as they were asked for."""
    policy = start.retry_policy
    return {
        "workflow_type": start.workflow_type,
        "task_queue": start.task_queue,
        "args": payloads.values_of(start.input),
        "execution_timeout": seconds_or_none(start.execution_timeout_ms),
        "run_timeout": seconds_or_none(start.run_timeout_ms),
        "task_timeout": to_seconds(start.task_timeout_ms),
        "retry": None if policy is None else retry_body(policy),
        "priority": start.priority,
        "memo": payloads.fields_of(start.memo),
        "search_attributes": attribute_bodies(start.search_attributes),
        "static_summary": _text(start.static_summary),
        "static_details": _text(start.static_details),
        "identity": start.identity,
    }


def _text(payload: bytes) -> str:
    value = payloads.single_value_of(payload)
    return value if isinstance(value, str) else ""


def retry_policy(body: fields.Retry, maximum_attempts: int) -> RetryPolicy:
    """`maximum_attempts` counts when the body has none."""
    asked = body.maximum_attempts
    return RetryPolicy(
        to_ms(body.initial_interval),
        body.backoff_coefficient,
        to_ms(body.maximum_interval),
        maximum_attempts if asked is None else asked,
        tuple(body.non_retryable_error_types),
    )


def retry_body(policy: RetryPolicy) -> fields.Retry:
    return fields.Retry(
        initial_interval=to_seconds(policy.initial_interval_ms),
        backoff_coefficient=policy.backoff_coefficient,
        maximum_interval=seconds_or_none(policy.maximum_interval_ms),
        maximum_attempts=policy.maximum_attempts,
        non_retryable_error_types=list(policy.non_retryable_error_types),
    )


def _attribute(name: str, body: fields.SearchAttribute) -> SearchAttribute:
    at = f"search_attributes.{name}"
    type_ = AttributeType.__members__.get(body.type)
    if type_ is None:
        raise invalid(f"{at}.type", "is not a type of search attributes")
    value, is_bool = body.value, type_ is AttributeType.BOOL
    if not isinstance(value, KINDS[type_]) or isinstance(value, bool) != is_bool:
        raise invalid(f"{at}.value", f"is not the value of a {body.type}")
    if type_ is AttributeType.INT and isinstance(value, int) and value > fields.INTEGER_MAX:
        raise invalid(f"{at}.value", "is an integer of more than 64 bits")
    if isinstance(value, list):
        return SearchAttribute(name, type_, tuple(value))
    if type_ is AttributeType.DOUBLE and isinstance(value, int):
        return SearchAttribute(name, type_, float(value))
    if type_ is AttributeType.DATETIME:
        return SearchAttribute(name, type_, _instant_us(f"{at}.value", value))
    return SearchAttribute(name, type_, value)


def _instant_us(field: str, value: object) -> int:
    try:
        return to_us(msgspec.convert(value, Instant))
    except msgspec.ValidationError:
        raise invalid(field, "is not an instant of RFC 3339 with its offset") from None


def signal_workflow(
    body: workflows.Signal, workflow_id: str, name: str, namespace_id: bytes, request_id: bytes
) -> SignalWorkflow:
    return SignalWorkflow(
        namespace_id=namespace_id,
        workflow_id=workflow_id,
        run_id=uuid_bytes_or_none("run_id", body.run_id),
        signal_name=name,
        request_id=request_id,
        body_hash=body_hash(name, body),
        input=payloads.from_values(body.args),
        identity=body.identity,
    )


def query_workflow(
    body: workflows.WorkflowQuery, workflow_id: str, name: str, namespace_id: bytes
) -> QueryWorkflow:
    return QueryWorkflow(
        namespace_id=namespace_id,
        workflow_id=workflow_id,
        run_id=uuid_bytes_or_none("run_id", body.run_id),
        query_type=name,
        args=payloads.from_values(body.args),
        reject_condition=QueryRejectCondition[body.reject_condition],
    )


def update_workflow(
    body: workflows.Update, workflow_id: str, name: str, namespace_id: bytes, update_id: str
) -> UpdateWorkflow:
    args = payloads.from_values(body.args)
    return UpdateWorkflow(
        namespace_id=namespace_id,
        workflow_id=workflow_id,
        run_id=uuid_bytes_or_none("run_id", body.run_id),
        update_id=update_id,
        update_name=name,
        body_hash=body_hash(name, args),
        input=args,
        identity=body.identity,
        wait_stage=UpdateStage[body.wait_stage],
    )


def ending(
    kind: type[EndingT],
    body: workflows.Ending,
    workflow_id: str,
    namespace_id: bytes,
    request_id: bytes,
) -> EndingT:
    """A cancellation or a termination."""
    return kind(
        namespace_id=namespace_id,
        workflow_id=workflow_id,
        run_id=uuid_bytes_or_none("run_id", body.run_id),
        request_id=request_id,
        body_hash=body_hash(kind.__name__, body),
        identity=body.identity,
        reason=body.reason,
    )


def attribute_bodies(found: attributes.Attributes) -> dict[str, fields.SearchAttribute]:
    return {
        one.name: fields.SearchAttribute(type=one.type.name, value=_value(one)) for one in found
    }


def _value(attribute: SearchAttribute) -> Any:
    value = attribute.value
    if attribute.type is AttributeType.DATETIME:
        assert isinstance(value, int)
        return msgspec.to_builtins(instant(value))
    return list(value) if isinstance(value, tuple) else value
