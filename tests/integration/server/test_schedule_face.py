"""Schedules through the SDK, an engine and a real database: what is asked for is what is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from tests.engine_node import running_node
from tests.integration.server.calls import POLL_S

from perdure import job, workflow
from perdure._client.schedule_actions import wire_action
from perdure._wire.schedule_service import Asked, ScheduleTarget
from perdure.client import Client
from perdure.converter import Payload
from perdure.errors import RPCError, RPCStatusCode, ScheduleAlreadyRunningError
from perdure.schedule import (
    Schedule,
    ScheduleAction,
    ScheduleActionStartJob,
    ScheduleActionStartWorkflow,
    ScheduleBackfill,
    ScheduleCalendarSpec,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSlot,
    ScheduleSlotOutcome,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from perdure.worker import Worker

HOUR = timedelta(hours=1)
HOURLY = ScheduleSpec(intervals=[ScheduleIntervalSpec(HOUR)])
QUEUE = "schedules"
PATIENCE_S = 20.0
FIRED, SKIPPED = ScheduleSlotOutcome.FIRED, ScheduleSlotOutcome.SKIPPED
BACKFILLED, PAUSED = ScheduleSlotOutcome.BACKFILLED, ScheduleSlotOutcome.PAUSED
ALLOW_ALL = ScheduleOverlapPolicy.ALLOW_ALL

made: list[str] = []


@job.defn
async def make(kind: str) -> str:
    made.append(kind)
    return kind


@workflow.defn
class Report:
    @workflow.run
    async def run(self, kind: str) -> str:
        return kind


def making(kind: str = "daily", queue: str = "nobody") -> ScheduleActionStartJob:
    return ScheduleActionStartJob(make, kind, queue=queue)


@pytest.fixture
async def client(database_dsn: str) -> AsyncIterator[Client]:
    async with (
        running_node(database_dsn) as node,
        await Client.connect(node.address, identity="op@host") as client,
    ):
        yield client


async def all_slots(
    handle: ScheduleHandle, *outcomes: ScheduleSlotOutcome
) -> Sequence[ScheduleSlot]:
    return [slot async for slot in handle.slots(outcomes=outcomes)]


async def slots_when(
    handle: ScheduleHandle, enough: Callable[[Sequence[ScheduleSlot]], bool]
) -> Sequence[ScheduleSlot]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await all_slots(handle)
            if enough(found):
                return found
            await asyncio.sleep(POLL_S)


# ---- what a schedule is

ACTIONS: dict[str, ScheduleAction] = {
    "a job": making(),
    "a workflow": ScheduleActionStartWorkflow(
        Report.run, "daily", id="report", task_queue="nobody", memo={"kind": "daily"}
    ),
}
SPECS = {
    "a cron": ScheduleSpec(
        cron_expressions=["30 2 * * *", "@weekly"], time_zone_name="Europe/Berlin", jitter=HOUR
    ),
    "an interval": ScheduleSpec(intervals=[ScheduleIntervalSpec(HOUR, timedelta(minutes=5))]),
    "a calendar": ScheduleSpec(
        calendars=[
            ScheduleCalendarSpec(hour=[ScheduleRange(9, 17)], day_of_week=[ScheduleRange(1, 5)])
        ],
        skip=[ScheduleCalendarSpec(hour=[ScheduleRange(12)], comment="lunch")],
    ),
    "dates": ScheduleSpec(
        dates=[datetime(2999, 1, 1, tzinfo=UTC), datetime(2998, 1, 1, tzinfo=UTC)],
        start_at=datetime(2027, 1, 1, tzinfo=UTC),
    ),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("spec", SPECS)
async def test_each_kind_is_described_as_it_was_created(
    client: Client, action: str, spec: str
) -> None:
    policy = SchedulePolicy(ScheduleOverlapPolicy.BUFFER_ONE, catchup_window=HOUR, catchup_most=5)
    state = ScheduleState("why", limited_actions=True, remaining_actions=3)
    wanted = Schedule(ACTIONS[action], SPECS[spec], policy, state)

    handle = await client.create_schedule("nightly", wanted, user_id="ada")
    found = await handle.describe()

    assert (found.id, found.user_id, found.conflict_token > 0) == ("nightly", "ada", True)
    assert found.schedule.policy == policy
    assert found.schedule.state == state
    assert found.schedule.spec.cron_expressions == wanted.spec.cron_expressions
    preview = await client.schedules.preview(wanted.spec, count=3)
    assert found.info.next_action_times == preview.times, "three actions remain, or two dates"
    assert found.description == preview.description
    there = found.schedule.action
    assert isinstance(there, ScheduleActionStartJob | ScheduleActionStartWorkflow)
    assert type(there) is type(ACTIONS[action])
    assert there.args == [Payload("json/plain", b'"daily"')]

    await handle.update(lambda seen: ScheduleUpdate(seen.description.schedule))
    again = await handle.describe()
    assert again.schedule == found.schedule, "sent back as it came it is the same"
    assert again.info.next_action_times == found.info.next_action_times


async def test_an_id_is_taken_until_its_schedule_is_deleted(client: Client) -> None:
    handle = await client.create_schedule("nightly", Schedule(making(), HOURLY))
    with pytest.raises(ScheduleAlreadyRunningError):
        await client.create_schedule("nightly", Schedule(making(), HOURLY))

    await handle.trigger()
    assert await handle.delete(reason="old") == []
    for ask in (handle.describe, handle.trigger, handle.pause):
        with pytest.raises(RPCError) as refused:
            await ask()
        assert refused.value.status is RPCStatusCode.NOT_FOUND
    assert [one.id async for one in client.schedules.list()] == []
    assert len(await all_slots(handle)) > 0, "what it did is still told"
    await handle.delete()

    again = await client.create_schedule("nightly", Schedule(making("other"), HOURLY))
    assert [one.id async for one in client.schedules.list()] == ["nightly"]
    assert (await again.describe()).info.open_slots == []


async def test_lists_by_prefix_and_user_in_pages(client: Client) -> None:
    ids = [f"s-{number:02}" for number in range(25)]
    await asyncio.gather(
        *(
            client.create_schedule(
                one, Schedule(making(), HOURLY), user_id="ada" if one in ids[:5] else "bob"
            )
            for one in [*ids, "other"]
        )
    )

    listed = [one async for one in client.schedules.list(id_prefix="s-", page_size=7)]

    assert [one.id for one in listed] == ids
    assert listed[0].schedule.action.name == "make"
    assert listed[0].description == "Every hour"
    assert len(listed[0].info.next_action_times) == 1
    ada = [one.id async for one in client.schedules.list(user_id="ada", limit=3)]
    assert ada == ids[:3]
    assert len([one async for one in await client.list_schedules()]) == 26


# ---- changing it


async def test_an_update_with_a_stale_token_is_refused_and_changes_nothing(client: Client) -> None:
    handle = await client.create_schedule("nightly", Schedule(making(), HOURLY))
    seen = await handle.describe()
    await handle.update(later)

    core = client.core
    with pytest.raises(RPCError) as refused:
        await core.schedule_service.update(
            ScheduleTarget("default", "nightly"),
            seen.schedule,
            wire_action(seen.schedule.action, core.converter),
            seen.conflict_token,
            Asked(core.surroundings.new_uuid(), "somebody"),
            PATIENCE_S,
        )

    assert refused.value.status is RPCStatusCode.ABORTED
    found = await handle.describe()
    assert found.schedule.spec.intervals == [ScheduleIntervalSpec(2 * HOUR)]
    assert found.conflict_token != seen.conflict_token


def later(there: ScheduleUpdateInput) -> ScheduleUpdate:
    there.description.schedule.spec.intervals = [ScheduleIntervalSpec(2 * HOUR)]
    return ScheduleUpdate(there.description.schedule)


async def test_of_many_updates_at_once_none_is_lost(client: Client) -> None:
    handle = await client.create_schedule("nightly", Schedule(making(), HOURLY))

    def one_more(there: ScheduleUpdateInput) -> ScheduleUpdate:
        schedule = there.description.schedule
        schedule.state.note = (schedule.state.note or "") + "x"
        return ScheduleUpdate(schedule)

    await asyncio.gather(*(handle.update(one_more) for _ in range(8)))

    assert (await handle.describe()).schedule.state.note == "x" * 8


async def test_pause_and_unpause_are_told_with_their_note(client: Client) -> None:
    """Invariant 56: what is answered holds for every slot after it."""
    seconds = ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(seconds=1))])
    handle = await client.create_schedule("nightly", Schedule(making(), seconds))
    await handle.pause(note="stop")
    paused_at = (await handle.describe()).info.last_updated_at
    assert paused_at is not None

    found = await slots_when(
        handle, lambda slots: len([one for one in slots if one.outcome is PAUSED]) >= 2
    )

    assert {one.outcome for one in found if one.nominal_at > paused_at} == {PAUSED}
    (listed,) = [one async for one in client.schedules.list()]
    assert (listed.schedule.state.paused, listed.schedule.state.note) == (True, "stop")
    await handle.unpause(note="go on")
    state = (await handle.describe()).schedule.state
    assert (state.paused, state.note) == (False, "go on")


# ---- acting


async def test_five_triggers_at_once_are_five_slots_with_five_jobs(client: Client) -> None:
    """Bug report 10: each call is a slot of its own, however close they come."""
    handle = await client.create_schedule("nightly", Schedule(making(), HOURLY))

    slots = await asyncio.gather(*(handle.trigger(overlap=ALLOW_ALL) for _ in range(5)))

    assert {slot.outcome for slot in slots} == {FIRED}
    assert all(slot.manual for slot in slots)
    assert len({slot.nominal_at for slot in slots}) == 5
    assert len({slot.job_id for slot in slots}) == 5
    for slot in slots:
        described = await client.jobs.get(slot.job_id).describe()
        assert described.schedule_id == "nightly"
    found = await handle.describe()
    assert len(found.info.open_slots) == 5
    assert len(found.info.running_actions) == 5


async def test_a_workflow_that_has_ended_is_not_running_any_more(client: Client) -> None:
    """Nothing but the description asks for it: no slot waits for its end."""
    action = ScheduleActionStartWorkflow(Report.run, "daily", id="report", task_queue="nobody")
    policy = SchedulePolicy(overlap=ALLOW_ALL)
    handle = await client.create_schedule("nightly", Schedule(action, HOURLY, policy))
    one, other = await handle.trigger(), await handle.trigger()
    await slots_when(handle, lambda slots: {slot.outcome for slot in slots} == {FIRED})
    assert len((await handle.describe()).info.running_actions) == 2

    await client.get_workflow_handle(one.workflow_id).terminate()

    assert (await handle.describe()).info.running_actions == [other.action]


async def test_a_trigger_obeys_the_overlap_policy_and_is_told(client: Client) -> None:
    handle = await client.create_schedule("nightly", Schedule(making(), HOURLY))

    first, second = await handle.trigger(), await handle.trigger()

    assert (first.outcome, second.outcome) == (FIRED, SKIPPED)
    assert "open" in second.detail
    assert [slot.outcome for slot in await all_slots(handle)] == [SKIPPED, FIRED]


async def test_one_may_begin_at_once(client: Client) -> None:
    handle = await client.create_schedule(
        "nightly", Schedule(making(), HOURLY), trigger_immediately=True
    )

    (slot,) = await all_slots(handle)

    assert (slot.outcome, slot.manual) == (FIRED, True)


async def test_a_backfill_says_what_it_would_do_does_it_and_never_twice(client: Client) -> None:
    """Invariants 51, 52; bug report 51."""
    policy = SchedulePolicy(overlap=ALLOW_ALL)
    handle = await client.create_schedule("nightly", Schedule(making(), HOURLY, policy))
    now = (await handle.describe()).info.created_at
    end = now.replace(minute=0, second=0, microsecond=0) - HOUR
    span = ScheduleBackfill(end - 4 * HOUR, end)
    hours = [end - back * HOUR for back in (4, 3, 2, 1, 0)]

    told = await handle.backfill(span, dry_run=True)
    assert (told.action_times, told.fired_before) == (hours, [])
    assert await all_slots(handle) == [], "nothing was done yet"

    done = await handle.backfill(ScheduleBackfill(end - 2 * HOUR, end))
    assert done.action_times == hours[2:]
    rest = await handle.backfill(span)
    assert (rest.action_times, rest.fired_before) == (hours[:2], hours[2:])

    slots = await all_slots(handle)
    assert [slot.nominal_at for slot in slots] == hours[::-1]
    assert {slot.outcome for slot in slots} == {BACKFILLED}
    assert len({slot.job_id for slot in slots}) == 5


async def test_the_jobs_of_its_slots_run_in_order(client: Client) -> None:
    """Invariant 57; a schedule's job is a job like any other."""
    made.clear()
    spec = ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(seconds=1))])
    wanted = Schedule(making("tick", QUEUE), spec)
    async with Worker(client, task_queue=QUEUE, activities=[make]):
        handle = await client.create_schedule("ticks", wanted)
        found = await slots_when(
            handle, lambda slots: len([one for one in slots if one.outcome is FIRED]) >= 2
        )
    times = [slot.nominal_at for slot in found]
    assert times == sorted(set(times), reverse=True)
    assert all(time.microsecond == 0 for time in times), "nominal times are the spec's"
    assert made
    assert set(made) == {"tick"}


async def test_a_workflow_is_called_by_its_slots_time(client: Client) -> None:
    action = ScheduleActionStartWorkflow(Report.run, "daily", id="report", task_queue=QUEUE)
    async with Worker(client, task_queue=QUEUE, workflows=[Report]):
        handle = await client.create_schedule("nightly", Schedule(action, HOURLY))
        await handle.trigger()
        (slot,) = await slots_when(handle, lambda slots: any(one.outcome is FIRED for one in slots))
        run = client.get_workflow_handle(slot.workflow_id, run_id=slot.run_id)
        assert await run.result() == "daily"
    assert slot.workflow_id.startswith(f"report-{slot.nominal_at:%Y-%m-%dT%H:%M:%S}")


# ---- bad input


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (ScheduleSpec(), "schedule.spec.cron"),
        (ScheduleSpec(cron_expressions=["0 0 31 2 *"]), "schedule.spec.cron[0]"),
        (
            ScheduleSpec(cron_expressions=["@daily"], time_zone_name="../../etc/passwd"),
            "schedule.spec.timezone",
        ),
        (
            ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(milliseconds=1))]),
            "schedule.spec.intervals[0].every_ms",
        ),
        (ScheduleSpec(dates=[datetime(2000, 1, 1, tzinfo=UTC)]), "schedule.spec"),
    ],
)
async def test_what_never_fires_is_refused_and_leaves_nothing(
    client: Client, spec: ScheduleSpec, field: str
) -> None:
    """B29, B30."""
    with pytest.raises(RPCError) as refused:
        await client.create_schedule("nightly", Schedule(making(), spec))

    assert refused.value.status is RPCStatusCode.INVALID_ARGUMENT
    assert [name for name, _ in refused.value.field_violations] == [field]
    assert [one async for one in client.schedules.list()] == []


async def test_a_backfill_of_too_many_slots_is_refused(client: Client) -> None:
    """B31."""
    minutes = ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(minutes=1))])
    handle = await client.create_schedule("nightly", Schedule(making(), minutes))
    end = datetime(2026, 1, 1, tzinfo=UTC)

    with pytest.raises(RPCError) as refused:
        await handle.backfill(ScheduleBackfill(end - timedelta(days=3650), end), dry_run=True)

    assert refused.value.status is RPCStatusCode.INVALID_ARGUMENT
    assert "1000" in refused.value.message
    assert await all_slots(handle) == []


# ---- the audit log


async def test_what_operators_do_is_in_the_audit_log(client: Client) -> None:
    handle = await client.create_schedule("nightly", Schedule(making(), HOURLY))
    await handle.update(later)
    await handle.pause(note="stop")
    await handle.unpause(note="go on")
    await handle.trigger()
    past = datetime(2026, 1, 1, tzinfo=UTC)
    await handle.backfill(ScheduleBackfill(past, past))
    await handle.delete(reason="old")

    entries = [entry async for entry in client.operator.list_audit()]

    assert [entry.action for entry in entries][::-1] == [
        "schedule.update",
        "schedule.pause",
        "schedule.unpause",
        "schedule.trigger",
        "schedule.backfill",
        "schedule.delete",
    ]
    assert {entry.identity for entry in entries} == {"op@host"}
    assert {entry.subject for entry in entries} == {"nightly"}
    assert entries[0].reason == "old"
    assert entries[-2].reason == "stop"
    assert not (await client.operator.verify_audit([])).broken
