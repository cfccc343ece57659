"""Entities: a run that turns over loses no call and does none twice, and what it remembers for that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import (
    PocketEngine,
    names,
    value_of,
)
from tests.unit.sdk.entities_in_small import (
    CONVERTER,
    ask,
    began,
    error_of,
    outcome_of,
    same_on_replay,
    turned,
)

from perdure._definitions import (
    Done,
    Head,
    head_to_payload,
)
from perdure._replay import messages as m
from perdure.common import (
    ENTITY_CALL_PREFIX,
    ENTITY_MOVED,
    ENTITY_TELL_BYTES_MAX,
    RawValue,
)
from perdure.errors import ApplicationError
from perdure.workflow import _entity_calls as entity_calls


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
