"""Schedules of jobs and workflows under crashes, pauses, moving shards and lost commits (invariants 51, 52, 54, 56).

They fire every two seconds. Somebody pauses, triggers and updates them meanwhile, and repeats each call until it is
answered. When all is quiet each nominal time has one record, and what it says has happened has happened, once.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any, NamedTuple

import pytest
from tests.simulation.cluster import NAMESPACE, QUEUE, SHARDS, Cluster, Worker
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.scrubber import scrub
from tests.simulation.test_cluster import QUIET_ALARMS, READS, trouble
from tests.simulation.world import pass_time

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core.ids import schedule_uid, shard_of, uuid_text
from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.jobs.model import JobSpec, JobStatus
from perdure_engine.core.schedules import intents
from perdure_engine.core.schedules.model import (
    Action,
    JobAction,
    OverlapPolicy,
    Schedule,
    SchedulePolicies,
    ScheduleSpec,
    ScheduleState,
    SlotOrigin,
    SlotOutcome,
    WorkflowAction,
)
from perdure_engine.core.status import Status
from perdure_engine.ports.rows import ROW_GONE, ScheduleSlotRow
from perdure_engine.ports.store import StoreUnavailable
from perdure_engine.scheduler.times import Times
from perdure_engine.store.memory.faults import Faults

SEEDS = 25
SPEC = ScheduleSpec(cron=("*/2 * * * * *",), seconds_first=True)
JOB = JobAction("report", QUEUE, JobSpec())
MORE_READS = ("load_schedules", "load_schedule", "load_jobs", "load_ready_jobs_of_shard")
ACTED = (SlotOutcome.FIRED, SlotOutcome.BACKFILLED)


def workflow(schedule_id: str) -> WorkflowAction:
    start = StartWorkflow(
        namespace_id=b"",
        workflow_id="",
        run_id=b"",
        request_id=b"",
        body_hash=b"",
        workflow_type="Quick",
        task_queue=QUEUE,
    )
    return WorkflowAction(schedule_id, start)


def quick(events: list[ev.Event], started: ev.WorkflowExecutionStarted) -> list[cmd.Command]:
    """Longer than a slot is from the next, or not."""
    if any(isinstance(event, ev.WorkflowExecutionCancelRequested) for event in events):
        return [cmd.CancelWorkflow(b"")]
    if not any(isinstance(event, ev.TimerStarted) for event in events):
        return [cmd.StartTimer("t", 500 + 2_500 * (started.run_id[0] % 2))]
    fired = any(isinstance(event, ev.TimerFired) for event in events)
    return [cmd.CompleteWorkflow(b"done")] if fired else []


class Told(NamedTuple):
    """What a life of a schedule knows for certain. Spans are in the database's time."""

    schedule_id: str
    triggers: int
    paused: list[tuple[int, int]]  # from an answer on, until the call that ends it


async def one_life(cluster: Cluster, schedule_id: str, action: Action, overlap: Any) -> Told:
    chaos = random.Random(schedule_id + str(cluster.loop.seed))
    known: dict[str, Any] = {"namespace_id": NAMESPACE, "schedule_id": schedule_id}
    schedule = Schedule(SPEC, action, SchedulePolicies(overlap=overlap))

    async def call(kind: Any, **fields: Any) -> Any:
        return await cluster.ask_schedule(kind(**known, request_id=cluster.ids.new_id(), **fields))

    await call(intents.CreateSchedule, schedule=schedule)
    triggers, paused = 0, list[tuple[int, int]]()
    for _ in range(5):
        await asyncio.sleep(chaos.uniform(0.5, 4))
        match chaos.choice(["trigger", "trigger", "update", "pause"]):
            case "trigger":
                await call(intents.TriggerSchedule, overlap=OverlapPolicy.ALLOW_ALL)
                triggers += 1
            case "update":
                await call(intents.UpdateSchedule, schedule=schedule, conflict_token=0)
            case _:
                await call(intents.PauseSchedule, paused=True, note="")
                since_us = cluster.database_clock.now_us()
                await asyncio.sleep(chaos.uniform(0.5, 5))
                paused.append((since_us, cluster.database_clock.now_us()))
                await call(intents.PauseSchedule, paused=False, note="")
    return Told(schedule_id, triggers, paused)


async def all_is_quiet(cluster: Cluster, names: list[str]) -> None:
    """Nothing fires any more, and what has been started is over."""
    tables = cluster.store.tables
    for name in names:
        pause = intents.PauseSchedule(
            namespace_id=NAMESPACE,
            schedule_id=name,
            paused=True,
            note="",
            request_id=cluster.ids.new_id(),
        )
        await cluster.ask_schedule(pause)
    codec = next(iter(cluster.nodes.values())).rooms.codec

    def busy() -> bool:
        states = [codec.decode_schedule_state(row.state) for row in tables.schedules.all()]
        return (
            any(state.waiting or any(a.firing for a in state.actions) for state in states)
            or any(row.status == Status.RUNNING for row in tables.executions.all())
            or any(row.closed_us is None and row.task_id for row in tables.job_runs.all())
            or any(row.status == JobStatus.IN_PROGRESS for row in tables.job_runs.all())
            or any(state.next_us < cluster.database_clock.now_us() - 3_000_000 for state in states)
        )

    while busy():
        await pass_time(1)


async def story(loop: SimulatedLoop, seed: int) -> None:
    cluster = Cluster(loop, seed)
    cluster.deciders["Quick"] = quick
    chaos = random.Random(seed)
    await cluster.start_node()
    await cluster.start_node()
    Worker(cluster, "w0").start()
    havoc = asyncio.ensure_future(trouble(cluster, chaos))
    reads = asyncio.ensure_future(reads_fail(cluster, chaos))
    lives = {}
    for overlap in OverlapPolicy:
        for kind in ("job", "workflow"):
            name = f"{kind}-{overlap.name}"
            lives[name] = one_life(cluster, name, JOB if kind == "job" else workflow(name), overlap)
    async with asyncio.timeout(900):
        told = await asyncio.gather(*lives.values())
        await havoc
        await reads
        await all_is_quiet(cluster, list(lives))
    cluster.store.faults = Faults()  # what was planned and not met
    await scrub(cluster.store, SHARDS)
    for one in told:
        check(cluster, one)
    alarms = [alarm for alarm in cluster.alarms if alarm[1] not in QUIET_ALARMS]
    assert not alarms, alarms


async def reads_fail(cluster: Cluster, chaos: random.Random) -> None:
    for _ in range(6):
        await asyncio.sleep(chaos.uniform(0.5, 3))
        read = chaos.choice((*READS, *MORE_READS))
        cluster.store.faults.fail_next(read, StoreUnavailable("away"))


def check(cluster: Cluster, told: Told) -> None:
    tables = cluster.store.tables
    shard_id = shard_of(NAMESPACE, f"schedule:{told.schedule_id}", SHARDS)
    codec = next(iter(cluster.nodes.values())).rooms.codec
    (row,) = [r for r in tables.schedules.in_order(shard_id) if r.schedule_id == told.schedule_id]
    slots = [
        r for r in tables.schedule_slots.in_order(shard_id) if r.schedule_id == told.schedule_id
    ]
    state = codec.decode_schedule_state(row.state)
    _check_records(told, state, slots)
    uid = schedule_uid(NAMESPACE, told.schedule_id)
    timers = [t for t in tables.timers.in_order(shard_id) if t.run_id == uid]
    assert [t.timer_id for t in timers if t.state != ROW_GONE] == [state.wake and state.wake[1]]
    if told.schedule_id.startswith("job"):
        _check_jobs(cluster, told, state, slots)
    else:
        _check_workflows(cluster, told, slots)


def _check_records(told: Told, state: ScheduleState, slots: list[ScheduleSlotRow]) -> None:
    times = Times()
    nominal = [slot.nominal_us for slot in slots if slot.origin == SlotOrigin.SPEC]
    wanted = []
    at_us = times.next_us(SPEC, state.created_us)
    while at_us <= state.done_us:
        wanted.append(at_us)
        at_us = times.next_us(SPEC, at_us)
    assert nominal == wanted, "invariant 52: one record for each"
    assert state.next_us == at_us, "invariant 53"
    outcomes = {SlotOutcome(slot.outcome) for slot in slots}
    assert not outcomes & {SlotOutcome.FIRING, SlotOutcome.BUFFERED, SlotOutcome.FAILED}
    manual = [slot for slot in slots if slot.origin == SlotOrigin.MANUAL]
    assert len(manual) == told.triggers, "a call that was repeated acts once"
    for since_us, until_us in told.paused:
        started = [
            slot
            for slot in slots
            if since_us < slot.acted_us < until_us
            and slot.outcome == SlotOutcome.FIRED
            # the answer to a start that was on its way before comes in its own time
            and slot.nominal_us > since_us
            and slot.origin == SlotOrigin.SPEC
        ]
        assert not started, "invariant 56: paused is paused"


def _check_jobs(
    cluster: Cluster, told: Told, state: ScheduleState, slots: list[ScheduleSlotRow]
) -> None:
    rows = [r for r in cluster.store.tables.job_runs.all() if r.schedule_id == told.schedule_id]
    by_id = {uuid_text(r.job_id): r for r in rows}
    fired = {slot.target_id for slot in slots if slot.outcome in ACTED}
    for slot in slots:
        row = by_id.get(slot.target_id)
        if slot.outcome in ACTED:
            assert row is not None, "invariant 54: it has its run"
            ended = (JobStatus.COMPLETED, JobStatus.CANCELLED)
            assert row.status in ended, "invariant 57"
            if row.status == JobStatus.COMPLETED:
                assert cluster.effects.jobs[row.job_id], "invariant 57: it has run"
        elif row is not None:
            assert row.status == JobStatus.SKIPPED
    assert len(fired) == sum(slot.outcome in ACTED for slot in slots), "invariant 51"
    for job_id, row in by_id.items():
        if job_id not in fired:
            assert not cluster.effects.jobs.get(row.job_id), "invariant 51: nobody ran it"
    pending = [r.job_id for r in rows if r.status == JobStatus.PENDING]
    assert pending == [state.job_id], "A7: the next run, and no other"


def _check_workflows(cluster: Cluster, told: Told, slots: list[ScheduleSlotRow]) -> None:
    started = Counter(
        row.run_id
        for row in cluster.store.tables.executions.all()
        if row.workflow_id.startswith(f"{told.schedule_id}-")
    )
    named = Counter(slot.target_id for slot in slots if slot.outcome in ACTED)
    assert {uuid_text(run_id): count for run_id, count in started.items()} == named, "invariant 51"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seed(seed: int) -> None:
    """Invariants 13, 51, 52, 53, 54, 56, 57."""
    simulate(lambda loop: story(loop, seed), seed)
