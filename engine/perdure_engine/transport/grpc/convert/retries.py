"""Retry policies."""

from __future__ import annotations

from perdure_api.v1 import common_pb2
from perdure_engine.core.retry import (
    BACKOFF_COEFFICIENT_DEFAULT,
    INITIAL_INTERVAL_MS_DEFAULT,
    RetryPolicy,
)
from perdure_engine.transport.grpc.convert.fields import Fields


def policy_of(message: common_pb2.RetryPolicy) -> RetryPolicy:
    """Unset fields take their defaults; what was set stays as it is, for the checks to judge."""
    return RetryPolicy(
        message.initial_interval_ms
        if message.HasField("initial_interval_ms")
        else INITIAL_INTERVAL_MS_DEFAULT,
        message.backoff_coefficient
        if message.HasField("backoff_coefficient")
        else BACKOFF_COEFFICIENT_DEFAULT,
        message.maximum_interval_ms,
        message.maximum_attempts,
        tuple(message.non_retryable_error_types),
    )


def policy_fields(policy: RetryPolicy | None) -> Fields:
    if policy is None:
        return None
    return {
        "initial_interval_ms": policy.initial_interval_ms,
        "backoff_coefficient": policy.backoff_coefficient,
        "maximum_interval_ms": policy.maximum_interval_ms or None,
        "maximum_attempts": policy.maximum_attempts,
        "non_retryable_error_types": policy.non_retryable_error_types,
    }
