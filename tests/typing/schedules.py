"""What mypy and pyright make of schedules. Checked, never run."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import assert_type

from perdure import job, workflow
from perdure.client import Client
from perdure.schedule import (
    Schedule,
    ScheduleActionExecution,
    ScheduleActionStartJob,
    ScheduleActionStartWorkflow,
    ScheduleBackfill,
    ScheduleBackfillResult,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleListDescription,
    SchedulePreview,
    ScheduleSlot,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)


@workflow.defn
class Report:
    @workflow.run
    async def run(self, kind: str) -> int:
        return len(kind)


@job.defn
async def send(to: str, subject: str) -> None: ...


@job.defn
def count() -> int:
    return 1


def actions() -> None:
    ScheduleActionStartWorkflow(Report.run, "daily", id="report", task_queue="q")
    ScheduleActionStartWorkflow(Report.run, args=["daily"], task_queue="q")
    ScheduleActionStartWorkflow("Report", "daily", task_queue="q", run_timeout=timedelta(hours=1))
    ScheduleActionStartWorkflow(Report.run, 1, task_queue="q")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]  # no str
    ScheduleActionStartJob(send, "ada@example.org", "Hello", queue="mail")
    ScheduleActionStartJob(count)
    ScheduleActionStartJob("send", 1, "anything", user_id="ada")
    ScheduleActionStartJob(send, args=["ada@example.org", "Hello"])
    ScheduleActionStartJob(send, "Hello")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]  # no subject


def later(there: ScheduleUpdateInput) -> ScheduleUpdate | None:
    there.description.schedule.spec.intervals = [ScheduleIntervalSpec(timedelta(hours=2))]
    return ScheduleUpdate(there.description.schedule)


async def later_still(there: ScheduleUpdateInput) -> ScheduleUpdate:
    return ScheduleUpdate(there.description.schedule)


async def use(client: Client, at: datetime) -> None:
    schedule = Schedule(ScheduleActionStartJob(count), ScheduleSpec(cron_expressions=["@daily"]))
    handle = await client.create_schedule("nightly", schedule, trigger_immediately=True)
    assert_type(handle, ScheduleHandle)
    assert_type(await client.schedules.create("nightly", schedule), ScheduleHandle)
    assert_type(client.schedules.get("nightly"), ScheduleHandle)
    async for one in await client.list_schedules():
        assert_type(one, ScheduleListDescription)
    async for one in client.schedules.list(user_id="ada"):
        assert_type(one, ScheduleListDescription)
    assert_type(await client.schedules.preview(schedule.spec, after=at, count=3), SchedulePreview)

    found = await handle.describe()
    assert_type(found, ScheduleDescription)
    assert_type(found.info.running_actions, Sequence[ScheduleActionExecution])
    assert_type(await handle.update(later), Sequence[ScheduleSlot])
    assert_type(await handle.update(later_still), Sequence[ScheduleSlot])
    assert_type(await handle.update(lambda _: None), Sequence[ScheduleSlot])
    assert_type(await handle.trigger(), ScheduleSlot)
    assert_type(await handle.backfill(ScheduleBackfill(at, at)), ScheduleBackfillResult)
    async for slot in handle.slots(limit=3):
        assert_type(slot, ScheduleSlot)
