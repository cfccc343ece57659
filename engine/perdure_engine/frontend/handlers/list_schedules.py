"""ListSchedules: schedules of all shards, by id."""

from __future__ import annotations

import msgspec

from perdure_engine.core.jobs.model import JobSpec
from perdure_engine.core.schedules.intents import ScheduleInfo
from perdure_engine.core.schedules.model import JobAction
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.schedule_rows import schedule_of
from perdure_engine.frontend.seal import page_scope

# Read at once: the argument of each action comes along, and may be large.
ROWS_AT_ONCE = 100
NO_ACTION = JobAction("", "", JobSpec())


class ListSchedules(msgspec.Struct, frozen=True, kw_only=True):
    """All conditions hold together; empty means any."""

    namespace_id: bytes
    id_prefix: str = ""
    user_id: str = ""
    page_size: int = 0
    page_token: bytes = b""


class ListedSchedule(msgspec.Struct, frozen=True):
    info: ScheduleInfo  # its schedule's action is left out
    description: str


class SchedulesPage(msgspec.Struct, frozen=True):
    schedules: list[ListedSchedule]
    next_page_token: bytes


class Last(msgspec.Struct, frozen=True, array_like=True):
    """The last schedule of the page before."""

    schedule_id: str


async def list_schedules(frontend: Frontend, asked: ListSchedules) -> SchedulesPage:
    checks.id_prefix("id_prefix", asked.id_prefix)
    checks.label("user_id", asked.user_id)
    size = checks.page_size("page_size", asked.page_size)
    told = (asked.namespace_id, asked.id_prefix, asked.user_id)
    scope = page_scope(b"list_schedules", told)
    after_id = ""
    if asked.page_token:
        last = frontend.sealer.open_page("page_token", asked.page_token, scope, Last)
        after_id = last.schedule_id
    shown: list[ListedSchedule] = []
    while True:
        wanted = min(size - len(shown), ROWS_AT_ONCE)
        rows = await frontend.schedules.list_schedules(
            asked.namespace_id, asked.id_prefix, asked.user_id, after_id, wanted + 1
        )
        found = [schedule_of(frontend.codec, row) for row in rows[:wanted]]
        shown += [_listed(frontend, info) for info in found if info is not None]
        if len(rows) <= wanted:
            return SchedulesPage(shown, b"")
        after_id = rows[wanted - 1].schedule_id
        if len(shown) == size:
            return SchedulesPage(shown, frontend.sealer.seal_page(Last(after_id), scope))


def _listed(frontend: Frontend, info: ScheduleInfo) -> ListedSchedule:
    schedule = msgspec.structs.replace(info.schedule, action=NO_ACTION)
    return ListedSchedule(
        msgspec.structs.replace(info, schedule=schedule), frontend.times.describe(schedule.spec)
    )
