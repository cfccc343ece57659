"""What a cron schedule means, for its author: in words, and its next times. Needs no server.

The CLI finds `preview` through the entry points `perdure.engine`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from perdure_engine.core.schedules.model import GapPolicy, RepeatPolicy
from perdure_engine.scheduler.cron import CronSpec
from perdure_engine.scheduler.times import LAST_US
from perdure_engine.scheduler.walls import EPOCH
from perdure_engine.scheduler.words import description_of

TIMES_MAX = 1_000
GAPS = {"run-after": GapPolicy.RUN_AFTER, "skip": GapPolicy.SKIP}
END = EPOCH + timedelta(microseconds=LAST_US + 1)
REPEATS = {"first": RepeatPolicy.FIRST, "both": RepeatPolicy.BOTH}


class Preview(NamedTuple):
    description: str  # in English; "" for what the library has no words for
    times: list[datetime]  # aware, in the schedule's zone; fewer than asked for when it ends


def preview(
    text: str,
    timezone: str = "",
    *,
    after: datetime,
    count: int = 5,
    seconds_first: bool = False,
    gap: str = "run-after",
    overlap: str = "first",
) -> Preview:
    """The next `count` times past `after`, an aware datetime, which is not one of them.

    `timezone`: an IANA name; "" is UTC, or what the text names. `gap`: "run-after" or "skip"; `overlap`: "first" or
    "both". Raises ValueError with the reason for a schedule that is refused.
    """
    spec = CronSpec(
        text, timezone, seconds_first=seconds_first, gap=GAPS[gap], repeat=REPEATS[overlap]
    )
    if not EPOCH <= after < END:
        raise ValueError("no times are computed outside the years 1970-2999")
    times: list[datetime] = []
    at = after
    for _ in range(min(count, TIMES_MAX)):
        following = spec.next_after(at)
        if following is None or following >= END:
            break
        at = following
        times.append(at.astimezone(spec.zone))
    return Preview(description_of(spec), times)
