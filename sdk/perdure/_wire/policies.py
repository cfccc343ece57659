"""Retry policies, durations and instants on the wire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from perdure.common import RetryPolicy
from perdure_api.v1 import common_pb2 as pb

POLICIES_KNOWN_MAX = 128

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)


def duration_to_ms(duration: timedelta | None) -> int:
    """Rounded up, so that a short timeout never becomes 0, which means "none"."""
    return 0 if duration is None else -(-duration // _MILLISECOND)


def duration_from_ms(duration_ms: int) -> timedelta | None:
    return timedelta(milliseconds=duration_ms) if duration_ms else None


def instant_to_us(instant: datetime | None) -> int:
    """A naive instant is taken as UTC."""
    if instant is None:
        return 0
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - EPOCH) // _MICROSECOND


def instant_from_us(instant_us: int) -> datetime | None:
    return EPOCH + timedelta(microseconds=instant_us) if instant_us else None


def retry_policy_to_message(policy: RetryPolicy | None) -> pb.RetryPolicy | None:
    if policy is None:
        return None
    message = pb.RetryPolicy(
        initial_interval_ms=duration_to_ms(policy.initial_interval),
        backoff_coefficient=policy.backoff_coefficient,
        maximum_attempts=policy.maximum_attempts,
        non_retryable_error_types=policy.non_retryable_error_types or (),
    )
    if policy.maximum_interval is not None:
        message.maximum_interval_ms = duration_to_ms(policy.maximum_interval)
    return message


def retry_policy_from_message(message: pb.RetryPolicy) -> RetryPolicy:
    return _policy(message.SerializeToString())


@lru_cache(maxsize=POLICIES_KNOWN_MAX)
def _policy(encoded: bytes) -> RetryPolicy:
    """A program has a few policies, and each of its activity tasks brings one."""
    message = pb.RetryPolicy.FromString(encoded)
    default = RetryPolicy()
    return RetryPolicy(
        initial_interval=(
            timedelta(milliseconds=message.initial_interval_ms)
            if message.HasField("initial_interval_ms")
            else default.initial_interval
        ),
        backoff_coefficient=(
            message.backoff_coefficient
            if message.HasField("backoff_coefficient")
            else default.backoff_coefficient
        ),
        maximum_interval=(
            timedelta(milliseconds=message.maximum_interval_ms)
            if message.HasField("maximum_interval_ms")
            else default.maximum_interval
        ),
        maximum_attempts=message.maximum_attempts,
        non_retryable_error_types=tuple(message.non_retryable_error_types) or None,
    )
