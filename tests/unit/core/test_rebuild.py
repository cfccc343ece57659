"""Every state is rebuilt from its sources and compared (design §2): history, inbox, task and timer rows, head row.

The comparison runs after every step of every scenario too (`Scenario.commit`). Here it is run at random with tiny
snapshots and history parts, and itself put to the test.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.unit.core import rebuild
from tests.unit.core.rebuild import assert_rebuilt, assert_rows
from tests.unit.core.run_machine import RunMachine
from tests.unit.core.saved import CODEC
from tests.unit.core.scenario import (
    Scenario,
    activity,
    failed,
    save_start,
    signal,
    start,
    timer,
)

from perdure_engine.core import limits
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute
from perdure_engine.core.state import Folded, RunState
from perdure_engine.core.tasks import Aside, TaskKind, TaskRecord, TaskState, TimerKind, TimerRecord
from perdure_engine.history.loading import restore
from perdure_engine.ports.codec import CorruptRow


@pytest.mark.parametrize(
    ("table", "type_"),
    [
        (rebuild.RUN, RunState),
        (rebuild.FOLDED, Folded),
        (rebuild.TASK, TaskRecord),
        (rebuild.TIMER, TimerRecord),
    ],
    ids=["run", "folded", "task", "timer"],
)
def test_each_field_says_where_it_comes_from(table: dict[str, str], type_: type) -> None:
    sources = {"history", "inbox", "rows", "head", "rows, once the start is saved", "memory"}

    assert list(table) == list(type_.__struct_fields__)  # type: ignore[attr-defined]
    assert set(table.values()) <= sources


def test_invariant_4_random_runs_are_rebuilt_from_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`Scenario.commit` compares after each commit; snapshots of 5 events and parts of 150 bytes make it hard."""
    monkeypatch.setattr(limits, "SNAPSHOT_EVENTS", 5)
    monkeypatch.setattr(limits, "HISTORY_PART_BYTES_MAX", 150)
    commits = {"snapshots": 0, "parts": 0}

    class Machine(RunMachine):
        def teardown(self) -> None:
            super().teardown()
            if hasattr(self, "run"):
                commits["snapshots"] += bool(self.run.saved.snapshots)
                commits["parts"] += any(part for _, _, part in self.run.saved.history)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )

    assert commits["snapshots"] > 20
    assert commits["parts"] > 20


# ---- the comparison sees every field


def everything() -> Scenario:
    """A run with something in every field: a saved start, a back-off, a timer, an event that waits."""
    run = Scenario(start(run_timeout_ms=60_000))
    run.turn(activity("a"), activity("b"), timer("t"), cached=True)
    run.when(failed(run.hand_out("a"), progress=b"half"))
    run.when(save_start(run.hand_out("b")))
    run.when(signal(1))
    run.when(save_start(run.hand_out()))
    run.when(signal(2))
    return run


OTHER: dict[str, Any] = {
    "buffered": [],
    "inbox_seq": 99,
    "inbox_done": 99,
    "tasks": {},
    "timer_rows": {},
    "history_bytes": 99,
    "snapshot_event_id": 99,
    "version": 99,
    "sticky_worker_id": b"other",
    "admitted": {},
    "inbox_numbered": 99,
    "kind": TaskKind.WORKFLOW,
    "queue": "other",
    "queue_no": 99,
    "task_id": 99,
    "scheduled_event_id": 99,
    "state": TaskState.GONE,
    "attempt": 99,
    "start_no": 99,
    "priority": 99,
    "worker_id": b"other",
    "identity": "other",
    "started_us": 99,
    "last_failure": Failure(FailureKind.SERVER, "other"),
    "progress": b"other",
    "progress_version": 99,
    "ready_us": 99,
    "aside": Aside(reset=True),
    "pinned": "other.build",
    "next_attempt_us": 99,
    "reference": 99,
    "wake_us": 99,
    "timer_id": 99,
    "due_us": 99,
    "gone": True,
}


@pytest.mark.parametrize("field", [f for f in rebuild.RUN if f not in ("folded", "run_id")])
def test_the_comparison_sees_a_change_of_the_run(field: str) -> None:
    run = everything()
    setattr(run.state, field, OTHER[field])

    with pytest.raises(AssertionError):
        assert_rebuilt(run.state, run.saved)


@pytest.mark.parametrize("field", rebuild.FOLDED)
def test_the_comparison_sees_a_change_of_the_fold(field: str) -> None:
    run = everything()
    ended = Scenario(start(1, memo=b"other"))
    value = getattr(ended.state.folded, field)
    same = getattr(run.state.folded, field)
    setattr(run.state.folded, field, value if value != same else changed(value))

    with pytest.raises(AssertionError):
        assert_rebuilt(run.state, run.saved)


def changed(value: Any) -> Any:
    match value:
        case None:
            return Scenario(start(3)).events[0]
        case bool():
            return not value
        case _ if isinstance(value, int):
            return type(value)(value + 1)
        case tuple():
            return (*value, SearchAttribute("Other", AttributeType.BOOL, True))
        case _:
            raise AssertionError(f"no other value than {value!r} is known")


@pytest.mark.parametrize("field", [f for f, s in rebuild.TASK.items() if s != "memory"])
def test_the_comparison_sees_a_change_of_a_task(field: str) -> None:
    run = everything()
    record = run.task("b")
    assert getattr(record, field) != OTHER[field]
    setattr(record, field, OTHER[field])

    with pytest.raises(AssertionError):
        assert_rebuilt(run.state, run.saved)


@pytest.mark.parametrize("field", rebuild.TIMER)
def test_the_comparison_sees_a_change_of_a_timer(field: str) -> None:
    run = everything()
    record = run.state.timer_rows[TimerKind.USER, run.state.folded.timers["t"].started_event_id]
    setattr(record, field, TimerKind.RUN_TIMEOUT if field == "kind" else OTHER[field])

    with pytest.raises(AssertionError):
        assert_rebuilt(run.state, run.saved)


def test_a_row_that_memory_does_not_know_is_seen() -> None:
    for lost in ("tasks", "timer_rows"):
        run = everything()
        setattr(run.state, lost, {})
        with pytest.raises(AssertionError):
            assert_rows(run.state, run.saved)


# ---- a start that is not saved is memory's own


def test_an_unsaved_start_leaves_no_trace_in_the_rows() -> None:
    run = Scenario(start())
    ready = CODEC.decode_task(next(iter(run.saved.tasks.values())))
    run.hand_out()
    assert_rebuilt(run.state, run.saved)
    run.reload()

    record = run.task()
    assert record.handout is None
    assert (record.start_no, record.worker_id, record.identity, record.started_us) == (
        ready.start_no,
        b"",
        "",
        0,
    )


# ---- rows that do not fit together are corrupt


def test_a_history_that_ends_early_is_corrupt() -> None:
    run = everything()
    del run.saved.history[max(run.saved.history)]

    with pytest.raises(CorruptRow):
        restore(run.saved.record(run.state.run_id), CODEC)


def test_a_task_row_that_is_missing_is_corrupt() -> None:
    run = everything()
    record = run.saved.record(run.state.run_id)
    record.tasks = record.tasks[1:]

    with pytest.raises(CorruptRow):
        restore(record, CODEC)


def test_a_snapshot_of_another_event_is_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_EVENTS", 5)
    run = everything()
    record = run.saved.record(run.state.run_id)
    record.snapshot = [row._replace(event_id=row.event_id - 1) for row in record.snapshot]
    assert record.snapshot

    with pytest.raises(CorruptRow):
        restore(record, CODEC)


def test_a_part_of_a_history_row_that_is_missing_is_corrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "HISTORY_PART_BYTES_MAX", 100)
    run = everything()
    record = run.saved.record(run.state.run_id)
    [parts] = [row for row in record.history if row.part == 1][:1]
    record.history = [row for row in record.history if row != parts]

    with pytest.raises(CorruptRow):
        restore(record, CODEC)


def test_the_snapshot_shortens_the_reading_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_EVENTS", 5)
    run = everything()
    state, events, events_from = restore(run.saved.record(run.state.run_id), CODEC)

    assert events_from == run.state.snapshot_event_id + 1
    assert [event.event_id for event in events] == list(
        range(events_from, state.folded.next_event_id)
    )
    assert msgspec.msgpack.encode(state.folded) == msgspec.msgpack.encode(run.state.folded)
