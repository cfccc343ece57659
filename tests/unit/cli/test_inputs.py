"""Arguments as JSON: strict, bounded, and from regular files only."""

import io
import os
import sys
from pathlib import Path

import pytest

from perdure.cli.errors import UsageError
from perdure.cli.inputs import INPUT_BYTES_MAX, read_inputs


def test_each_text_is_one_argument_in_order() -> None:
    texts = ['"World"', "1", "null", '{"a": [true, 1.5]}']

    assert read_inputs(texts, []) == ["World", 1, None, {"a": [True, 1.5]}]


def test_files_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('"ünïcode"', encoding="utf-8")
    (tmp_path / "two.json").write_text("\ufeff2", encoding="utf-8")

    files = [str(tmp_path / "one.json"), str(tmp_path / "two.json")]
    assert read_inputs([], files) == ["ünïcode", 2]


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "", "{", "[1,]", "[" * 100_000])
def test_what_is_not_strict_json_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--input 1 is not JSON"):
        read_inputs([text], [])


def test_a_bare_word_gets_a_hint() -> None:
    with pytest.raises(UsageError, match="needs its own quotes"):
        read_inputs(["World"], [])


def test_texts_and_files_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not both"):
        read_inputs(["1"], [str(tmp_path / "one.json")])


def test_a_device_is_refused() -> None:
    with pytest.raises(UsageError, match="not a regular file"):
        read_inputs([], ["/dev/zero"])


def test_a_pipe_that_nobody_writes_to_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UsageError, match="not a regular file"):
        read_inputs([], [str(tmp_path / "pipe")])


@pytest.mark.parametrize("name", ["", "missing.json", "a\0b"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be read|not a regular file"):
        read_inputs([], [f"{tmp_path}/{name}"])


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b" " * (INPUT_BYTES_MAX + 1))

    with pytest.raises(UsageError, match="larger than the limit of 2,097,152 bytes"):
        read_inputs([], [str(tmp_path / "large")])


def test_a_file_at_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"1" + b" " * (INPUT_BYTES_MAX - 1))

    assert read_inputs([], [str(tmp_path / "large")]) == [1]


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b'"\xe4"')

    with pytest.raises(UsageError, match=r"not UTF-8: .* at byte 1"):
        read_inputs([], [str(tmp_path / "latin")])


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}')))

    assert read_inputs([], ["-"]) == [{"a": 1}]
