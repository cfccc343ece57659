"""Arguments of workflows, signals and queries: JSON from the command line or from files."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from perdure.cli.errors import UsageError
from perdure.cli.files import decode_text, read_text_file

# The engine's own limit for one argument list: what is over it would be refused anyway.
INPUT_BYTES_MAX = 2 * 1024 * 1024
STANDARD_INPUT = "-"


def read_inputs(texts: Sequence[str], files: Sequence[str]) -> list[Any]:
    """One value for each text or file, in order. Raises UsageError for what is not strict JSON.

    Texts and files together are refused: the order in which they were meant is not known here.
    """
    if texts and files:
        raise UsageError("give --input or --input-file, not both")
    values = [_parse(text, f"--input {number}") for number, text in enumerate(texts, start=1)]
    return values + [_parse(_read(name), name) for name in files]


def _read(name: str) -> str:
    if name == STANDARD_INPUT:
        content = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
        return decode_text(content, INPUT_BYTES_MAX, "standard input")
    return read_text_file(Path(name), INPUT_BYTES_MAX)


def _parse(text: str, name: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        hint = " (a text needs its own quotes: '\"World\"')" if _is_bare_word(text) else ""
        raise UsageError(f"{name} is not JSON: {error}{hint}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _is_bare_word(text: str) -> bool:
    return text[:1].isalpha()
