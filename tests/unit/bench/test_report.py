"""The line of JSON: its keys are a contract (bench/WORKLOADS)."""

import json
from typing import Any

import pytest

from perdure.bench.accounting import Component, Usage
from perdure.bench.report import Measured, median_run, report_line

USAGE = Usage(
    seconds=2.0,
    cpu_s={
        Component.ENGINE: 1.0,
        Component.DATABASE: 0.5,
        Component.WORKER: 0.25,
        Component.CLIENT: 0.25,
    },
    foreign_cores=0.1234,
)
KEYS = {
    *("system", "version", "workload", "n", "seconds", "per_s", "p50_ms", "p95_ms", "p99_ms"),
    *("cpu_s", "cpu_engine_s", "cpu_database_s", "cpu_worker_s", "cpu_client_s"),
    *("cpu_us_per_unit", "foreign_cpu", "notes"),
}


def measured(**changes: Any) -> Measured:
    values: dict[str, Any] = {"n": 1000, "units": 1000, "seconds": 2.0, "usage": USAGE}
    return Measured(**{**values, **changes})


def test_the_keys_without_latencies() -> None:
    assert report_line("W10", measured()).keys() == KEYS


def test_the_keys_with_latencies_and_figures_of_its_own() -> None:
    line = report_line("W9", measured(latencies_s=[0.001], figures={"lost": 0}))

    assert line.keys() == KEYS | {"max_ms", "lost"}


def test_the_figures() -> None:
    latencies_s = [number / 1000 for number in range(100, 0, -1)]

    line = report_line("W1", measured(latencies_s=latencies_s, notes=["a", "b"]))

    assert line["workload"] == "W1"
    assert line["per_s"] == 500.0
    assert (line["p50_ms"], line["p95_ms"], line["p99_ms"], line["max_ms"]) == (50, 95, 99, 100)
    assert line["cpu_s"] == 2.0
    assert line["cpu_us_per_unit"] == 2000.0
    assert line["cpu_database_s"] == 0.5
    assert line["foreign_cpu"] == 0.123
    assert line["notes"] == "a; b"


def test_the_unit_of_rates_is_not_always_that_of_n() -> None:
    assert report_line("W2", measured(units=10_000))["per_s"] == 5_000.0


def test_what_has_no_meaning_is_null() -> None:
    line = report_line(
        "W7", measured(units=0, usage=Usage(2.0, {Component.CLIENT: 0.5}, foreign_cores=0.0))
    )

    assert json.loads(json.dumps(line)) == line
    nothing = {name for name, value in line.items() if value is None}
    assert nothing == {
        *("per_s", "p50_ms", "p95_ms", "p99_ms", "cpu_us_per_unit"),
        *("cpu_engine_s", "cpu_database_s", "cpu_worker_s"),
    }


@pytest.mark.parametrize("seconds", [[2.0], [3.0, 1.0, 2.0], [9.0, 2.0, 1.0, 2.0, 8.0]])
def test_the_median_run(seconds: list[float]) -> None:
    assert median_run([measured(seconds=one) for one in seconds]).seconds == 2.0
