"""`client.schedules` and the handle: what is asked of the engine, how often, and what callers hear."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from copy import deepcopy as copy
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest

from perdure.client import Client
from perdure.codecs import EncryptionCodec, KeyRing
from perdure.converter import DataConverter, Payload
from perdure.errors import PayloadDecodeError, RPCError, RPCStatusCode
from perdure.schedule import (
    Schedule,
    ScheduleActionExecutionStartJob,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartJob,
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
    ScheduleHandle,
    ScheduleOverlapPolicy,
    ScheduleSlotOutcome,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from perdure_api.v1 import schedule_service_pb2 as pb

NIGHTLY = Schedule(
    ScheduleActionStartJob("report", "daily"), ScheduleSpec(cron_expressions=["@daily"])
)
DAY_US = 24 * 3_600_000_000
JOB_SLOT = pb.ScheduleSlot(nominal_time_us=DAY_US, outcome=2, acted_time_us=DAY_US + 5, job_id="j")  # type: ignore[arg-type]  # its number
RUN_SLOT = pb.ScheduleSlot(
    nominal_time_us=2 * DAY_US,
    outcome=2,  # type: ignore[arg-type]  # its number
    workflow_id="w",
    run_id="r",
    manual=True,
)
MISSED_SLOT = pb.ScheduleSlot(nominal_time_us=3 * DAY_US, outcome=4)  # type: ignore[arg-type]  # its number


def day(number: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=number)


class Refused(grpc.aio.AioRpcError):
    def __init__(self, code: grpc.StatusCode) -> None:
        super().__init__(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=code.name)


class Engine:
    """In the place of a channel: answers by method, the last answer again and again, and remembers."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Any]] = defaultdict(list)
        self.requests: list[tuple[str, Any]] = []

    def answer(self, method: str, *answers: Any) -> None:
        self.answers[method] = list(answers)

    def asked(self, method: str) -> list[Any]:
        return [request for name, request in self.requests if name == method]

    def unary_unary(self, path: str, *_: Any, **__: Any) -> Callable[..., Any]:
        method = path.rpartition("/")[2]

        async def call(request: Any, **_: Any) -> Any:
            self.requests.append((method, copy(request)))
            answers = self.answers[method]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, Exception):
                raise answer
            return copy(answer)

        return call

    def stream_stream(self, *_: Any, **__: Any) -> None: ...


@pytest.fixture
def engine() -> Engine:
    return Engine()


def client_of(engine: Engine, converter: DataConverter = DataConverter.default) -> Client:
    connection: Any = SimpleNamespace(channel=engine)
    client = Client(connection, identity="a test", data_converter=converter)

    async def at_once(_: float) -> None: ...

    object.__setattr__(client.core.surroundings, "sleep", at_once)
    return client


@pytest.fixture
async def client(engine: Engine) -> AsyncIterator[Client]:
    client = client_of(engine)
    yield client
    await client.close()


@pytest.fixture
def handle(client: Client) -> ScheduleHandle:
    return client.get_schedule_handle("nightly")


def described(token: int = 1, **fields: Any) -> pb.DescribeScheduleResponse:
    schedule = {"action": {"job": {"task_name": "report"}}, "spec": {"cron": ["@daily"]}}
    info = {"schedule_id": "nightly", "description": "Every day", "create_time_us": DAY_US}
    return pb.DescribeScheduleResponse(
        **{"schedule": schedule, "info": info, "conflict_token": token, **fields}
    )


# ---- creating


@pytest.mark.parametrize("short", [True, False])
async def test_create_says_everything_once(engine: Engine, client: Client, short: bool) -> None:
    engine.answer("CreateSchedule", pb.CreateScheduleResponse())

    create = client.schedules.create if short else client.create_schedule
    handle = await create("nightly", NIGHTLY, trigger_immediately=True, user_id="ada")

    (request,) = engine.asked("CreateSchedule")
    assert handle.id == request.schedule_id == "nightly"
    assert (request.namespace, request.identity, request.user_id) == ("default", "a test", "ada")
    assert request.trigger_immediately
    assert request.schedule.action.job.task_name == "report"
    assert len(request.request_id) == 36


async def test_a_call_that_is_repeated_is_one_request(engine: Engine, client: Client) -> None:
    gone = Refused(grpc.StatusCode.UNAVAILABLE)
    engine.answer("CreateSchedule", gone, gone, pb.CreateScheduleResponse())

    await client.create_schedule("nightly", NIGHTLY)

    requests = engine.asked("CreateSchedule")
    assert len(requests) == 3
    assert len({one.request_id for one in requests}) == 1


async def test_an_encrypted_call_that_is_repeated_has_the_same_body(engine: Engine) -> None:
    """B55: the engine would take another one for another call, and refuse it."""
    codec = EncryptionCodec(KeyRing("k", {"k": b"1" * 32}))
    client = client_of(engine, DataConverter(payload_codec=codec))
    gone = Refused(grpc.StatusCode.UNAVAILABLE)
    engine.answer("CreateSchedule", gone, pb.CreateScheduleResponse())
    engine.answer("DescribeSchedule", described())
    engine.answer("UpdateSchedule", gone, pb.UpdateScheduleResponse())

    handle = await client.create_schedule("nightly", NIGHTLY)
    await handle.update(lambda _: ScheduleUpdate(NIGHTLY))

    for method in ("CreateSchedule", "UpdateSchedule"):
        first, second = engine.asked(method)
        assert b"AES-256-GCM" in first.SerializeToString()
        assert first == second
    await client.close()


async def test_an_id_that_is_taken_has_an_error_of_its_own(engine: Engine, client: Client) -> None:
    engine.answer("CreateSchedule", Refused(grpc.StatusCode.ALREADY_EXISTS))
    with pytest.raises(ScheduleAlreadyRunningError, match="'nightly' exists") as raised:
        await client.create_schedule("nightly", NIGHTLY)
    assert raised.value.schedule_id == "nightly"

    engine.answer("CreateSchedule", Refused(grpc.StatusCode.INVALID_ARGUMENT))
    with pytest.raises(RPCError):
        await client.create_schedule("nightly", NIGHTLY)


# ---- looking


async def test_a_description_tells_of_slots_and_of_what_they_began(
    engine: Engine, handle: ScheduleHandle
) -> None:
    engine.answer(
        "DescribeSchedule",
        described(
            7,
            next_times_us=[DAY_US, 2 * DAY_US],
            recent=[MISSED_SLOT, RUN_SLOT, JOB_SLOT],
            open=[RUN_SLOT],
            tzdata_version="2026f",
        ),
    )

    found = await handle.describe()

    assert (found.id, found.description, found.conflict_token) == ("nightly", "Every day", 7)
    assert found.tzdata_version == "2026f"
    info = found.info
    assert info.next_action_times == [day(1), day(2)]
    assert (info.created_at, info.last_updated_at) == (day(1), None)
    assert [slot.outcome for slot in info.recent_slots] == [
        ScheduleSlotOutcome.MISSED,
        ScheduleSlotOutcome.FIRED,
        ScheduleSlotOutcome.FIRED,
    ]
    run = ScheduleActionExecutionStartWorkflow("w", "r")
    assert info.running_actions == [run]
    assert [(one.scheduled_at, one.action) for one in info.recent_actions] == [
        (day(1), ScheduleActionExecutionStartJob("j")),
        (day(2), run),
    ], "oldest first, and only those that began something"


async def test_lists_are_read_page_by_page(engine: Engine, client: Client) -> None:
    pages = [
        pb.ListSchedulesResponse(schedules=[{"schedule_id": "a"}], next_page_token=b"t"),  # type: ignore[list-item]  # its fields
        pb.ListSchedulesResponse(
            schedules=[{"schedule_id": "b", "paused": True, "note": "n", "last_outcome": 3}]  # type: ignore[list-item]  # its fields
        ),
    ]
    engine.answer("ListSchedules", *pages)

    found = [one async for one in client.schedules.list(id_prefix="x", user_id="ada", page_size=1)]

    assert [one.id for one in found] == ["a", "b"]
    assert (found[1].schedule.state.paused, found[1].schedule.state.note) == (True, "n")
    assert found[1].info.last_outcome is ScheduleSlotOutcome.SKIPPED
    assert found[0].info.next_action_times == []
    first, second = engine.asked("ListSchedules")
    assert (first.id_prefix, first.user_id, first.page_size) == ("x", "ada", 1)
    assert (first.page_token, second.page_token) == (b"", b"t")

    engine.answer("ListSchedules", pages[0])
    assert len([one async for one in await client.list_schedules(limit=2)]) == 2, "and no more"


async def test_slots_are_read_page_by_page(engine: Engine, handle: ScheduleHandle) -> None:
    engine.answer(
        "ListScheduleSlots",
        pb.ListScheduleSlotsResponse(slots=[RUN_SLOT], next_page_token=b"t"),
        pb.ListScheduleSlotsResponse(slots=[JOB_SLOT]),
    )

    found = [
        slot
        async for slot in handle.slots(
            outcomes=[ScheduleSlotOutcome.FIRED], start_at=day(1), end_at=day(9)
        )
    ]

    assert [(slot.nominal_at, slot.manual) for slot in found] == [(day(2), True), (day(1), False)]
    first, second = engine.asked("ListScheduleSlots")
    assert (first.from_us, first.to_us, list(first.outcomes)) == (DAY_US, 9 * DAY_US, [2])
    assert second.page_token == b"t"


async def test_a_preview_needs_no_schedule(engine: Engine, client: Client) -> None:
    answer = pb.PreviewScheduleResponse(times_us=[DAY_US], description="d", tzdata_version="v")
    engine.answer("PreviewSchedule", answer)

    found = await client.schedules.preview(NIGHTLY.spec, after=day(0), count=1)

    assert (found.times, found.description, found.tzdata_version) == ([day(1)], "d", "v")
    (request,) = engine.asked("PreviewSchedule")
    assert (list(request.spec.cron), request.after_us, request.count) == (["@daily"], 0, 1)


# ---- changing


def pause_it(there: ScheduleUpdateInput) -> ScheduleUpdate:
    there.description.schedule.state.paused = True
    return ScheduleUpdate(there.description.schedule)


async def test_an_update_is_made_of_what_is_there(engine: Engine, handle: ScheduleHandle) -> None:
    engine.answer("DescribeSchedule", described(7))
    engine.answer("UpdateSchedule", pb.UpdateScheduleResponse(firing=[JOB_SLOT]))

    firing = await handle.update(pause_it)

    assert [slot.nominal_at for slot in firing] == [day(1)]
    (request,) = engine.asked("UpdateSchedule")
    assert request.schedule.paused
    assert list(request.schedule.spec.cron) == ["@daily"]
    assert (request.conflict_token, request.identity) == (7, "a test")


async def test_an_update_that_comes_second_is_made_again(
    engine: Engine, handle: ScheduleHandle
) -> None:
    engine.answer("DescribeSchedule", described(7), described(8))
    engine.answer("UpdateSchedule", Refused(grpc.StatusCode.ABORTED), pb.UpdateScheduleResponse())
    seen: list[int] = []

    async def look(there: ScheduleUpdateInput) -> ScheduleUpdate:
        seen.append(there.description.conflict_token)
        return pause_it(there)

    await handle.update(look)

    assert seen == [7, 8]
    requests = engine.asked("UpdateSchedule")
    assert [one.conflict_token for one in requests] == [7, 8]
    assert len({one.request_id for one in requests}) == 2, "another one is another request"


async def test_an_update_gives_up_when_others_are_always_first(
    engine: Engine, handle: ScheduleHandle
) -> None:
    engine.answer("DescribeSchedule", described())
    engine.answer("UpdateSchedule", Refused(grpc.StatusCode.ABORTED))

    with pytest.raises(RPCError) as raised:
        await handle.update(pause_it)

    assert raised.value.status is RPCStatusCode.ABORTED
    assert len(engine.asked("UpdateSchedule")) == 20


async def test_an_update_of_nothing_asks_nothing(engine: Engine, handle: ScheduleHandle) -> None:
    engine.answer("DescribeSchedule", described())

    assert await handle.update(lambda _: None) == ()

    assert engine.asked("UpdateSchedule") == []


async def test_arguments_are_encrypted_there_and_back_and_not_twice(engine: Engine) -> None:
    codec = EncryptionCodec(KeyRing("k", {"k": b"1" * 32}))
    client = client_of(engine, DataConverter(payload_codec=codec))
    engine.answer("CreateSchedule", pb.CreateScheduleResponse())
    handle = await client.create_schedule("nightly", NIGHTLY)
    sent = engine.asked("CreateSchedule")[0].schedule
    assert b"daily" not in sent.action.SerializeToString()

    def saved(schedule: Any) -> pb.DescribeScheduleResponse:
        answer = described()
        answer.schedule.CopyFrom(schedule)
        return answer

    engine.answer("DescribeSchedule", saved(sent))
    engine.answer("UpdateSchedule", pb.UpdateScheduleResponse())
    await handle.update(lambda there: ScheduleUpdate(there.description.schedule))

    engine.answer("DescribeSchedule", saved(engine.asked("UpdateSchedule")[0].schedule))
    found = await handle.describe()
    assert isinstance(found.schedule.action, ScheduleActionStartJob)
    assert list(found.schedule.action.args) == [Payload("json/plain", b'"daily"')]

    other = DataConverter(payload_codec=EncryptionCodec(KeyRing("o", {"o": b"2" * 32})))
    stranger = client_of(engine, other).get_schedule_handle("nightly")
    shown = (await stranger.describe()).schedule.action
    assert isinstance(shown, ScheduleActionStartJob)
    assert shown.args[0].encoding == "binary/encrypted", "it is shown as it is"
    with pytest.raises(PayloadDecodeError):
        await stranger.update(pause_it)


async def test_pause_unpause_and_delete_say_why(engine: Engine, handle: ScheduleHandle) -> None:
    engine.answer("PauseSchedule", pb.PauseScheduleResponse(firing=[JOB_SLOT]))
    engine.answer("UnpauseSchedule", pb.UnpauseScheduleResponse())
    engine.answer("DeleteSchedule", pb.DeleteScheduleResponse(firing=[RUN_SLOT]))

    assert [slot.job_id for slot in await handle.pause()] == ["j"]
    await handle.pause(note="stop")
    await handle.unpause()
    await handle.unpause(note="")
    assert [slot.run_id for slot in await handle.delete(reason="old")] == ["r"]

    assert [one.note for one in engine.asked("PauseSchedule")] == ["Paused via Python SDK", "stop"]
    assert [one.note for one in engine.asked("UnpauseSchedule")] == ["Unpaused via Python SDK", ""]
    (deleted,) = engine.asked("DeleteSchedule")
    assert (deleted.reason, deleted.identity, deleted.schedule_id) == ("old", "a test", "nightly")


async def test_a_trigger_tells_what_became_of_it(engine: Engine, handle: ScheduleHandle) -> None:
    engine.answer("TriggerSchedule", pb.TriggerScheduleResponse(slot=RUN_SLOT))

    slot = await handle.trigger(overlap=ScheduleOverlapPolicy.ALLOW_ALL)
    await handle.trigger()

    assert (slot.outcome, slot.manual) == (ScheduleSlotOutcome.FIRED, True)
    assert [one.overlap for one in engine.asked("TriggerSchedule")] == [6, 0]


async def test_each_span_of_a_backfill_is_a_call(engine: Engine, handle: ScheduleHandle) -> None:
    engine.answer(
        "BackfillSchedule",
        pb.BackfillScheduleResponse(nominal_times_us=[DAY_US], fired_before_us=[2 * DAY_US]),
        pb.BackfillScheduleResponse(nominal_times_us=[4 * DAY_US]),
    )
    first = ScheduleBackfill(day(1), day(2), ScheduleOverlapPolicy.BUFFER_ALL)

    found = await handle.backfill(first, ScheduleBackfill(day(4), day(4)), dry_run=True)

    assert (found.action_times, found.fired_before) == ([day(1), day(4)], [day(2)])
    one, other = engine.asked("BackfillSchedule")
    assert (one.from_us, one.to_us, one.overlap, one.dry_run) == (DAY_US, 2 * DAY_US, 3, True)
    assert (other.from_us, other.overlap) == (4 * DAY_US, 0)
    assert one.request_id != other.request_id
    with pytest.raises(ValueError, match="at least one"):
        await handle.backfill()
