"""Which text carries a batch: each table that is not in it costs nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.conformance.jobs import batch_row, job_row, key_row, schedule_row, slot_row
from tests.conformance.owner import (
    RUNNING,
    Run,
    current_row,
    empty_batch,
    head_row,
    inbox_row,
    listed_row,
    snapshot_row,
    task_row,
    timer_row,
)

from perdure_engine.ports.store import Batch
from perdure_engine.store.sql import statement
from perdure_engine.store.sql.statement import Form, form_of

RUN = Run(1)
JOB = job_row()
ROWS: dict[str, Any] = {
    "current_runs": current_row(RUN, RUNNING, 1),
    "executions": head_row(RUN, RUNNING, 3, 1),
    "inbox": inbox_row(RUN, 1),
    "tasks": task_row(RUN, 1, 1, 1),
    "timers": timer_row(RUN, 5, 5),
    "visibility": listed_row(RUN, RUNNING),
    "snapshots": snapshot_row(RUN, 0, 2),
    "job_runs": JOB,
    "job_keys": key_row("report", JOB.job_id),
    "job_batches": batch_row("nightly"),
    "schedules": schedule_row("daily"),
    "schedule_slots": slot_row("daily", 5),
}


def batch_of(*tables: str) -> Batch:
    batch = empty_batch()
    for table in tables:
        setattr(batch, table, [ROWS[table]])
    return batch


def name(value: object) -> str:
    """Of a form or of tables, the same in every process that runs tests."""
    if isinstance(value, Form):
        return next(key for key, text in statement.STATEMENTS.items() if text == value.text)
    return "+".join(value) if isinstance(value, (tuple, list)) else str(value)


@pytest.mark.parametrize(
    ("tables", "form"),
    [
        ((), statement.PLAIN_STEP),
        (("executions", "tasks"), statement.PLAIN_STEP),
        (("executions", "current_runs"), statement.PLAIN_START_CLOSE),
        (("tasks", "visibility"), statement.PLAIN_START_CLOSE),
        (("timers",), statement.STEP),
        (("inbox",), statement.STEP),
        (("executions", "tasks", "timers"), statement.STEP),
        (("executions", "inbox", "visibility"), statement.START_CLOSE),
        (("executions", "snapshots"), statement.EVERYTHING),
        (("job_runs",), statement.JOB_RUNS),
        (("job_runs", "timers"), statement.JOBS),
        (("job_runs", "job_keys"), statement.JOBS),
        (("job_keys",), statement.JOBS),
        (("job_runs", "tasks"), statement.MIXED),
        (("job_runs", "executions", "visibility"), statement.MIXED),
        (("job_keys", "snapshots"), statement.MIXED),
        (("job_batches",), statement.MIXED),
        (("schedules", "job_runs", "timers"), statement.MIXED),
        (("schedule_slots",), statement.MIXED),
    ],
    ids=name,
)
def test_the_shortest_form_carries_a_batch(tables: tuple[str, ...], form: Form) -> None:
    assert form_of(batch_of(*tables)) is form
    assert [table for table in tables if f"w_{table} as (" not in form.text] == []


@pytest.mark.parametrize(
    ("form", "tables"),
    [
        (statement.JOB_RUNS, ["job_runs"]),
        (statement.JOBS, ["timers", "job_runs", "job_keys"]),
    ],
    ids=name,
)
def test_the_forms_of_the_hot_path_carry_nothing_else(form: Form, tables: list[str]) -> None:
    assert re.findall(r"w_([a-z_]+) as \(", form.text) == tables


@pytest.mark.parametrize("form", [statement.JOB_RUNS, statement.JOBS, statement.MIXED], ids=name)
def test_each_placeholder_has_its_parameter(form: Form) -> None:
    """Also where a table's placeholders were moved: their order is that of the parameters."""
    numbers = [int(number) for number in re.findall(r"\$([0-9]+)::", form.text)]

    assert set(numbers) == set(range(1, max(numbers) + 1))
    for tables in ((), tuple(ROWS)):
        assert len(form.parameters(batch_of(*tables))) == max(numbers)
