"""When a failed attempt is tried again, and when not (semantics §4; invariant 31)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_engine.core.failures import Failure, FailureKind, RetryState, TimeoutType
from perdure_engine.core.retry import (
    DEFAULT_ACTIVITY_RETRY,
    RetryPolicy,
    Verdict,
    backoff_ms,
    next_attempt,
)

NOW_US = 1_800_000_000_000_000
BOOM = Failure(FailureKind.APPLICATION, "boom", type="ValueError")

policies = st.builds(
    RetryPolicy,
    initial_interval_ms=st.integers(1, 100_000),
    backoff_coefficient=st.floats(1, 1e300),
    maximum_interval_ms=st.one_of(st.just(0), st.integers(100_000, 10**9)),
    maximum_attempts=st.integers(0, 10),
    non_retryable_error_types=st.just(("KeyError",)),
)


def judge(
    policy: RetryPolicy = DEFAULT_ACTIVITY_RETRY,
    failure: Failure = BOOM,
    attempt: int = 1,
    close_by_us: int = 0,
) -> Verdict:
    return next_attempt(policy, attempt, failure, NOW_US, close_by_us)


# ---- how long


def test_by_default_one_second_doubling_to_a_hundred() -> None:
    delays = [backoff_ms(DEFAULT_ACTIVITY_RETRY, attempt) for attempt in range(1, 10)]

    assert delays == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 100_000, 100_000]


def test_the_longest_interval_of_a_policy_is_kept() -> None:
    policy = RetryPolicy(500, 3.0, 10_000)

    assert [backoff_ms(policy, attempt) for attempt in range(1, 6)] == [
        500,
        1_500,
        4_500,
        10_000,
        10_000,
    ]


def test_a_coefficient_of_one_is_a_steady_interval() -> None:
    policy = RetryPolicy(500, 1.0)

    assert {backoff_ms(policy, attempt) for attempt in range(1, 100)} == {500}


def test_an_attempt_that_has_been_failing_for_ever_waits_the_longest_interval() -> None:
    assert backoff_ms(DEFAULT_ACTIVITY_RETRY, 1_000_000) == 100_000


@pytest.mark.parametrize("coefficient", [65_536.0, 1e6, 1e300])
def test_no_coefficient_that_is_accepted_overflows(coefficient: float) -> None:
    """The frontend takes every finite coefficient from 1 on; a decision that raises quarantines the run."""
    assert backoff_ms(RetryPolicy(1_000, coefficient), 100) == 100_000


def test_a_small_coefficient_gets_to_the_longest_interval_too() -> None:
    """Invariant 31: the delay is the policy's, however many attempts it takes."""
    assert backoff_ms(RetryPolicy(1_000, 1.05), 60) == int(1_000 * 1.05**59)
    assert backoff_ms(RetryPolicy(1_000, 1.05), 80) == int(1_000 * 1.05**79)
    assert backoff_ms(RetryPolicy(1_000, 1.05), 200) == 100_000


@given(policies, st.integers(1, 10_000))
def test_the_delay_lies_between_the_initial_and_the_longest_interval(
    policy: RetryPolicy, attempt: int
) -> None:
    longest = policy.maximum_interval_ms or policy.initial_interval_ms * 100

    assert policy.initial_interval_ms <= backoff_ms(policy, attempt) <= longest


@given(policies, st.integers(1, 1_000))
def test_the_delay_never_gets_shorter(policy: RetryPolicy, attempt: int) -> None:
    assert backoff_ms(policy, attempt) <= backoff_ms(policy, attempt + 1)


def test_the_delay_that_the_error_asks_for_wins() -> None:
    def asked(delay_ms: int) -> Failure:
        return Failure(FailureKind.APPLICATION, "boom", next_retry_delay_ms=delay_ms)

    assert judge(failure=asked(7_777), attempt=4) == Verdict(RetryState.IN_PROGRESS, 7_777)
    assert judge(failure=asked(0), attempt=4) == Verdict(RetryState.IN_PROGRESS, 0)


# ---- whether


def test_maximum_attempts_counts_the_first_one() -> None:
    policy = RetryPolicy(maximum_attempts=3)
    states = [judge(policy, attempt=attempt).state for attempt in (1, 2, 3, 4)]

    assert states == [
        RetryState.IN_PROGRESS,
        RetryState.IN_PROGRESS,
        RetryState.MAXIMUM_ATTEMPTS_REACHED,
        RetryState.MAXIMUM_ATTEMPTS_REACHED,
    ]


def test_zero_maximum_attempts_is_no_maximum() -> None:
    assert judge(attempt=10**6).state is RetryState.IN_PROGRESS


RETRIED = {
    "application": BOOM,
    "start to close": Failure(FailureKind.TIMEOUT, "late", timeout_type=TimeoutType.START_TO_CLOSE),
    "heartbeat": Failure(FailureKind.TIMEOUT, "late", timeout_type=TimeoutType.HEARTBEAT),
    "server": Failure(FailureKind.SERVER, "oops"),
    "worker lost": Failure(FailureKind.WORKER_LOST, "gone"),
    "another activity": Failure(FailureKind.ACTIVITY, "activity error"),
    "a child workflow": Failure(FailureKind.CHILD_WORKFLOW, "child workflow error"),
}
NOT_RETRIED = {
    "said so": Failure(FailureKind.APPLICATION, "boom", non_retryable=True),
    "said so, with a delay": Failure(
        FailureKind.APPLICATION, "boom", non_retryable=True, next_retry_delay_ms=1
    ),
    "listed type": Failure(FailureKind.APPLICATION, "boom", type="KeyError"),
    "schedule to start": Failure(
        FailureKind.TIMEOUT, "late", timeout_type=TimeoutType.SCHEDULE_TO_START
    ),
    "schedule to close": Failure(
        FailureKind.TIMEOUT, "late", timeout_type=TimeoutType.SCHEDULE_TO_CLOSE
    ),
    "canceled": Failure(FailureKind.CANCELED, "canceled"),
    "terminated": Failure(FailureKind.TERMINATED, "terminated"),
    "server, for good": Failure(FailureKind.SERVER, "oops", non_retryable=True),
}
POLICY = RetryPolicy(maximum_attempts=5, non_retryable_error_types=("OSError", "KeyError"))


@pytest.mark.parametrize("name", RETRIED)
def test_what_is_retried(name: str) -> None:
    assert judge(POLICY, RETRIED[name]) == Verdict(RetryState.IN_PROGRESS, 1_000)


@pytest.mark.parametrize("name", NOT_RETRIED)
def test_what_is_not_retried_stops_at_once(name: str) -> None:
    """Invariant 31: non-retryable errors stop at once, whatever attempts are left."""
    assert judge(POLICY, NOT_RETRIED[name]) == Verdict(RetryState.NON_RETRYABLE_FAILURE)


def test_every_kind_of_failure_is_judged() -> None:
    judged = {failure.kind for failure in (*RETRIED.values(), *NOT_RETRIED.values())}

    assert judged == set(FailureKind)


@pytest.mark.parametrize(
    ("left_ms", "state"),
    [
        (1_001, RetryState.IN_PROGRESS),
        (1_000, RetryState.TIMEOUT),
        (999, RetryState.TIMEOUT),
        (-5, RetryState.TIMEOUT),
    ],
)
def test_no_attempt_is_started_that_would_pass_schedule_to_close(
    left_ms: int, state: RetryState
) -> None:
    assert judge(close_by_us=NOW_US + left_ms * 1_000).state is state


def test_the_reason_that_is_final_comes_before_the_time_that_is_up() -> None:
    up = NOW_US + 1

    assert judge(POLICY, BOOM, 5, up).state is RetryState.MAXIMUM_ATTEMPTS_REACHED
    assert judge(POLICY, NOT_RETRIED["said so"], 1, up).state is RetryState.NON_RETRYABLE_FAILURE
