"""What commands print: data on standard output, everything else on standard error.

With `json`, one value is one indented document, and whatever comes in a row is one line each
(NDJSON). With `table`, a terminal gets columns that fit it, and a pipe gets them untruncated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from perdure.cli.printable import json_text, printable
from perdure.cli.settings import OutputFormat

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# A pipe has no width. Rich pads no column beyond its content, so this only has to be enough.
PIPE_COLUMNS = 100_000
VALUE_CHARS_MAX = 2_000

_STYLES = {
    "COMPLETED": "green",
    "FAILED": "red",
    "TERMINATED": "red",
    "TIMED_OUT": "red",
    "CANCELED": "yellow",
    "RUNNING": "cyan",
}


class Output:
    """Rich is imported when it is needed: for JSON in a script it never is."""

    def __init__(self, format: OutputFormat, *, color: bool) -> None:
        self._format = format
        self._color = color

    @property
    def is_json(self) -> bool:
        return self._format is OutputFormat.JSON

    @cached_property
    def _out(self) -> Console:
        return make_console(sys.stdout, color=self._color)

    @cached_property
    def _err(self) -> Console:
        return make_console(sys.stderr, color=self._color)

    def document(self, value: Any) -> None:
        """One JSON value, in either format: results and answers are data, not tables."""
        print(json_text(value, indent=2))

    def json_line(self, value: Any) -> None:
        """One of several, at once: whoever reads a followed history waits for it."""
        print(json_text(value), flush=True)

    def fields(self, values: Mapping[str, Any]) -> None:
        """One thing: its fields below each other."""
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in values.items():
            grid.add_row(name, cell(value))
        self._out.print(grid)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold", no_wrap=column in ("STATUS", "STARTED"))
        for row in rows:
            table.add_row(*(cell(value) for value in row))
        self._out.print(table)

    def line(self, text: str, style: str = "") -> None:
        """One line of data, cut where the terminal ends; whole when it goes elsewhere."""
        from rich.text import Text

        self._out.print(Text(printable(text), style), no_wrap=True, overflow="ellipsis")

    def note(self, text: str, style: str = "") -> None:
        """Progress or an error, of one or more lines."""
        from rich.text import Text

        for line in text.splitlines():
            self._err.print(Text(printable(line), style), soft_wrap=True)

    def waiting(self, text: str) -> AbstractContextManager[Any]:
        """A spinner while something takes its time, where somebody looks at it."""
        if not sys.stderr.isatty():
            return nullcontext()
        from rich.text import Text

        return self._err.status(Text(printable(text)))


def make_console(stream: TextIO, *, color: bool) -> Console:
    from rich.console import Console

    return Console(
        file=stream,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        width=None if stream.isatty() else PIPE_COLUMNS,
    )


def cell(value: Any) -> Text:
    from rich.text import Text

    text = shown(value)
    return Text(text, _STYLES.get(text, ""))


def shown(value: Any) -> str:
    """A value for people: on one line, and not endless."""
    match value:
        case None:
            return "-"
        case str():
            text = value
        case bool() | int() | float():
            text = str(value)
        case datetime():
            text = shown_instant(value)
        case timedelta():
            text = str(value)
        case _:
            text = json_text(value)
    text = printable(text)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"


def shown_instant(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
