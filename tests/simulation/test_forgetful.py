"""Every verb on a few workflow ids, in an engine that forgets as soon as it may: caches and pages of two, a database
that fails now and then, owners that come and go. What is checked holds whatever was asked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.simulation.audit_chains import all_of
from tests.simulation.world import pass_time
from tests.unit.history.room import (
    BODY,
    FINISH,
    NAMESPACE,
    Node,
    Room,
    cmd,
    ev,
    in_room,
    schedule,
    timer,
)

from perdure_engine.core import intents
from perdure_engine.core.audit import Head, check
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import IdConflictPolicy, UpdateStage
from perdure_engine.core.replies import QueryAnswer
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.history import (
    offering,
    outbox,
    queues,
    removing,
    run,
    service,
    shard,
    sweeping,
    timers,
)
from perdure_engine.matching import backlog
from perdure_engine.ports.history import HandedWorkflowTask
from perdure_engine.ports.store import Conflict, OutcomeUnknown, StoreError, StoreUnavailable
from perdure_engine.store.memory import Moment

TINY = (
    *((offering.Offering, "credit", 2), (offering, "PAGE", 2), (queues, "PAGE", 2)),
    *((outbox, "CREDIT", 2), (outbox, "PAGE", 2)),
    *((backlog, "TASKS_PER_QUEUE_MAX", 2), (backlog, "REFILL_BELOW", 1), (timers, "PAGE", 2)),
    *((sweeping, "KEYS_MAX", 2), (sweeping, "QUEUES_MAX", 1), (removing, "RUNS_MAX", 1)),
    *((run, "EVENTS_KEPT_MAX", 3), (service, "SCAN_PAGE", 2)),
    (shard, "RUN_INTENTS_PER_BATCH_MAX", 2),
)
CONFIG: dict[str, Any] = {
    "runs_cached_max": 2,
    "group_intents_max": 3,
    "timers_in_memory_max": 2,
    "window_s": 10.0,
    "window_load_every_s": 4.0,
    "sweep_every_s": 1.0,
}
IDS = tuple("abcdefgh")
PLAY_S = 20.0
QUIET_S = 400.0
FAILURE = Failure(FailureKind.APPLICATION, "no", type="No")
AGAIN = cmd.ContinueAsNew("", "", b"next", b"", b"", 0, 0, None)
YES = QueryAnswer(b"yes", None)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in TINY:
        monkeypatch.setattr(module, name, value)


class Play:
    """Clients, workers and an unkind world, all by one seed."""

    def __init__(self, room: Room, first: Node) -> None:
        self.room = room
        self.random = random.Random(room.loop.seed)
        self.nodes = [first]
        self.calls: list[asyncio.Future[Any]] = []
        self.number = 0

    @property
    def owner(self) -> Node:
        return self.nodes[-1]

    def name(self, letter: str) -> str:
        self.number += 1
        return f"{letter}{self.number}"

    async def for_ever(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await step()

    # ---- clients

    def ask(self, kind: Any, workflow_id: str, **fields: Any) -> asyncio.Future[Any]:
        fields = {"run_id": b""} | fields
        intent = kind(namespace_id=NAMESPACE, workflow_id=workflow_id, **fields)
        return self.owner.history.submit(1, intent)

    def delete(self, workflow_id: str, run_id: bytes = b"") -> asyncio.Future[Any]:
        request_id = self.room.ids.new_id()
        return self.ask(
            intents.DeleteWorkflow,
            workflow_id,
            run_id=run_id,
            request_id=request_id,
            body_hash=BODY,
        )

    def update(self, workflow_id: str) -> asyncio.Future[Any]:
        return self.ask(
            intents.UpdateWorkflow,
            workflow_id,
            update_id=self.name("u"),
            update_name="set",
            body_hash=BODY,
            input=b"x",
            wait_stage=self.random.choice(list(UpdateStage)),
        )

    def start(self, workflow_id: str) -> asyncio.Future[Any]:
        choose = self.random.choice
        return self.owner.start(
            workflow_id,
            id_conflict_policy=choose(list(IdConflictPolicy)),
            retry_policy=choose([None, RetryPolicy(500, maximum_attempts=2)]),
            run_timeout_ms=choose([0, 0, 5_000]),
        )

    def of_any_run(self, _: str) -> asyncio.Future[Any]:
        """Named by its run id; or of an id that was never used."""
        owner = self.owner
        rows = self.room.tables.executions.all()
        if not rows or self.random.random() < 0.5:
            return owner.describe(f"nobody{self.random.randrange(50)}")
        row = self.random.choice(rows)
        act: Any = self.random.choice(
            [owner.describe, owner.signal, owner.reset, owner.reset, self.delete]
        )
        answer: asyncio.Future[Any] = act(row.workflow_id, run_id=row.run_id)
        return answer

    async def client(self) -> None:
        await asyncio.sleep(self.random.random() / 2)
        owner = self.owner
        verbs: list[Callable[[str], asyncio.Future[Any]]] = [
            *[self.start, self.start, self.start, owner.signal, owner.signal, self.update],
            *[self.update, owner.query, owner.result, owner.pause, owner.unpause, owner.unpause],
            *[owner.reset, owner.terminate, self.delete, owner.describe, self.of_any_run],
            *[self.of_any_run] * 5,
        ]
        try:
            call = self.random.choice(verbs)(self.random.choice(IDS))
        except Rejected:
            return  # between two owners
        self.calls.append(call)
        if self.random.random() < 0.7:
            await asyncio.wait([call], timeout=self.random.choice([0.5, 5.0]))

    # ---- workers

    async def worker(self) -> None:
        owner, worker = self.owner, self.room.worker(self.random.choice("xyz"))
        answer = await owner.polling(worker, workflow=2, activity=2, timeout_s=0.3)
        for task in answer.activity_tasks:
            if self.random.random() < 0.8:
                self.calls.append(owner.complete_activity(task.token))
        for turn in answer.workflow_tasks:
            for query in turn.queries:
                owner.history.answer_query(query.token, YES)
            if turn.token is not None and self.random.random() < 0.9:
                commands = [*self.verdicts(turn), *self.decided()]
                sticky = worker if self.random.random() < 0.7 else None
                self.calls.append(owner.complete(turn, commands, sticky))

    def verdicts(self, turn: HandedWorkflowTask) -> list[cmd.Command]:
        commands: list[cmd.Command] = []
        for update in turn.updates:
            if self.random.random() < 0.2:
                commands.append(cmd.RejectUpdate(update.update_id, FAILURE))
            else:
                commands.append(cmd.AcceptUpdate(update.update_id))
                commands.append(cmd.CompleteUpdate(update.update_id, b"done", None))
        return commands

    def decided(self) -> list[cmd.Command]:
        once = RetryPolicy(maximum_attempts=self.random.choice([0, 1, 3]))
        return self.random.choice(
            [
                *([AGAIN], [FINISH], [cmd.FailWorkflow(FAILURE)], []),
                [schedule(self.name("a"), retry_policy=once)],
                [timer(self.random.random() * 5, self.name("t"))],
            ]
        )

    # ---- the world

    async def world(self) -> None:
        await asyncio.sleep(self.random.random() * 2)
        what = self.random.random()
        if what < 0.7:
            faults: list[StoreError] = [OutcomeUnknown("?"), Conflict("?"), StoreUnavailable("?")]
            operation = self.random.choice(["commit", "commit", "remove_runs", "load_run"])
            moment = self.random.choice([Moment.BEFORE, Moment.BEFORE, Moment.AFTER])
            self.owner.faults.fail_next(operation, self.random.choice(faults), moment)
        elif what < 0.85:
            await self.new_owner()
        else:
            await self.owner.history.release_many([1])
            await self.new_owner()

    async def new_owner(self) -> None:
        """Takes the shard once the lease of the one before is over, as the controller does."""
        self.owner.lease = False
        self.nodes.append(await self.room.node(1))

    # ---- the end

    async def finish(self) -> None:
        """Every run that is open goes on, and ends with its next workflow task."""
        await self.new_owner()
        last = asyncio.ensure_future(self.for_ever(self.finisher))
        for _ in range(3):
            for workflow_id in IDS:
                for call in (self.owner.unpause(workflow_id), self.owner.signal(workflow_id)):
                    await asyncio.wait([call])
                    self.calls.append(call)
            await pass_time(QUIET_S)
        last.cancel()
        await asyncio.wait([last])

    async def finisher(self) -> None:
        owner = self.owner
        answer = await owner.polling(self.room.worker("last"), timeout_s=0.5)
        self.calls += [owner.complete_activity(task.token) for task in answer.activity_tasks]
        for turn in answer.workflow_tasks:
            for query in turn.queries:
                owner.history.answer_query(query.token, YES)
            if turn.token is not None:
                accepted = [cmd.AcceptUpdate(update.update_id) for update in turn.updates]
                self.calls.append(owner.complete(turn, [*accepted, FINISH]))


@in_room(seeds=range(8), **CONFIG)
async def test_whatever_is_asked_and_forgotten_the_engine_remembers(room: Room) -> None:
    """Invariants 1, 3, 4, 9, 13, 20: no alarm, no run that waits for nothing, one current run that the row names."""
    play = Play(room, await room.node(1))
    steps = [play.worker, play.worker, play.client, play.client, play.client, play.world]
    tasks = [asyncio.ensure_future(play.for_ever(step)) for step in steps]
    await pass_time(PLAY_S)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended
    await play.finish()

    assert [alarm for node in play.nodes for alarm in node.alarms] == []
    for call in play.calls:
        error = call.exception() if call.done() and not call.cancelled() else None
        if error is not None:
            assert isinstance(error, Rejected), error
            assert error.code not in (Code.INTERNAL, Code.DATA_LOSS), error
    current = {row.workflow_id: row for row in room.tables.current_runs.all()}
    for row in room.tables.executions.all():
        assert row.status != Status.RUNNING
        events = await room.history(row.run_id)
        assert [event.event_id for event in events] == list(range(1, row.next_event_id))
        assert isinstance(events[0], ev.WorkflowExecutionStarted)
    for workflow_id, named in current.items():
        assert room.tables.executions.get(1, named.run_id), workflow_id
    head = Head(1)
    for audited in room.tables.audit.in_order(1):
        head = check(head, audited)
    assert head.seq <= len(all_of(room.tables))
