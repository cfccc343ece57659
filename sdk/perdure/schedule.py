"""Schedules: jobs and workflows at their times.

    await client.create_schedule("nightly-report", Schedule(
        action=ScheduleActionStartJob(make_report, "daily", queue="reports"),
        spec=ScheduleSpec(cron_expressions=["30 2 * * *"], time_zone_name="Europe/Berlin"),
    ))

A schedule is a definition. Each of its times is a slot, which has one action at most, whatever dies,
and ends as fired, skipped, missed, paused or backfilled: `ScheduleHandle.slots` lists them. The next
slot follows from the one before, never from now. Names and classes are those of temporalio, with jobs
and more policies.
"""

from perdure._client.schedule_actions import (
    ScheduleActionStartJob,
    ScheduleActionStartWorkflow,
    ScheduledJobOptions,
    ScheduledWorkflowOptions,
)
from perdure._client.schedule_handle import ScheduleHandle
from perdure._client.schedules import ScheduleAsyncIterator, Schedules
from perdure._schedules.definition import (
    Schedule,
    ScheduleAction,
    ScheduleBackfill,
    ScheduleCatchUpPolicy,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleState,
)
from perdure._schedules.times import (
    ScheduleCalendarSpec,
    ScheduleGapPolicy,
    ScheduleIntervalSpec,
    ScheduleRange,
    ScheduleRepeatPolicy,
    ScheduleSpec,
)
from perdure._schedules.told import (
    ScheduleActionExecution,
    ScheduleActionExecutionStartJob,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionResult,
    ScheduleBackfillResult,
    ScheduleDescription,
    ScheduleInfo,
    ScheduleListAction,
    ScheduleListDescription,
    ScheduleListInfo,
    ScheduleListSchedule,
    ScheduleListState,
    SchedulePreview,
    ScheduleSlot,
    ScheduleSlotOutcome,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from perdure.errors import ScheduleAlreadyRunningError

__all__ = [
    "Schedule",
    "ScheduleAction",
    "ScheduleActionExecution",
    "ScheduleActionExecutionStartJob",
    "ScheduleActionExecutionStartWorkflow",
    "ScheduleActionResult",
    "ScheduleActionStartJob",
    "ScheduleActionStartWorkflow",
    "ScheduleAlreadyRunningError",
    "ScheduleAsyncIterator",
    "ScheduleBackfill",
    "ScheduleBackfillResult",
    "ScheduleCalendarSpec",
    "ScheduleCatchUpPolicy",
    "ScheduleDescription",
    "ScheduleGapPolicy",
    "ScheduleHandle",
    "ScheduleInfo",
    "ScheduleIntervalSpec",
    "ScheduleListAction",
    "ScheduleListDescription",
    "ScheduleListInfo",
    "ScheduleListSchedule",
    "ScheduleListState",
    "ScheduleOverlapPolicy",
    "SchedulePolicy",
    "SchedulePreview",
    "ScheduleRange",
    "ScheduleRepeatPolicy",
    "ScheduleSlot",
    "ScheduleSlotOutcome",
    "ScheduleSpec",
    "ScheduleState",
    "ScheduleUpdate",
    "ScheduleUpdateInput",
    "ScheduledJobOptions",
    "ScheduledWorkflowOptions",
    "Schedules",
]
