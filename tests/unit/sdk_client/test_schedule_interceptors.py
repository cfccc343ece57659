"""What a client asks about schedules passes its interceptors, which may change it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from perdure._client.outbound import RootOutbound
from perdure._wire.payloads import fields_from_bytes
from perdure.client import (
    BackfillScheduleInput,
    Client,
    CreateScheduleInput,
    DeleteScheduleInput,
    DescribeScheduleInput,
    Interceptor,
    ListSchedulesInput,
    ListScheduleSlotsInput,
    OutboundInterceptor,
    PauseScheduleInput,
    PreviewScheduleInput,
    TriggerScheduleInput,
    UnpauseScheduleInput,
    UpdateScheduleInput,
)
from perdure.converter import Payload
from perdure.schedule import (
    Schedule,
    ScheduleActionStartJob,
    ScheduleBackfill,
    ScheduleBackfillResult,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleListDescription,
    SchedulePreview,
    ScheduleSlot,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from perdure_api.v1 import schedule_service_pb2 as pb

SPEC = ScheduleSpec(cron_expressions=["@daily"])
DAY = datetime(2027, 1, 1, tzinfo=UTC)
MARK = {"tenant": Payload("json/plain", b"1")}


class Engine:
    """In the place of a channel: answers everything with the defaults, and remembers."""

    def __init__(self) -> None:
        self.requests: dict[str, Any] = {}

    def unary_unary(self, path: str, *_: Any, **__: Any) -> Any:
        method = path.rpartition("/")[2]

        async def call(request: Any, **_: Any) -> Any:
            self.requests[method] = request
            answer = getattr(pb, f"{method}Response")()
            if method == "DescribeSchedule":
                answer.schedule.action.job.task_name = "report"
            return answer

        return call

    def stream_stream(self, *_: Any, **__: Any) -> None: ...


class Outbound(OutboundInterceptor):
    """Notes each call, and asks all of them of another schedule."""

    def __init__(self, next: OutboundInterceptor, asked: list[str]) -> None:
        super().__init__(next)
        self._asked = asked

    def _other(self, method: str, input: Any) -> Any:
        self._asked.append(method)
        return dataclasses.replace(input, id="other")

    async def create_schedule(self, input: CreateScheduleInput) -> ScheduleHandle:
        action = input.schedule.action
        assert isinstance(action, ScheduleActionStartJob)
        action.headers = {**(action.headers or {}), **MARK}
        return await super().create_schedule(self._other("create", input))

    def list_schedules(self, input: ListSchedulesInput) -> AsyncIterator[ScheduleListDescription]:
        self._asked.append("list")
        return super().list_schedules(dataclasses.replace(input, user_id="ada"))

    async def preview_schedule(self, input: PreviewScheduleInput) -> SchedulePreview:
        self._asked.append("preview")
        return await super().preview_schedule(dataclasses.replace(input, count=7))

    async def describe_schedule(self, input: DescribeScheduleInput) -> ScheduleDescription:
        return await super().describe_schedule(self._other("describe", input))

    async def update_schedule(self, input: UpdateScheduleInput) -> Sequence[ScheduleSlot]:
        return await super().update_schedule(self._other("update", input))

    async def pause_schedule(self, input: PauseScheduleInput) -> Sequence[ScheduleSlot]:
        return await super().pause_schedule(self._other("pause", input))

    async def unpause_schedule(self, input: UnpauseScheduleInput) -> None:
        await super().unpause_schedule(self._other("unpause", input))

    async def trigger_schedule(self, input: TriggerScheduleInput) -> ScheduleSlot:
        return await super().trigger_schedule(self._other("trigger", input))

    async def backfill_schedule(self, input: BackfillScheduleInput) -> ScheduleBackfillResult:
        return await super().backfill_schedule(self._other("backfill", input))

    async def delete_schedule(self, input: DeleteScheduleInput) -> Sequence[ScheduleSlot]:
        return await super().delete_schedule(self._other("delete", input))

    def list_schedule_slots(self, input: ListScheduleSlotsInput) -> AsyncIterator[ScheduleSlot]:
        return super().list_schedule_slots(self._other("slots", input))


async def test_every_call_about_schedules_passes_and_may_be_changed() -> None:
    asked: list[str] = []

    class Noting(Interceptor):
        def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
            return Outbound(next, asked)

    engine = Engine()
    connection: Any = SimpleNamespace(channel=engine)
    client = Client(connection, interceptors=[Noting()])
    action = ScheduleActionStartJob("report")

    made = await client.create_schedule("one", Schedule(action, SPEC))
    assert made.id == "other", "what the interceptor made of it"
    assert [one async for one in await client.list_schedules()] == []
    await client.schedules.preview(SPEC)
    handle = client.get_schedule_handle("one")
    await handle.describe()
    await handle.update(unchanged)
    await handle.pause()
    await handle.unpause()
    await handle.trigger()
    await handle.backfill(ScheduleBackfill(DAY, DAY + timedelta(days=1)), dry_run=True)
    await handle.delete()
    assert [one async for one in handle.slots()] == []
    await client.close()

    assert asked == [
        *("create", "list", "preview", "describe", "update", "pause", "unpause", "trigger"),
        *("backfill", "delete", "slots"),
    ]
    created = engine.requests["CreateSchedule"].schedule.action.job
    assert dict(fields_from_bytes(created.header)) == MARK, "and the workers' interceptors see it"
    assert engine.requests.pop("ListSchedules").user_id == "ada"
    assert engine.requests.pop("PreviewSchedule").count == 7
    assert {one.schedule_id for one in engine.requests.values()} == {"other"}
    assert len(engine.requests) == 9


def unchanged(there: ScheduleUpdateInput) -> ScheduleUpdate:
    return ScheduleUpdate(there.description.schedule)


@pytest.mark.parametrize(
    "method", [name for name in vars(OutboundInterceptor) if not name.startswith("_")]
)
def test_behind_the_last_interceptor_there_is_every_call(method: str) -> None:
    """What is missing there would ask a `next` that is not there."""
    at_root = inspect.getattr_static(RootOutbound, method)
    assert at_root is not inspect.getattr_static(OutboundInterceptor, method)
