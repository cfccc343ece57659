"""Command lines with and without an engine behind them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.e2e.command_line import CommandLine, clean_environment, processes_of
from tests.waiting import wait_until

STOP_DEADLINE_S = 30.0


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    if not entry_points(group="perdure.engine"):
        pytest.skip("perdure is not installed here: pip install -e '.[test]'")


@pytest.fixture
def perdure(tmp_path: Path) -> Iterator[CommandLine]:
    """Without an engine. When the test is over, none of its processes may be left."""
    command_line = CommandLine(clean_environment(tmp_path), tmp_path)
    try:
        yield command_line
    finally:
        command_line.close()
    wait_until(
        lambda: not processes_of(tmp_path), STOP_DEADLINE_S, f"left: {processes_of(tmp_path)}"
    )


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """With a `perdure dev` behind it, the same for all tests of a module."""
    folder = tmp_path_factory.mktemp("dev")
    command_line = CommandLine(clean_environment(folder), folder)
    try:
        command_line.start_dev(folder / "data")
        yield command_line
    finally:
        command_line.close()
