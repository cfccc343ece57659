"""How an environment finds the engine, and what it says when there is none."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

import perdure.testing
from perdure.testing import WorkflowEnvironment, _engine


def test_without_an_engine_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_engine, "entry_points", lambda **wanted: EntryPoints())

    with pytest.raises(RuntimeError, match=r"pip install 'perdure\[server\]'"):
        _engine.load_engines("server")


async def test_what_the_engine_misses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = EntryPoint("testing", "no_such_module_anywhere", _engine.ENTRY_POINT_GROUP)
    monkeypatch.setattr(_engine, "entry_points", lambda **wanted: EntryPoints([found]))

    with pytest.raises(RuntimeError, match="no_such_module_anywhere is not installed"):
        await WorkflowEnvironment.start_local()


def test_only_what_is_there_can_be_imported() -> None:
    with pytest.raises(AttributeError, match="Nobody"):
        _ = perdure.testing.Nobody
