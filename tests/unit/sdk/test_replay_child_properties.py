"""Children and other runs, whatever they do in whatever order: replay does what was done."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sdk.engine_in_small import PocketEngine, new_instance

from perdure import workflow
from perdure._replay import external_messages as x
from perdure._replay import messages as m
from perdure.errors import ApplicationError, FailureError

Plan = list[Any]
CLOSED = (
    x.StartChildWorkflowExecutionFailed
    | x.ChildWorkflowExecutionCompleted
    | x.ChildWorkflowExecutionEnded
)
ANSWERED = (
    x.ExternalWorkflowExecutionSignaled
    | x.SignalExternalWorkflowExecutionFailed
    | x.ExternalWorkflowExecutionCancelRequested
    | x.RequestCancelExternalWorkflowExecutionFailed
)
ASKED = (
    x.SignalExternalWorkflowExecutionInitiated | x.RequestCancelExternalWorkflowExecutionInitiated
)


@workflow.defn
class Family:
    """Does what its plan says; a plan is a list of steps, and some steps have plans in them."""

    def __init__(self) -> None:
        self.made = 0

    async def follow(self, plan: Plan) -> list[Any]:
        return [await getattr(self, f"do_{step}")(rest) for step, *rest in plan]

    async def do_child(self, how: Plan) -> Any:
        try:
            return await workflow.execute_child_workflow("Child", id=self.name(), **type_of(how))
        except FailureError as error:
            return [type(error).__name__, type(error.cause).__name__]

    async def do_changed_mind(self, how: Plan) -> Any:
        """Cancelled some time after it was asked for; 0: at once."""
        task = asyncio.create_task(self.do_child(how))
        await workflow.sleep(how[1])
        task.cancel()
        await asyncio.wait([task])
        return "cancelled" if task.cancelled() else task.result()

    async def do_talk(self, _: Plan) -> Any:
        try:
            handle = await workflow.start_child_workflow("Child", id=self.name())
            await handle.signal("hello")
            return await handle
        except FailureError as error:
            return str(error)

    async def do_signal(self, _: Plan) -> Any:
        return await self.outcome(workflow.get_external_workflow_handle(self.name()).signal("hi"))

    async def do_cancel(self, _: Plan) -> Any:
        return await self.outcome(workflow.get_external_workflow_handle(self.name()).cancel())

    async def outcome(self, call: Any) -> Any:
        try:
            await call
        except FailureError as error:
            return str(error)
        return "done"

    async def do_sleep(self, _: Plan) -> None:
        await workflow.sleep(1)

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

    def name(self) -> str:
        self.made += 1
        return f"w{self.made}"

    @workflow.run
    async def run(self, plan: Plan) -> list[Any]:
        return await self.follow(plan)


def type_of(how: Plan) -> Any:
    return {"cancellation_type": workflow.ChildWorkflowCancellationType(how[0])}


def nested(plans: st.SearchStrategy[Plan]) -> st.SearchStrategy[Plan]:
    several = st.lists(plans, min_size=1, max_size=3)
    step = st.one_of(
        several.map(lambda ps: ["together", *ps]),
        several.map(lambda ps: ["group", *ps]),
        plans.map(lambda p: ["limit", p]),
    )
    return st.lists(step, min_size=1, max_size=2)


types = st.integers(0, 3)
simple = st.one_of(
    types.map(lambda how: ["child", how]),
    st.tuples(types, st.integers(0, 1)).map(lambda how: ["changed_mind", *how]),
    st.sampled_from([["talk"], ["signal"], ["cancel"], ["sleep"]]),
)
plans = st.recursive(st.lists(simple, max_size=3), nested, max_leaves=8)


def open_children(run: PocketEngine) -> dict[str, bool]:
    """By workflow id: has it started?"""
    closed = {event.initiated_event_id for event in run.events if isinstance(event, CLOSED)}
    started = {
        event.initiated_event_id
        for event in run.events
        if isinstance(event, x.ChildWorkflowExecutionStarted)
    }
    return {
        event.workflow_id: event.event_id in started
        for event in run.events
        if isinstance(event, x.StartChildWorkflowExecutionInitiated)
        and event.event_id not in closed
    }


def unanswered(run: PocketEngine) -> list[Any]:
    answered = {event.initiated_event_id for event in run.events if isinstance(event, ANSWERED)}
    return [
        event for event in run.events if isinstance(event, ASKED) and event.event_id not in answered
    ]


def child_goes_on(run: PocketEngine, data: st.DataObject) -> None:
    found = open_children(run)
    if not found:
        return
    child = data.draw(st.sampled_from(sorted(found)))
    if not found[child]:
        how = data.draw(st.sampled_from(["start", "start", "start", "taken", "back"]))
        {"start": run.child_started, "taken": run.child_id_taken, "back": run.child_canceled}[how](
            child
        )
        return
    match data.draw(st.sampled_from(["complete", "complete", "fail", "cancel", "time", "end"])):
        case "complete":
            run.child_completed(child, 7)
        case "fail":
            run.child_failed(child, ApplicationError("bad"))
        case "cancel":
            run.child_canceled(child)
        case "time":
            run.child_timed_out(child)
        case _:
            run.child_terminated(child)


def answer(run: PocketEngine, data: st.DataObject) -> None:
    found = unanswered(run)
    if not found:
        return
    event = data.draw(st.sampled_from(found))
    granted = data.draw(st.integers(0, 3)) > 0
    if isinstance(event, x.SignalExternalWorkflowExecutionInitiated):
        kind: Any = x.ExternalWorkflowExecutionSignaled
        refusal: Any = x.SignalExternalWorkflowExecutionFailed
    else:
        kind = x.ExternalWorkflowExecutionCancelRequested
        refusal = x.RequestCancelExternalWorkflowExecutionFailed
    if granted:
        run.add(kind, initiated_event_id=event.event_id)
    else:
        run.add(refusal, initiated_event_id=event.event_id, cause="NOT_FOUND")


def fire(run: PocketEngine, data: st.DataObject) -> None:
    over = {
        event.timer_id for event in run.events if isinstance(event, m.TimerFired | m.TimerCanceled)
    }
    found = [
        event.timer_id
        for event in run.events
        if isinstance(event, m.TimerStarted) and event.timer_id not in over
    ]
    if found:
        run.fire(data.draw(st.sampled_from(found)))


def happen(run: PocketEngine, data: st.DataObject) -> None:
    """One thing that the world might do now."""
    what = data.draw(st.sampled_from(["child"] * 4 + ["answer"] * 3 + ["fire"] * 2 + ["cancel"]))
    match what:
        case "child":
            child_goes_on(run, data)
        case "answer":
            answer(run, data)
        case "fire":
            fire(run, data)
        case _:
            run.cancel("why not")


@settings(max_examples=150, deadline=None)
@given(plan=plans, data=st.data())
def test_replay_does_what_was_done(plan: Plan, data: st.DataObject) -> None:
    run = PocketEngine(Family, plan)
    live: list[tuple[int, list[m.Command]]] = []
    for _ in range(12):
        commands = run.task()
        live.append((run.sent, commands))
        if run.instance.is_closed:
            break
        for _ in range(data.draw(st.integers(1, 3))):
            happen(run, data)

    for started_event_id, commands in live:  # from every workflow task on
        fresh = new_instance(Family)
        outcome = fresh.activate(run.message(run.events[:started_event_id]))
        assert isinstance(outcome, m.TaskSuccess), outcome.failure
        assert outcome.commands == commands
        fresh.evict()
    assert isinstance(run.replay_all(), m.TaskSuccess)
    run.instance.evict()
