"""Many activities side by side: `map` over items, `parallel` over whatever starts one, or a child workflow.

The workflow is woken when the rule can be decided, or when there is room to start more, and not for
each of a thousand outcomes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import floor
from typing import Any, Generic, TypeVar, Unpack, overload

from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.run import current_run
from perdure.errors import ApplicationError, FailureError
from perdure.workflow._activities import ActivityOptions, start_activity

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOutRule:
    """When a `map` or a `parallel` has come to its end; what still runs then is cancelled.

    As it is: when all have ended, and with the first failure that is not tolerated it has failed.
    `tolerated_failures` is a count, `tolerated_failure_share` a share of all (0 to 1); of the two
    the smaller holds. `minimum_successful`: with so many successes it is met, and it has failed
    when they can no longer be reached. `first_completed`: with the first that ends, whatever it
    came to. Raises ValueError for what contradicts itself.
    """

    tolerated_failures: int | None = None
    tolerated_failure_share: float | None = None
    minimum_successful: int | None = None
    first_completed: bool = False

    def __post_init__(self) -> None:
        tolerates = self.tolerated_failures is not None or self.tolerated_failure_share is not None
        chosen = (tolerates, self.minimum_successful is not None, self.first_completed)
        if sum(chosen) > 1:
            raise ValueError("a rule is one of: tolerated, minimum_successful, first_completed")
        if self.tolerated_failures is not None and self.tolerated_failures < 0:
            raise ValueError("tolerated_failures must not be negative")
        if not 0 <= (self.tolerated_failure_share or 0) <= 1:
            raise ValueError("tolerated_failure_share is a share: 0 to 1")
        if self.minimum_successful is not None and self.minimum_successful < 1:
            raise ValueError("minimum_successful must be at least 1")

    def failures_max(self, count: int) -> int:
        """With how many failures of so many it can still be met."""
        if self.minimum_successful is not None:
            return count - self.minimum_successful
        if self.first_completed:
            return count
        limits = [] if self.tolerated_failures is None else [self.tolerated_failures]
        if self.tolerated_failure_share is not None:
            limits.append(floor(self.tolerated_failure_share * count))
        return min(limits, default=0)


ALL_MUST_SUCCEED = FanOutRule()


@dataclass(slots=True)
class FanOutResults(Generic[_R]):
    """What became of each, by its place in the order given."""

    count: int
    results: dict[int, _R] = field(default_factory=dict[int, Any])
    """Of those that succeeded."""
    errors: dict[int, FailureError] = field(default_factory=dict[int, FailureError])
    """Of those that failed."""

    @property
    def values(self) -> list[_R]:
        """The results of those that succeeded, in the order given."""
        return [self.results[index] for index in sorted(self.results)]

    @property
    def unfinished(self) -> list[int]:
        """Those that were cancelled or never started, because the rule was decided before."""
        return [
            index
            for index in range(self.count)
            if index not in self.results and index not in self.errors
        ]


class FanOutError(ApplicationError):
    """More failed than the rule tolerates. The first failure is its cause."""

    def __init__(self, message: str, results: FanOutResults[Any]) -> None:
        super().__init__(message, type="FanOutError")
        self.results = results


@overload
async def map(
    activity: Callable[[_T], Awaitable[_R]],
    items: Iterable[_T],
    *,
    concurrency: int | None = None,
    rule: FanOutRule = ALL_MUST_SUCCEED,
    **options: Unpack[ActivityOptions],
) -> FanOutResults[_R]: ...


@overload
async def map(
    activity: Callable[[_T], _R],
    items: Iterable[_T],
    *,
    concurrency: int | None = None,
    rule: FanOutRule = ALL_MUST_SUCCEED,
    **options: Unpack[ActivityOptions],
) -> FanOutResults[_R]: ...


@overload
async def map(
    activity: str,
    items: Iterable[Any],
    *,
    result_type: type[_R],
    concurrency: int | None = None,
    rule: FanOutRule = ALL_MUST_SUCCEED,
    **options: Unpack[ActivityOptions],
) -> FanOutResults[_R]: ...


async def map(
    activity: Any,
    items: Iterable[Any],
    *,
    result_type: Any = None,
    concurrency: int | None = None,
    rule: FanOutRule = ALL_MUST_SUCCEED,
    **options: Unpack[ActivityOptions],
) -> FanOutResults[Any]:
    """Runs the activity once for each item, at most `concurrency` at a time (None: all at once).

    Raises FanOutError when the rule can no longer be met, ValueError for a rule that the number of
    items contradicts. When the workflow is cancelled, so are the activities that run.
    """
    if isinstance(activity, str):
        start: Callable[..., ActivityHandle[Any]] = partial(
            start_activity, activity, result_type=result_type, **options
        )
    else:
        start = partial(start_activity, activity, **options)
    starts = [partial(start, item) for item in items]
    return await parallel(starts, concurrency=concurrency, rule=rule)


async def parallel(
    starts: Sequence[Callable[[], ActivityHandle[_R] | Coroutine[Any, Any, _R]]],
    *,
    concurrency: int | None = None,
    rule: FanOutRule = ALL_MUST_SUCCEED,
) -> FanOutResults[_R]:
    """As `map`, for activities of different kinds: each function starts one and returns its handle.

    Or it returns a coroutine, such as `lambda: workflow.execute_child_workflow(…)`. The handles are for nobody else
    to wait for: where all are activities, their outcomes wake the workflow by the rule only.
    """
    if concurrency is not None and concurrency < 1:
        raise ValueError("concurrency must be at least 1")
    if rule.minimum_successful is not None and rule.minimum_successful > len(starts):
        raise ValueError(f"{rule.minimum_successful} of {len(starts)} can never succeed")
    return await _FanOut(starts, concurrency or len(starts), rule).run()


class _FanOut(Generic[_R]):
    def __init__(
        self,
        starts: Sequence[Callable[[], ActivityHandle[_R] | Coroutine[Any, Any, _R]]],
        concurrency: int,
        rule: FanOutRule,
    ) -> None:
        self._starts = starts
        self._concurrency = concurrency
        self._rule = rule
        self._failures_max = rule.failures_max(len(starts))
        self._started = 0
        self._running: dict[asyncio.Future[_R], int] = {}
        self._results = FanOutResults[_R](len(starts))

    async def run(self) -> FanOutResults[_R]:
        try:
            while not self._is_decided():
                self._start_more()
                await self._wait()
                self._collect()
        finally:  # decided before all have ended, cancelled, or one could not be started
            for handle in self._running:
                handle.add_done_callback(_end_unheard)
                handle.cancel()
        if len(self._results.errors) > self._failures_max:
            raise self._error()
        return self._results

    def _is_decided(self) -> bool:
        ended, failed = len(self._results.results), len(self._results.errors)
        succeeded, ended = ended, ended + failed
        if ended == len(self._starts) or failed > self._failures_max:
            return True
        if self._rule.first_completed:
            return ended > 0
        return self._rule.minimum_successful is not None and (
            succeeded >= self._rule.minimum_successful
        )

    def _start_more(self) -> None:
        while len(self._running) < self._concurrency and self._started < len(self._starts):
            handle = asyncio.ensure_future(self._starts[self._started]())
            self._running[handle] = self._started
            self._started += 1

    async def _wait(self) -> None:
        """Until there is something to decide, or room for so many that it is worth it."""
        rule = self._rule
        ended = completed = 0
        if rule.first_completed:
            ended = 1
        elif self._started < len(self._starts):
            ended = max(1, len(self._running) // 2)
        if rule.minimum_successful is not None:
            completed = rule.minimum_successful - len(self._results.results)
        failed = self._failures_max - len(self._results.errors) + 1
        wait = current_run().fan_outs.wait(
            self._running.keys(), ended=ended, completed=completed, failed=failed
        )
        with wait:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    def _collect(self) -> None:
        for handle in [handle for handle in self._running if handle.done()]:
            index = self._running.pop(handle)
            error = handle.exception()
            if error is None:
                self._results.results[index] = handle.result()
            elif isinstance(error, FailureError):
                self._results.errors[index] = error
            else:  # a defect: a result that does not decode, say
                raise error

    def _error(self) -> FanOutError:
        errors = self._results.errors
        first = errors[min(errors)]
        error = FanOutError(
            f"{len(errors)} of {len(self._starts)} failed, {self._failures_max} are tolerated; "
            f"the first: {first.cause or first}",
            self._results,
        )
        error.__cause__ = first
        return error


def _end_unheard(handle: asyncio.Future[Any]) -> None:
    """What one that was cancelled came to is nobody's business, unless it is a defect."""
    error = None if handle.cancelled() else handle.exception()
    if error is not None and not isinstance(error, FailureError):
        raise error
