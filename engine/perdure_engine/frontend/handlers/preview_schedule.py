"""PreviewSchedule: the next times of a spec, which need not be any schedule's."""

from __future__ import annotations

from collections.abc import Generator
from types import coroutine

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.schedules.model import ScheduleSpec
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.schedule_checks import check_spec


class Preview(msgspec.Struct, frozen=True):
    times_us: list[int]
    description: str
    tzdata_version: str


async def preview_schedule(
    frontend: Frontend, spec: ScheduleSpec, after_us: int, count: int
) -> Preview:
    """`after_us` 0: now; `count` 0: the default. Fewer times when it ends."""
    checks.instant("after_us", after_us)
    checks.not_negative("count", count)
    count = min(count or limits.PREVIEW_TIMES_DEFAULT, limits.PREVIEW_TIMES_MAX)
    check_spec(frontend, spec, "spec")
    times_us = await next_times(frontend, spec, after_us or frontend.db_now_us(), count)
    return Preview(times_us, frontend.times.describe(spec), frontend.times.tzdata_version)


async def next_times(
    frontend: Frontend, spec: ScheduleSpec, after_us: int, count: int
) -> list[int]:
    """Nominal, strictly past an instant. One may take long to find, so others have their turn between two."""
    times_us: list[int] = []
    while len(times_us) < count:
        after_us = frontend.times.next_us(spec, after_us)
        if not after_us:
            break
        times_us.append(after_us)
        await _turn_of_others()
    return times_us


@coroutine
def _turn_of_others() -> Generator[None, None, None]:
    yield
