"""The automata: each legal move moves, each illegal one raises and changes nothing."""

from collections.abc import Callable
from enum import IntEnum
from itertools import product
from typing import Any, cast

import pytest

from perdure._replay.machines import (
    activity,
    child,
    completion,
    external_cancel,
    external_signal,
    local_activity,
    timer,
)
from perdure._replay.machines.moves import IllegalMoveError
from perdure._replay.messages import LocalActivityTask

UNUSED: Any = None


def activity_machine() -> activity.ActivityMachine:
    how = activity.ActivityCancellationType.TRY_CANCEL
    return activity.ActivityMachine("1", "charge", None, how, UNUSED)


def timer_machine() -> timer.TimerMachine:
    return timer.TimerMachine("1", UNUSED)


def local_activity_machine() -> local_activity.LocalActivityMachine:
    how = activity.ActivityCancellationType.TRY_CANCEL
    task = LocalActivityTask(
        activity_id="1",
        activity_type="charge",
        input=[],
        schedule_to_close_timeout_ms=0,
        schedule_to_start_timeout_ms=0,
        start_to_close_timeout_ms=1,
        retry_policy=None,
        local_retry_threshold_ms=1,
        attempt=1,
        scheduled_time_us=1,
    )
    return local_activity.LocalActivityMachine(task, None, how, UNUSED, None)


def child_machine() -> child.ChildMachine:
    how = child.ChildWorkflowCancellationType.TRY_CANCEL
    return child.ChildMachine("c", "pack", None, how, UNUSED)


def signal_machine() -> external_signal.ExternalSignalMachine:
    return external_signal.ExternalSignalMachine("o", "hello", UNUSED)


def cancel_machine() -> external_cancel.ExternalCancelMachine:
    return external_cancel.ExternalCancelMachine("o")


MACHINES: list[tuple[Callable[[], Any], type[IntEnum], type[IntEnum], dict[Any, Any]]] = [
    (activity_machine, activity.ActivityState, activity.ActivityMove, activity.MOVES),
    (timer_machine, timer.TimerState, timer.TimerMove, timer.MOVES),
    (
        completion.CompletionMachine,
        completion.CompletionState,
        completion.CompletionMove,
        completion.MOVES,
    ),
    (
        local_activity_machine,
        local_activity.LocalActivityState,
        local_activity.LocalActivityMove,
        local_activity.MOVES,
    ),
    (child_machine, child.ChildState, child.ChildMove, child.MOVES),
    (
        signal_machine,
        external_signal.ExternalSignalState,
        external_signal.ExternalSignalMove,
        external_signal.MOVES,
    ),
    (
        cancel_machine,
        external_cancel.ExternalCancelState,
        external_cancel.ExternalCancelMove,
        external_cancel.MOVES,
    ),
]
ALL = [
    pytest.param(make, state, move, moves.get((state, move)), id=f"{state.name} {move.name}")
    for make, states, all_moves, moves in MACHINES
    for state, move in product(states, all_moves)
]


@pytest.mark.parametrize(("make", "state", "move", "after"), ALL)
def test_moves(make: Callable[[], Any], state: IntEnum, move: IntEnum, after: IntEnum) -> None:
    machine = make()
    machine.state = state

    if after is None:
        with pytest.raises(IllegalMoveError, match=f"is {state.name} and cannot take {move.name}"):
            machine.move(move)
        assert machine.state is state
    else:
        machine.move(move)
        assert machine.state is after


@pytest.mark.parametrize(("make", "states", "moves", "table"), MACHINES)
def test_every_state_can_be_reached_from_the_first(
    make: Any, states: type[IntEnum], moves: Any, table: dict[Any, Any]
) -> None:
    reached = {cast("IntEnum", make().state)}
    for _ in states:
        reached |= {after for (state, _), after in table.items() if state in reached}

    assert reached == set(states)
