"""A run in memory goes on before the engine has said what comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sdk.engine_in_small import PocketEngine, names, new_instance, payloads, value_of
from tests.unit.sdk.test_replay_properties import Plan, Planned, happen, plans, still_open, work

from perdure import workflow
from perdure._replay import messages as m

LIMIT = timedelta(seconds=10)


class AheadEngine(PocketEngine):
    """An engine whose worker goes ahead where it can."""

    def go_ahead(self, activity_id: str, value: Any = None) -> list[m.Command] | None:
        """The commands of the workflow task; None: the instance does not go ahead."""
        self.now_us += 250_000
        task = self.instance.task_ahead(activity_id, payloads(value), self.now_us)
        if task is None:
            return None
        said = self.instance._last_event_id
        self.add(m.OtherEvent)  # ActivityTaskStarted
        self.complete(activity_id, value)
        self.add(m.OtherEvent)  # WorkflowTaskScheduled
        self.add(m.WorkflowTaskStarted, history_size_bytes=1_000, suggest_continue_as_new=False)
        assert alike(task.events) == alike(self.events[said:]), "the engine says something else"
        assert task.previous_started_event_id == self.previous_started_event_id
        assert task.started_event_id == len(self.events)
        assert task.events[-1].time_us == self.now_us
        outcome = self.instance.activate(task)
        assert isinstance(outcome, m.TaskSuccess), outcome.failure
        self.sent = len(self.events)
        self.taken(outcome)
        return outcome.commands


def alike(events: Sequence[m.Event]) -> list[m.Event]:
    """Without what replay does not read."""
    unread = {m.TimerCanceled: {"started_event_id": 0}}
    return [
        msgspec.structs.replace(event, time_us=0, **unread.get(type(event), {})) for event in events
    ]


@workflow.defn
class Steps:
    """One activity after the other, each in the way of its letter."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.may_end = False

    @workflow.signal
    async def more(self) -> None:
        await self.step()

    @workflow.signal
    def end(self) -> None:
        self.may_end = True

    @workflow.update
    async def one_more(self) -> int:
        return await self.step()

    @workflow.query
    def so_far(self) -> list[int]:
        return self.done

    async def step(self) -> int:
        result = await workflow.execute_activity(work, 1, start_to_close_timeout=LIMIT)
        self.done.append(result)
        return result

    async def in_time(self) -> None:
        await asyncio.wait_for(self.step(), 60)

    async def saying(self) -> None:
        workflow.upsert_memo({"step": len(self.done)})
        workflow.patched(f"p{len(self.done)}")
        await self.step()

    async def sized(self) -> None:
        await self.step()
        workflow.info().get_current_history_size()

    async def local(self) -> None:
        await self.step()
        await workflow.execute_local_activity(work, 1, start_to_close_timeout=LIMIT)

    async def left(self) -> None:
        workflow.start_activity(work, 1, start_to_close_timeout=LIMIT)

    async def beside(self) -> None:
        local = workflow.start_local_activity(work, 1, start_to_close_timeout=LIMIT)
        await self.step()
        await local

    async def two(self) -> None:
        await asyncio.gather(self.step(), self.step())

    async def wait(self) -> None:
        await workflow.wait_condition(lambda: self.may_end)

    @workflow.run
    async def run(self, ways: list[str]) -> list[int]:
        for way in ways:
            await getattr(self, way)()
        return self.done


def activity_of(commands: list[m.Command] | None) -> str:
    assert commands is not None
    (one,) = [command for command in commands if isinstance(command, m.ScheduleActivity)]
    return one.activity_id


def test_one_activity_after_the_other() -> None:
    run = AheadEngine(Steps, ["step", "step", "step"])
    commands: list[m.Command] | None = run.task()
    for value in (1, 2, 3):
        commands = run.go_ahead(activity_of(commands), value)

    assert commands is not None
    assert names(commands) == ["CompleteWorkflow [1, 2, 3]"]
    assert run.replay() == commands
    assert isinstance(run.replay_all(), m.TaskSuccess)


def test_time_limits_of_asyncio() -> None:
    """A timer is started and cancelled with each."""
    run = AheadEngine(Steps, ["in_time", "in_time"])
    first = run.task()
    second = run.go_ahead(activity_of(first), 1)
    third = run.go_ahead(activity_of(second), 2)

    assert third is not None
    assert names(third) == ["CancelTimer 2", "CompleteWorkflow [1, 2]"]
    assert isinstance(run.replay_all(), m.TaskSuccess)


def test_memos_and_patches() -> None:
    run = AheadEngine(Steps, ["saying", "saying"])
    second = run.go_ahead(activity_of(run.task()), 1)
    third = run.go_ahead(activity_of(second), 2)

    assert third is not None
    assert isinstance(third[-1], m.CompleteWorkflow)
    assert isinstance(run.replay_all(), m.TaskSuccess)


def test_the_code_sees_the_time_it_is_given() -> None:
    run = AheadEngine(Steps, ["step", "step"])
    run.go_ahead(activity_of(run.task()), 1)

    assert run.instance._run.now_us == run.now_us
    assert run.instance._run.history_length == run.previous_started_event_id
    assert not run.instance._run.replaying


def test_after_a_task_of_the_engine_s_it_goes_on() -> None:
    run = AheadEngine(Steps, ["step", "step", "wait", "step"])
    second = run.go_ahead(activity_of(run.task()), 1)
    assert run.go_ahead(activity_of(second), 2) == []
    run.signal("end")
    last = run.go_ahead(activity_of(run.task()), 3)

    assert last is not None
    assert names(last) == ["CompleteWorkflow [1, 2, 3]"]
    assert isinstance(run.replay_all(), m.TaskSuccess)


def test_queries_see_what_was_done_ahead() -> None:
    run = AheadEngine(Steps, ["step", "step"])
    run.go_ahead(activity_of(run.task()), 1)

    assert value_of(run.query("so_far").result) == [1]


def test_after_a_query_that_brought_the_newest_events() -> None:
    """Then the commands are confirmed already, and not said once more."""
    run = AheadEngine(Steps, ["step", "step"])
    first = run.task()
    query = m.Query(query_token=b"q", query_type="so_far", args=[], header={})
    run.instance.activate(run.message(run.events[run.sent :], queries=[query], query_only=True))

    second = run.go_ahead(activity_of(first), 1)
    assert second is not None
    assert names(second) == ["ScheduleActivity 2 work"]


def test_an_update_s_own_activities_but_the_first() -> None:
    """Of what settles an update the engine makes events, but it may have been settled before."""
    run = AheadEngine(Steps, ["wait"])
    run.task()
    run.update("u-1", "one_more")
    accepted = run.task()
    assert run.go_ahead(activity_of(accepted), 1) is None
    run.complete(activity_of(accepted), 1)
    assert names(run.task()) == ["CompleteUpdate u-1"]


def test_of_two_activities_the_first_to_return_waits_for_its_task() -> None:
    """The outcome of the other may come between."""
    run = AheadEngine(Steps, ["two"])
    ids = [one.activity_id for one in run.task() if isinstance(one, m.ScheduleActivity)]

    assert run.go_ahead(ids[0], 1) is None
    run.complete(ids[0], 1)
    run.task()
    last = run.go_ahead(ids[1], 2)
    assert last is not None
    assert names(last) == ["CompleteWorkflow [1, 2]"]


def test_an_activity_that_the_run_does_not_wait_for() -> None:
    run = AheadEngine(Steps, ["step"])
    run.task()

    assert run.instance.task_ahead("another", payloads(1), run.now_us) is None


def test_a_run_that_has_closed_waits_for_nothing() -> None:
    """Though an activity that it left is open still."""
    run = AheadEngine(Steps, ["left", "step"])
    commands = run.run_task().commands
    left, awaited = [one.activity_id for one in commands if isinstance(one, m.ScheduleActivity)]
    run.complete(awaited, 1)
    assert names(run.task()) == ["CompleteWorkflow [1]"]
    assert [one.activity_id for one in run.instance._run.activities.values()] == [left]

    assert run.instance.task_ahead(left, payloads(1), run.now_us) is None


def test_a_run_of_which_nothing_is_known() -> None:
    """It has had no task, or one that failed, or one that waits for local activities."""
    fresh = AheadEngine(Steps, ["step"])
    assert fresh.instance.task_ahead("1", payloads(1), fresh.now_us) is None

    broken = AheadEngine(Steps, ["step"])
    activity_id = activity_of(broken.task())
    broken.instance._broken = True
    assert broken.instance.task_ahead(activity_id, payloads(1), broken.now_us) is None

    waits = AheadEngine(Steps, ["beside"])
    waits.run_task()
    assert waits.instance._open_task is not None
    assert waits.instance.task_ahead("1", payloads(1), waits.now_us) is None


def test_what_happened_and_the_code_has_not_seen() -> None:
    """A query brought it: its task comes."""
    run = AheadEngine(Steps, ["step", "step"])
    first = run.task()
    run.signal("end")
    run.instance.activate(run.message(run.events[run.sent :], query_only=True))

    assert run.go_ahead(activity_of(first), 1) is None


def test_whether_to_continue_as_new_is_what_was_known() -> None:
    """The worker says what its code was told: the engine knows better."""
    run = AheadEngine(Steps, ["step", "step"])
    first = run.task()
    for suggests in (False, True):
        run.instance._run.suggest_continue_as_new = suggests
        task = run.instance.task_ahead(activity_of(first), payloads(1), run.now_us)
        assert task is not None
        assert task.suggest_continue_as_new is suggests
        assert task.events[-1].suggest_continue_as_new is suggests  # type: ignore[attr-defined]  # Started


def test_it_is_known_whether_the_code_asked_for_the_history_s_size() -> None:
    run = AheadEngine(Steps, ["step", "sized", "step"])
    second = run.go_ahead(activity_of(run.task()), 1)
    assert not run.instance.asked_history_size
    third = run.go_ahead(activity_of(second), 2)
    assert run.instance.asked_history_size
    run.go_ahead(activity_of(third), 3)
    assert not run.instance.asked_history_size


def test_local_activities_begin_with_the_task() -> None:
    run = AheadEngine(Steps, ["local"])
    run.go_ahead(activity_of(run.task()), 1)

    assert run.instance._open_task is not None


def test_local_activities_that_are_not_told_yet() -> None:
    """The task yielded, and they ran on: what they come to belongs to the task that comes next."""
    run = AheadEngine(Steps, ["beside"])
    run.run_task()
    activity_id = activity_of(run.yield_task())
    assert run.instance.task_ahead(activity_id, payloads(1), run.now_us) is None, "it runs"
    (local_id,) = run.instance._run.local._machines  # type: ignore[union-attr]  # it has some
    run.early_local(local_id, 2)
    assert run.instance.task_ahead(activity_id, payloads(1), run.now_us) is None, "it has ended"

    run.task()
    last = run.go_ahead(activity_id, 1)
    assert last is not None
    assert names(last) == ["CompleteWorkflow [1]"]


def test_what_was_refused_does_not_fit_what_comes_instead() -> None:
    """Invariant 42: the worker's copy is thrown away, and the code begins anew with all that happened."""
    run = AheadEngine(Steps, ["step", "step"])
    first = run.task()
    task = run.instance.task_ahead(activity_of(first), payloads(1), run.now_us)
    assert task is not None
    run.instance.activate(task)

    run.signal("end")
    run.complete(activity_of(first), 1)
    run.begin_task()
    assert not run.instance.fits(run.message(run.events[run.sent :]))
    assert not run.instance.fits(run.message(run.events))


@settings(max_examples=150, deadline=None)
@given(plan=plans, data=st.data())
def test_replay_does_what_was_done_ahead(plan: Plan, data: st.DataObject) -> None:
    """Whatever the code does: the events that the instance takes for known are those that the engine says, and the
    history replays."""
    run = AheadEngine(Planned, plan)
    live: list[tuple[int, list[m.Command]]] = []
    for _ in range(12):
        commands: list[m.Command] | None = run.task()
        while commands is not None:
            live.append((run.sent, commands))
            commands = None
            waiting = [one for one in still_open(run) if isinstance(one, m.ActivityTaskScheduled)]
            if waiting and not run.instance.is_closed:
                commands = run.go_ahead(data.draw(st.sampled_from(waiting)).activity_id, 7)
        if run.instance.is_closed:
            break
        for _ in range(data.draw(st.integers(1, 3))):
            happen(run, data)

    for started_event_id, done in live:  # from every workflow task on
        fresh = new_instance(Planned)
        outcome = fresh.activate(run.message(run.events[:started_event_id]))
        assert isinstance(outcome, m.TaskSuccess), outcome.failure
        assert outcome.commands == done
        fresh.evict()
    assert isinstance(run.replay_all(), m.TaskSuccess)
    run.instance.evict()
