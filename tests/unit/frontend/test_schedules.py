"""Verbs of schedules: checked, sent to the schedule's shard, listed from the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, OTHER_NAMESPACE_ID, RUN_ID, Room

from perdure_engine.core.errors import Code, Rejected, not_found, unavailable
from perdure_engine.core.id_policies import IdReusePolicy
from perdure_engine.core.ids import shard_of, uuid_text
from perdure_engine.core.intents import IdConflictPolicy, StartWorkflow
from perdure_engine.core.jobs.model import Concurrency, JobSpec, Unique
from perdure_engine.core.replies import Description, RunInfo
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.schedules.intents import (
    Backfilled,
    BackfillSchedule,
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    PauseSchedule,
    ScheduleDescription,
    ScheduleSaved,
    Slot,
    SlotsActed,
    TriggerSchedule,
    UpdateSchedule,
)
from perdure_engine.core.schedules.model import (
    IntervalSpec,
    JobAction,
    Schedule,
    SchedulePolicies,
    ScheduleSpec,
    ScheduleState,
    SlotOrigin,
    SlotOutcome,
    WorkflowAction,
)
from perdure_engine.core.schedules.saved import info_of
from perdure_engine.core.status import Status
from perdure_engine.frontend.handlers.backfill_schedule import backfill_schedule
from perdure_engine.frontend.handlers.create_schedule import create_schedule
from perdure_engine.frontend.handlers.delete_schedule import delete_schedule
from perdure_engine.frontend.handlers.describe_schedule import describe_schedule
from perdure_engine.frontend.handlers.list_schedule_slots import (
    ListScheduleSlots,
    SlotsPage,
    list_schedule_slots,
)
from perdure_engine.frontend.handlers.list_schedules import (
    ListSchedules,
    SchedulesPage,
    list_schedules,
)
from perdure_engine.frontend.handlers.pause_schedule import pause_schedule
from perdure_engine.frontend.handlers.preview_schedule import preview_schedule
from perdure_engine.frontend.handlers.trigger_schedule import trigger_schedule
from perdure_engine.frontend.handlers.unpause_schedule import unpause_schedule
from perdure_engine.frontend.handlers.update_schedule import update_schedule
from perdure_engine.ports.rows import ScheduleRow, ScheduleSlotRow
from perdure_engine.store.codec import MsgpackCodec

HOUR_US = 3_600_000_000
HOURLY = ScheduleSpec(intervals=(IntervalSpec(3_600_000),))
JOB = JobAction("report", "default", JobSpec())
SCHEDULE = Schedule(HOURLY, JOB)
START = StartWorkflow(
    namespace_id=b"",
    workflow_id="",
    run_id=b"",
    request_id=b"",
    body_hash=b"",
    workflow_type="Report",
    task_queue="q",
)
ASKED: dict[str, Any] = {
    "namespace_id": NAMESPACE_ID,
    "schedule_id": "nightly",
    "request_id": RUN_ID,
}
SAVED = ScheduleSaved(1, HOUR_US, [])
SLOT = Slot(HOUR_US, SlotOutcome.FIRED, HOUR_US)

Verb = Callable[[Any, Any], Awaitable[Any]]
VERBS: list[tuple[Verb, Any, Any]] = [
    (create_schedule, CreateSchedule(**ASKED, schedule=SCHEDULE), SAVED),
    (update_schedule, UpdateSchedule(**ASKED, schedule=SCHEDULE, conflict_token=0), SAVED),
    (delete_schedule, DeleteSchedule(**ASKED), SAVED),
    (pause_schedule, PauseSchedule(**ASKED, paused=True, note="why"), SAVED),
    (unpause_schedule, PauseSchedule(**ASKED, paused=False, note=""), SAVED),
    (trigger_schedule, TriggerSchedule(**ASKED, overlap=None), SlotsActed([SLOT])),
    (
        backfill_schedule,
        BackfillSchedule(**ASKED, from_us=1, to_us=1, overlap=None, dry_run=True),
        Backfilled([1], []),
    ),
]


@pytest.mark.parametrize(("verb", "intent", "reply"), VERBS)
async def test_a_verb_reaches_the_shard_of_its_schedule(
    verb: Verb, intent: Any, reply: Any
) -> None:
    room = Room()
    room.history.answer = lambda _: reply

    assert await verb(room.frontend, intent) is reply

    shard_id = shard_of(NAMESPACE_ID, "schedule:nightly", room.history.number_of_shards)
    assert room.history.scheduled == [(shard_id, intent)]


WRONG_CALLS: list[tuple[str, Any]] = [
    ("schedule_id", ""),
    ("schedule_id", " "),
    ("schedule_id", "x" * 501),
    ("schedule_id", "é" * 251),
    ("schedule_id", "e\u0301"),
    ("schedule_id", "a\0b"),
    ("schedule_id", "a\u202eb"),
    ("schedule_id", "__mine"),
    ("identity", "\x1b"),
    ("note", "n" * 4_097),
    ("reason", "r\0"),
    ("user_id", "\x1b"),
    ("conflict_token", -1),
    ("from_us", -1),
    ("to_us", 253_402_300_800_000_000),
    ("to_us", 0),
]


@pytest.mark.parametrize(
    ("verb", "intent", "field", "value"),
    [
        (verb, intent, field, value)
        for verb, intent, _ in VERBS
        for field, value in WRONG_CALLS
        if field in intent.__struct_fields__
    ],
)
async def test_what_is_wrong_with_a_call_is_refused_by_its_field(
    verb: Verb, intent: Any, field: str, value: Any
) -> None:
    """B3, B4, B5, B28."""
    room = Room()
    with pytest.raises(Rejected) as refused:
        await verb(room.frontend, msgspec.structs.replace(intent, **{field: value}))

    assert (refused.value.code, refused.value.field) == (Code.INVALID_ARGUMENT, field)
    assert not room.touched


# ---- schedules


def with_spec(**changes: Any) -> Schedule:
    return Schedule(ScheduleSpec(**changes), JOB)


def with_job(**changes: Any) -> Schedule:
    spec = {name: changes.pop(name) for name in list(changes) if name in JobSpec.__struct_fields__}
    action = msgspec.structs.replace(JOB, spec=JobSpec(**spec), **changes)
    return Schedule(HOURLY, action)


def with_start(workflow_id: str = "", **changes: Any) -> Schedule:
    start = msgspec.structs.replace(START, **changes)
    return Schedule(HOURLY, WorkflowAction(workflow_id, start))


def with_policies(**changes: Any) -> Schedule:
    return Schedule(HOURLY, JOB, SchedulePolicies(**changes))


SPEC = "schedule.spec"
POLICIES = "schedule.policies"
JOB_FIELD = "schedule.action.job"
WORKFLOW = "schedule.action.workflow"
WRONG: list[tuple[Schedule, str]] = [
    # B29: what is no cron schedule, or never fires
    (with_spec(cron=("1,1," * 300_000,)), f"{SPEC}.cron[0]"),
    (with_spec(cron=("@daily", "0 0 31 2 *")), f"{SPEC}.cron[1]"),
    (with_spec(cron=("10-5 * * * *",)), f"{SPEC}.cron[0]"),
    (with_spec(cron=("R R * * *",)), f"{SPEC}.cron[0]"),
    (with_spec(cron=("H * * * *",)), f"{SPEC}.cron[0]"),
    (with_spec(cron=("* * * * * * *",)), f"{SPEC}.cron[0]"),
    (with_spec(cron=("TZ=UTC * * * * *",)), f"{SPEC}.cron[0]"),
    (with_spec(cron=("@daily",), timezone="../../etc/passwd"), f"{SPEC}.timezone"),
    (with_spec(cron=("@daily",), timezone="Mars/Base"), f"{SPEC}.timezone"),
    (with_spec(), f"{SPEC}.cron"),
    # B30
    (with_spec(intervals=(IntervalSpec(0),)), f"{SPEC}.intervals[0].every_ms"),
    (with_spec(intervals=(IntervalSpec(999),)), f"{SPEC}.intervals[0].every_ms"),
    (with_spec(intervals=(IntervalSpec(1_000, 1_000),)), f"{SPEC}.intervals[0].phase_ms"),
    (with_spec(intervals=(IntervalSpec(1_000),), jitter_ms=1_001), f"{SPEC}.jitter_ms"),
    # B28
    (with_spec(cron=("@daily",), start_us=253_402_300_800_000_000), f"{SPEC}.start_time_us"),
    (with_spec(cron=("@daily",), end_us=-1), f"{SPEC}.end_time_us"),
    (with_spec(dates_us=(253_402_300_800_000_000,)), f"{SPEC}.dates_us"),
    (with_policies(catch_up_window_ms=9_999), f"{POLICIES}.catch_up_window_ms"),
    (with_policies(catch_up_window_ms=10**15), f"{POLICIES}.catch_up_window_ms"),
    (with_policies(catch_up_most=0), f"{POLICIES}.catch_up_most"),
    (with_policies(catch_up_most=1_001), f"{POLICIES}.catch_up_most"),
    (Schedule(HOURLY, JOB, note="\0"), "schedule.note"),
    (Schedule(HOURLY, JOB, remaining_actions=-1), "schedule.remaining_actions"),
    (with_job(task_name=""), f"{JOB_FIELD}.task_name"),
    (with_job(task_name="a/b"), f"{JOB_FIELD}.task_name"),
    (with_job(queue="__internal"), f"{JOB_FIELD}.task_queue"),
    (with_job(priority=6), f"{JOB_FIELD}.priority"),
    (with_job(user_id="\0"), f"{JOB_FIELD}.user_id"),
    (with_job(input=bytes(2**21 + 1)), f"{JOB_FIELD}.input"),
    (with_job(timeout_ms=-1), f"{JOB_FIELD}.timeout_ms"),
    (with_job(retry=RetryPolicy(0)), f"{JOB_FIELD}.retry_policy.initial_interval_ms"),
    (with_job(unique=Unique("\0")), f"{JOB_FIELD}.unique_key"),
    (with_job(concurrency=Concurrency("k", 0)), f"{JOB_FIELD}.concurrency.limit"),
    (with_job(unique=Unique("k")), f"{JOB_FIELD}.unique_key"),
    (with_job(concurrency=Concurrency("k")), f"{JOB_FIELD}.concurrency.key"),
    (with_start(workflow_id="__x"), f"{WORKFLOW}.workflow_id"),
    (with_start(workflow_id="x" * 501), f"{WORKFLOW}.workflow_id"),
    (with_start(workflow_type=""), f"{WORKFLOW}.start.workflow_type"),
    (with_start(task_queue=""), f"{WORKFLOW}.start.task_queue"),
    (with_start(cron_schedule="@daily"), f"{WORKFLOW}.start.cron_schedule"),
    (with_start(start_delay_ms=1), f"{WORKFLOW}.start.start_delay_ms"),
    (
        with_start(id_reuse_policy=IdReusePolicy.REJECT_DUPLICATE),
        f"{WORKFLOW}.start.id_reuse_policy",
    ),
    (
        with_start(id_conflict_policy=IdConflictPolicy.USE_EXISTING),
        f"{WORKFLOW}.start.id_conflict_policy",
    ),
]


@pytest.mark.parametrize(("schedule", "field"), WRONG, ids=[field for _, field in WRONG])
async def test_what_is_wrong_with_a_schedule_is_refused_by_its_field(
    schedule: Schedule, field: str
) -> None:
    """B28, B29, B30; and nothing of what was given is in the answer."""
    room = Room()
    calls: list[tuple[Verb, Any]] = [
        (create_schedule, CreateSchedule(**ASKED, schedule=schedule)),
        (update_schedule, UpdateSchedule(**ASKED, schedule=schedule, conflict_token=0)),
    ]
    for verb, intent in calls:
        with pytest.raises(Rejected) as refused:
            await verb(room.frontend, intent)
        assert (refused.value.code, refused.value.field) == (Code.INVALID_ARGUMENT, field)
        assert len(refused.value.message) < 300
    assert not room.touched


async def test_a_schedule_of_everything_passes() -> None:
    room = Room()
    room.history.answer = lambda _: SAVED
    for schedule in (SCHEDULE, with_start("report-é", memo=b"m"), with_spec(cron=("@daily",))):
        await create_schedule(room.frontend, CreateSchedule(**ASKED, schedule=schedule))
    assert len(room.history.scheduled) == 3


# ---- describe and preview


def state(**changes: Any) -> ScheduleState:
    return ScheduleState(created_us=1, created_by=RUN_ID, updated_us=2, done_us=0, **changes)


def describing(schedule: Schedule, saved: ScheduleState, *open_slots: Slot) -> ScheduleDescription:
    info = info_of("nightly", "ada", schedule, saved)
    return ScheduleDescription(info, 7, [*(open_slots or (SLOT,))])


async def test_a_description_has_the_next_times_and_the_last_slots() -> None:
    room = Room()
    room.history.answer = lambda _: describing(SCHEDULE, state(next_us=5 * HOUR_US))
    put_slots(room, "nightly", 12)
    put_slots(room, "other", 1)

    found = await describe_schedule(
        room.frontend, DescribeSchedule(namespace_id=NAMESPACE_ID, schedule_id="nightly")
    )

    assert found.next_times_us == [hour * HOUR_US for hour in range(5, 15)]
    assert [slot.nominal_us for slot in found.recent] == [
        hour * HOUR_US for hour in range(12, 2, -1)
    ]
    assert (found.description, found.conflict_token) == ("Every hour", 7)
    assert found.open == [SLOT]
    assert found.tzdata_version


@pytest.mark.parametrize(
    ("next_us", "remaining", "count"), [(0, None, 0), (HOUR_US, 0, 0), (HOUR_US, 3, 3)]
)
async def test_no_time_is_shown_that_will_not_come(
    next_us: int, remaining: int | None, count: int
) -> None:
    """Bug report 1: what is shown is what is planned."""
    room = Room()
    saved = state(next_us=next_us, remaining=remaining)
    room.history.answer = lambda _: describing(SCHEDULE, saved)

    found = await describe_schedule(
        room.frontend, DescribeSchedule(namespace_id=NAMESPACE_ID, schedule_id="nightly")
    )

    assert found.next_times_us == [hour * HOUR_US for hour in range(1, count + 1)]


def run_of(number: int, outcome: SlotOutcome = SlotOutcome.FIRED) -> Slot:
    """A slot that has begun a workflow."""
    run_id = uuid_text(number.to_bytes(16, "big"))
    return Slot(number, outcome, number, workflow_id=f"w{number}", run_id=run_id)


async def test_only_those_are_open_whose_workflow_has_not_ended() -> None:
    """A schedule itself asks only when a slot depends on it: with ALLOW_ALL never."""
    room = Room()
    slots = [run_of(number) for number in range(1, 8)]
    firing, job = (
        run_of(8, SlotOutcome.FIRING),
        Slot(9, SlotOutcome.FIRED, 9, job_id=uuid_text(RUN_ID)),
    )
    answers: dict[str, Any] = {
        "w1": described_run(1, Status.RUNNING),
        "w2": described_run(2, Status.COMPLETED),
        "w3": not_found("WORKFLOW", "gone"),
        "w4": unavailable("SHARD_MOVED", "ask again"),
        "w5": described_run(99, Status.RUNNING),  # another chain has its id by now
        "w6": described_run(6, Status.PAUSED),
        "w7": described_run(7, Status.TERMINATED),
    }

    def answer(intent: Any) -> Any:
        if isinstance(intent, DescribeSchedule):
            return describing(SCHEDULE, state(), *slots, firing, job)
        assert intent.run_id == b"", "whichever run of the chain is open"
        return answers[intent.workflow_id]

    room.history.answer = answer
    found = await describe_schedule(
        room.frontend, DescribeSchedule(namespace_id=NAMESPACE_ID, schedule_id="nightly")
    )

    assert [slot.nominal_us for slot in found.open] == [1, 4, 6, 8, 9]


def described_run(number: int, status: Status) -> Description:
    info = RunInfo(f"w{number}", RUN_ID, "T", "q", status, 1, 0, 9, 900, b"")
    first_run_id = number.to_bytes(16, "big")
    return Description(info, 0, 0, 0, [], [], None, False, 0, first_run_id=first_run_id)


async def test_a_preview_begins_past_now_or_past_what_is_asked() -> None:
    room = Room()  # whose database says 2 s

    now = await preview_schedule(room.frontend, HOURLY, 0, 0)
    later = await preview_schedule(room.frontend, HOURLY, HOUR_US, 2)

    assert now.times_us == [hour * HOUR_US for hour in range(1, 11)]
    assert later.times_us == [2 * HOUR_US, 3 * HOUR_US]
    assert now.description == "Every hour"
    assert len((await preview_schedule(room.frontend, HOURLY, 0, 10**6)).times_us) == 1_000
    ends = ScheduleSpec(dates_us=(HOUR_US,))
    assert (await preview_schedule(room.frontend, ends, 0, 9)).times_us == [HOUR_US]
    assert not room.touched


@pytest.mark.parametrize(
    ("spec", "after_us", "count", "field"),
    [
        (HOURLY, -1, 1, "after_us"),
        (HOURLY, 0, -1, "count"),
        (ScheduleSpec(cron=("no",)), 0, 1, "spec.cron[0]"),
        (ScheduleSpec(), 0, 1, "spec.cron"),
    ],
)
async def test_a_preview_of_what_cannot_be_is_refused(
    spec: ScheduleSpec, after_us: int, count: int, field: str
) -> None:
    with pytest.raises(Rejected) as refused:
        await preview_schedule(Room().frontend, spec, after_us, count)
    assert refused.value.field == field


# ---- lists


def put_schedule(
    room: Room,
    schedule_id: str,
    *,
    namespace_id: bytes = NAMESPACE_ID,
    user_id: str = "",
    deleted: bool = False,
    gone: bool = False,
) -> None:
    codec = MsgpackCodec()
    shard_id = shard_of(namespace_id, f"schedule:{schedule_id}", room.history.number_of_shards)
    room.operations.tables.schedules.put(
        ScheduleRow(
            shard_id,
            namespace_id,
            schedule_id,
            user_id,
            False,
            None,
            1,
            codec.encode_schedule(SCHEDULE),
            codec.encode_schedule_state(state(deleted=deleted)),
            1,
            1,
            gone,
        )
    )


def put_slots(room: Room, schedule_id: str, count: int, outcome: int = SlotOutcome.FIRED) -> None:
    shard_id = shard_of(NAMESPACE_ID, f"schedule:{schedule_id}", room.history.number_of_shards)
    for hour in range(1, count + 1):
        row = ScheduleSlotRow(
            shard_id,
            NAMESPACE_ID,
            schedule_id,
            hour * HOUR_US,
            SlotOrigin.SPEC,
            outcome,
            hour * HOUR_US + 1,
            "job",
            "",
            1,
        )
        room.operations.tables.schedule_slots.put(row)


async def all_pages(room: Room, asked: ListSchedules) -> list[str]:
    found: list[str] = []
    while True:
        page = await list_schedules(room.frontend, asked)
        assert len(page.schedules) <= (asked.page_size or 100)
        found += [one.info.schedule_id for one in page.schedules]
        if not page.next_page_token:
            return found
        asked = msgspec.structs.replace(asked, page_token=page.next_page_token)


@pytest.mark.parametrize("page_size", [0, 1, 2, 150])
async def test_lists_are_of_all_shards_by_id_and_without_what_is_deleted(page_size: int) -> None:
    room = Room()
    ids = [f"s-{number:03}" for number in range(205)]
    for schedule_id in ids:
        put_schedule(room, schedule_id, user_id="ada" if schedule_id > "s-200" else "")
    put_schedule(room, "s-000-gone", gone=True)
    put_schedule(room, "s-001-deleted", deleted=True)
    put_schedule(room, "s-002-others", namespace_id=OTHER_NAMESPACE_ID)
    asked = ListSchedules(namespace_id=NAMESPACE_ID, page_size=page_size)

    assert await all_pages(room, asked) == ids
    assert await all_pages(room, msgspec.structs.replace(asked, id_prefix="s-01")) == ids[10:20]
    assert await all_pages(room, msgspec.structs.replace(asked, user_id="ada")) == ids[201:]


async def test_a_listed_schedule_is_told_in_words_and_without_its_argument() -> None:
    room = Room()
    put_schedule(room, "nightly")

    page = await list_schedules(room.frontend, ListSchedules(namespace_id=NAMESPACE_ID))

    (one,) = page.schedules
    assert one.description == "Every hour"
    assert one.info.action_name == "report"
    assert one.info.schedule.action != JOB


async def slots(room: Room, **changes: Any) -> SlotsPage:
    asked = ListScheduleSlots(**{"namespace_id": NAMESPACE_ID, "schedule_id": "nightly", **changes})
    return await list_schedule_slots(room.frontend, asked)


async def test_slots_come_newest_first_page_by_page() -> None:
    room = Room()
    put_slots(room, "nightly", 5)

    first = await slots(room, page_size=3)
    second = await slots(room, page_size=3, page_token=first.next_page_token)

    hours = [slot.nominal_us // HOUR_US for slot in (*first.slots, *second.slots)]
    assert hours == [5, 4, 3, 2, 1]
    assert second.next_page_token == b""
    assert first.slots[0].job_id == "job"
    span = await slots(room, from_us=2 * HOUR_US, to_us=4 * HOUR_US)
    assert [slot.nominal_us // HOUR_US for slot in span.slots] == [3, 2]
    assert (await slots(room, outcomes=(SlotOutcome.FIRED,))).slots != []


async def test_no_slots_yet_is_something_else_than_no_schedule() -> None:
    room = Room()
    put_slots(room, "deleted", 1)
    with pytest.raises(Rejected) as refused:
        await slots(room)
    assert refused.value.code is Code.NOT_FOUND

    put_schedule(room, "nightly", gone=True)
    with pytest.raises(Rejected):
        await slots(room)
    put_schedule(room, "nightly")
    assert (await slots(room)).slots == []
    assert len((await slots(room, schedule_id="deleted")).slots) == 1, "as long as they are kept"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"schedule_id": "\0"}, "schedule_id"),
        ({"from_us": -1}, "from_us"),
        ({"to_us": -1}, "to_us"),
        ({"from_us": 2, "to_us": 1}, "to_us"),
        ({"page_size": -1}, "page_size"),
        ({"page_token": b"x" * 40}, "page_token"),
    ],
)
async def test_a_wrong_list_of_slots_is_refused(changes: dict[str, Any], field: str) -> None:
    room = Room()
    with pytest.raises(Rejected) as refused:
        await slots(room, **changes)
    assert refused.value.field == field


async def test_a_page_token_is_for_its_own_list_only() -> None:
    """B20."""
    room = Room()
    for number in range(3):
        put_schedule(room, f"s-{number}")
    put_slots(room, "nightly", 3)
    put_slots(room, "other", 3)
    asked = ListSchedules(namespace_id=NAMESPACE_ID, page_size=1)
    token = (await list_schedules(room.frontend, asked)).next_page_token
    slot_token = (await slots(room, page_size=1)).next_page_token

    async def listed(**changes: Any) -> SchedulesPage:
        wanted = msgspec.structs.replace(asked, **{"page_token": token, **changes})
        return await list_schedules(room.frontend, wanted)

    assert (await listed(page_size=2)).schedules[0].info.schedule_id == "s-1"
    others: list[dict[str, Any]] = [
        {"namespace_id": OTHER_NAMESPACE_ID},
        {"id_prefix": "s"},
        {"user_id": "ada"},
        {"page_token": slot_token},
        {"page_token": token[:-1] + bytes([token[-1] ^ 1])},
    ]
    for changes in others:
        with pytest.raises(Rejected, match="page_token"):
            await listed(**changes)
    others = [
        {"schedule_id": "other"},
        {"from_us": 1},
        {"to_us": 10**15},
        {"outcomes": (SlotOutcome.FIRED,)},
        {"page_token": token},
    ]
    for changes in others:
        with pytest.raises(Rejected, match="page_token"):
            await slots(room, **{"page_token": slot_token, **changes})
