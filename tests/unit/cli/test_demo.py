"""The ledger of the demo, and that its proof fails when anything is wrong."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perdure.cli.demo.ledger import Entry, Kind, Ledger
from perdure.cli.demo.order import Order, expected_receipt
from perdure.cli.demo.proof import check
from perdure.cli.demo.story import Ended, Mark
from perdure.client import HistoryEvent, WorkflowExecution
from perdure.common import WorkflowStatus

BEGAN = datetime(2026, 11, 29, tzinfo=UTC)
ORDER = Order("order-1", 100)


def event(event_id: int, kind: str) -> HistoryEvent:
    return HistoryEvent(event_id, BEGAN + timedelta(seconds=event_id), kind, {})


def run(status: WorkflowStatus) -> WorkflowExecution:
    return WorkflowExecution(
        id="order-1",
        run_id="run",
        workflow_type="OrderWorkflow",
        task_queue="demo",
        status=status,
        start_time=BEGAN,
        close_time=None,
        history_length=3,
        history_size_bytes=1,
        memo={},
        stuck=False,
        stuck_reason="",
    )


def entries(step: str, attempts: int) -> list[Entry]:
    return [
        *(
            Entry(kind=Kind.ATTEMPT, step=step, key=f"{step}-key", attempt=number)
            for number in range(1, attempts + 1)
        ),
        Entry(kind=Kind.EFFECT, step=step, key=f"{step}-key", attempt=attempts),
    ]


GOOD = Ended(
    order=ORDER,
    tracking="T",
    receipt=expected_receipt(ORDER, "T"),
    events=[
        event(1, "WorkflowExecutionStarted"),
        event(2, "WorkflowTaskScheduled"),
        event(3, "WorkflowExecutionCompleted"),
    ],
    runs=[run(WorkflowStatus.COMPLETED)],
    entries=[*entries("reserve", 1), *entries("charge", 3), *entries("notify", 1)],
    marks=[Mark(BEGAN, "it begins")],
)


def failed(ended: Ended) -> list[str]:
    return [one.claim for one in check(ended) if not one.holds]


def test_a_good_end_is_proven() -> None:
    assert failed(GOOD) == []


@pytest.mark.parametrize(
    ("bad", "claim"),
    [
        (replace(GOOD, runs=[]), "one run, one result"),
        (replace(GOOD, runs=[*GOOD.runs, *GOOD.runs]), "one run, one result"),
        (replace(GOOD, runs=[run(WorkflowStatus.RUNNING)]), "one run, one result"),
        (
            replace(GOOD, events=[*GOOD.events, event(4, "WorkflowExecutionCompleted")]),
            "one run, one result",
        ),
        (replace(GOOD, tracking="other"), "the result is the right one"),
        (
            replace(GOOD, entries=[*GOOD.entries, *entries("notify", 1)]),
            "notify has happened exactly once",
        ),
        (
            replace(GOOD, entries=[one for one in GOOD.entries if one.step != "reserve"]),
            "reserve has happened exactly once",
        ),
        (
            replace(
                GOOD,
                entries=[
                    *GOOD.entries,
                    Entry(kind=Kind.ATTEMPT, step="charge", key="another", attempt=4),
                ],
            ),
            "charge has happened exactly once",
        ),
        (
            replace(
                GOOD,
                entries=[*entries("reserve", 1), *entries("charge", 2), *entries("notify", 1)],
            ),
            "the kill hit a payment in flight",
        ),
        (
            replace(GOOD, events=[GOOD.events[0], GOOD.events[2]]),
            "no event is missing or there twice",
        ),
        (
            replace(GOOD, events=[*GOOD.events[:2], *GOOD.events[1:]]),
            "no event is missing or there twice",
        ),
        (
            replace(
                GOOD,
                events=[*GOOD.events[:2], HistoryEvent(3, BEGAN, "WorkflowExecutionCompleted", {})],
            ),
            "time never goes back",
        ),
    ],
)
def test_a_bad_end_is_not(bad: Ended, claim: str) -> None:
    assert failed(bad) == [claim]


def test_a_ledger_takes_an_effect_once_by_its_key(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")

    ledger.record_attempt("charge", "key", 1)
    assert ledger.record_effect("charge", "key", 1)
    ledger.record_attempt("charge", "key", 2)
    assert not Ledger(tmp_path / "ledger").record_effect("charge", "key", 2)
    assert ledger.record_effect("charge", "other key", 1)

    assert [(one.kind.value, one.key, one.attempt) for one in ledger.entries()] == [
        ("attempt", "key", 1),
        ("effect", "key", 1),
        ("attempt", "key", 2),
        ("effect", "other key", 1),
    ]
