"""How many tasks a worker asks for, and where those go that come with answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.sdk_client.test_worker_parts import Clock, turn

from perdure import activity
from perdure._definitions import activity_definition
from perdure._wire.completions import Completion, queries_answered
from perdure._wire.tasks import PolledActivityTask, PolledTasks, PolledWorkflowTask
from perdure._worker.activities import Activities
from perdure._worker.holding import HeldTasks
from perdure._worker.polling import Poller
from perdure._worker.slots import Slots
from perdure.converter import PayloadConverter
from perdure.errors import RPCError, RPCStatusCode
from perdure_api.v1 import worker_service_pb2 as pb


async def test_places_are_given_and_taken_back() -> None:
    slots = Slots(5)
    assert await slots.reserve() == 3  # half of all: the others are for what completions bring
    assert slots.reserve_for_answer(1) == 1
    assert slots.reserve_for_answer(9) == 1
    assert slots.reserve_for_answer(9) == 0
    waiting = asyncio.ensure_future(slots.reserve())
    await turn()
    assert not waiting.done()
    slots.release(2)
    slots.release(0)
    assert await waiting == 2
    assert slots.used == 5
    slots.release(2)
    slots.release(3)
    with pytest.raises(AssertionError):
        slots.release()


async def test_answers_that_do_not_come_leave_the_polls_their_half() -> None:
    slots = Slots(5)
    reserved = slots.reserve_for_answer(9)
    assert reserved == 2
    assert slots.reserve_for_answer(9) == 0
    assert await slots.reserve() == 3
    slots.answer_came(reserved, 1)
    assert slots.used == 4
    assert slots.reserve_for_answer(9) == 1
    assert Slots(1).reserve_for_answer(1) == 0  # the only place is the poll's


class Answers:
    """A door whose completions bring so many tasks of each kind, or fail."""

    def __init__(self, workflow_tasks: int, activity_tasks: int) -> None:
        self.tasks = PolledTasks(
            [PolledWorkflowTask(pb.WorkflowTask(token=b"w")) for _ in range(workflow_tasks)],
            [PolledActivityTask(pb.ActivityTask(token=b"a")) for _ in range(activity_tasks)],
        )
        self.asked: list[tuple[int, int]] = []
        self.polled = asyncio.Event()
        self.fails = False

    async def poll_tasks(self, max_workflow_tasks: int, max_activity_tasks: int) -> PolledTasks:
        self.polled.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets that event")

    async def complete_tasks(
        self, completions: list[Completion], max_workflow_tasks: int, max_activity_tasks: int
    ) -> tuple[dict[int, RPCError], PolledTasks]:
        self.asked.append((max_workflow_tasks, max_activity_tasks))
        if self.fails:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE)
        return {}, self.tasks


async def test_places_for_what_completions_bring() -> None:
    """Each task that is taken in keeps one place, and every other place is given back."""
    door, taken = Answers(1, 2), []
    poller = Poller(
        door, taken.append, Clock().surroundings(), workflow_slots=10, activity_slots=10
    )
    done = [queries_answered([])] * 4
    polling = asyncio.ensure_future(poller.run())
    await door.polled.wait()
    assert await poller.complete_tasks(done) == {}
    door.fails = True
    with pytest.raises(RPCError):
        await poller.complete_tasks(done)
    await turn()
    assert door.asked == [(4, 4), (4, 3)]  # half of ten are the poll's, the first call took two
    assert taken == [door.tasks]
    polling.cancel()
    await asyncio.wait([polling])
    assert (poller.workflow_slots.used, poller.activity_slots.used) == (1, 2)


async def test_a_poller_that_has_not_begun_or_has_ended_asks_for_nothing() -> None:
    door = Answers(0, 0)
    poller = Poller(
        door, lambda _: None, Clock().surroundings(), workflow_slots=3, activity_slots=3
    )
    await poller.complete_tasks([queries_answered([])])
    polling = asyncio.ensure_future(poller.run())
    await door.polled.wait()
    await poller.complete_tasks([queries_answered([])])
    polling.cancel()
    await asyncio.wait([polling])
    await poller.complete_tasks([queries_answered([])])
    assert door.asked == [(0, 0), (1, 1), (0, 0)]


class Submitted:
    """Completions that are settled at once."""

    def __init__(self) -> None:
        self.completions: list[Completion] = []

    def submit(self, completion: Completion, done: Callable[[RPCError | None], None]) -> None:
        self.completions.append(completion)
        done(None)


async def never_asked(*_: object) -> None:
    raise AssertionError("nobody makes checkpoints here")


async def test_an_attempt_that_comes_while_the_worker_stops() -> None:
    """It came with the answer to a completion: told at first, and not begun at last."""
    seen: list[bool] = []

    @activity.defn
    async def look() -> None:
        seen.append(activity.is_worker_shutdown())

    slots, submitted, held = Slots(2), Submitted(), HeldTasks()
    attempts = Activities(
        {"look": activity_definition(look)},
        namespace="default",
        task_queue="q",
        converter=PayloadConverter(),
        executor=ThreadPoolExecutor(1),
        completions=submitted,  # type: ignore[arg-type]  # its method is all that is used
        held=held,
        slots=slots,
        save_progress=never_asked,
    )
    task = pb.ActivityTask(token=b"a", activity_type="look")
    await slots.reserve()
    await slots.reserve()
    attempts.begin_shutdown()
    attempts.take(PolledActivityTask(task))
    await attempts.wait_ended()
    attempts.give_up()
    attempts.take(PolledActivityTask(task))
    await attempts.wait_ended()
    assert seen == [True]
    assert len(submitted.completions) == 1
    assert slots.used == 0
    assert held.all() == []
