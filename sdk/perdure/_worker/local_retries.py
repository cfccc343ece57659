"""When a local activity is over, and when it is tried again: as the engine has it for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from perdure._replay.messages import LocalActivityTask
from perdure.common import RetryPolicy
from perdure.errors import (
    ApplicationError,
    CancelledError,
    RetryState,
    ServerError,
    TerminatedError,
    TimeoutError,
    TimeoutType,
)

# The engine's limit for a payload, less what the marker around it needs. A result that the engine refuses would fail
# the workflow task, and the next one would run the activity again, for ever.
RESULT_BYTES_MAX = 2 * 1024 * 1024 - 4096
_MAXIMUM_INTERVALS = 100  # the longest back-off, in first ones, unless the policy says
_DEFAULT = RetryPolicy()
_MILLISECOND = timedelta(milliseconds=1)
_FINAL = (CancelledError, TerminatedError, asyncio.CancelledError)


class Deadlines:
    """Times are the worker's: the workflow's own stand still while it waits."""

    def __init__(self, task: LocalActivityTask, now_us: Callable[[], int]) -> None:
        self._task = task
        self._now_us = now_us
        self._began_us = now_us()
        # Attempts before a long back-off count: the first one was asked for then.
        first_us = (
            min(task.scheduled_time_us, self._began_us) if task.attempt > 1 else self._began_us
        )
        close_ms = task.schedule_to_close_timeout_ms
        self._close_us = first_us + close_ms * 1000 if close_ms else None

    def waiting_s(self) -> float | None:
        """For a place to run at."""
        start_ms = self._task.schedule_to_start_timeout_ms
        limits = [self._left_s()] + ([start_ms / 1000] if start_ms else [])
        return min((one for one in limits if one is not None), default=None)

    def expired_waiting(self) -> TimeoutError:
        left_s = self._left_s()
        which = TimeoutType.SCHEDULE_TO_START
        if left_s is not None and left_s <= 0:
            which = TimeoutType.SCHEDULE_TO_CLOSE
        return TimeoutError(f"local activity {which.name} timeout", type=which)

    def attempt(self) -> tuple[float | None, TimeoutType]:
        """How long an attempt that begins now may take, and which limit that is."""
        start_ms = self._task.start_to_close_timeout_ms
        left_s = self._left_s()
        if start_ms and (left_s is None or start_ms / 1000 <= left_s):
            return start_ms / 1000, TimeoutType.START_TO_CLOSE
        return left_s, TimeoutType.SCHEDULE_TO_CLOSE

    def are_over_in(self, delay_ms: int) -> bool:
        left_s = self._left_s()
        return left_s is not None and left_s <= delay_ms / 1000

    def _left_s(self) -> float | None:
        return None if self._close_us is None else (self._close_us - self._now_us()) / 1e6


def next_backoff_ms(
    task: LocalActivityTask, attempt: int, error: BaseException, deadlines: Deadlines
) -> int | RetryState:
    """After the failed attempt of that number; or why there is no further one."""
    policy = task.retry_policy or _DEFAULT
    delay_ms = _delay_ms(policy, attempt)
    if isinstance(error, ApplicationError):
        if error.non_retryable:
            return RetryState.NON_RETRYABLE_FAILURE
        if error.next_retry_delay is not None:
            delay_ms = max(0, -(-error.next_retry_delay // _MILLISECOND))
    kind = (
        error.type if isinstance(error, ApplicationError) and error.type else type(error).__name__
    )
    if kind in (policy.non_retryable_error_types or ()):
        return RetryState.NON_RETRYABLE_FAILURE
    if isinstance(error, _FINAL) or (isinstance(error, ServerError) and error.non_retryable):
        return RetryState.NON_RETRYABLE_FAILURE
    if isinstance(error, TimeoutError) and error.type is TimeoutType.SCHEDULE_TO_CLOSE:
        return RetryState.TIMEOUT
    if policy.maximum_attempts and attempt >= policy.maximum_attempts:
        return RetryState.MAXIMUM_ATTEMPTS_REACHED
    return RetryState.TIMEOUT if deadlines.are_over_in(delay_ms) else delay_ms


def _delay_ms(policy: RetryPolicy, attempt: int) -> int:
    first_ms = max(1, -(-policy.initial_interval // _MILLISECOND))
    longest_ms = _MAXIMUM_INTERVALS * first_ms
    if policy.maximum_interval is not None:
        longest_ms = -(-policy.maximum_interval // _MILLISECOND)
    try:
        delay_ms = first_ms * policy.backoff_coefficient ** (attempt - 1)
    except OverflowError:
        return longest_ms
    return int(min(delay_ms, longest_ms))
