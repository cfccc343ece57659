"""What operators do to a schedule leaves an entry for the audit log, once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.schedule_bench import MINUTE, START_US, Bench, schedule

from perdure_engine.core.audit import Action
from perdure_engine.core.errors import Rejected
from perdure_engine.core.schedules import intents

BY: dict[str, Any] = {"identity": "op@host"}


class Audited(Bench):
    def last(self) -> tuple[str, str, str, str]:
        entry = self.audit[-1]
        assert (entry.identity, entry.subject) == ("op@host", "s")
        assert entry.namespace_id == self.record.namespace_id
        assert entry.time_us == self.now_us
        assert entry.request_id
        return entry.action, entry.before, entry.after, entry.reason


@pytest.fixture
def bench() -> Audited:
    bench = Audited()
    bench.ask(intents.CreateSchedule, schedule=schedule(), trigger_immediately=True, **BY)
    assert bench.audit == [], "making one is no operator's action"
    return bench


def test_each_action_says_what_it_has_changed(bench: Audited) -> None:
    bench.ask(intents.PauseSchedule, paused=True, note="stop", **BY)
    assert bench.last() == (Action.PAUSE_SCHEDULE, "ACTIVE", "PAUSED", "stop")
    bench.ask(intents.PauseSchedule, paused=False, note="go", **BY)
    assert bench.last() == (Action.UNPAUSE_SCHEDULE, "PAUSED", "ACTIVE", "go")
    bench.ask(intents.UpdateSchedule, schedule=schedule(), conflict_token=0, **BY)
    assert bench.last()[:3] == (
        Action.UPDATE_SCHEDULE,
        "conflict token 3",
        "conflict token 4",
    )
    bench.ask(intents.TriggerSchedule, overlap=None, **BY)
    assert bench.last()[:3] == (Action.TRIGGER_SCHEDULE, "", "SKIPPED")
    span = {"from_us": START_US - 2 * MINUTE, "to_us": START_US - MINUTE, "overlap": None}
    bench.ask(intents.BackfillSchedule, **span, dry_run=False, **BY)
    assert bench.last()[:3] == (Action.BACKFILL_SCHEDULE, "", "2 slots")
    bench.ask(intents.DeleteSchedule, reason="old", **BY)
    assert bench.last() == (Action.DELETE_SCHEDULE, "ACTIVE", "DELETED", "old")
    assert len(bench.audit) == 6


def test_what_changes_nothing_leaves_nothing(bench: Audited) -> None:
    again = {"request_id": bench.new_id(), **BY}
    span = {"from_us": START_US - MINUTE, "to_us": START_US, "overlap": None}
    for _ in range(2):
        bench.ask(intents.PauseSchedule, paused=True, note="", **again)
    bench.ask(intents.BackfillSchedule, **span, dry_run=True, **BY)
    with pytest.raises(Rejected):
        bench.ask(intents.UpdateSchedule, schedule=schedule(), conflict_token=99, **BY)
    for _ in range(2):
        bench.ask(intents.DeleteSchedule, **BY)

    assert [entry.action for entry in bench.audit] == [
        Action.PAUSE_SCHEDULE,
        Action.DELETE_SCHEDULE,
    ]
