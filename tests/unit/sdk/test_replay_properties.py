"""Whatever happens in whatever order: replay does what was done."""

import asyncio
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sdk.engine_in_small import CONVERTER, PocketEngine, new_instance

from perdure import activity, workflow
from perdure._failures import exception_to_failure
from perdure._replay import messages as m
from perdure._replay.machines.local_activity import LocalActivityState
from perdure.errors import ActivityError, ApplicationError, CancelledError

LIMIT = timedelta(seconds=10)
Plan = list[Any]


@activity.defn
async def work(number: int) -> int:
    return number


@workflow.defn
class Planned:
    """Does what its plan says; a plan is a list of steps, and some steps have plans in them."""

    def __init__(self) -> None:
        self.signals = 0
        self.missed: list[str] = []  # who did not hear of a cancellation as an error

    @workflow.signal
    def poke(self) -> None:
        self.signals += 1

    @workflow.signal
    async def poke_slowly(self) -> None:
        await workflow.sleep(1)
        self.signals += 1

    async def follow(self, plan: Plan) -> list[Any]:
        return [await getattr(self, f"do_{step}")(rest) for step, *rest in plan]

    async def do_work(self, how: Plan) -> Any:
        kind = workflow.ActivityCancellationType(how[0] if how else 0)
        try:
            return await workflow.execute_activity(
                work, 1, start_to_close_timeout=LIMIT, cancellation_type=kind
            )
        except ActivityError as error:
            return type(error.cause).__name__
        except asyncio.CancelledError:
            if kind is not workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED:
                self.missed.append(kind.name)
            raise

    async def do_local(self, _: Plan) -> Any:
        try:
            return await workflow.execute_local_activity(work, 1, start_to_close_timeout=LIMIT)
        except ActivityError as error:
            return type(error.cause).__name__

    async def do_local_changed_mind(self, how: Plan) -> Any:
        handle = workflow.start_local_activity(
            work,
            2,
            start_to_close_timeout=LIMIT,
            cancellation_type=workflow.ActivityCancellationType(how[0]),
        )
        if how[1]:
            await self.do_wait([])
        handle.cancel()
        try:
            return await handle
        except ActivityError as error:
            return type(error.cause).__name__

    async def do_patch(self, ids: Plan) -> Any:
        if workflow.patched(ids[0]):
            await workflow.sleep(2)
        workflow.deprecate_patch("old")
        workflow.upsert_memo({"patched": ids[0]})

    async def do_sleep(self, _: Plan) -> Any:
        await workflow.sleep(workflow.random().randint(1, 9))

    async def do_wait(self, _: Plan) -> Any:
        wanted = self.signals + 1
        try:
            await workflow.wait_condition(lambda: self.signals >= wanted, timeout=5)
        except TimeoutError:
            return "no signal"
        return "signal"

    async def do_together(self, plans: Plan) -> Any:
        return await asyncio.gather(*[self.follow(plan) for plan in plans])

    async def do_group(self, plans: Plan) -> Any:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.follow(plan)) for plan in plans]
        return [task.result() for task in tasks]

    async def do_limit(self, plans: Plan) -> Any:
        try:
            async with asyncio.timeout(3):
                return await self.follow(plans[0])
        except TimeoutError:
            return "late"

    async def do_wait_for(self, plans: Plan) -> Any:
        try:
            return await asyncio.wait_for(self.follow(plans[0]), 3)
        except TimeoutError:
            return "late"

    async def do_first(self, plans: Plan) -> Any:
        tasks = [asyncio.create_task(self.follow(plan)) for plan in plans]
        _, pending = await workflow.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return len(pending)

    async def do_changed_mind(self, how: Plan) -> Any:
        handle = workflow.start_activity(
            work,
            2,
            start_to_close_timeout=LIMIT,
            cancellation_type=workflow.ActivityCancellationType(how[0]),
        )
        if how[1]:
            await self.do_wait([])
        handle.cancel()
        try:
            return await handle
        except ActivityError as error:
            return type(error.cause).__name__

    @workflow.run
    async def run(self, plan: Plan) -> list[Any]:
        return await self.follow(plan)


def unlimited(plans: st.SearchStrategy[Plan]) -> st.SearchStrategy[Plan]:
    several = st.lists(plans, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda ps: ["together", *ps]),
        several.map(lambda ps: ["group", *ps]),
        several.map(lambda ps: ["first", *ps]),
    )


def nested(plans: st.SearchStrategy[Plan]) -> st.SearchStrategy[Plan]:
    step = st.one_of(
        unlimited(plans),
        plans.map(lambda p: ["limit", p]),
        plans.map(lambda p: ["wait_for", p]),
    )
    return st.lists(step, min_size=1, max_size=2)


simple = st.one_of(
    st.sampled_from([["work"], ["sleep"], ["wait"]]),
    st.integers(0, 2).map(lambda how: ["work", how]),
    st.tuples(st.integers(0, 2), st.booleans()).map(lambda how: ["changed_mind", *how]),
)
plans = st.recursive(st.lists(simple, max_size=3), nested, max_leaves=8)
plans_without_limits = st.recursive(
    st.lists(simple, max_size=3),
    lambda plans: st.lists(unlimited(plans), min_size=1, max_size=2),
    max_leaves=8,
)
local = st.one_of(
    st.sampled_from([["local"], ["local"], ["work"], ["sleep"], ["wait"]]),
    st.tuples(st.integers(0, 2), st.booleans()).map(lambda how: ["local_changed_mind", *how]),
    st.sampled_from("ab").map(lambda one: ["patch", one]),
)
local_plans = st.recursive(st.lists(local, max_size=3), nested, max_leaves=8)


def still_open(run: PocketEngine) -> list[m.ActivityTaskScheduled | m.TimerStarted]:
    closed: set[int] = set()
    for event in run.events:
        if isinstance(event, m.TimerFired | m.TimerCanceled):
            closed.add(event.started_event_id)
        elif isinstance(
            event, m.ActivityTaskCompleted | m.ActivityTaskFailed | m.ActivityTaskCanceled
        ):
            closed.add(event.scheduled_event_id)
    return [
        event
        for event in run.events
        if isinstance(event, m.ActivityTaskScheduled | m.TimerStarted)
        and event.event_id not in closed
    ]


def end_something(run: PocketEngine, data: st.DataObject) -> None:
    found = still_open(run)
    if not found:
        return
    event = data.draw(st.sampled_from(found))
    if isinstance(event, m.TimerStarted):
        run.fire(event.timer_id)
        return
    how = data.draw(st.sampled_from(["complete", "complete", "fail", "cancelled"]))
    if how == "complete":
        run.complete(event.activity_id, 7)
    elif how == "fail":
        run.fail(event.activity_id, ApplicationError("bad"))
    else:
        run.cancel_activity(event.activity_id)


def happen(run: PocketEngine, data: st.DataObject) -> None:
    """One thing that the world might do now."""
    what = data.draw(st.sampled_from(["end"] * 6 + ["poke", "poke_slowly", "cancel", "lost"]))
    if what == "end":
        end_something(run, data)
    elif what == "cancel":
        run.cancel("why not")
    elif what == "lost":
        run.fail_task()
    else:
        run.signal(what)


@settings(max_examples=150, deadline=None)
@given(plan=plans, data=st.data())
def test_replay_does_what_was_done(plan: Plan, data: st.DataObject) -> None:
    run = PocketEngine(Planned, plan)
    live: list[tuple[int, list[m.Command]]] = []
    for _ in range(12):
        commands = run.task()
        live.append((run.sent, commands))
        if run.instance.is_closed:
            break
        for _ in range(data.draw(st.integers(1, 3))):
            happen(run, data)

    for started_event_id, commands in live:  # from every workflow task on
        fresh = new_instance(Planned)
        outcome = fresh.activate(run.message(run.events[:started_event_id]))
        assert isinstance(outcome, m.TaskSuccess), outcome.failure
        assert outcome.commands == commands
        fresh.evict()
    assert isinstance(run.replay_all(), m.TaskSuccess)
    run.instance.evict()


@settings(max_examples=150, deadline=None)
@given(plan=plans_without_limits, data=st.data())
def test_no_activity_misses_a_cancellation_that_asyncio_has_not_begun(
    plan: Plan, data: st.DataObject
) -> None:
    run = PocketEngine(Planned, plan)
    for _ in range(12):
        run.task()
        assert run.instance._run.workflow.missed == []
        if run.instance.is_closed:
            break
        for _ in range(data.draw(st.integers(1, 3))):
            happen(run, data)
    run.instance.evict()


class LocalWorker:
    """Has the local activities of a run, and ends them in whatever order and way."""

    def __init__(self, run: PocketEngine, data: st.DataObject) -> None:
        self.run = run
        self.data = data
        self.has: dict[str, int] = {}  # activity id -> attempt

    def take(self, outcome: m.TaskSuccess | m.TaskFailure) -> bool:
        """Is the task open still?"""
        assert isinstance(outcome, m.TaskSuccess), outcome.failure
        work = outcome.local
        if work is None:
            return False
        for task in work.start:
            assert task.activity_id not in self.has
            self.has[task.activity_id] = task.attempt
        for one in work.cancel:
            self.has.setdefault(one, 1)  # never given: it is told that it was cancelled
        return work.waits

    def outcome(self) -> m.LocalActivityOutcome:
        one = self.data.draw(st.sampled_from(sorted(self.has)))
        attempt = self.has.pop(one)
        how = self.data.draw(st.sampled_from(["done", "done", "failed", "again", "cancelled"]))
        if how == "done":
            result = CONVERTER.to_payloads([7])
            return m.LocalActivityOutcome(activity_id=one, attempt=attempt, result=result)
        error = CancelledError() if how == "cancelled" else ApplicationError("bad")
        return m.LocalActivityOutcome(
            activity_id=one,
            attempt=attempt,
            failure=exception_to_failure(error, CONVERTER),
            backoff_ms=2_000 if how == "again" else 0,
        )

    def work_through(self, outcome: m.TaskSuccess | m.TaskFailure) -> None:
        """Until the workflow task is over."""
        waits = self.take(outcome)
        while waits:
            if self.data.draw(st.integers(0, 4)) == 0:
                self.run.yield_task()
                return
            told = self.run.instance.resolve_local(self.outcome())
            assert told is not None
            waits = self.take(told)
            self.run.taken(told)
        local = self.run.instance._run.local
        if local is not None and not self.run.instance.is_closed:
            states = {machine.state for machine in local._machines.values()}
            assert states <= {LocalActivityState.BACKING_OFF}, "it ended too early"

    def between_tasks(self) -> None:
        if self.has and self.data.draw(st.booleans()):
            assert self.run.instance.resolve_local(self.outcome()) is None


@settings(max_examples=200, deadline=None)
@given(plan=local_plans, data=st.data())
def test_replay_repeats_local_activities_and_patches(plan: Plan, data: st.DataObject) -> None:
    run = PocketEngine(Planned, plan)
    worker = LocalWorker(run, data)
    ends: list[int] = []
    for _ in range(12):
        worker.work_through(run.run_task())
        ends.append(len(run.events))
        if run.instance.is_closed:
            break
        worker.between_tasks()
        for _ in range(data.draw(st.integers(0, 2))):
            happen(run, data)

    for end in ends:  # from the commands of every workflow task on
        fresh = new_instance(Planned)
        outcome = fresh.activate(run.message(run.events[:end], query_only=True))
        assert isinstance(outcome, m.TaskSuccess), outcome.failure
        fresh.evict()
    run.instance.evict()
