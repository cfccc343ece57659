"""Sagas: compensations in reverse, whole, beyond cancellation, and an operator for those that fail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names

from perdure import activity, workflow
from perdure._replay.messages import (
    ActivityTaskScheduled,
    Command,
    CompensationNote,
    RecordMarker,
    ScheduleActivity,
)
from perdure.common import SAGA_SIGNAL, RawValue
from perdure.errors import ApplicationError, ChildWorkflowError

LIMIT = timedelta(seconds=10)


async def do(name: str) -> Any:
    return await workflow.execute_activity(name, start_to_close_timeout=LIMIT)


@workflow.defn
class Trip:
    @workflow.run
    async def run(self) -> Any:
        async with workflow.saga() as saga:
            for step in ("car", "hotel", "flight"):
                saga.add(workflow.execute_activity, f"undo-{step}", start_to_close_timeout=LIMIT)
                await do(step)
        return "booked"


@workflow.defn
class Careful:
    """Catches what it came to, and says what was given up."""

    @workflow.run
    async def run(self) -> Any:
        saga = workflow.saga()
        try:
            async with saga:
                saga.add(do, "undo-car")
                await do("car")
                raise ApplicationError("no license")
        except ApplicationError as error:
            return [error.message, saga.skipped]


def to(run: PocketEngine, *names_of: str) -> list[str]:
    """The activities complete one after the other; what the last workflow task asked for."""
    asked: list[str] = []
    for name in names_of:
        complete(run, name)
        asked = names(run.task())
    return asked


def complete(run: PocketEngine, name: str) -> None:
    run.complete(activity_id(run, name))


def fail(run: PocketEngine, name: str, message: str = "no") -> None:
    run.fail(activity_id(run, name), ApplicationError(message))


def activity_id(run: PocketEngine, name: str) -> str:
    found = [e for e in run.events if getattr(e, "activity_type", "") == name]
    assert isinstance(found[-1], ActivityTaskScheduled)
    return found[-1].activity_id


def begin(cls: type = Trip) -> PocketEngine:
    run = PocketEngine(cls)
    run.task()
    return run


def started(commands: list[str]) -> list[str]:
    return [text.split()[-1] for text in commands if text.startswith("ScheduleActivity")]


def test_nothing_is_undone_when_all_went_well() -> None:
    run = begin()
    assert to(run, "car", "hotel", "flight") == ["CompleteWorkflow booked"]


def test_a_step_that_fails_is_undone_too_and_all_before_it_in_reverse() -> None:
    run = begin()
    to(run, "car")
    fail(run, "hotel", "full")
    assert started(names(run.task())) == ["undo-hotel"]
    assert started(to(run, "undo-hotel")) == ["undo-car"]
    last = to(run, "undo-car")
    assert last[-1].startswith("FailWorkflow")
    assert names(run.replay()) == last


def test_a_cancelled_workflow_is_undone_and_ends_cancelled() -> None:
    run = begin()
    to(run, "car")
    run.cancel("too dear")
    asked = names(run.task())
    assert started(asked) == ["undo-hotel"]
    assert any(text.startswith("RequestCancelActivity") for text in asked)
    to(run, "undo-hotel")
    assert to(run, "undo-car")[-1].startswith("CancelWorkflow")


def test_a_cancellation_does_not_reach_what_undoes() -> None:
    run = begin()
    to(run, "car")
    fail(run, "hotel")
    run.task()
    run.cancel("now")
    assert names(run.task()) == [], "undo-hotel goes on"
    assert started(to(run, "undo-hotel")) == ["undo-car"]
    assert to(run, "undo-car")[-1].startswith("CancelWorkflow")


def test_a_compensation_that_fails_waits_for_an_operator_and_is_tried_again() -> None:
    run = begin(Careful)
    to(run, "car")
    fail(run, "undo-car", "bank closed")
    assert names(run.task()) == ["RecordMarker compensation undo-car parked"]
    run.signal(SAGA_SIGNAL, {"action": "nonsense"})
    assert names(run.task()) == []
    run.signal(SAGA_SIGNAL, {"action": "retry"})
    assert started(names(run.task())) == ["undo-car"]
    last = to(run, "undo-car")
    assert last == [
        "RecordMarker compensation undo-car completed",
        "CompleteWorkflow ['no license', []]",
    ]
    assert names(run.replay()) == last


def test_an_operator_may_give_one_up() -> None:
    run = begin(Careful)
    to(run, "car")
    fail(run, "undo-car")
    run.task()
    run.signal(SAGA_SIGNAL, {"action": "skip", "reason": "refunded by hand"})
    assert names(run.task()) == [
        "RecordMarker compensation undo-car skipped",
        "CompleteWorkflow ['no license', ['undo-car']]",
    ]


def notes(commands: Sequence[Command]) -> list[CompensationNote]:
    return [
        one.compensation for one in commands if isinstance(one, RecordMarker) and one.compensation
    ]


def test_the_audit_log_hears_how_each_compensation_went_and_never_what_an_error_said() -> None:
    """B8: every compensation in the audit log. An error's message may be for the workflow only."""
    run = begin(Careful)
    to(run, "car")
    run.fail(activity_id(run, "undo-car"), ApplicationError("card 4711", type="BankClosed"))
    (parked,) = notes(run.task())
    assert (parked.name, parked.outcome, parked.reason) == ("undo-car", "parked", "BankClosed")
    run.signal(SAGA_SIGNAL, {"action": "retry", "reason": "bank is open"})
    (retried,) = notes(run.task())
    assert (retried.outcome, retried.reason) == ("retried", "bank is open")
    complete(run, "undo-car")
    (completed,) = notes(run.task())
    assert (completed.outcome, completed.reason) == ("completed", "")


def test_a_saga_of_before_there_were_notes_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as old:
        old.setattr("perdure.workflow._saga.note_compensation", lambda *_: None)
        run = begin()
        to(run, "car")
        fail(run, "hotel", "full")
        run.task()
        to(run, "undo-hotel")
        last = to(run, "undo-car")
    # what no history has yet is live
    assert names(run.replay()) == ["RecordMarker compensation undo-car completed", *last]


@pytest.mark.parametrize("asked", ["retry", "skip"])
def test_a_parked_run_that_is_cancelled_stays_parked(asked: str) -> None:
    run = begin(Careful)
    to(run, "car")
    fail(run, "undo-car")
    run.task()
    run.cancel("never mind")
    assert names(run.task()) == []
    run.signal(SAGA_SIGNAL, {"action": asked})
    after = names(run.task())
    assert started(after) == (["undo-car"] if asked == "retry" else [])


def test_an_evicted_run_undoes_nothing() -> None:
    run = begin()
    to(run, "car")
    run.instance.evict()
    assert [e for e in run.events if "undo" in getattr(e, "activity_type", "")] == []


@workflow.defn(name="refund")
class Refund:
    @workflow.run
    async def run(self, order: str) -> None: ...


@workflow.defn
class Selling:
    @workflow.run
    async def run(self) -> Any:
        saga = workflow.saga()
        try:
            async with saga:
                saga.add(workflow.execute_child_workflow, Refund.run, "o-1", id="undo")
                await workflow.execute_child_workflow("sell", id="do")
        except ChildWorkflowError as error:
            return [error.workflow_id, saga.skipped]


def test_a_child_workflow_is_a_step_and_a_compensation() -> None:
    run = PocketEngine(Selling)
    assert names(run.task()) == ["StartChildWorkflow do sell"]
    run.child_started("do")
    run.child_failed("do", ApplicationError("sold out"))
    assert names(run.task()) == ["StartChildWorkflow undo refund"]
    run.child_started("undo")
    run.child_completed("undo")
    last = ["RecordMarker compensation refund completed", "CompleteWorkflow ['do', []]"]
    assert names(run.task()) == last
    assert names(run.replay()) == last


def test_cancelling_the_run_does_not_reach_a_compensating_child() -> None:
    run = PocketEngine(Selling)
    run.task()
    run.child_started("do")
    run.child_failed("do", ApplicationError("sold out"))
    run.task()
    run.cancel()
    assert run.task() == []
    run.child_started("undo")
    run.child_completed("undo")
    last = ["RecordMarker compensation refund completed", "CancelWorkflow"]
    assert names(run.task()) == last
    assert names(run.replay()) == last


def test_a_compensating_child_that_fails_waits_for_an_operator_under_its_own_name() -> None:
    run = PocketEngine(Selling)
    run.task()
    run.child_started("do")
    run.child_failed("do", ApplicationError("sold out"))
    run.task()
    run.child_started("undo")
    run.child_failed("undo", ApplicationError("no money", type="NoMoney"))
    (parked,) = notes(run.task())
    assert (parked.name, parked.outcome, parked.reason) == ("refund", "parked", "NoMoney")
    run.signal(SAGA_SIGNAL, {"action": "skip"})
    assert names(run.task()) == [
        "RecordMarker compensation refund skipped",
        "CompleteWorkflow ['do', ['refund']]",
    ]


# ---- activities by themselves


@activity.defn
async def undo_car(number: int, why: str) -> None: ...


class Hotel:
    @activity.defn
    def undo_hotel(self, why: str) -> None: ...


@activity.defn(dynamic=True)
async def undo_any(args: Sequence[RawValue]) -> None: ...


@workflow.defn
class Short:
    """Says which activity undoes what, and need not say that it is executed."""

    @workflow.run
    async def run(self) -> Any:
        async with workflow.saga() as saga:
            saga.add(undo_car, 7, "late", start_to_close_timeout=LIMIT)
            saga.add(Hotel.undo_hotel, args=["late"], start_to_close_timeout=LIMIT)
            saga.add("undo-flight", "late", schedule_to_close_timeout=LIMIT, task_queue="sky")
            raise ApplicationError("no seat")


def test_an_activity_is_called_as_execute_activity_calls_it() -> None:
    run = PocketEngine(Short)
    commands = run.task()
    assert started(names(commands)) == ["undo-flight"]
    flight = next(one for one in commands if isinstance(one, ScheduleActivity))
    assert (flight.task_queue, flight.schedule_to_close_timeout_ms) == ("sky", 10_000)
    assert started(to(run, "undo-flight")) == ["undo_hotel"]
    fail(run, "undo_hotel")
    assert names(run.task()) == ["RecordMarker compensation undo_hotel parked"]
    run.signal(SAGA_SIGNAL, {"action": "skip"})
    commands = run.task()
    assert started(names(commands)) == ["undo_car"]
    car = next(one for one in commands if isinstance(one, ScheduleActivity))
    assert [payload.data for payload in car.input] == [b"7", b'"late"']
    last = to(run, "undo_car")
    assert last[-1].startswith("FailWorkflow")
    assert names(run.replay()) == last


@pytest.mark.parametrize(
    ("compensation", "options", "error"),
    [
        (undo_car, {}, "'undo_car': give start_to_close_timeout or"),
        (
            "undo-car",
            {"start_to_close_timeout": None},
            "'undo-car': give start_to_close_timeout or",
        ),
        (undo_car, {"start_to_close_timeout": timedelta(seconds=-1)}, "must not be negative"),
        (Hotel().undo_hotel, {"start_to_close_timeout": LIMIT, "args_": []}, "no option 'args_'"),
        (undo_any, {"start_to_close_timeout": LIMIT}, "is dynamic"),
    ],
)
def test_what_no_call_could_do_is_refused_when_it_is_added(
    compensation: Any, options: dict[str, Any], error: str
) -> None:
    """Not when the money is gone: a compensation that cannot be called would wait for an operator."""
    saga = workflow.saga()
    with pytest.raises((TypeError, ValueError), match=error):
        saga.add(compensation, **options)
