"""When a failed attempt is tried again (semantics §4)."""

from __future__ import annotations

import msgspec

from perdure_engine.core.failures import Failure, FailureKind, RetryState, TimeoutType

INITIAL_INTERVAL_MS_DEFAULT = 1_000
BACKOFF_COEFFICIENT_DEFAULT = 2.0
MAXIMUM_INTERVAL_FACTOR_DEFAULT = 100


class RetryPolicy(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`maximum_attempts` 0 is unlimited; `maximum_interval_ms` 0 is 100 times the initial one."""

    initial_interval_ms: int = INITIAL_INTERVAL_MS_DEFAULT
    backoff_coefficient: float = BACKOFF_COEFFICIENT_DEFAULT
    maximum_interval_ms: int = 0
    maximum_attempts: int = 0
    non_retryable_error_types: tuple[str, ...] = ()


DEFAULT_ACTIVITY_RETRY = RetryPolicy()


class Verdict(msgspec.Struct, frozen=True):
    """Either the next attempt starts `delay_ms` from now, or `state` says why there is none."""

    state: RetryState
    delay_ms: int = 0


def backoff_ms(policy: RetryPolicy, attempt: int) -> int:
    """Delay after the failed attempt number `attempt` (1, 2, …)."""
    longest = (
        policy.maximum_interval_ms or policy.initial_interval_ms * MAXIMUM_INTERVAL_FACTOR_DEFAULT
    )
    try:
        delay = policy.initial_interval_ms * policy.backoff_coefficient ** (attempt - 1)
    except OverflowError:
        return longest
    return int(min(delay, longest))


def next_attempt(
    policy: RetryPolicy, attempt: int, failure: Failure, now_us: int, close_by_us: int
) -> Verdict:
    """Judge the failure of attempt number `attempt`.

    No attempt is started that would pass `close_by_us` (schedule-to-close; 0: none).
    """
    if not _retryable(policy, failure):
        return Verdict(RetryState.NON_RETRYABLE_FAILURE)
    if policy.maximum_attempts and attempt >= policy.maximum_attempts:
        return Verdict(RetryState.MAXIMUM_ATTEMPTS_REACHED)
    delay_ms = failure.next_retry_delay_ms
    if delay_ms is None:
        delay_ms = backoff_ms(policy, attempt)
    if close_by_us and now_us + delay_ms * 1000 >= close_by_us:
        return Verdict(RetryState.TIMEOUT)
    return Verdict(RetryState.IN_PROGRESS, delay_ms)


def _retryable(policy: RetryPolicy, failure: Failure) -> bool:
    match failure.kind:
        case FailureKind.APPLICATION:
            return (
                not failure.non_retryable and failure.type not in policy.non_retryable_error_types
            )
        case FailureKind.TIMEOUT:
            return failure.timeout_type in (TimeoutType.START_TO_CLOSE, TimeoutType.HEARTBEAT)
        case FailureKind.SERVER:
            return not failure.non_retryable
        case FailureKind.CANCELED | FailureKind.TERMINATED:
            return False
        case FailureKind.ACTIVITY | FailureKind.WORKER_LOST | FailureKind.CHILD_WORKFLOW:
            return True
