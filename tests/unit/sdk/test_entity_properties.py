"""An entity's key against a list: whatever comes when, each call is done once, in the order of arrival.

Invariant: an acknowledged call has one effect and one outcome, through turns, cancellations, repeats,
and workers that have nothing but the history.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sdk.engine_in_small import CONVERTER, PocketEngine, new_instance, value_of

from perdure import workflow
from perdure._definitions import Head, head_to_payload
from perdure._failures import failure_to_exception
from perdure._replay import messages as m
from perdure.common import ENTITY_DESTROY, ENTITY_MOVED, RawValue
from perdure.errors import ApplicationError, is_cancelled_exception

ACTIONS = ("add", "wait", "fail", "again", "fire", "task", "task", "evict", "cancel", "destroy")


@workflow.entity
class Log:
    done: list[str]

    def __init__(self) -> None:
        self.done = []

    @workflow.entity_handler
    def add(self, call: str) -> int:
        self.done.append(call)
        return len(self.done)

    @workflow.entity_handler
    async def wait(self, call: str) -> int:
        before = len(self.done)
        self.done.append(call)
        await workflow.sleep(1)
        assert len(self.done) == before + 1, "another handler was let in"
        return len(self.done)

    @workflow.entity_handler
    def fail(self, call: str) -> None:
        self.done.append(call)
        raise ApplicationError(call, type="Refused")

    @workflow.entity_reader
    def read(self) -> list[str]:
        return self.done


class Key:
    """The chain of runs, and the client: who is told to ask the next run does so."""

    def __init__(self, calls_per_run: int) -> None:
        self._head = RawValue(head_to_payload(Head(calls_per_run=calls_per_run)))
        self.run = PocketEngine(Log, self._head)
        self.known = 0  # calls before this one were of a key that has been destroyed since
        self.made: list[tuple[str, str]] = []  # name and id, as they came
        self.asked: set[str] = set()  # of the present run
        self.outcomes: dict[str, Any] = {}

    def new_call(self, name: str) -> None:
        if len(self.run.updates) < 8:
            self.made.append((name, f"c-{len(self.made)}"))
            self.ask(*self.made[-1])

    def ask(self, name: str, call_id: str) -> None:
        if call_id not in self.asked:  # else the engine answers
            self.asked.add(call_id)
            if name == "destroy":
                self.run.update(call_id, ENTITY_DESTROY)
            else:
                self.run.update(call_id, name, call_id)

    def fire(self) -> None:
        timers = [one for one in self.run.events if isinstance(one, m.TimerStarted)]
        over = {
            one.timer_id
            for one in self.run.events
            if isinstance(one, m.TimerFired | m.TimerCanceled)
        }
        for timer in timers:
            if timer.timer_id not in over:
                self.run.fire(timer.timer_id)

    def evict(self) -> None:
        self.run.instance.evict()
        self.run.instance = new_instance(Log)
        self.run.sent = 0

    def task(self) -> None:
        run = self.run
        commands = run.task()
        moved = [call_id for call_id in run.outcomes if not self._settled(call_id)]
        if not commands or not isinstance(commands[-1], m.ContinueAsNew | m.CompleteWorkflow):
            assert not moved
            return
        replayed = run.replay_all()
        assert isinstance(replayed, m.TaskSuccess), replayed.failure
        if isinstance(commands[-1], m.CompleteWorkflow):
            assert not moved
            assert not run.updates
            self.run = PocketEngine(Log, self._head)
            self.asked = set()
            self.known = len(self.made)
            return
        following = PocketEngine(Log, *map(RawValue, commands[-1].input))
        following.updates = run.updates
        self.run = following
        self.asked = {one.update_id for one in following.updates}
        names = {call_id: name for name, call_id in self.made}
        for call_id in moved:
            self.ask(names[call_id], call_id)

    def _settled(self, call_id: str) -> bool:
        outcome = self.run.outcomes[call_id]
        told: Any
        if outcome.failure is None:
            told = value_of(outcome.result)
        else:
            error = failure_to_exception(outcome.failure, CONVERTER)
            if isinstance(error, ApplicationError) and error.type == ENTITY_MOVED:
                return False
            told = "cancelled" if is_cancelled_exception(error) else str(error)
        # A cancelled call that is asked for again is told of by its message only.
        assert self.outcomes.setdefault(call_id, told) == told or "ancelled" in told
        return True

    def read(self) -> list[str]:
        query = m.Query(query_token=b"q", query_type="read", args=[], header={})
        outcome = self.run.instance.activate(self.run.message([], queries=[query], query_only=True))
        assert isinstance(outcome, m.TaskSuccess)
        (result,) = outcome.query_results
        return list(value_of(result.result))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 6), st.lists(st.sampled_from(ACTIONS), max_size=60), st.randoms())
def test_each_call_is_done_once_and_in_order(
    calls_per_run: int, actions: list[str], random: Any
) -> None:
    key = Key(calls_per_run)
    key.task()
    for action in actions:
        match action:
            case "add" | "wait" | "fail" | "destroy":
                key.new_call(action)
            case "again" if key.made[key.known :]:
                key.ask(*random.choice(key.made[key.known :]))
            case "cancel":
                key.run.cancel()
            case "fire":
                key.fire()
            case "task":
                key.task()
            case "evict":
                key.evict()
    for _ in range(3 * len(key.made) + 3):
        key.fire()
        key.task()

    told, log = expected(key)
    assert key.outcomes == told
    assert key.read() == log
    assert key.run.updates == []


def expected(key: Key) -> tuple[dict[str, Any], list[str]]:
    """What a list would have come to, but for what was cancelled."""
    told: dict[str, Any] = {}
    log: list[str] = []
    for name, call_id in key.made:
        outcome = key.outcomes.get(call_id)
        if isinstance(outcome, str) and "ancelled" in outcome:
            told[call_id] = outcome
        elif name == "fail":
            told[call_id] = f"Refused: {call_id}"
        elif name == "destroy":
            told[call_id] = None
            log = []
        else:
            log.append(call_id)
            told[call_id] = len(log)
    return told, log
