"""`perdure demo`: its exit code, and that nothing is left of it. See the fixture `perdure`."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.e2e.command_line import CommandLine


def test_the_demo_proves_what_it_says(perdure: CommandLine, tmp_path: Path) -> None:
    found = perdure.run("demo")

    assert found.returncode == 0, found.stdout + found.stderr
    assert "worker killed with -9" in found.stdout
    assert "engine and database killed with -9" in found.stdout
    assert "✗" not in found.stdout
    assert found.stdout.count("✓") >= 8
    assert list(tmp_path.glob("perdure-demo-*")) == []


def test_with_data_they_stay(perdure: CommandLine, tmp_path: Path) -> None:
    found = perdure.run("demo", "--data", "kept")

    assert found.returncode == 0, found.stdout + found.stderr
    perdure.start_dev(tmp_path / "kept" / "engine")
    assert "COMPLETED" in perdure.run("workflow", "list", "--type", "OrderWorkflow").stdout


@pytest.mark.parametrize(
    ("sent", "code", "moment"),
    [
        (signal.SIGINT, 130, "being started"),
        pytest.param(signal.SIGINT, 130, "accepted", marks=pytest.mark.soak),
        pytest.param(signal.SIGTERM, 143, "killed with -9", marks=pytest.mark.soak),
        (signal.SIGTERM, 143, "shipped"),
    ],
)
def test_interrupted_it_leaves_nothing(
    perdure: CommandLine, tmp_path: Path, sent: signal.Signals, code: int, moment: str
) -> None:
    demo = perdure.start("demo")
    assert demo.stderr is not None
    for line in demo.stderr:
        if moment in line:
            break

    demo.send_signal(sent)

    assert demo.wait(60) == code
    assert list(tmp_path.glob("perdure-demo-*")) == []


def test_killed_it_takes_its_children_along(perdure: CommandLine) -> None:
    demo = perdure.start("demo")
    assert demo.stderr is not None
    for line in demo.stderr:
        if "accepted" in line:
            break

    demo.kill()

    assert demo.wait(60) == -signal.SIGKILL
