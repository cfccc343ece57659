"""Transition coverage of the whole folder: recorded while it runs, judged by its last test. And a schedule's bench."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.core import moves_ran
from tests.unit.core.schedule_bench import Bench

FOLDER = Path(__file__).parent
JUDGE = "test_transition_coverage"


@pytest.fixture(scope="session", autouse=True)
def moves_are_recorded() -> Iterator[None]:
    with moves_ran.recorded():
        yield


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The judge comes last; of a part of the folder there is nothing to judge."""
    judges = [item for item in items if item.path.parent == FOLDER and item.path.stem == JUDGE]
    if not judges:
        return
    run = {item.path.stem for item in items if item.path.parent == FOLDER}
    whole = run == {path.stem for path in FOLDER.glob("test_*.py")}
    if not whole or config.getoption("keyword") or config.getoption("deselect"):
        for judge in judges:
            judge.add_marker(pytest.mark.skip(reason="needs the whole of tests/unit/core"))
    items[:] = [item for item in items if item not in judges] + judges
