"""What is logged arrives on standard error, once, in one form, and without passwords."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from perdure_engine.server import logs
from perdure_engine.server.config import LogConfig

SECRET = "s3cret-word"
URL = f"postgresql://perdure:{SECRET}@db.internal/perdure"


@pytest.fixture(autouse=True)
def _undo_set_up() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(captured: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in captured.readouterr().err.splitlines()]


def test_both_kinds_of_logger_give_the_same_json(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(LogConfig())

    structlog.get_logger("one").info("started", shards=4)
    logging.getLogger("two").warning("%d shards", 4)
    logging.getLogger("two").debug("not shown")

    one, two = lines(capsys)
    assert (one["event"], one["shards"], one["logger"]) == ("started", 4, "one")
    assert (two["event"], two["level"], two["logger"]) == ("4 shards", "warning", "two")
    assert "timestamp" in one
    assert "timestamp" in two


def test_no_password_gets_through(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(LogConfig())

    structlog.get_logger("one").info(f"connecting to {URL}", url=URL, error=OSError(URL))
    logging.getLogger("two").warning("cannot connect to %s", URL)
    try:
        raise OSError(URL)
    except OSError:
        logging.getLogger("two").exception("failed")

    text = capsys.readouterr().err
    assert text.count("\n") == 3
    assert "OSError" in text
    assert SECRET not in text


@pytest.mark.parametrize("form", ["json", "console"])
def test_what_cannot_be_written_as_json_is_still_logged(
    capsys: pytest.CaptureFixture[str], form: str
) -> None:
    logs.set_up(LogConfig(format=form))  # type: ignore[arg-type]  # parametrized

    structlog.get_logger("one").error("alarm", what="odd", run_id=b"\x01", thing=object())

    assert "alarm" in capsys.readouterr().err
