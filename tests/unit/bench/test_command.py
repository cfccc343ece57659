"""`perdure bench`: its arguments and its output, without running anything."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from perdure.bench import running
from perdure.bench.processes import ProcessFailed, clean_environment
from perdure.bench.running import Order
from perdure.bench.workloads import workloads
from perdure.cli import bench
from perdure.cli.app import app

LINE = {"system": "perdure", "workload": "W1", "per_s": 1.0, "p50_ms": None, "notes": ""}


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[Order]:
    orders: list[Order] = []

    def run(order: Order, profiler: Any, say: Any) -> dict[str, Any]:
        orders.append(order)
        say("Working")
        return LINE

    monkeypatch.setattr(running, "run_workload", run)
    return orders


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


def test_the_ids_of_the_command_are_those_of_the_workloads() -> None:
    assert [one.value for one in bench.WorkloadId] == list(workloads(60.0))


def test_the_last_line_is_json_after_a_table(orders: list[Order]) -> None:
    found = run("W1")

    assert found.exit_code == 0
    assert json.loads(found.stdout.splitlines()[-1]) == LINE
    assert len(found.stdout.splitlines()) > 1
    assert "Working" in found.stderr


def test_the_line_alone(orders: list[Order]) -> None:
    assert json.loads(run("W1", "--json").stdout) == LINE


def test_the_order(orders: list[Order]) -> None:
    run("w10", "--n", "20", "--in-flight", "3", "--shards", "512", "--window", "5")
    run("W6", "--address", "engine", "-n", "shop")

    first, second = orders
    assert (first.workload, first.n, first.in_flight, first.window_s) == ("W10", 20, 3, 5.0)
    assert (first.target.address, first.target.shards) == (None, 512)
    assert (second.workload, second.n, second.in_flight) == ("W6", None, None)
    assert (second.target.address, second.target.namespace) == ("engine:7233", "shop")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("W99",),
        ("W1", "--n", "0"),
        ("W1", "--n", "many"),
        ("W1", "--in-flight", "0"),
        ("W1", "--shards", "0"),
        ("W1", "--shards", "4", "--address", "engine:1"),
        ("W1", "--address", "a b"),
        ("W7", "--window", "0"),
    ],
)
def test_mistakes_in_the_arguments(orders: list[Order], arguments: tuple[str, ...]) -> None:
    found = run(*arguments)

    assert found.exit_code == 2
    assert found.stdout == ""
    assert orders == []


def test_profiling_needs_py_spy(
    orders: list[Order], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "find_py_spy", lambda: None)

    found = run("W1", "--profile", str(tmp_path))

    assert found.exit_code == 2
    assert "pip install py-spy" in found.stderr


def test_a_child_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_workload(*arguments: Any) -> dict[str, Any]:
        raise ProcessFailed("engine ended with 1. Its last lines:\nno space left")

    monkeypatch.setattr(running, "run_workload", run_workload)

    found = run("W1")

    assert found.exit_code == 1
    assert found.stdout == ""
    assert "no space left" in found.stderr.splitlines()


def test_children_do_not_meet_the_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", "postgresql://production")
    monkeypatch.setenv("SOMETHING_ELSE", "kept")

    environment = clean_environment({"PERDURE_LOG_LEVEL": "warning"})

    assert environment["SOMETHING_ELSE"] == "kept"
    perdure = {name for name in environment if name.startswith("PERDURE_")}
    assert perdure == {"PERDURE_LOG_LEVEL"}
