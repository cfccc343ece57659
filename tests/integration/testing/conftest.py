"""Environments are found by an entry point: without the installation of this checkout there are none."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    if not entry_points(group="perdure.engine", name="testing"):
        pytest.skip("perdure is not installed here: pip install -e '.[test]'")
