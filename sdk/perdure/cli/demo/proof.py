"""What must be true when the story is over. Pure: everything is in what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from perdure.cli.demo.ledger import Kind
from perdure.cli.demo.order import STEPS, expected_receipt
from perdure.cli.demo.story import Ended
from perdure.common import WorkflowStatus

# The first attempt fails, the second is killed, the third finds the effect done.
CHARGE_ATTEMPTS_MIN = 3


@dataclass(frozen=True)
class Check:
    claim: str
    holds: bool
    evidence: str


def check(ended: Ended) -> list[Check]:
    return [*_check_result(ended), *_check_effects(ended), *_check_history(ended)]


def _check_result(ended: Ended) -> Iterator[Check]:
    states = [run.status.name if run.status else "unknown" for run in ended.runs]
    ends = sum(event.event_type == "WorkflowExecutionCompleted" for event in ended.events)
    yield Check(
        "one run, one result",
        states == [WorkflowStatus.COMPLETED.name] and ends == 1,
        f"listed: {', '.join(states) or 'nothing'}; completions in the history: {ends}",
    )
    yield Check(
        "the result is the right one",
        ended.receipt == expected_receipt(ended.order, ended.tracking),
        str(ended.receipt),
    )


def _check_effects(ended: Ended) -> Iterator[Check]:
    attempts = Counter(one.step for one in ended.entries if one.kind is Kind.ATTEMPT)
    effects = Counter(one.step for one in ended.entries if one.kind is Kind.EFFECT)
    for step in STEPS:
        keys = {one.key for one in ended.entries if one.step == step}
        yield Check(
            f"{step} has happened exactly once",
            effects[step] == 1 and len(keys) == 1,
            f"attempts: {attempts[step]}, effects: {effects[step]}, keys: {len(keys)}",
        )
    yield Check(
        "the kill hit a payment in flight",
        attempts["charge"] >= CHARGE_ATTEMPTS_MIN,
        f"attempts to charge: {attempts['charge']}",
    )


def _check_history(ended: Ended) -> Iterator[Check]:
    ids = [event.event_id for event in ended.events]
    yield Check(
        "no event is missing or there twice",
        bool(ids) and ids == list(range(1, len(ids) + 1)),
        f"{len(ids)} events, the last with id {ids[-1]}" if ids else "no events",
    )
    times = [event.event_time for event in ended.events if event.event_time is not None]
    yield Check(
        "time never goes back",
        len(times) == len(ids) and times == sorted(times),
        f"events with a time: {len(times)}",
    )
