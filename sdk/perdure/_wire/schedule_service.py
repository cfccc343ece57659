"""Schedules, as plain calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure._schedules.definition import Schedule, ScheduleAction, ScheduleBackfill
from perdure._schedules.definition import ScheduleOverlapPolicy as Overlap
from perdure._schedules.times import ScheduleSpec
from perdure._schedules.told import (
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
)
from perdure._wire.connection import Connection
from perdure._wire.edge import PayloadEdge, Repeatable
from perdure._wire.errors import sent
from perdure._wire.policies import instant_from_us, instant_to_us
from perdure._wire.schedule_messages import (
    WireAction,
    instant,
    overlap_to_number,
    schedule_from_message,
    schedule_to_message,
    spec_to_message,
)
from perdure_api.v1 import schedule_service_pb2 as pb
from perdure_api.v1.schedule_service_pb2_grpc import ScheduleServiceStub

_OUTCOMES = {int(outcome): outcome for outcome in ScheduleSlotOutcome}


@dataclass(frozen=True, slots=True)
class ScheduleTarget:
    namespace: str
    schedule_id: str


@dataclass(slots=True)
class Asked(Repeatable):
    """Who asks. The request id makes a repeat the same request."""

    request_id: str
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    schedule: Schedule
    action: WireAction
    user_id: str
    trigger_immediately: bool


class ScheduleService:
    """Every method raises RPCError, and sends once: trying again is the caller's decision."""

    def __init__(self, connection: Connection, edge: PayloadEdge) -> None:
        self._stub = ScheduleServiceStub(connection.channel)
        self._edge = edge

    async def create(
        self, target: ScheduleTarget, new: NewSchedule, asked: Asked, timeout_s: float
    ) -> None:
        request = await self._edge.encoded(
            asked,
            lambda: pb.CreateScheduleRequest(
                namespace=target.namespace,
                schedule_id=target.schedule_id,
                schedule=schedule_to_message(new.schedule, new.action),
                request_id=asked.request_id,
                identity=asked.identity,
                user_id=new.user_id,
                trigger_immediately=new.trigger_immediately,
            ),
        )
        await sent(self._stub.CreateSchedule, request, timeout_s)

    async def describe(
        self,
        target: ScheduleTarget,
        read_action: Callable[[WireAction], ScheduleAction],
        timeout_s: float,
        *,
        keeps_unreadable: bool = False,
    ) -> ScheduleDescription:
        """`read_action` makes of what travelled what callers know."""
        request = pb.DescribeScheduleRequest(
            namespace=target.namespace, schedule_id=target.schedule_id
        )
        answer: pb.DescribeScheduleResponse = await sent(
            self._stub.DescribeSchedule, request, timeout_s
        )
        await self._edge.decode(answer, keeps_unreadable=keeps_unreadable)
        return _description(answer, read_action)

    async def update(
        self,
        target: ScheduleTarget,
        schedule: Schedule,
        action: WireAction,
        conflict_token: int,
        asked: Asked,
        timeout_s: float,
    ) -> Sequence[ScheduleSlot]:
        request = await self._edge.encoded(
            asked,
            lambda: pb.UpdateScheduleRequest(
                namespace=target.namespace,
                schedule_id=target.schedule_id,
                schedule=schedule_to_message(schedule, action),
                conflict_token=conflict_token,
                request_id=asked.request_id,
                identity=asked.identity,
            ),
        )
        answer = await sent(self._stub.UpdateSchedule, request, timeout_s)
        return _slots(answer.firing)

    async def delete(
        self, target: ScheduleTarget, reason: str, asked: Asked, timeout_s: float
    ) -> Sequence[ScheduleSlot]:
        request = pb.DeleteScheduleRequest(
            namespace=target.namespace,
            schedule_id=target.schedule_id,
            request_id=asked.request_id,
            identity=asked.identity,
            reason=reason,
        )
        return _slots((await sent(self._stub.DeleteSchedule, request, timeout_s)).firing)

    async def list(
        self,
        namespace: str,
        id_prefix: str,
        user_id: str,
        page_size: int,
        page_token: bytes,
        timeout_s: float,
    ) -> tuple[Sequence[ScheduleListDescription], bytes]:
        """A page, and the token of the next one, empty after the last."""
        request = pb.ListSchedulesRequest(
            namespace=namespace,
            id_prefix=id_prefix,
            user_id=user_id,
            page_size=page_size,
            page_token=page_token,
        )
        answer = await sent(self._stub.ListSchedules, request, timeout_s)
        return [_listed(one) for one in answer.schedules], answer.next_page_token

    async def list_slots(
        self,
        target: ScheduleTarget,
        outcomes: Sequence[ScheduleSlotOutcome],
        span: tuple[datetime | None, datetime | None],
        page_size: int,
        page_token: bytes,
        timeout_s: float,
    ) -> tuple[Sequence[ScheduleSlot], bytes]:
        request = pb.ListScheduleSlotsRequest(
            namespace=target.namespace,
            schedule_id=target.schedule_id,
            from_us=instant_to_us(span[0]),
            to_us=instant_to_us(span[1]),
            # The numbers of our enums are those of the wire's.
            outcomes=[pb.SlotOutcome.ValueType(int(one)) for one in outcomes],
            page_size=page_size,
            page_token=page_token,
        )
        answer = await sent(self._stub.ListScheduleSlots, request, timeout_s)
        return _slots(answer.slots), answer.next_page_token

    async def pause(
        self, target: ScheduleTarget, note: str, asked: Asked, timeout_s: float
    ) -> Sequence[ScheduleSlot]:
        request = pb.PauseScheduleRequest(
            namespace=target.namespace,
            schedule_id=target.schedule_id,
            note=note,
            request_id=asked.request_id,
            identity=asked.identity,
        )
        return _slots((await sent(self._stub.PauseSchedule, request, timeout_s)).firing)

    async def unpause(
        self, target: ScheduleTarget, note: str, asked: Asked, timeout_s: float
    ) -> None:
        request = pb.UnpauseScheduleRequest(
            namespace=target.namespace,
            schedule_id=target.schedule_id,
            note=note,
            request_id=asked.request_id,
            identity=asked.identity,
        )
        await sent(self._stub.UnpauseSchedule, request, timeout_s)

    async def trigger(
        self, target: ScheduleTarget, overlap: Overlap | None, asked: Asked, timeout_s: float
    ) -> ScheduleSlot:
        request = pb.TriggerScheduleRequest(
            namespace=target.namespace,
            schedule_id=target.schedule_id,
            overlap=overlap_to_number(overlap),
            request_id=asked.request_id,
            identity=asked.identity,
        )
        return _slot((await sent(self._stub.TriggerSchedule, request, timeout_s)).slot)

    async def backfill(
        self,
        target: ScheduleTarget,
        span: ScheduleBackfill,
        asked: Asked,
        timeout_s: float,
        *,
        dry_run: bool,
    ) -> ScheduleBackfillResult:
        request = pb.BackfillScheduleRequest(
            namespace=target.namespace,
            schedule_id=target.schedule_id,
            from_us=instant_to_us(span.start_at),
            to_us=instant_to_us(span.end_at),
            overlap=overlap_to_number(span.overlap),
            dry_run=dry_run,
            request_id=asked.request_id,
            identity=asked.identity,
        )
        answer = await sent(self._stub.BackfillSchedule, request, timeout_s)
        return ScheduleBackfillResult(
            action_times=[instant(one) for one in answer.nominal_times_us],
            fired_before=[instant(one) for one in answer.fired_before_us],
        )

    async def preview(
        self, spec: ScheduleSpec, after: datetime | None, count: int, timeout_s: float
    ) -> SchedulePreview:
        request = pb.PreviewScheduleRequest(
            spec=spec_to_message(spec), after_us=instant_to_us(after), count=count
        )
        answer = await sent(self._stub.PreviewSchedule, request, timeout_s)
        return SchedulePreview(
            times=[instant(one) for one in answer.times_us],
            description=answer.description,
            tzdata_version=answer.tzdata_version,
        )


def _description(
    answer: pb.DescribeScheduleResponse, read_action: Callable[[WireAction], ScheduleAction]
) -> ScheduleDescription:
    info = answer.info
    return ScheduleDescription(
        id=info.schedule_id,
        schedule=schedule_from_message(answer.schedule, read_action),
        info=ScheduleInfo(
            recent_slots=_slots(answer.recent),
            open_slots=_slots(answer.open),
            next_action_times=[instant(one) for one in answer.next_times_us],
            created_at=instant(info.create_time_us),
            last_updated_at=instant_from_us(info.update_time_us),
        ),
        user_id=info.user_id,
        conflict_token=answer.conflict_token,
        description=info.description,
        tzdata_version=answer.tzdata_version,
    )


def _listed(info: pb.ScheduleInfo) -> ScheduleListDescription:
    return ScheduleListDescription(
        id=info.schedule_id,
        schedule=ScheduleListSchedule(
            action=ScheduleListAction(info.action_name),
            state=ScheduleListState(note=info.note or None, paused=info.paused),
        ),
        info=ScheduleListInfo(
            next_action_times=[instant(info.next_time_us)] if info.next_time_us else [],
            last_slot_at=instant_from_us(info.last_nominal_time_us),
            last_outcome=_OUTCOMES.get(info.last_outcome),
            created_at=instant(info.create_time_us),
            last_updated_at=instant_from_us(info.update_time_us),
        ),
        user_id=info.user_id,
        description=info.description,
    )


def _slots(messages: Sequence[pb.ScheduleSlot]) -> Sequence[ScheduleSlot]:
    return [_slot(one) for one in messages]


def _slot(message: pb.ScheduleSlot) -> ScheduleSlot:
    return ScheduleSlot(
        nominal_at=instant(message.nominal_time_us),
        outcome=_OUTCOMES.get(message.outcome),
        acted_at=instant_from_us(message.acted_time_us),
        job_id=message.job_id,
        workflow_id=message.workflow_id,
        run_id=message.run_id,
        detail=message.detail,
        manual=message.manual,
    )
