"""ScheduleService: jobs and workflows at their times."""

from __future__ import annotations

from perdure_api.v1 import schedule_service_pb2 as pb
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.backfill_schedule import backfill_schedule
from perdure_engine.frontend.handlers.create_schedule import create_schedule
from perdure_engine.frontend.handlers.delete_schedule import delete_schedule
from perdure_engine.frontend.handlers.describe_schedule import describe_schedule
from perdure_engine.frontend.handlers.list_schedule_slots import list_schedule_slots
from perdure_engine.frontend.handlers.list_schedules import list_schedules
from perdure_engine.frontend.handlers.pause_schedule import pause_schedule
from perdure_engine.frontend.handlers.preview_schedule import preview_schedule
from perdure_engine.frontend.handlers.trigger_schedule import trigger_schedule
from perdure_engine.frontend.handlers.unpause_schedule import unpause_schedule
from perdure_engine.frontend.handlers.update_schedule import update_schedule
from perdure_engine.transport.grpc.convert import schedule_intents as intents
from perdure_engine.transport.grpc.convert import schedule_replies as replies
from perdure_engine.transport.grpc.decode import Context


class ScheduleService:
    """One function per RPC, by its name: message in, message out, errors raised."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def CreateSchedule(
        self, request: pb.CreateScheduleRequest, _: Context
    ) -> pb.CreateScheduleResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        intent = intents.create_schedule(request, namespace_id)
        return replies.created(await create_schedule(self._frontend, intent))

    async def DescribeSchedule(
        self, request: pb.DescribeScheduleRequest, _: Context
    ) -> pb.DescribeScheduleResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        intent = intents.describe_schedule(request, namespace_id)
        return replies.described(await describe_schedule(self._frontend, intent))

    async def UpdateSchedule(
        self, request: pb.UpdateScheduleRequest, _: Context
    ) -> pb.UpdateScheduleResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        intent = intents.update_schedule(request, namespace_id)
        return replies.updated(await update_schedule(self._frontend, intent))

    async def DeleteSchedule(
        self, request: pb.DeleteScheduleRequest, _: Context
    ) -> pb.DeleteScheduleResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        intent = intents.delete_schedule(request, namespace_id)
        return replies.deleted(await delete_schedule(self._frontend, intent))

    async def ListSchedules(
        self, request: pb.ListSchedulesRequest, _: Context
    ) -> pb.ListSchedulesResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        wanted = intents.list_schedules(request, namespace_id)
        return replies.listed(await list_schedules(self._frontend, wanted))

    async def ListScheduleSlots(
        self, request: pb.ListScheduleSlotsRequest, _: Context
    ) -> pb.ListScheduleSlotsResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        wanted = intents.list_schedule_slots(request, namespace_id)
        return replies.listed_slots(await list_schedule_slots(self._frontend, wanted))

    async def PauseSchedule(
        self, request: pb.PauseScheduleRequest, _: Context
    ) -> pb.PauseScheduleResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        intent = intents.pause_schedule(request, namespace_id)
        return replies.paused(await pause_schedule(self._frontend, intent))

    async def UnpauseSchedule(
        self, request: pb.UnpauseScheduleRequest, _: Context
    ) -> pb.UnpauseScheduleResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        intent = intents.unpause_schedule(request, namespace_id)
        return replies.unpaused(await unpause_schedule(self._frontend, intent))

    async def TriggerSchedule(
        self, request: pb.TriggerScheduleRequest, _: Context
    ) -> pb.TriggerScheduleResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        intent = intents.trigger_schedule(request, namespace_id)
        return replies.triggered(await trigger_schedule(self._frontend, intent))

    async def BackfillSchedule(
        self, request: pb.BackfillScheduleRequest, _: Context
    ) -> pb.BackfillScheduleResponse:
        namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        intent = intents.backfill_schedule(request, namespace_id)
        return replies.backfilled(await backfill_schedule(self._frontend, intent))

    async def PreviewSchedule(
        self, request: pb.PreviewScheduleRequest, _: Context
    ) -> pb.PreviewScheduleResponse:
        spec = intents.spec_of("spec", request.spec)
        return replies.previewed(
            await preview_schedule(self._frontend, spec, request.after_us, request.count)
        )
