"""Entities: one handler at a time, a state that is saved or as before, readers beside it, and turns
that lose no call. The entity's run on a pocket engine; nothing outside of the SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import (
    PocketEngine,
    in_memory,
    names,
    new_instance,
    value_of,
)

from perdure import activity, workflow
from perdure._definitions import (
    Done,
    Head,
    entity_definition,
    head_to_payload,
    workflow_definition,
)
from perdure._failures import failure_to_exception
from perdure._replay import messages as m
from perdure._replay.instance import WorkflowInstance
from perdure.common import (
    ENTITY_CALL_PREFIX,
    ENTITY_DESTROY,
    ENTITY_MOVED,
    ENTITY_TELL_BYTES_MAX,
    RawValue,
)
from perdure.converter import DataConverter
from perdure.errors import ApplicationError, is_cancelled_exception
from perdure.workflow import _entity_calls as entity_calls

CONVERTER = DataConverter.default.payload_converter
LIMIT = timedelta(seconds=10)


@activity.defn
async def price(item: str) -> int:
    return len(item)


@dataclass
class Line:
    item: str
    n: int


@workflow.entity(calls_per_run=4)
class Cart:
    lines: dict[str, Line]
    tags: set[str]

    def __init__(self) -> None:
        self.lines = {}
        self.tags = set()
        self.log: list[str] = []

    @workflow.entity_handler
    def add(self, item: str, n: int = 1) -> int:
        self.lines.setdefault(item, Line(item, 0)).n += n
        self.tags.add(item)
        self.log.append(f"add {item}")
        return self.lines[item].n

    @workflow.entity_handler
    async def pay(self, item: str) -> int:
        """Reads, waits, writes: another handler in between would be seen in the log."""
        seen = len(self.log)
        self.log.append("begins")
        cost: int = await workflow.execute_activity(price, item, start_to_close_timeout=LIMIT)
        self.log.append(f"ends after {len(self.log) - seen}")
        return cost

    @workflow.entity_handler(name="go wrong")
    async def fail(self, how: str) -> None:
        self.lines.clear()
        await workflow.sleep(0)
        if how == "state":
            self.log = ("no", "list")  # type: ignore[assignment]
        elif how == "result":
            return object()  # type: ignore[return-value]
        elif how == "continue":
            workflow.continue_as_new()
        else:
            raise ApplicationError(how, type="Wrong")
        return None

    @workflow.entity_handler
    def grow(self, size_bytes: int) -> None:
        self.log = ["x" * size_bytes]

    @workflow.entity_handler
    def who(self) -> tuple[str, str, str]:
        info = workflow.current_update_info()
        assert info is not None
        return workflow.entity_key(), info.id, info.name

    @workflow.entity_handler
    def note(self, text: str) -> None:
        self.log.append(text[:10])

    @workflow.entity_reader
    def total(self) -> int:
        return sum(line.n for line in self.lines.values())

    @workflow.entity_reader
    def history(self, last: int = 100) -> list[str]:
        shown = self.log[-last:]
        self.log.clear()  # of its own object
        return shown


def new_key(cls: type) -> PocketEngine:
    """As a client begins it."""
    head = Head(calls_per_run=entity_definition(cls).calls_per_run)
    return PocketEngine(cls, RawValue(head_to_payload(head)))


def began(cls: type = Cart) -> PocketEngine:
    run = new_key(cls)
    run.task()
    return run


def same_on_replay(run: PocketEngine) -> None:
    outcome = run.replay_all()
    assert isinstance(outcome, m.TaskSuccess), outcome.failure


def outcome_of(run: PocketEngine, call_id: str, hint: Any = Any) -> Any:
    return value_of(run.outcomes[call_id].result, hint)


def error_of(run: PocketEngine, call_id: str) -> BaseException:
    failure = run.outcomes[call_id].failure
    assert failure is not None
    return failure_to_exception(failure, CONVERTER)


def ask(run: PocketEngine, reader: str, *args: Any) -> Any:
    given = CONVERTER.to_payloads(args)
    query = m.Query(query_token=b"q", query_type=reader, args=given, header={})
    outcome = run.instance.activate(run.message([], queries=[query], query_only=True))
    assert isinstance(outcome, m.TaskSuccess)
    (result,) = outcome.query_results
    assert result.failure is None, result.failure
    return value_of(result.result)


def turned(commands: Sequence[m.Command], cls: type = Cart) -> PocketEngine:
    """The run that follows."""
    last = commands[-1]
    assert isinstance(last, m.ContinueAsNew), commands
    run = PocketEngine(cls)
    run.events = []
    run.add(m.WorkflowExecutionStarted, **{**STARTED, "input": last.input})
    return run


STARTED = {
    name: getattr(PocketEngine(Cart).events[0], name)
    for name in m.WorkflowExecutionStarted.__struct_fields__
    if name not in ("event_id", "time_us")
}


# --- one call ----------------------------------------------------------------------------------------


def test_a_call_changes_the_state_and_answers_in_one_task() -> None:
    run = began()
    run.update("c-1", "add", "apple", 2)
    run.update("c-2", "add", "apple")

    assert sorted(names(run.task())) == [
        "AcceptUpdate c-1",
        "AcceptUpdate c-2",
        "CompleteUpdate c-1",
        "CompleteUpdate c-2",
        "RecordMarker entity_state c-1",
        "RecordMarker entity_state c-2",
    ]
    assert (outcome_of(run, "c-1"), outcome_of(run, "c-2")) == (2, 3)
    assert ask(run, "total") == 3
    same_on_replay(run)


def test_a_key_at_rest_asks_for_nothing() -> None:
    """No task, no timer: after its calls the run has no command open."""
    run = began()
    run.update("c-1", "add", "apple")
    run.task()

    assert names(run.task()) == []
    assert not [one for one in run.events if isinstance(one, m.TimerStarted)]


def test_two_calls_never_interleave_and_keep_their_order() -> None:
    run = began()
    run.update("c-1", "pay", "apple")
    run.update("c-2", "add", "pear")
    run.update("c-3", "pay", "fig")
    assert names(run.task())[-1] == "ScheduleActivity 1 price"
    assert "c-2" not in run.outcomes

    run.complete("1", 7)
    assert sorted(names(run.task())) == [
        "CompleteUpdate c-1",
        "CompleteUpdate c-2",
        "RecordMarker entity_state c-1",
        "RecordMarker entity_state c-2",
        "ScheduleActivity 2 price",
    ]
    run.complete("2", 8)
    run.task()

    assert ask(run, "history") == [
        "begins",
        "ends after 1",
        "add pear",
        "begins",
        "ends after 1",
    ]
    same_on_replay(run)


def test_a_reader_sees_what_was_committed_while_a_handler_waits() -> None:
    run = began()
    run.update("c-1", "add", "apple")
    run.update("c-2", "pay", "apple")
    run.task()

    assert ask(run, "history") == ["add apple"]
    run.complete("1", 7)
    run.task()
    assert ask(run, "history", 1) == ["ends after 1"]


def test_what_a_reader_changes_is_gone() -> None:
    run = began()
    run.update("c-1", "add", "apple")
    run.task()

    assert ask(run, "history") == ask(run, "history") == ["add apple"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("why not", "why not"),
        ("state", r"Cart\.log would not come back as it is: .*`log: tuple`"),
        ("result", "a value of type builtins.object cannot be encoded"),
        ("continue", "an entity continues as new by itself"),
    ],
)
def test_a_handler_that_fails_leaves_the_state_as_it_was(how: str, said: str) -> None:
    """Invariant: a call's outcome and its change of the state are one; a failed one has no change."""
    run = began()
    run.update("c-1", "add", "apple")
    run.update("c-2", "go wrong", how)
    run.update("c-3", "add", "apple")
    run.task()

    error = error_of(run, "c-2")
    assert isinstance(error, ApplicationError)
    with pytest.raises(ApplicationError, match=said):
        raise error
    assert outcome_of(run, "c-3") == 2
    assert ask(run, "total") == 2
    same_on_replay(run)


def test_a_state_that_is_too_large_is_refused_to_the_call_that_makes_it_so() -> None:
    run = began()
    run.update("c-1", "grow", 1024 * 1024)
    run.update("c-2", "grow", 1024 * 1024 - 200)
    run.task()

    assert "the state of Cart would have" in str(error_of(run, "c-1"))
    assert run.outcomes["c-2"].failure is None


def test_a_handler_knows_its_key_and_its_call() -> None:
    run = began()
    run.update("c-1", "who")
    run.task()

    assert outcome_of(run, "c-1") == ["w-1", "c-1", "who"]


def test_a_call_that_nobody_knows_is_refused_without_a_trace() -> None:
    run = began()
    run.update("c-1", "steal")
    run.update("c-2", "add", 7, 8, 9)

    assert names(run.task()) == ["RejectUpdate c-1", "RejectUpdate c-2"]
    assert "no update 'steal'" in run.rejected["c-1"].message


def test_a_call_goes_on_in_another_worker_that_has_only_the_history() -> None:
    """The worker dies in a handler."""
    run = began()
    run.update("c-1", "pay", "apple")
    run.update("c-2", "add", "apple")
    run.task()
    run.complete("1", 7)
    run.instance.evict()
    run.instance = new_instance(Cart)
    run.sent = 0

    assert sorted(names(run.task()))[:2] == ["CompleteUpdate c-1", "CompleteUpdate c-2"]
    assert outcome_of(run, "c-1") == 7


def test_cancelling_the_run_cancels_the_handler_and_the_object_lives_on() -> None:
    run = began()
    run.update("c-1", "add", "apple")
    run.update("c-2", "pay", "apple")
    run.update("c-3", "add", "apple")
    run.task()
    run.cancel("stuck")

    commands = run.task()

    assert is_cancelled_exception(error_of(run, "c-2"))
    following = turned(commands)
    following.update("c-3", "add", "apple")
    following.task()
    assert outcome_of(following, "c-3") == 2
    assert ask(following, "history") == ["add apple", "add apple"]


def test_cancelling_a_key_at_rest_turns_it_over() -> None:
    run = began()
    run.update("c-1", "add", "apple")
    run.task()
    run.cancel()

    following = turned(run.task())
    following.task()
    assert ask(following, "total") == 1


# --- turns -------------------------------------------------------------------------------------------


def test_the_run_turns_over_when_nobody_waits() -> None:
    run = began()
    for number in range(4):
        run.update(f"c-{number}", "add", "apple")
    commands = run.task()

    assert names(commands)[-1] == "ContinueAsNew"
    assert [outcome_of(run, f"c-{number}") for number in range(4)] == [1, 2, 3, 4]
    following = turned(commands)
    following.update("c-9", "add", "apple")
    following.task()
    assert outcome_of(following, "c-9") == 5
    same_on_replay(following)


def waiting_at_the_turn(*, size_bytes: int = 10) -> tuple[PocketEngine, list[m.Command]]:
    """Eight calls are done and two wait when the run has had enough."""
    run = began()
    for number in range(7):
        run.update(f"c-{number}", "add", "apple")
    run.update("c-7", "pay", "apple")
    run.update("w-1", "note", "x" * size_bytes)
    run.update("w-2", "add", "fig")
    run.task()
    run.complete("1", 7)
    return run, run.task()


def test_what_waits_goes_along_and_its_callers_are_told() -> None:
    """Invariant: an acknowledged call is done exactly once, also when its run ends before its turn."""
    run, commands = waiting_at_the_turn()

    for call_id in ("w-1", "w-2"):
        error = error_of(run, call_id)
        assert isinstance(error, ApplicationError)
        assert error.type == ENTITY_MOVED
    following = turned(commands)
    # Nobody asks: they are done all the same.
    assert names(following.task()) == [
        "RecordMarker entity_state w-1",
        "RecordMarker entity_state w-2",
    ]
    assert ask(following, "history", 2) == ["xxxxxxxxxx", "add fig"]
    following.update("w-2", "add", "fig")
    following.task()
    assert outcome_of(following, "w-2") == 1
    assert ask(following, "history", 2) == ["xxxxxxxxxx", "add fig"]
    same_on_replay(following)
    same_on_replay(run)


def test_who_asks_again_while_it_waits_still_hears_of_that_one() -> None:
    _, commands = waiting_at_the_turn()
    following = turned(commands)
    following.update("w-2", "add", "fig")

    assert sorted(names(following.task())) == [
        "AcceptUpdate w-2",
        "CompleteUpdate w-2",
        "RecordMarker entity_state w-1",
        "RecordMarker entity_state w-2",
    ]
    assert ask(following, "history", 1) == ["add fig"]
    assert outcome_of(following, "w-2") == 1


def test_no_more_goes_along_than_fits_into_an_input() -> None:
    """What is above that is done before the turn."""
    run = began()
    run.update("p-1", "pay", "apple")
    for number in range(entity_calls.CARRIED_MAX + 5):
        run.update(f"w-{number}", "note", str(number))
    run.task()
    run.cancel()

    following = turned(run.task())

    assert [f"w-{number}" for number in range(5)] == [
        call_id for call_id, one in run.outcomes.items() if one.failure is None
    ]
    last = turned(following.task())  # which has had enough of its own after eight calls
    last.task()
    noted = [str(number) for number in range(entity_calls.CARRIED_MAX + 5)]
    assert ask(last, "history") == noted


def test_a_call_with_large_arguments_is_left_to_its_caller() -> None:
    run, commands = waiting_at_the_turn(size_bytes=ENTITY_TELL_BYTES_MAX)

    assert isinstance(error_of(run, "w-1"), ApplicationError)
    following = turned(commands)
    following.task()
    assert ask(following, "history", 1) == ["add fig"]


def test_a_done_call_that_is_repeated_after_the_turn_is_not_done_again() -> None:
    """Invariant: once per request id; a lost answer is asked for again in whatever run is current."""
    run = began()
    run.update("c-0", "add", "apple")
    run.update("c-1", "go wrong", "why not")
    for number in range(2, 4):
        run.update(f"c-{number}", "add", "apple")
    following = turned(run.task())
    following.update("c-0", "add", "apple")
    following.update("c-1", "go wrong", "why not")
    following.update("c-2", "pay", "apple")
    following.task()

    assert outcome_of(following, "c-0") == 1
    failed = error_of(following, "c-1")
    assert isinstance(failed, ApplicationError)
    assert (failed.message, failed.type) == ("why not", "Wrong")
    assert "was used before, for 'add'" in str(error_of(following, "c-2"))
    assert ask(following, "total") == 3
    same_on_replay(following)


# --- the end -----------------------------------------------------------------------------------------


def test_a_destroyed_key_is_fresh_and_its_run_completes() -> None:
    run = began()
    run.update("c-1", "add", "apple")
    run.update("d-1", ENTITY_DESTROY)

    commands = run.task()

    assert names(commands)[-2:] == ["CompleteUpdate d-1", "CompleteWorkflow None"]
    assert ask(run, "total") == 0
    same_on_replay(run)


def test_a_call_behind_the_end_begins_anew() -> None:
    run = began()
    run.update("c-1", "add", "apple", 5)
    run.update("d-1", ENTITY_DESTROY)
    run.update("c-2", "add", "apple")

    assert names(run.task())[-1] == "CompleteUpdate c-2"
    assert outcome_of(run, "c-2") == 1
    assert names(run.task()) == []


def test_a_failed_call_behind_the_end_does_not_keep_it() -> None:
    run = began()
    run.update("d-1", ENTITY_DESTROY)
    run.update("c-1", "go wrong", "why not")

    assert names(run.task())[-2:] == ["CompleteUpdate c-1", "CompleteWorkflow None"]


# --- what is remembered ------------------------------------------------------------------------------


def done(
    calls: entity_calls.Calls, call_id: str, at_ms: int, outcome: entity_calls.Outcome
) -> None:
    loop = asyncio.new_event_loop()
    try:
        call = entity_calls.Call(call_id, "add", [], loop.create_future())
        calls.add(call)
        calls.waiting.remove(call)
        calls.settle(call, outcome, at_ms)
    finally:
        loop.close()


def result(value: Any = None) -> entity_calls.Outcome:
    return entity_calls.Outcome(RawValue(CONVERTER.to_payload(value)))


def test_ids_of_the_callers_own_are_known_for_a_day_and_others_for_minutes() -> None:
    calls = entity_calls.Calls()
    done(calls, f"{ENTITY_CALL_PREFIX}1", 0, result())
    done(calls, "order-1", 0, result())

    minutes, day = entity_calls.OWN_IDS_KEPT_MS, entity_calls.GIVEN_IDS_KEPT_MS
    assert [one.call_id for one in calls.handed_on(minutes)] == ["call:1", "order-1"]
    assert [one.call_id for one in calls.handed_on(minutes + 1)] == ["order-1"]
    assert [one.call_id for one in calls.handed_on(day)] == ["order-1"]
    assert calls.handed_on(day + 1) == []


def test_outcomes_are_forgotten_before_ids_are() -> None:
    calls = entity_calls.Calls()
    for number in range(entity_calls.OUTCOMES_MAX + 1):
        done(calls, f"c-{number}", 0, result(number))
    done(calls, "large", 0, result("x" * entity_calls.OUTCOME_BYTES_MAX))

    following = entity_calls.Calls(calls.handed_on(0))

    for call_id in ("c-0", "large"):
        known = following.known(call_id, "add")
        assert isinstance(known, Done)
        with pytest.raises(ApplicationError, match="is done; what it came to is not kept"):
            known.again()
    known = following.known("c-9", "add")
    assert isinstance(known, Done)
    assert value_of([known.again().payload]) == 9


def test_what_is_handed_on_fits_into_an_input() -> None:
    calls = entity_calls.Calls()
    for number in range(entity_calls.IDS_MAX + 10):
        done(calls, f"{number}-{'x' * 60}", 0, result("y" * 1000))

    handed = calls.handed_on(0)

    head = Head(state=None, done=handed)
    size_bytes = len(head_to_payload(head).data)
    assert size_bytes <= entity_calls.DONE_BYTES_MAX
    assert handed[-1].call_id.startswith(f"{entity_calls.IDS_MAX + 9}-")
    assert len(handed) > 1_000


# --- other code ---------------------------------------------------------------------------------------


@workflow.entity(name="Sum", calls_per_run=5)
class Sum:
    def __init__(self) -> None:
        self.sum = 0
        self.old = 0

    @workflow.entity_handler
    def add(self, n: int) -> int:
        self.sum += n
        return self.sum

    @workflow.entity_handler
    def refuse(self) -> None:
        raise ApplicationError("no")

    @workflow.entity_handler
    async def slowly(self, n: int) -> int:
        await workflow.sleep(1)
        self.sum += n
        return self.sum

    @workflow.entity_reader
    def value(self) -> list[int]:
        return [self.sum, self.old]


@workflow.entity(name="Sum", calls_per_run=100)
class NewSum:
    """Counts double, refuses what was taken and takes what was refused, has other attributes, and is
    to turn over at another time."""

    def __init__(self) -> None:
        self.sum = 0
        self.new = "new"

    @workflow.entity_handler
    def add(self, n: int) -> int:
        if n == 3:
            raise ApplicationError("not three")
        self.sum += 2 * n
        return self.sum

    @workflow.entity_handler
    def refuse(self) -> None:
        self.sum = -1

    @workflow.entity_handler
    async def slowly(self, n: int) -> int:
        await workflow.sleep(1)
        self.sum += 2 * n
        return self.sum

    @workflow.entity_reader
    def value(self) -> list[Any]:
        return [self.sum, self.new]


def with_code(run: PocketEngine, cls: type) -> None:
    """Another worker goes on."""
    run.cls = cls
    run.instance.evict()
    run.instance = new_instance(cls)
    run.sent = 0


def test_other_code_takes_over_the_state_that_the_old_one_has_answered() -> None:
    """Invariant: what was answered stays true, whatever the code says that it would do today."""
    run = began(Sum)
    run.update("c-1", "add", 3)
    run.update("c-2", "refuse")
    run.update("c-3", "slowly", 5)
    run.task()
    with_code(run, NewSum)
    run.fire("1")
    run.task()  # c-3 ends by the new code, on what c-1 has left

    assert outcome_of(run, "c-3") == 3 + 2 * 5
    assert ask(run, "value") == [13, "new"]
    same_on_replay(run)
    with_code(run, Sum)
    run.update("c-4", "add", 1)
    run.task()
    assert outcome_of(run, "c-4") == 14


def test_a_run_turns_over_when_its_beginning_said() -> None:
    run = began(Sum)
    for number in range(4):
        run.update(f"c-{number}", "add", 1)
    run.task()
    with_code(run, NewSum)
    run.update("c-4", "add", 1)

    following = turned(run.task(), NewSum)

    for number in range(6):
        following.update(f"d-{number}", "add", 1)
    assert names(following.task())[-1] == "CompleteUpdate d-5"


def test_a_key_that_was_begun_by_name_turns_over_after_a_fixed_number_of_calls() -> None:
    run = PocketEngine(Sum)
    for number in range(99):
        run.update(f"c-{number}", "add", 1)
    assert names(run.task())[-1] == "CompleteUpdate c-98"

    run.update("c-99", "add", 1)
    assert names(run.task())[-1] == "ContinueAsNew"


def test_only_what_has_changed_is_saved_with_a_call() -> None:
    run = began(Sum)
    run.update("c-1", "add", 1)
    run.update("c-2", "add", 0)
    run.update("c-3", "refuse")
    run.task()

    (first,) = [one for one in run.events if isinstance(one, m.MarkerRecorded)]
    assert first.marker_id == "c-1"
    assert json.loads(first.details[0].data) == {"id": "c-1", "changed": ["sum", "old"]}
    run.update("c-4", "slowly", 2)
    run.task()
    run.fire("1")
    run.task()
    *_, last = [one for one in run.events if isinstance(one, m.MarkerRecorded)]
    assert json.loads(last.details[0].data) == {"id": "c-4", "changed": ["sum"]}
    assert value_of(last.details[1:]) == 3


# --- the state's shape -------------------------------------------------------------------------------


def moved_to(cls: type, old: type) -> PocketEngine:
    """A key of `old` after a turn, whose next run has the code of `cls`."""
    run = began(old)
    for number in range(3):
        run.update(f"c-{number}", "set", number)
    return turned(run.task(), cls)


@workflow.entity(name="Thing", calls_per_run=3)
class Old:
    old: dict[str, int]

    def __init__(self) -> None:
        self.old = {}

    @workflow.entity_handler
    def set(self, n: int) -> None:
        self.old["n"] = n


@workflow.entity(name="Thing")
@dataclass(slots=True)
class Slotted:
    old: dict[str, int] = field(default_factory=dict)
    new: str = "default"

    @workflow.entity_handler
    def set(self, n: int) -> list[Any]:
        self.new += str(n)
        return [self.old, self.new]


@workflow.entity(name="Thing")
class Newer:
    def __init__(self) -> None:
        self.new = 1

    @workflow.entity_handler
    def set(self, n: int) -> list[str]:
        return sorted(vars(self))

    @workflow.entity_handler
    def drop(self) -> list[str]:
        del self.old  # type: ignore[attr-defined]
        return sorted(vars(self))


@workflow.entity(name="Thing")
class Other:
    old: list[str]

    @workflow.entity_handler
    def set(self, n: int) -> None: ...


def test_a_new_attribute_is_as_the_class_makes_it() -> None:
    run = moved_to(Slotted, Old)
    run.update("c-9", "set", 7)
    run.task()

    assert outcome_of(run, "c-9") == [{"n": 2}, "default7"]


def test_an_attribute_that_the_class_does_not_know_is_kept_until_it_is_deleted() -> None:
    """Old and new workers may take turns."""
    run = moved_to(Newer, Old)
    run.update("c-8", "set", 7)
    run.update("c-9", "drop")
    run.update("c-10", "set", 7)
    run.task()

    assert outcome_of(run, "c-8") == ["new", "old"]
    assert outcome_of(run, "c-9") == outcome_of(run, "c-10") == ["new"]


def test_a_class_that_does_not_fit_fails_the_task_and_not_the_run() -> None:
    """Invariant: a saved state is never lost by an error of code; the task waits for better code."""
    run = moved_to(Other, Old)
    run.update("c-9", "set", 7)

    failed = run.failed_task()

    assert failed.cause.name == "PAYLOAD_DECODE"
    assert "attribute 'old' of Other does not fit what is saved" in failed.failure.message


def test_a_state_outlives_a_worker_that_wants_exceptions_to_fail_runs() -> None:
    run = moved_to(Other, Old)
    run.instance = WorkflowInstance(
        workflow_definition(Other),
        namespace="default",
        data_converter=DataConverter.default,
        failure_exception_types=(Exception,),
    )
    in_memory.append(run.instance)
    run.update("c-9", "set", 7)

    assert run.failed_task().cause.name == "PAYLOAD_DECODE"


def test_a_state_outlives_a_mistake_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(*_: Any) -> None:
        raise KeyError("a mistake")

    run = began()
    run.update("c-1", "add", "apple")
    monkeypatch.setattr(entity_calls.Calls, "settle", settle)

    assert "the entity could not go on: KeyError('a mistake')" in run.failed_task().failure.message


def test_an_input_of_somebody_else_fails_the_task() -> None:
    run = PocketEngine(Cart, {"state": ["a", "b"]})

    assert "this is no entity's input: 1 of 3" in run.failed_task().failure.message


# --- definitions -------------------------------------------------------------------------------------


def test_arguments_by_name_travel_by_position() -> None:
    add = entity_definition(Cart).handlers["add"]

    assert add.positional(("apple",), {"n": 2}) == ["apple", 2]
    assert add.positional((), {"item": "apple"}) == ["apple"]
    with pytest.raises(TypeError, match=r"Cart\.add: got an unexpected keyword argument 'm'"):
        add.positional(("apple",), {"m": 2})
    with pytest.raises(TypeError, match=r"Cart\.add cannot take 3 argument"):
        add.positional(("apple", 1, 2), {})


def test_an_entity_can_be_used_without_any_engine() -> None:
    cart = Cart()

    assert cart.add("apple", 2) == 2
    assert cart.total() == 2


class Bare:
    pass


class NeedsArguments:
    def __init__(self, size: int) -> None: ...

    @workflow.entity_handler
    def set(self) -> None: ...


class Twice:
    @workflow.entity_handler(name="set")
    def one(self) -> None: ...

    @workflow.entity_handler(name="set")
    def two(self) -> None: ...


class Overrides(Cart):
    def add(self, item: str, n: int = 1) -> int:
        return 0


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (Bare, "Bare has no method with @workflow.entity_handler"),
        (NeedsArguments, r"NeedsArguments\(\) must need no arguments, and not 'size'"),
        (Twice, "Twice has two handlers named 'set'"),
        (Overrides, r"Overrides\.add overrides an entity's handler: decorate it too"),
    ],
)
def test_what_cannot_be_an_entity(cls: type, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        workflow.entity(cls)


def test_more_that_cannot_be_an_entity() -> None:
    async def read(self: Any) -> None: ...

    def keyword(self: Any, *, must: int) -> None: ...

    with pytest.raises(TypeError, match="must not be async"):
        workflow.entity_reader(read)
    with pytest.raises(TypeError, match="'must' must not be keyword-only"):
        workflow.entity_handler(keyword)
    with pytest.raises(TypeError, match="names that begin with perdure: are"):
        workflow.entity_handler(name=ENTITY_DESTROY)(read)
    with pytest.raises(ValueError, match="calls_per_run must be at least 1"):
        workflow.entity(calls_per_run=0)(Cart)
    with pytest.raises(RuntimeError, match="not in workflow code"):
        workflow.entity_key()
