"""A small run of each workload: that it runs, and that its line has what was agreed on."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command_line import CommandLine

KEYS = {
    *("system", "version", "workload", "n", "seconds", "per_s", "p50_ms", "p95_ms", "p99_ms"),
    *("cpu_s", "cpu_engine_s", "cpu_database_s", "cpu_worker_s", "cpu_client_s"),
    *("cpu_us_per_unit", "foreign_cpu", "notes"),
}


def bench(perdure: CommandLine, *arguments: str) -> dict[str, Any]:
    found = perdure.run("bench", *arguments, "--json")
    assert found.returncode == 0, found.stderr
    (line,) = found.stdout.splitlines()
    values: dict[str, Any] = json.loads(line)
    return values


def test_the_main_job(perdure: CommandLine) -> None:
    line = bench(perdure, "W1", "--n", "50")

    check(line, "W1", 50, {"max_ms"})
    parts = ("engine", "database", "worker", "client")
    assert all(line[f"cpu_{part}_s"] > 0 for part in parts)
    assert line["cpu_s"] == pytest.approx(sum(line[f"cpu_{part}_s"] for part in parts), abs=0.01)


def check(line: dict[str, Any], workload: str, n: int, own: set[str]) -> None:
    assert line.keys() == KEYS | own
    assert (line["system"], line["workload"], line["n"]) == ("perdure", workload, n)
    assert line["seconds"] > 0
    assert line["per_s"] > 0


def with_engine(dev: CommandLine) -> tuple[str, str]:
    return "--address", dev.environment["PERDURE_ADDRESS"]


@pytest.mark.parametrize(
    ("workload", "n", "own"),
    [
        ("W1", 20, {"max_ms"}),
        ("W2", 5, {"max_ms"}),
        ("W3", 5, {"max_ms"}),
        ("W4", 500, {"cpu_s_per_10k", "one_p50_ms", "one_p99_ms"}),
        ("W6", 32, {"max_ms"}),
        ("W8", 20, set[str]()),
        ("W10", 20, set[str]()),
        ("W11", 20, {"max_ms"}),
        ("W12", 20, set[str]()),
    ],
)
def test_with_an_engine_that_runs_already(
    dev: CommandLine, workload: str, n: int, own: set[str]
) -> None:
    """Whose processor time is not known."""
    line = bench(dev, workload, "--n", str(n), *with_engine(dev))

    check(line, workload, n, own)
    assert line["cpu_engine_s"] is None
    assert line["cpu_worker_s"] > 0


def test_jobs_due_at_once(dev: CommandLine) -> None:
    line = bench(dev, "W5", "--n", "100", *with_engine(dev))

    own = {"min_ms", "max_ms", "worker_p50_ms", "worker_p99_ms", "worker_max_ms"}
    assert line.keys() == KEYS | own
    assert 0 <= line["min_ms"] <= line["p50_ms"] <= line["p99_ms"] <= line["max_ms"]
    assert line["worker_max_ms"] >= line["min_ms"]


def test_jobs_at_a_steady_rate(dev: CommandLine) -> None:
    line = bench(dev, "sustained", "--n", "20", "--window", "2", *with_engine(dev))

    assert line.keys() == KEYS | {"min_ms", "max_ms", "lost", "rss_mb_half", "rss_mb"}
    assert line["lost"] == 0
    assert 0 <= line["min_ms"] <= line["p50_ms"] <= line["p99_ms"] <= line["max_ms"]


def test_schedules_that_fire_together(dev: CommandLine) -> None:
    line = bench(dev, "schedules", "--n", "20", "--window", "2", *with_engine(dev))

    own = {"min_ms", "max_ms", "cpu_pct", "firings", "lost", "duplicates", "drained_s"}
    assert line.keys() == KEYS | own
    assert (line["firings"], line["lost"], line["duplicates"]) == (1, 0, 0)
    assert 0 <= line["min_ms"] <= line["p50_ms"] <= line["p99_ms"] <= line["max_ms"]


def test_sleepers(perdure: CommandLine) -> None:
    line = bench(perdure, "W7", "--n", "50", "--window", "1")

    assert line.keys() == KEYS | {"cpu_pct", "cpu_pct_empty", "rss_mb", "bytes_per_run"}
    assert line["rss_mb"] > 0
    assert line["per_s"] is None


def test_kills(perdure: CommandLine) -> None:
    line = bench(perdure, "W9", "--n", "60", "--in-flight", "16")

    own = {"lost", "duplicates", "duplicates_in_flight", "worker_recovery_s", "engine_recovery_s"}
    assert line.keys() == KEYS | own
    assert line["lost"] == 0
    assert line["duplicates"] == line["duplicates_in_flight"]
    assert line["worker_recovery_s"] > 0
    assert line["engine_recovery_s"] > 0


@pytest.mark.soak
def test_many_shards(perdure: CommandLine) -> None:
    assert bench(perdure, "W1", "--n", "20", "--shards", "32")["per_s"] > 0


@pytest.mark.parametrize(
    ("sent", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak)],
)
def test_interrupted_it_leaves_nothing(
    perdure: CommandLine, sent: signal.Signals, code: int
) -> None:
    run = perdure.start("bench", "W1", "--n", "1000000")
    assert run.stderr is not None
    for line in run.stderr:
        if "Running" in line:
            break

    run.send_signal(sent)

    assert run.wait(60) == code


def test_a_worker_that_dies_by_itself_is_not_waited_for(perdure: CommandLine) -> None:
    run = perdure.start("bench", "W1", "--n", "1000000")
    assert run.stderr is not None
    for line in run.stderr:
        if "Running" in line:
            break
    (worker,) = children_of(run.pid, "perdure.bench.worker")

    os.kill(worker, signal.SIGKILL)

    assert run.wait(60) == 1
    assert "worker ended with -9" in run.stderr.read()


def children_of(pid: int, name: str) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(one) for one in children if name.encode() in Path(f"/proc/{one}/cmdline").read_bytes()
    ]
